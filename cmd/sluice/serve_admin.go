package main

import (
	"bytes"
	"net"
	"strings"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/contrib/metrics"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/prefork/dashboard"
)

// adminHandler is what is answered on --admin about s. control carries out orders; it is nil without workers.
func adminHandler(s prefork.Source, figures, control sluice.RequestHandler) sluice.RequestHandler {
	status, probe, page := prefork.StatusHandler(s), prefork.HealthHandler(s), dashboard.Handler(s, dashboard.Options{})
	return func(ctx *sluice.RequestCtx) {
		switch path := string(ctx.Path()); {
		case path == "/" && isBrowser(ctx), strings.HasPrefix(path, "/dashboard."):
			page(ctx)
		case path == "/" || path == "/status":
			status(ctx)
		case path == "/metrics":
			figures(ctx)
		case control != nil && (path == "/restart" || path == "/reload" || path == "/upgrade" || path == "/scale"):
			control(ctx)
		case path == "/healthz" || path == "/readyz" || path == "/startupz":
			probe(ctx)
		case control != nil:
			ctx.Error("there are /status, /metrics, /healthz, /readyz, /startupz and, for POST, /restart, /reload, /upgrade and /scale", sluice.StatusNotFound)
		default:
			ctx.Error("there are /status, /metrics, /healthz, /readyz and /startupz", sluice.StatusNotFound)
		}
	}
}

// isBrowser reports whether a client wants to see a page. Others get the status as text.
func isBrowser(ctx *sluice.RequestCtx) bool {
	return bytes.Contains(ctx.Request.Header.Peek(sluice.HeaderAccept), []byte("text/html"))
}

// openAdmin serves --admin without workers. e has the built-in endpoints; nil: there are
// none. It is called before the server serves.
func (r *running) openAdmin(addr string, e *endpoints) error {
	if addr == "" {
		return nil
	}
	r.single = prefork.NewSingle(r.server)
	push := metrics.NewPushCollector()
	if e != nil {
		push.AddEndpoint(e.echo.Name, &e.echo)
		push.AddHub(eventTopic, e.events)
	}
	at, stop, err := r.single.ServeAdmin(addr, adminHandler(r.single, metrics.Handler(r.single, push, certificateAges{func() *certificates { return r.certificates }}), nil))
	if err != nil {
		return err
	}
	r.adminAddr, r.closeAdmin = at, stop
	return nil
}

// announceAdmin says where --admin is; nil: nowhere.
func (r *running) announceAdmin(at net.Addr) {
	if at != nil {
		r.logger.Printf("status and metrics: %s", strings.TrimPrefix(at.Network()+"://"+at.String(), "tcp://"))
	}
}
