package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/latency"
	"github.com/sluicehttp/sluice/bench/internal/process"
)

// A Stream is a number of connections that send the same request over and over.
type Stream struct {
	Target string
	Conns  int
	Period time.Duration // between two requests of a connection
}

// A StreamResult is what became of a stream.
type StreamResult struct {
	Planned, Answered int
	Lost              int    // connections that failed; what they would have sent is not answered
	FirstError        string // of those
	// Latency runs from when a request was due until its answer was complete:
	// a request that was held up by the one before it counts its wait.
	Latency latency.Histogram
}

// Add adds another process's part of the same stream.
func (r *StreamResult) Add(other *StreamResult) {
	r.Planned += other.Planned
	r.Answered += other.Answered
	r.Lost += other.Lost
	if r.FirstError == "" {
		r.FirstError = other.FirstError
	}
	r.Latency.Add(&other.Latency)
}

// Errors returns how many requests were not answered.
func (r *StreamResult) Errors() int { return r.Planned - r.Answered }

// A PaceConfig says what is sent where.
type PaceConfig struct {
	Addr     string
	Duration time.Duration
	Streams  []Stream
}

type paceConfig struct {
	PaceConfig
	Source string
}

// A Pacer is a process with open connections.
type Pacer struct {
	children []*process.Child
	streams  int
}

// StartPacer opens the connections from as many processes as it takes. o says
// how the processes run.
func StartPacer(ctx context.Context, o process.Options, c PaceConfig) (*Pacer, error) {
	total := 0
	for _, s := range c.Streams {
		total += s.Conns
	}
	p := &Pacer{streams: len(c.Streams)}
	n := len(split(total, perProcess))
	for i := range n {
		config := paceConfig{PaceConfig: c, Source: sourceAddress(i)}
		config.Streams = nil
		for _, s := range c.Streams {
			s.Conns = (s.Conns + i) / n // the parts' sum is the whole
			config.Streams = append(config.Streams, s)
		}
		child, err := process.Start(ctx, o, paceRole, config)
		if err != nil {
			return nil, errors.Join(err, p.Stop())
		}
		if _, err := child.Line(); err != nil {
			return nil, errors.Join(err, p.Stop())
		}
		p.children = append(p.children, child)
	}
	return p, nil
}

// Stop ends the processes.
func (p *Pacer) Stop() error { return process.StopAll(p.children) }

// Run sends what the configuration says, and returns the streams' results.
func (p *Pacer) Run() ([]*StreamResult, error) {
	for _, child := range p.children {
		if err := child.Tell("go"); err != nil {
			return nil, err
		}
	}
	sums := make([]*StreamResult, p.streams)
	for i := range sums {
		sums[i] = new(StreamResult)
	}
	for _, child := range p.children {
		var results []*StreamResult
		if err := child.Result(&results); err != nil {
			return nil, err
		}
		for i, r := range results {
			sums[i].Add(r)
		}
	}
	return sums, nil
}

// pace is the client's process: it opens the connections, says so, and for each
// line on its standard input goes through the schedule once and prints the
// results.
func pace(config paceConfig) error {
	dialer := newDialer(config.Source)
	conns := make([][]net.Conn, len(config.Streams))
	for i, stream := range config.Streams {
		var err error
		conns[i], err = openAll(stream.Conns, func(int) (net.Conn, error) {
			return open(dialer, config.Addr, false)
		})
		if err != nil {
			return err
		}
		defer func() {
			for _, c := range conns[i] {
				reset(c)
			}
		}()
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		text, err := json.Marshal(config.run(conns))
		if err != nil {
			return err
		}
		fmt.Println(string(text))
	}
	return nil
}

func (c *paceConfig) run(conns [][]net.Conn) []*StreamResult {
	// The goroutines must be there when the first request is due.
	const head, perConn = 20 * time.Millisecond, 50 * time.Microsecond
	begin := time.Now().Add(head)
	for _, s := range c.Streams {
		begin = begin.Add(perConn * time.Duration(s.Conns))
	}
	results := make([]*StreamResult, len(c.Streams))
	var wg sync.WaitGroup
	for i, stream := range c.Streams {
		r := &runner{stream: stream, begin: begin, end: begin.Add(c.Duration), request: requestFor(stream.Target, ""), result: new(StreamResult)}
		results[i] = r.result
		for j, conn := range conns[i] {
			wg.Go(func() { r.drive(j, conn) })
		}
	}
	wg.Wait()
	return results
}

// A runner sends a stream's requests.
type runner struct {
	stream     Stream
	begin, end time.Time
	request    []byte

	mu     sync.Mutex
	result *StreamResult // guarded by mu, but for Latency
}

// drive sends the requests of connection number i. The connections' first
// requests are spread evenly over a period.
func (r *runner) drive(i int, c net.Conn) {
	planned, answered := 0, 0
	var failure error
	buf := make([]byte, answerSize)
	if err := c.SetDeadline(r.end.Add(patience)); err != nil {
		failure = err
	}
	phase := r.stream.Period * time.Duration(i) / time.Duration(r.stream.Conns)
	for due := r.begin.Add(phase); due.Before(r.end); due = due.Add(r.stream.Period) {
		planned++
		if failure != nil {
			continue
		}
		time.Sleep(time.Until(due))
		if failure = ask(c, r.request, buf); failure == nil {
			answered++
			r.result.Latency.Record(time.Since(due))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Planned += planned
	r.result.Answered += answered
	if failure != nil {
		r.result.Lost++
		r.result.FirstError = failure.Error()
	}
}
