// Package peers makes the servers that are compared: sluice with each of its
// engines, fasthttp, net/http, Fiber and hertz, with the same handler and their
// default options.
package peers

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// Kinds of servers.
const (
	Sluice          = "sluice"  // with the engine that it chooses
	PerConn         = "perconn" // sluice, a goroutine per connection
	Epoll           = "epoll"   // sluice, event loops
	FastHTTP        = "fasthttp"
	FastHTTPReduced = "fasthttp reduced" // with ReduceMemoryUsage
	NetHTTP         = "net/http"
	Fiber           = "fiber"
	Hertz           = "hertz"
	Gnet            = "gnet" // with a handler of ours that knows just enough of HTTP
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
	Handler    Handler
	BodySize   int  // of the request; the handler answers others 400
	TLS        bool // TLS 1.3 with a certificate made for the occasion
	CompactTLS bool // of Sluice
	HTTP2      bool // of Sluice and net/http: HTTP/2 beside HTTP/1.1
	Answer     Answer
	Root       string // of AnswerFile
	Metered    bool   // of Sluice: it counts requests and latencies, as with prefork.NewSingle
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
	case Fiber:
		return newFiber(o)
	case Hertz:
		return newHertz(o)
	default:
		return nil, fmt.Errorf("no server of kind %q", kind)
	}
}

// ErrCannot says that a server has no such answer, or not without waiting.
var ErrCannot = errors.New("it has no files, compression, TLS, or handlers that may wait")

// OwnsListener reports whether servers of a kind take an address, for ListenAndServe, and no
// listener, for New.
func OwnsListener(kind string) bool {
	return kind == Gnet
}

// CheckOwn returns ErrCannot if a kind that OwnsListener has no such case.
func CheckOwn(o Options) error {
	if o.TLS || o.Answer == AnswerGzip || o.Answer == AnswerFile || o.Handler != (Handler{}) {
		return ErrCannot
	}
	return nil
}

// ListenAndServe serves an address, 127.0.0.1 and a port, with a kind that OwnsListener.
func ListenAndServe(kind, addr string, o Options) error {
	if err := CheckOwn(o); err != nil {
		return err
	}
	answer, err := o.Answer.content()
	if err != nil {
		return err
	}
	if !OwnsListener(kind) {
		return fmt.Errorf("no server of kind %q takes an address", kind)
	}
	return serveGnet(addr, o, answer)
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
