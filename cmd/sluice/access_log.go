package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sluicehttp/sluice"
)

const (
	stdoutName    = "-"         // as the flag's value
	flushInterval = time.Second // how old a line gets before it is written
	flushSize     = 32 << 10    // bytes of lines that are written at once
	maxPending    = 1 << 20     // bytes of lines that make requests wait for the file
)

// accessLog writes a line for each request. Requests append to a buffer; a
// goroutine of its own writes it. nil stands for no log.
type accessLog struct {
	name   string
	logger *log.Logger

	mu      sync.Mutex
	pending []byte // lines that are not written yet
	format  lineFormat

	writing sync.Mutex // held while spare and file are used
	spare   []byte
	file    io.WriteCloser
	failed  bool // the last write failed, which was told

	full   chan struct{} // pending is worth writing
	stop   chan struct{}
	ended  chan struct{}
	closed sync.Once
}

// openAccessLog returns the log that the flag asks for, nil for none.
func openAccessLog(name string, logger *log.Logger) (*accessLog, error) {
	if name == "" {
		return nil, nil
	}
	file, err := openLogFile(name)
	if err != nil {
		return nil, err
	}
	l := &accessLog{
		name:   name,
		logger: logger,
		file:   file,
		full:   make(chan struct{}, 1),
		stop:   make(chan struct{}),
		ended:  make(chan struct{}),
	}
	go l.run()
	return l, nil
}

func openLogFile(name string) (io.WriteCloser, error) {
	if name == stdoutName {
		return os.Stdout, nil
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("cannot open the access log %s: %w", name, reasonOf(err))
	}
	return file, nil
}

// attach has the server's requests logged: those that its handler answers, and
// those that it refuses itself.
func (l *accessLog) attach(server *sluice.Server) {
	if l == nil {
		return
	}
	handler := server.Handler
	server.Handler = func(ctx *sluice.RequestCtx) {
		end := panicked
		defer func() { l.log(ctx, end) }()
		handler(ctx)
		end = answered
	}
	server.ErrorHandler = func(ctx *sluice.RequestCtx, err error) {
		ctx.Response.SetBodyString(strings.TrimPrefix(err.Error(), "sluice: "))
		end := answered
		if len(ctx.Request.Header.RawHeaders()) == 0 {
			end = unread
		}
		l.log(ctx, end)
	}
}

// log appends the line of a request that is about to be answered.
func (l *accessLog) log(ctx *sluice.RequestCtx, end outcome) {
	l.mu.Lock()
	l.pending = l.format.append(l.pending, ctx, end)
	size := len(l.pending)
	l.mu.Unlock()
	switch {
	case size >= maxPending:
		l.flush()
	case size >= flushSize:
		select {
		case l.full <- struct{}{}:
		default: // it was told already
		}
	}
}

// run writes what is pending now and then.
func (l *accessLog) run() {
	defer close(l.ended)
	ticker := time.NewTicker(flushInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-l.full:
		case <-l.stop:
			return
		}
		l.flush()
	}
}

// flush writes what is pending. Lines that cannot be written are lost: the
// server goes on.
func (l *accessLog) flush() {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	lines := l.pending
	l.pending = l.spare[:0]
	l.mu.Unlock()
	l.spare = lines
	if len(lines) == 0 {
		return
	}
	_, err := l.file.Write(lines)
	if err != nil && !l.failed {
		l.logger.Printf("cannot write the access log: %v", err)
	}
	l.failed = err != nil
}

// reopens reports whether the log is a file, which may be moved away.
func (l *accessLog) reopens() bool { return l != nil && l.name != stdoutName }

// reopen writes to a new file of the same name from now on.
func (l *accessLog) reopen() error {
	file, err := openLogFile(l.name)
	if err != nil {
		return err
	}
	l.flush()
	l.writing.Lock()
	defer l.writing.Unlock()
	l.file.Close()
	l.file, l.failed = file, false
	return nil
}

// Close writes what is left.
func (l *accessLog) Close() {
	if l == nil {
		return
	}
	l.closed.Do(func() {
		close(l.stop)
		<-l.ended
		l.flush()
		if l.name != stdoutName {
			l.file.Close()
		}
	})
}
