// Package load puts requests on a server: with one thread that waits for all
// connections at once, in a process of its own. It knows how long an answer is,
// counts bytes, and looks at every status line, so that it costs less than a
// server does.
package load

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

const role = "load"

// A Load is what is sent to a server in its turn.
type Load struct {
	Conns int
	Depth int  // pipelined requests; 0 and 1: none
	Close bool // a connection per request, closed by the server
	TLS   bool // goroutines instead; without Depth, Close and Rate
	Rate  int  // requests per second, without Depth and Close; 0: each connection's next one when its last was answered

	Addr     string
	Turn     int    // number of the turn, which chooses the clients' address
	Request  []byte // one request
	Size     int    // of its response, with the head, as Ask says
	Duration time.Duration
}

// A Result is what became of a load.
type Result struct {
	Requests     int // answered
	Failures     int // connections that failed, with the first reason
	FirstFailure string
	Elapsed      time.Duration
	// Percentiles of the answers, from when a request was sent or its connection
	// opened; with Rate, from when it was due.
	P50, P99, Max time.Duration
}

// patience bounds the wait for a connection or an answer.
const patience = 20 * time.Second

// source returns the address of a turn's clients: one of its own for each turn,
// and another one after so many connections, so that those that are still
// closing keep no port from it.
func (l Load) source(opened int) string {
	const addresses, connsPerAddress, blocks = 200, 20_000, 100
	return fmt.Sprintf("127.0.%d.%d", 2+opened/connsPerAddress%blocks, 1+l.Turn%addresses)
}

// batch returns the requests that are sent at once.
func (l Load) batch() []byte {
	var batch []byte
	for range max(l.Depth, 1) {
		batch = append(batch, l.Request...)
	}
	return batch
}

// statusLine is how every response begins.
const statusLine = "HTTP/1.1 200"

var errStatus = errors.New("a response does not begin with " + statusLine)

// A Generator is the process that puts load on servers.
type Generator struct{ *process.Child }

// Lines on a generator's standard input besides loads as JSON: goCommand puts
// the load on that was told before; closeCommand closes its connections. Each
// line is answered with one.
const (
	goCommand    = "go"
	closeCommand = "close"
)

// Start starts a generator. The program's roles must have those of Roles.
func Start(ctx context.Context, o process.Options) (*Generator, error) {
	child, err := process.Start(ctx, o, role, nil)
	return &Generator{child}, err
}

// Roles are what process.Main needs for Start.
func Roles() map[string]process.Role { return map[string]process.Role{role: generate} }

// Open has the load's connections opened, and each answered twice, but for those
// of a load with Close.
func (g *Generator) Open(l Load) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return g.do(string(text))
}

// Run puts the load on. The connections stay open.
func (g *Generator) Run() (r Result, err error) {
	if err := g.Tell(goCommand); err != nil {
		return r, err
	}
	if err := g.Result(&r); err != nil {
		return r, err
	}
	if r.Requests == 0 {
		return r, fmt.Errorf("no request was answered: %s", r.FirstFailure)
	}
	return r, nil
}

// Close closes the connections.
func (g *Generator) Close() error { return g.do(closeCommand) }

func (g *Generator) do(line string) error {
	if err := g.Tell(line); err != nil {
		return err
	}
	_, err := g.Line()
	return err
}

// A driver is the connections of a load.
type driver interface {
	run() (Result, error)
	close()
}

// generate is the role of the generator's process.
func generate([]byte) error {
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
			var l Load
			err := json.Unmarshal([]byte(line), &l)
			if err != nil {
				return err
			}
			if current, err = newDriver(l); err != nil {
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

func newDriver(l Load) (driver, error) {
	if l.TLS {
		return newTLSClient(l)
	}
	return newPlainClient(l)
}
