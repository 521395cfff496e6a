package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/process"
)

const loadRole = "wire load"

// A load is what is sent to a server in its turn.
type load struct {
	Conns int
	Depth int  // pipelined requests; 0 and 1: none
	Close bool // a connection per request, closed by the server
	TLS   bool

	Addr     string
	Turn     int    // number of the turn, which chooses the clients' address
	Request  []byte // one request
	Size     int    // of its response, with the head
	Duration time.Duration
}

// A loadResult is what became of it.
type loadResult struct {
	Requests      int // answered
	Failures      int // connections that failed, with the first reason
	FirstFailure  string
	Elapsed       time.Duration
	P50, P99, Max time.Duration // from when a request was sent, or its connection opened
}

// source returns the address of a turn's clients: one of its own for each turn,
// and another one after so many connections, so that those that are still
// closing keep no port from it.
func (l load) source(opened int) string {
	const addresses, connsPerAddress, blocks = 200, 20_000, 100
	return fmt.Sprintf("127.0.%d.%d", 2+opened/connsPerAddress%blocks, 1+l.Turn%addresses)
}

// statusLine is how every response begins.
const statusLine = "HTTP/1.1 200"

var errStatus = errors.New("a response does not begin with " + statusLine)

// A loader is the process that puts load on servers, with one thread that does
// so.
type loader struct{ *process.Child }

// goCommand, on the loader's standard input, puts the load on that was told
// before; closeCommand closes its connections. Each line is answered with one.
const (
	goCommand    = "go"
	closeCommand = "close"
)

func startLoader(ctx context.Context, cpu int) (*loader, error) {
	child, err := process.Start(ctx, process.Options{CPU: cpu, Procs: 1}, loadRole, nil)
	return &loader{child}, err
}

// open has the load's connections opened, and each answered twice.
func (l *loader) open(config load) error {
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return l.do(string(text))
}

// run puts the load on. The connections stay open.
func (l *loader) run() (r loadResult, err error) {
	if err := l.Tell(goCommand); err != nil {
		return r, err
	}
	if err := l.Result(&r); err != nil {
		return r, err
	}
	if r.Requests == 0 {
		return r, fmt.Errorf("no request was answered: %s", r.FirstFailure)
	}
	return r, nil
}

// close closes the connections.
func (l *loader) close() error { return l.do(closeCommand) }

func (l *loader) do(line string) error {
	if err := l.Tell(line); err != nil {
		return err
	}
	_, err := l.Line()
	return err
}

// A driver is the connections of a load.
type driver interface {
	run() (loadResult, error)
	close()
}

// putLoad is the role of the loader's process.
func putLoad([]byte) error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	var current driver
	for lines.Scan() {
		var answer any = true
		switch line := lines.Text(); line {
		case goCommand:
			result, err := current.run()
			if err != nil {
				return err
			}
			answer = result
		case closeCommand:
			current.close()
		default:
			var config load
			err := json.Unmarshal([]byte(line), &config)
			if err != nil {
				return err
			}
			if current, err = newClient(config); err != nil {
				return err
			}
		}
		text, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		fmt.Println(string(text))
	}
	return lines.Err()
}

func newClient(l load) (driver, error) {
	if l.TLS {
		return newTLSClient(l)
	}
	return newPlainClient(l)
}

// batch returns the requests that are sent at once.
func (l load) batch() []byte {
	var batch []byte
	for range max(l.Depth, 1) {
		batch = append(batch, l.Request...)
	}
	return batch
}
