package proxies

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	fiberlib "github.com/gofiber/fiber/v3"
	fiberproxy "github.com/gofiber/fiber/v3/middleware/proxy"
	"github.com/valyala/fasthttp"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/proxy"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// maxUpstream bounds the connections to the upstream, where a proxy has a bound: it is more
// than any case needs.
const maxUpstream = 8192

// proxyConfig is what a proxy's process gets.
type proxyConfig struct {
	Kind string
	To   string // address of the upstream
	TLS  bool   // towards clients, with HTTP/2 where the proxy has it; not ours
}

// newProxy is the service of the process of a proxy that is written in Go.
func newProxy(text []byte) (s process.Service, err error) {
	var o proxyConfig
	if err := json.Unmarshal(text, &o); err != nil {
		return s, err
	}
	var config *tls.Config
	if o.TLS {
		if config, err = peers.TLSConfig(); err != nil {
			return s, err
		}
	}
	switch o.Kind {
	case ours:
		s.Serve, err = newOurs(o.To)
	case netHTTP:
		s.Serve = newNetHTTP(o.To, config)
	case fiber:
		s.Serve = newFiber(o.To, config)
	default:
		err = fmt.Errorf("no proxy %q", o.Kind)
	}
	return s, err
}

// StartOurs starts package proxy before an upstream.
func StartOurs(ctx context.Context, o process.Options, upstream string) (*process.Server, error) {
	return process.StartService(ctx, o, proxyRole, proxyConfig{Kind: ours, To: upstream})
}

// newOurs is package proxy without TLS, as its documentation says, on event loops.
func newOurs(to string) (func(net.Listener) error, error) {
	p, err := proxy.New(proxy.Options{To: []string{"http://" + to}, MaxConns: maxUpstream})
	if err != nil {
		return nil, err
	}
	server := &sluice.Server{
		Handler: p.Handle, StreamRequestBody: true, WriteTimeout: time.Minute,
		Engine: sluice.EngineEpoll, Logger: log.New(io.Discard, "", 0),
	}
	return func(ln net.Listener) error {
		if info := server.EngineInfo(ln); info.Engine != server.Engine {
			return fmt.Errorf("engine %v was asked for, and %v would serve", server.Engine, info)
		}
		return server.Serve(ln)
	}, nil
}

// buffers are those of httputil.ReverseProxy's copies.
type buffers struct{ sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if p, _ := b.Pool.Get().(*[32 << 10]byte); p != nil {
		return p[:]
	}
	return make([]byte, 32<<10)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(p []byte) { b.Pool.Put((*[32 << 10]byte)(p)) }

// newNetHTTP is httputil.ReverseProxy with a Transport that keeps its connections, and a pool of
// buffers.
func newNetHTTP(to string, config *tls.Config) func(net.Listener) error {
	quiet := log.New(io.Discard, "", 0)
	target := &url.URL{Scheme: "http", Host: to}
	handler := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
		Transport:  &http.Transport{MaxIdleConnsPerHost: maxUpstream, IdleConnTimeout: time.Minute, DisableCompression: true},
		BufferPool: &buffers{},
		ErrorLog:   quiet,
	}
	server := &http.Server{Handler: handler, TLSConfig: config, ErrorLog: quiet, ReadHeaderTimeout: time.Minute}
	if config == nil {
		return server.Serve
	}
	return func(ln net.Listener) error { return server.ServeTLS(ln, "", "") }
}

// newFiber is Fiber's BalancerForward: its Balancer answers 500 to requests over TLS for an
// upstream without. It keeps the bodies of requests and responses in memory.
func newFiber(to string, config *tls.Config) func(net.Listener) error {
	app := fiberlib.New()
	app.Use(func(c fiberlib.Ctx) error {
		h := &c.Request().Header
		h.Set(fiberlib.HeaderXForwardedFor, c.IP())
		h.Set(fiberlib.HeaderXForwardedHost, c.Host())
		h.Set(fiberlib.HeaderXForwardedProto, c.Scheme())
		return c.Next()
	})
	client := &fasthttp.Client{MaxConnsPerHost: maxUpstream, NoDefaultUserAgentHeader: true, DisablePathNormalizing: true}
	app.Use(fiberproxy.BalancerForward([]string{"http://" + to}, client))
	return func(ln net.Listener) error {
		if config != nil {
			ln = tls.NewListener(ln, config)
		}
		return app.Listener(ln, fiberlib.ListenConfig{DisableStartupMessage: true})
	}
}
