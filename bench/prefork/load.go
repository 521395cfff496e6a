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

const loadRole = "prefork load"

// A load is what is sent to a server.
type load struct {
	Addr, Source string // Source is the clients' address
	Conns        int
	Rate         int  // requests per second; 0: each connection's next one when its last was answered
	Close        bool // a connection per request, closed by the server
	Duration     time.Duration
}

// loadResult is what became of it.
type loadResult struct {
	Requests int
	Elapsed  time.Duration
	P50, P99 time.Duration // of the answers; with Rate, from when a request was due
}

// Lines on the standard input of the load's process: a load as JSON, whose
// connections are then opened, and goCommand, which puts it on the server. Each
// is answered with a line.
const goCommand = "go"

// A loader is the process that puts load on servers: with one thread, which
// costs less than one that serves.
type loader struct{ *process.Child }

func startLoader(ctx context.Context) (*loader, error) {
	child, err := process.Start(ctx, process.Options{CPU: process.AnyCPU}, loadRole, nil)
	return &loader{child}, err
}

// open has the load's connections opened.
func (l *loader) open(config load) error {
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	if err := l.Tell(string(text)); err != nil {
		return err
	}
	_, err = l.Line()
	return err
}

// run puts the load on, and closes the connections.
func (l *loader) run() (r loadResult, err error) {
	if err := l.Tell(goCommand); err != nil {
		return r, err
	}
	if err := l.Result(&r); err != nil {
		return r, err
	}
	if r.Requests == 0 {
		return r, errors.New("no request was answered")
	}
	return r, nil
}

// putLoad is the role of the load's process.
func putLoad([]byte) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var config load
		if err := json.Unmarshal(lines.Bytes(), &config); err != nil {
			return err
		}
		c, err := newClient(config)
		if err != nil {
			return err
		}
		fmt.Println("ready")
		if !lines.Scan() {
			break
		}
		result, err := c.run()
		if err != nil {
			return err
		}
		text, err := json.Marshal(result)
		if err != nil {
			return err
		}
		fmt.Println(string(text))
	}
	return lines.Err()
}
