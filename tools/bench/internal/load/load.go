// Package load puts load on servers with the lab's generator, in a process of its
// own.
package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/latency"
	"github.com/sluicehttp/sluice/tools/lab/load"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

const role = "load"

// A Load is what is sent to a server in its turn.
type Load struct {
	Conns    int
	Threads  int           // that share the connections; 0: one
	Depth    int           // pipelined requests, or streams of HTTP/2; 0 and 1: none
	Close    bool          // a connection per request
	TLS      bool          // goroutines instead of threads that wait for many connections
	HTTP2    bool          // the request is translated to HTTP/2
	Rate     float64       // requests per second; 0: each connection's next one when its last was answered
	Requests int64         // ends the load; 0: Duration does, or with Rate as many as are due in it
	Duration time.Duration // does not count with Requests
	Repeat   int           // how often, each time on new connections, which are closed; 0: once

	Addr    string
	Request []byte // one request
	Message []byte // of a WebSocket, for which Request is the handshake; nil: HTTP
}

// A Result is what became of a load.
type Result struct {
	Requests     int // answered with 200, and messages
	Failures     int // requests that failed, and other answers
	FirstFailure string
	Received     int64 // bytes of the answers, with their heads
	Elapsed      time.Duration
	// Latency counts from when a request was sent or its connection begun; with
	// Rate, from when it was due.
	Latency *latency.Histogram
}

// patience bounds the wait for a connection or an answer.
const patience = 30 * time.Second

// A Generator is the process that puts load on servers.
type Generator struct{ *process.Child }

// goCommand is the line that has a generator put the loads on that were told before.
const goCommand = "go"

// Start starts a generator. The program's roles must have those of Roles.
func Start(ctx context.Context, o process.Options) (*Generator, error) {
	child, err := process.Start(ctx, o, role, nil)
	return &Generator{child}, err
}

// Hold starts a generator whose connections are idle until it is stopped.
func Hold(ctx context.Context, l Load) (*Generator, error) {
	g, err := Start(ctx, process.Options{CPU: process.AnyCPU})
	if err != nil {
		return nil, err
	}
	l.Requests = 1 << 40
	if err := g.Open(l); err != nil {
		return nil, errors.Join(err, g.Stop())
	}
	return g, nil
}

// Roles are what process.Main needs for Start.
func Roles() map[string]process.Role { return map[string]process.Role{role: generate} }

// Open has the connections of loads opened, and each answered twice, but for those
// of a load with Close or Repeat.
func (g *Generator) Open(loads ...Load) error {
	text, err := json.Marshal(loads)
	if err != nil {
		return err
	}
	if err := g.Tell(string(text)); err != nil {
		return err
	}
	_, err = g.Line()
	return err
}

// Run puts the loads on at the same time, and closes their connections.
func (g *Generator) Run() (results []Result, err error) {
	if err := g.Tell(goCommand); err != nil {
		return nil, err
	}
	if err := g.Result(&results); err != nil {
		return nil, err
	}
	for _, r := range results {
		if r.Requests == 0 {
			return nil, fmt.Errorf("no request was answered: %s", r.FirstFailure)
		}
	}
	return results, nil
}

// Put opens a load's connections and puts it on.
func (g *Generator) Put(l Load) (r Result, err error) {
	if err := g.Open(l); err != nil {
		return r, err
	}
	results, err := g.Run()
	if err != nil {
		return r, err
	}
	return results[0], nil
}

// Measure opens a load's connections, puts it on, and returns what usage said before and after
// it.
func Measure[Usage any](g *Generator, l Load, usage func() (Usage, error)) (r Result, before, after Usage, err error) {
	if err = g.Open(l); err != nil {
		return r, before, after, err
	}
	if before, err = usage(); err != nil {
		return r, before, after, err
	}
	results, err := g.Run() // closes the connections, which is a part of what they cost
	if err != nil {
		return r, before, after, err
	}
	after, err = usage()
	return results[0], before, after, err
}

// longestLine bounds what a generator is told in one line, in bytes: a request may have a body.
const longestLine = 4 << 20

// generate is the role of the generator's process.
func generate([]byte) error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		var loads []Load
		if err := json.Unmarshal(lines.Bytes(), &loads); err != nil {
			return err
		}
		results, err := putAll(loads, func() bool {
			fmt.Println("open")
			return lines.Scan()
		})
		if err != nil {
			return err
		}
		text, err := json.Marshal(results)
		if err != nil {
			return err
		}
		fmt.Println(string(text))
	}
	return lines.Err()
}

// putAll puts loads on together when all connections are open and await has
// returned true.
func putAll(loads []Load, await func() bool) ([]Result, error) {
	// One for all else: each of the load's holds one of the scheduler's processors. Over TLS there are
	// goroutines instead, and a second processor would only have two threads share one CPU: each waits for
	// the other's time slice, 4 ms, which was the p99 of the client and not of servers.
	threads := 1
	for _, l := range loads {
		if !l.TLS {
			threads += max(l.Threads, 1)
		}
	}
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), threads))
	results, errs := make([]Result, len(loads)), make([]error, len(loads))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	begin := make(chan struct{})
	var opening, running sync.WaitGroup
	opening.Add(len(loads))
	for i, l := range loads {
		running.Go(func() {
			isOpen := sync.OnceFunc(opening.Done)
			defer isOpen()
			results[i], errs[i] = l.put(ctx, func() {
				isOpen()
				<-begin
			})
		})
	}
	opening.Wait()
	if errors.Join(errs...) != nil || !await() { // those that are open wait for begin
		cancel()
	}
	close(begin)
	running.Wait()
	return results, errors.Join(errs...)
}

// put puts a load on. It calls begin when the connections are open.
func (l Load) put(ctx context.Context, begin func()) (r Result, err error) {
	config := load.Config{
		Network: "tcp", Address: l.Addr, Request: l.Request, Connections: l.Conns, Threads: l.Threads, Depth: l.Depth,
		Duration: l.Duration, Requests: l.Requests, Rate: l.Rate, OncePerConn: l.Close, Timeout: patience, Begin: begin,
		HTTP2: l.HTTP2,
	}
	if l.Message != nil {
		config.WebSocket = &load.WebSocket{Message: l.Message, IsText: true}
	}
	if l.TLS {
		config.TLS = tlsConfig()
	}
	if l.Rate > 0 && l.Requests == 0 {
		config.Requests = int64(l.Rate * l.Duration.Seconds())
	}
	if config.Requests > 0 {
		config.Duration = 0
	}
	if l.Repeat > 0 {
		begin()
		config.Begin = nil
	}
	r.Latency = new(latency.Histogram)
	for range max(l.Repeat, 1) {
		result, err := load.Run(ctx, config)
		if err != nil {
			return r, err
		}
		r.add(result)
	}
	return r, nil
}

// Add adds another result of the same load, with its latencies.
func (r *Result) Add(other Result) {
	if r.Latency == nil {
		r.Latency = new(latency.Histogram)
	}
	r.Requests += other.Requests
	r.Failures += other.Failures
	r.Received += other.Received
	r.Elapsed += other.Elapsed
	r.Latency.Add(other.Latency)
	if r.FirstFailure == "" {
		r.FirstFailure = other.FirstFailure
	}
}

// Rate returns the requests per second.
func (r Result) Rate() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

// Errors returns the number of failures, and the first one: "0", "2: gone".
func (r Result) Errors() string {
	if r.Failures == 0 {
		return "0"
	}
	return fmt.Sprintf("%d: %s", r.Failures, r.FirstFailure)
}

// Get returns a request for a target, with further header fields.
func Get(target, fields string) []byte {
	return []byte("GET " + target + " HTTP/1.1\r\nHost: www.example.com\r\n" +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n" +
		"Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n" + fields + "\r\n")
}

// add adds what a run has measured.
func (r *Result) add(result *load.Result) {
	good := result.Status[200] + result.Status[0] // messages of a WebSocket have no status
	r.Requests += int(good)
	r.Failures += int(result.ErrorSum() + result.Answered - good)
	r.Received += result.BytesRead
	r.Elapsed += result.Elapsed
	r.Latency.Add(latency.Of(result.Latency))
	for _, err := range result.Examples {
		if err != nil && r.FirstFailure == "" {
			r.FirstFailure = err.Error()
		}
	}
	if result.Answered != good && r.FirstFailure == "" {
		r.FirstFailure = "an answer with another status than 200"
	}
}
