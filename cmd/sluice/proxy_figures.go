package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/prefork/dashboard"
	"github.com/sluicehttp/sluice/proxy"
	"github.com/sluicehttp/sluice/shared"
)

const (
	// publishPeriod is how often a worker tells what it knows of upstreams.
	publishPeriod = 250 * time.Millisecond
	// maxPublished bounds the upstreams that workers report, including those of earlier routes:
	// each takes up to 80 KB of the shared segment, and its place is never given back.
	maxPublished = 256
	// publishedPrefix begins the names of their values there.
	publishedPrefix = "sluice.proxy."
)

// upstreamFigures is what one process, or all workers together, know of an upstream of a route.
type upstreamFigures struct {
	host, path, name           string
	up                         int // processes for which it is up
	pending                    int
	requests, failures, hedges uint64
}

// figures returns what this process knows of its upstreams.
func (h *gatewayHandler) figures() (all []upstreamFigures) {
	for _, r := range h.current.Load().routes {
		for _, s := range r.proxy.Status() {
			all = append(all, figuresOf(&r.route, s))
		}
	}
	return all
}

func figuresOf(r *route, s proxy.UpstreamStatus) upstreamFigures {
	f := upstreamFigures{host: r.host, path: r.path, name: s.Name, pending: s.Pending, requests: s.Sent, failures: s.Failed, hedges: s.Hedged}
	if s.IsUp {
		f.up = 1
	}
	return f
}

// sharedUpstream is what workers know of an upstream, in the memory that all processes share.
// What a worker has counted remains when it ends, and what it has now does not.
type sharedUpstream struct {
	up, pending                *shared.Gauge
	requests, failures, hedges *shared.Counter
}

// openUpstreams returns the places of upstreams. One without a place has no up.
func openUpstreams(segment *shared.Segment, all []upstreamFigures) ([]sharedUpstream, error) {
	places, known := make([]sharedUpstream, len(all)), map[string]bool{}
	for _, e := range segment.Entries() {
		if name, isLast := strings.CutSuffix(e.Name, ".hedges"); isLast && strings.HasPrefix(name, publishedPrefix) {
			known[name] = true
		}
	}
	var failed error
	for i := range all {
		f := &all[i]
		sum := sha256.Sum256([]byte(f.host + "\x00" + f.path + "\x00" + f.name))
		name := publishedPrefix + hex.EncodeToString(sum[:8])
		if !known[name] && len(known) >= maxPublished {
			failed = fmt.Errorf("there have been %d", maxPublished)
			continue
		}
		place, err := openUpstream(segment, name)
		if err != nil {
			failed = err
			continue
		}
		known[name], places[i] = true, place
	}
	return places, failed
}

// openUpstream returns the place with a name.
func openUpstream(segment *shared.Segment, prefix string) (u sharedUpstream, err error) {
	for _, g := range []struct {
		name  string
		place **shared.Gauge
	}{{".up", &u.up}, {".pending", &u.pending}} {
		if *g.place, err = segment.Gauge(prefix + g.name); err != nil {
			return u, err
		}
	}
	for _, c := range []struct {
		name  string
		place **shared.Counter
	}{{".requests", &u.requests}, {".failures", &u.failures}, {".hedges", &u.hedges}} {
		if *c.place, err = segment.Counter(prefix + c.name); err != nil {
			return u, err
		}
	}
	return u, nil
}

// A publisher tells the master what a worker knows of its upstreams.
type publisher struct {
	handler *gatewayHandler
	places  []sharedUpstream // of the upstreams of handler
	last    []upstreamFigures
	end     chan struct{}
	ended   sync.WaitGroup
}

// publish reports until close is called. It logs errors; requests are served nevertheless.
func publish(handler *gatewayHandler, logger sluice.Logger) *publisher {
	p := &publisher{handler: handler, end: make(chan struct{})}
	var err error
	if p.places, err = openUpstreams(shared.Default(), handler.figures()); err != nil {
		logger.Printf("the metrics do not have all upstreams: %v", err)
	}
	p.last = make([]upstreamFigures, len(p.places))
	p.ended.Add(1)
	go p.run()
	return p
}

func (p *publisher) run() {
	defer p.ended.Done()
	ticker := time.NewTicker(publishPeriod)
	defer ticker.Stop()
	for {
		p.tell()
		select {
		case <-p.end:
			p.tell()
			return
		case <-ticker.C:
		}
	}
}

// tell adds what has changed.
func (p *publisher) tell() {
	figures := p.handler.figures()
	for i := range p.places {
		place, now, last := &p.places[i], &figures[i], &p.last[i]
		if place.up == nil {
			continue
		}
		place.up.Set(int64(now.up))
		place.pending.Set(int64(now.pending))
		place.requests.Add(now.requests - last.requests)
		place.failures.Add(now.failures - last.failures)
		place.hedges.Add(now.hedges - last.hedges)
		p.last[i] = *now
	}
}

// close tells for the last time.
func (p *publisher) close() {
	close(p.end)
	p.ended.Wait()
}

// fleetUpstreams knows the upstreams of the routes in a process that has no proxies, and reads
// what the workers tell of them.
type fleetUpstreams struct{ routes atomic.Pointer[[]route] }

// load reads and checks the routes of the options.
func (u *fleetUpstreams) load(o *gatewayOptions) error {
	routes, err := o.check()
	if err == nil {
		u.routes.Store(&routes)
	}
	return err
}

// figures returns the sums of all workers.
func (u *fleetUpstreams) figures() (all []upstreamFigures) {
	routes := u.routes.Load()
	if routes == nil {
		return nil
	}
	for _, r := range *routes {
		for _, name := range r.options.To {
			all = append(all, upstreamFigures{host: r.host, path: r.path, name: name})
		}
	}
	places, _ := openUpstreams(shared.Default(), all) // a worker has said what is wrong
	told := all[:0]
	for i, place := range places {
		if place.up == nil {
			continue
		}
		f := all[i]
		f.up, f.pending = int(place.up.Value()), int(place.pending.Value())
		f.requests, f.failures, f.hedges = place.requests.Value(), place.failures.Value(), place.hedges.Value()
		told = append(told, f)
	}
	return told
}

// upstreamCollector has the metrics of upstreams.
type upstreamCollector struct{ figures func() []upstreamFigures }

// Describe implements prometheus.Collector: what Collect sends describes itself.
func (upstreamCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c upstreamCollector) Collect(out chan<- prometheus.Metric) {
	for _, f := range c.figures() {
		for _, m := range []struct {
			name, help string
			kind       prometheus.ValueType
			value      float64
		}{
			{"up", "Processes for which it gets its part of the requests; 0: requests or tests have failed.", prometheus.GaugeValue, float64(f.up)},
			{"pending", "Requests in progress, and tunnels.", prometheus.GaugeValue, float64(f.pending)},
			{"requests_total", "Requests that were sent; repetitions and hedges count.", prometheus.CounterValue, float64(f.requests)},
			{"failures_total", "Requests without a response.", prometheus.CounterValue, float64(f.failures)},
			{"hedges_total", "Requests that were sent because another upstream was slow.", prometheus.CounterValue, float64(f.hedges)},
		} {
			desc := prometheus.NewDesc("sluice_proxy_upstream_"+m.name, m.help, []string{"host", "path", "upstream"}, nil)
			out <- prometheus.MustNewConstMetric(desc, m.kind, m.value, f.host, f.path, f.name)
		}
	}
}

// upstreamTable is what the page of --admin shows of upstreams.
func upstreamTable(figures func() []upstreamFigures) dashboard.Table {
	return dashboard.Table{
		Title:   "Upstreams",
		Columns: []string{"route", "upstream", "up for processes", "in progress", "requests", "failures", "hedges"},
		Rows: func() (rows [][]string) {
			for _, f := range figures() {
				rows = append(rows, []string{
					f.host + f.path, f.name, strconv.Itoa(f.up), strconv.Itoa(f.pending),
					strconv.FormatUint(f.requests, 10), strconv.FormatUint(f.failures, 10), strconv.FormatUint(f.hedges, 10),
				})
			}
			return rows
		},
	}
}
