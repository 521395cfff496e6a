package dashboard

import (
	"sync"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/shared"
	"github.com/sluicehttp/sluice/sse"
)

const (
	topic    = "now"
	interval = 500 * time.Millisecond
	// maxPoints is how many samples are kept, for five minutes.
	maxPoints = int(5 * time.Minute / interval)
	// maxRows bounds the workers, the slots and the rows of Tables of an event, which must stay
	// below sse.MaxEvent, maxSlow its slow requests, and maxCells the bytes of Tables.
	maxRows  = 100
	maxSlow  = 20
	maxCells = 64 << 10
)

// A point is a sample for the plots. The rates and latencies are those since the one before.
type point struct {
	Time     int64   `json:"t"` // Unix time in milliseconds
	OK       float64 `json:"ok"`
	Redirect float64 `json:"redirect"`
	Client   float64 `json:"client"`
	Server   float64 `json:"server"`
	P50      uint64  `json:"p50"` // in nanoseconds
	P90      uint64  `json:"p90"`
	P99      uint64  `json:"p99"`
	P999     uint64  `json:"p999"`
	Open     uint64  `json:"open"`
	Idle     uint64  `json:"idle"`
	HTTP2    int     `json:"http2"`
	HTTP3    int     `json:"http3"`
	Flight   uint64  `json:"flight"`
	CPU      float64 `json:"cpu"` // processors
	Memory   uint64  `json:"memory"`
}

// A moment is the event of a sample.
type moment struct {
	Point  point          `json:"point"`
	Status prefork.Status `json:"status"`
	More   int            `json:"more"` // workers that Status leaves out
	Tables []shownTable   `json:"tables"`
}

// A shownTable is what an event has of a Table.
type shownTable struct {
	Title   string     `json:"title"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// show returns what there is room for, and lessens room, which is in bytes.
func (t *Table) show(room *int) shownTable {
	shown := shownTable{Title: t.Title, Columns: t.Columns, Rows: [][]string{}}
	for _, row := range t.Rows() {
		for _, cell := range row {
			*room -= len(cell)
		}
		if *room < 0 || len(shown.Rows) == maxRows {
			break
		}
		shown.Rows = append(shown.Rows, row)
	}
	return shown
}

// A sampler takes samples while a page is open, and five minutes longer.
type sampler struct {
	source prefork.Source
	tables []Table
	hub    *sse.Hub

	mu      sync.Mutex
	running bool
	viewed  time.Time // when a page was open last
	points  []point

	// What follows is the goroutine's.
	last   time.Time
	status prefork.Status
}

func newSampler(s prefork.Source, tables ...Table) *sampler {
	d := &sampler{source: s, tables: tables}
	hub, err := sse.New(sse.Options{
		History: 4, Heartbeat: -1, RestartSpread: 100 * time.Millisecond, Retry: time.Second,
		Snapshot: func(*sluice.RequestCtx, []string) ([]sse.Event, error) { return d.past(), nil },
	})
	if err != nil {
		panic(err) // without a name and a backplane, there is none
	}
	d.hub = hub
	return d
}

// past is what a page gets first.
func (d *sampler) past() []sse.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return []sse.Event{event("past", append([]point{}, d.points...))} // [], never null
}

// begin starts the goroutine, if it does not run.
func (d *sampler) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.viewed = time.Now()
	if !d.running {
		d.running, d.points = true, nil
		d.read(time.Now())
		go d.run()
	}
}

// run takes samples. It ends when no page has been open for as long as points are kept.
func (d *sampler) run() {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for now := range ticker.C {
		if d.ends(now) {
			return
		}
		d.sample(now)
	}
}

// ends reports whether the goroutine is to end.
func (d *sampler) ends(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hub.Len(topic) > 0 {
		d.viewed = now
	}
	d.running = now.Sub(d.viewed) < time.Duration(maxPoints)*interval
	return !d.running
}

// read notes what the next sample is compared with.
func (d *sampler) read(now time.Time) {
	d.last, d.status = now, d.source.Status()
}

// sample takes a sample, and publishes it.
func (d *sampler) sample(now time.Time) {
	last, old := d.last, d.status
	d.read(now)
	p := pointOf(&old, &d.status, d.status.Latencies.Since(old.Latencies), now.Sub(last))
	p.Time = now.UnixMilli()
	d.mu.Lock()
	if len(d.points) == maxPoints {
		d.points = append(d.points[:0], d.points[1:]...)
	}
	d.points = append(d.points, p)
	d.mu.Unlock()
	m := moment{Point: p, Status: d.status, Tables: []shownTable{}}
	room := maxCells
	for i := range d.tables {
		m.Tables = append(m.Tables, d.tables[i].show(&room))
	}
	m.More = max(len(m.Status.Workers)-maxRows, 0)
	m.Status.Workers = m.Status.Workers[:min(maxRows, len(m.Status.Workers))]
	m.Status.Slots = m.Status.Slots[:min(maxRows, len(m.Status.Slots))]
	m.Status.SlowRequests = m.Status.SlowRequests[:min(maxSlow, len(m.Status.SlowRequests))]
	if err := d.hub.Publish(topic, event("now", m)); err != nil {
		panic(err) // the names are good, and maxRows keeps it small: a test shows that
	}
}

// pointOf returns the point between two statuses.
func pointOf(old, now *prefork.Status, latency *shared.Snapshot, took time.Duration) point {
	seconds := max(took.Seconds(), 1e-3)
	rate := func(class int) float64 {
		a, b := old.Total.Responses[class-1], now.Total.Responses[class-1]
		return round(float64(b-min(a, b)) / seconds)
	}
	p := point{
		OK: rate(2), Redirect: rate(3), Client: rate(4), Server: rate(5),
		P50: latency.Quantile(.5), P90: latency.Quantile(.9), P99: latency.Quantile(.99), P999: latency.Quantile(.999),
		Open: now.Total.Active, Idle: now.Total.Idle, HTTP2: now.Total.HTTP2.Connections, HTTP3: now.Total.HTTP3.Connections, Flight: now.Total.InFlight,
		Memory: now.Master.ResidentBytes,
	}
	before := make(map[int]time.Duration, len(old.Workers))
	for i := range old.Workers {
		before[old.Workers[i].PID] = old.Workers[i].CPUTime
	}
	used := now.Master.CPUTime - old.Master.CPUTime
	for i := range now.Workers {
		w := &now.Workers[i]
		p.Memory += w.ResidentBytes
		used += w.CPUTime - before[w.PID]
	}
	p.CPU = round(max(used.Seconds(), 0) / seconds)
	return p
}

// round rounds to three decimals.
func round(x float64) float64 { return float64(int64(x*1000+.5)) / 1000 }
