// Package peers makes the servers that are compared: sluice with each of its
// engines, fasthttp and net/http, with the same handler and their default
// options.
package peers

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/sluicehttp/sluice"
	"github.com/valyala/fasthttp"
)

// Kinds of servers.
const (
	Sluice          = "sluice"  // with the engine that it chooses
	PerConn         = "perconn" // sluice, a goroutine per connection
	Epoll           = "epoll"   // sluice, event loops
	FastHTTP        = "fasthttp"
	FastHTTPReduced = "fasthttp reduced" // with ReduceMemoryUsage
	NetHTTP         = "net/http"
)

// Body is what every handler answers, as ContentType.
const (
	Body        = "Hello, World!"
	ContentType = "text/plain"
)

// A Server serves a listener until that fails, and returns its error.
type Server interface {
	Serve(ln net.Listener) error
}

// Options are what the servers of all kinds have in common.
type Options struct {
	Handler  Handler
	BodySize int  // of the request; the handler answers others 400
	TLS      bool // TLS 1.3 with a certificate made for the occasion
}

// New returns a server of a kind.
func New(kind string, o Options) (Server, error) {
	switch kind {
	case Sluice, PerConn, Epoll:
		return newSluice(kind, o)
	case FastHTTP, FastHTTPReduced:
		return newFastHTTP(o, kind == FastHTTPReduced)
	case NetHTTP:
		return newNetHTTP(o)
	default:
		return nil, fmt.Errorf("no server of kind %q", kind)
	}
}

// ParseKinds reads a list such as "perconn,epoll". Every kind of it must be one
// of those offered.
func ParseKinds(list string, offered []string) ([]string, error) {
	var kinds []string
	for kind := range strings.SplitSeq(list, ",") {
		kind = strings.TrimSpace(kind)
		if !slices.Contains(offered, kind) {
			return nil, fmt.Errorf("no server %q: want some of %s", kind, strings.Join(offered, ","))
		}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds, nil
}

// A serveFunc is a Server that is only a method.
type serveFunc func(ln net.Listener) error

// Serve implements Server.
func (f serveFunc) Serve(ln net.Listener) error { return f(ln) }

func newSluice(kind string, o Options) (Server, error) {
	work := o.Handler.work()
	server := &sluice.Server{
		Handler: func(ctx *sluice.RequestCtx) {
			if len(ctx.PostBody()) != o.BodySize {
				ctx.SetStatusCode(sluice.StatusBadRequest)
				return
			}
			if work != nil {
				work(ctx.Request.Header.RequestURI())
			}
			ctx.SetContentType(ContentType)
			ctx.WriteString(Body)
		},
		Logger: log.New(io.Discard, "", 0),
	}
	if err := selectEngine(server, kind); err != nil {
		return nil, err
	}
	serve := server.Serve
	if o.TLS {
		certificate, key, err := sluice.GenerateTestCertificate(certificateHost)
		if err != nil {
			return nil, err
		}
		serve = func(ln net.Listener) error { return server.ServeTLSEmbed(ln, certificate, key) }
	}
	return serveFunc(func(ln net.Listener) error {
		if err := checkEngine(server, ln); err != nil {
			return err
		}
		return serve(ln)
	}), nil
}

func newFastHTTP(o Options, reduced bool) (Server, error) {
	work := o.Handler.work()
	server := &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) {
			if len(ctx.PostBody()) != o.BodySize {
				ctx.SetStatusCode(fasthttp.StatusBadRequest)
				return
			}
			if work != nil {
				work(ctx.Request.Header.RequestURI())
			}
			ctx.SetContentType(ContentType)
			ctx.WriteString(Body)
		},
		Logger:            log.New(io.Discard, "", 0),
		ReduceMemoryUsage: reduced,
	}
	if !o.TLS {
		return server, nil
	}
	certificate, key, err := sluice.GenerateTestCertificate(certificateHost)
	return serveFunc(func(ln net.Listener) error { return server.ServeTLSEmbed(ln, certificate, key) }), err
}

func newNetHTTP(o Options) (Server, error) {
	work := o.Handler.work()
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n, _ := io.Copy(io.Discard, r.Body); n != int64(o.BodySize) {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			if work != nil {
				work([]byte(r.RequestURI))
			}
			w.Header().Set("Content-Type", ContentType)
			io.WriteString(w, Body)
		}),
		ErrorLog: log.New(io.Discard, "", 0),
	}
	if !o.TLS {
		return server, nil
	}
	certificate, key, err := sluice.GenerateTestCertificate(certificateHost)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
	return serveFunc(func(ln net.Listener) error { return server.ServeTLS(ln, "", "") }), nil
}

const certificateHost = "127.0.0.1"
