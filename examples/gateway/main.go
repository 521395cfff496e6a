// Command gateway stands before two groups of servers: requests for /notes go to one, all
// others, also WebSockets, to the other. It limits the requests of each client, avoids servers
// that are down, and has a log and metrics.
//
//	go run ./examples/rest -addr 127.0.0.1:9001 -admin 127.0.0.1:9101 &
//	go run ./examples/chat -addr 127.0.0.1:9002 &
//	go run ./examples/gateway -api http://127.0.0.1:9001 -site http://127.0.0.1:9002
//	curl http://127.0.0.1:8080/notes
//	curl http://127.0.0.1:9090/ http://127.0.0.1:9090/upstreams
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"log"
	"slices"
	"strings"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/accesslog"
	"github.com/sluicehttp/sluice/middleware"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/prefork/dashboard"
	"github.com/sluicehttp/sluice/proxy"
	"github.com/sluicehttp/sluice/router"
	"github.com/sluicehttp/sluice/shared"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	admin := flag.String("admin", "127.0.0.1:9090", "private address of the metrics")
	api := flag.String("api", "http://127.0.0.1:9001", "servers of /notes, with commas between them")
	site := flag.String("site", "http://127.0.0.1:9002", "servers of other paths")
	rate := flag.Int("rate", 600, "requests a minute of one client")
	flag.Parse()
	limit, err := shared.Default().RateLimiter("clients", shared.RateLimit{Events: *rate, Per: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	g, err := newGateway(strings.Split(*api, ","), strings.Split(*site, ","), limit)
	if err != nil {
		log.Fatal(err)
	}
	metrics := g.metrics()
	go func() { log.Fatal(sluice.ListenAndServe(*admin, metrics)) }()
	log.Printf("listening on http://%s", *addr)
	log.Fatal(g.server.ListenAndServe(*addr))
}

type gateway struct {
	api, site *proxy.Proxy
	server    *sluice.Server
}

func newGateway(api, site []string, limit middleware.Limiter) (g *gateway, err error) {
	g = &gateway{}
	if g.api, err = proxy.New(proxy.Options{To: api, HealthPath: "/healthz", Request: addID}); err != nil {
		return nil, err
	}
	if g.site, err = proxy.New(proxy.Options{To: site, HealthPath: "/", Request: addID}); err != nil {
		g.api.Close()
		return nil, err
	}
	r := &router.Router{}
	r.Handle("/notes", g.api.Handle)
	r.Handle("/notes/", g.api.Handle)
	r.Handle("/", g.site.Handle)
	g.server = &sluice.Server{
		Handler: middleware.Use(r.Handler,
			middleware.RequestID,
			middleware.AccessLog(accesslog.Options{}),
			middleware.Health(g.ready),
			middleware.RateLimit(limit, middleware.RateLimitOptions{}), // by address
		),
		StreamRequestBody: true, // bodies go through while they arrive
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      time.Minute,
	}
	return g, nil
}

// addID sends the id of a request on, so that the logs of all servers have it.
func addID(ctx *sluice.RequestCtx, req *sluice.Request) error {
	req.Header.Set(middleware.HeaderRequestID, middleware.RequestIDOf(ctx))
	return nil
}

// ready returns an error while one of the groups has no server that is up.
func (g *gateway) ready() error {
	isUp := func(u proxy.UpstreamStatus) bool { return u.IsUp }
	if !slices.ContainsFunc(g.api.Status(), isUp) || !slices.ContainsFunc(g.site.Status(), isUp) {
		return errors.New("all servers of a group are down")
	}
	return nil
}

// metrics returns a handler with the page of the server, and the state of the upstreams. It is
// called before the server serves.
func (g *gateway) metrics() sluice.RequestHandler {
	r := &router.Router{}
	r.Handle("/", dashboard.Handler(prefork.NewSingle(g.server)))
	r.Handle("GET /upstreams", func(ctx *sluice.RequestCtx) {
		text, _ := json.Marshal(slices.Concat(g.api.Status(), g.site.Status()))
		ctx.Success("application/json", text)
	})
	return r.Handler
}
