package main

import (
	"net"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/contrib/metrics"
	"github.com/sluicehttp/sluice/pprofhandler"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/prefork/dashboard"
)

// adminHandler is what is answered on --admin about s. control carries out orders; it is nil without workers.
// The page has tables, too.
func adminHandler(s prefork.Source, figures, control sluice.RequestHandler, tables ...dashboard.Table) sluice.RequestHandler {
	page := dashboard.Handler(s, tables...)
	return func(ctx *sluice.RequestCtx) {
		switch path := string(ctx.Path()); {
		case path == "/" || path == "/status" || strings.HasPrefix(path, "/dashboard.") || strings.HasPrefix(path, "/workers/"),
			path == "/healthz" || path == "/readyz" || path == "/startupz":
			page(ctx)
		case path == "/metrics":
			figures(ctx)
		case control != nil && (path == "/restart" || path == "/reload" || path == "/upgrade" || path == "/scale"):
			control(ctx)
		case control != nil:
			ctx.Error("there are /status, /metrics, /healthz, /readyz, /startupz and, for POST, /restart, /reload, /upgrade and /scale", sluice.StatusNotFound)
		default:
			ctx.Error("there are /status, /metrics, /healthz, /readyz and /startupz", sluice.StatusNotFound)
		}
	}
}

// profilesHandler returns what --profiles makes workers answer with; nil without it.
func (o *serveOptions) profilesHandler() sluice.RequestHandler {
	if o.profiles {
		return pprofhandler.PprofHandler
	}
	return nil
}

// openAdmin serves --admin without workers. e has the built-in endpoints; nil: there are
// none. It is called before the server serves.
func (r *running) openAdmin(o *serveOptions, e *endpoints) error {
	if o.admin == "" {
		return nil
	}
	r.single = prefork.NewSingle(r.server)
	r.single.Profiles = o.profilesHandler()
	push := metrics.NewPushCollector()
	if e != nil {
		push.AddEndpoint(e.echo.Name, &e.echo)
		push.AddHub(eventTopic, e.events)
	}
	collectors := []prometheus.Collector{push, certificateAges{func() *certificates { return r.certificates }}}
	var tables []dashboard.Table
	if r.routes != nil {
		collectors = append(collectors, upstreamCollector{r.routes.figures})
		tables = append(tables, upstreamTable(r.routes.figures))
	}
	at, stop, err := r.single.ServeAdmin(o.admin, adminHandler(r.single, metrics.Handler(r.single, collectors...), nil, tables...))
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
