package late

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/latency"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// What the clients of a server with one P do at the same time in a turn, each one request after
// the other. The server reads a body as a whole before the handler runs.
const (
	busyClients   = 64 // requests whose handlers compute for busyTime
	busyTime      = 2 * time.Millisecond
	uploadClients = 2 // uploads of largest
	smallClients  = 8 // requests whose handlers do nothing
)

// before is the name of epoll in the program of --before.
const before = "before"

// A turn is what was measured of a server in one round.
type turn struct {
	mu             sync.Mutex
	uploads, small latency.Histogram
	busy           int // requests
	err            error
}

// runUploads measures uploads beside busy handlers.
func runUploads(ctx context.Context, o options) (d report.Document, err error) {
	if err := command.Require("taskset"); err != nil {
		return d, err
	}
	spins, err := peers.Calibrate(busyTime)
	if err != nil {
		return d, err
	}
	var names []string
	var servers []*process.Server
	defer func() {
		for _, s := range servers {
			err = errors.Join(err, s.Stop())
		}
	}()
	start := func(name, engine, program string) error {
		s, err := process.StartService(ctx, process.Options{Procs: 1, Program: program}, serverRole, serverConfig{Engine: engine})
		if err == nil {
			names, servers = append(names, name), append(servers, s)
		}
		return err
	}
	for _, engine := range o.engines {
		err = errors.Join(err, start(engine, engine, ""))
	}
	if o.before != "" {
		err = errors.Join(err, start(before, peers.Epoll, o.before))
	}
	if err != nil {
		return d, err
	}
	turns, err := command.Rounds("uploads", o.uploads, names, func(i int, _ bool) (*turn, error) {
		return takeTurn(ctx, servers[i].Addr, o.duration, spins)
	})
	if err != nil {
		return d, err
	}
	d.Sections = []report.Section{uploadsTable(o, names, turns)}
	return d, nil
}

// takeTurn has the clients send requests for a while.
func takeTurn(ctx context.Context, addr string, length time.Duration, spins int) (*turn, error) {
	t := new(turn)
	ending, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	content := make([]byte, largest)
	var clients sync.WaitGroup
	client := func(path string, n int, body []byte, took func(time.Duration)) {
		clients.Go(func() {
			transport := &http.Transport{DisableCompression: true}
			defer transport.CloseIdleConnections()
			for isFirst := true; isFirst || ending.Err() == nil; isFirst = false {
				began := time.Now()
				err := ask(ctx, transport, "http://"+addr+path+"?n="+strconv.Itoa(n), body)
				t.mu.Lock()
				if t.err = errors.Join(t.err, err); err == nil {
					took(time.Since(began))
				}
				t.mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	for range busyClients {
		client(computePath, spins, nil, func(time.Duration) { t.busy++ })
	}
	for range uploadClients {
		client(uploadPath, largest, content, t.uploads.Record)
	}
	for range smallClients {
		client("/", 0, nil, t.small.Record)
	}
	clients.Wait()
	return t, errors.Join(t.err, ctx.Err())
}

// ask sends a request with a body, unless that is nil, and reads the response.
func ask(ctx context.Context, transport *http.Transport, url string, body []byte) error {
	method, content := http.MethodGet, io.Reader(nil)
	if body != nil {
		method, content = http.MethodPost, bytes.NewReader(body)
	}
	message, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return err
	}
	_, err = roundTrip(transport, message)
	return err
}

// uploadsTable is what was measured of each server, beside before or else the first one.
func uploadsTable(o options, names []string, turns map[string][]*turn) report.Section {
	base := names[0]
	if o.before != "" {
		base = before
	}
	s := report.Section{
		Title: fmt.Sprintf("Uploads of %v beside %d handlers that compute for %v", command.Size(largest), busyClients, busyTime),
		Head: []string{"server", "uploads", "upload p50 ms", "p99 ms", "p50 ÷ " + base,
			"small requests", "small p50 ms", "p99 ms", "p99 ÷ " + base, "busy requests/s"},
		Notes: []string{fmt.Sprintf("Machine: %s. %d rounds of %v for each server, in random order, after one to warm up. The server has one P and a CPU, which the client shares if it has to. "+
			"%d clients upload, %d send small requests. Percentiles are those of all rounds; ratios are medians of the rounds', in brackets the lowest and the highest.",
			report.Machine(), o.uploads, o.duration, uploadClients, smallClients)},
	}
	upload := func(t *turn) float64 { return float64(t.uploads.Percentile(50)) }
	small := func(t *turn) float64 { return float64(t.small.Percentile(99)) }
	for _, name := range names {
		all, ofAll := turns[name], new(turn)
		for _, t := range all {
			ofAll.uploads.Add(&t.uploads)
			ofAll.small.Add(&t.small)
			ofAll.busy += t.busy
		}
		milliseconds := func(h *latency.Histogram, percent float64) string { return latency.Milliseconds(h.Percentile(percent)) }
		s.Rows = append(s.Rows, []string{
			name, strconv.FormatInt(ofAll.uploads.Count(), 10), milliseconds(&ofAll.uploads, 50), milliseconds(&ofAll.uploads, 99),
			report.Ratio(report.Ratios(figures(all, upload), figures(turns[base], upload))),
			strconv.FormatInt(ofAll.small.Count(), 10), milliseconds(&ofAll.small, 50), milliseconds(&ofAll.small, 99),
			report.Ratio(report.Ratios(figures(all, small), figures(turns[base], small))),
			fmt.Sprintf("%.0f", float64(ofAll.busy)/o.duration.Seconds()/float64(o.uploads)),
		})
	}
	return s
}

// figures returns a figure of each turn.
func figures(turns []*turn, figure func(*turn) float64) (all []float64) {
	for _, t := range turns {
		all = append(all, figure(t))
	}
	return all
}
