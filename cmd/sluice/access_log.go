package main

import (
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/accesslog"
	"github.com/sluicehttp/sluice/tools/lab/cli"
)

const (
	stdoutName    = "-"         // as the flag's value
	flushInterval = time.Second // how old a line gets before it is written
	flushSize     = 32 << 10    // bytes of lines that are written at once
	maxPending    = 1 << 20     // bytes of lines that make requests wait for the file
)

// The values of --access-log-format.
const (
	formatCombined = "combined"
	formatJSON     = "json"
	formatText     = "text"
)

// accessLogOptions are the flags of the access log.
type accessLogOptions struct {
	name   string // of the file; empty: there is no log
	format string
	every  int
	slow   time.Duration
}

func (o *accessLogOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.name, "access-log", "", "append a line for each request to `FILE`; - is stdout")
	flags.StringVar(&o.format, "access-log-format", formatCombined, "combined (Combined Log Format), json or text (key=value, with the duration)")
	flags.IntVar(&o.every, "access-log-every", 1, "of requests that are neither slow nor failures (5xx) log one of `N`; 0: none")
	flags.Var(cli.SecondsOf(&o.slow, 0), "access-log-slow", "log each request that takes so long; 0: none counts as slow")
}

// complete checks the flags, and gives a 0 of --access-log-every its meaning.
func (o *accessLogOptions) complete(flags flagSet) error {
	for _, name := range []string{"access-log-format", "access-log-every", "access-log-slow"} {
		if o.name == "" && flags.Changed(name) {
			return fmt.Errorf("--%s is about --access-log", name)
		}
	}
	switch {
	case o.format != formatCombined && o.format != formatJSON && o.format != formatText:
		return fmt.Errorf("--access-log-format takes combined, json or text, not %q", o.format)
	case o.every < 0:
		return errors.New("--access-log-every takes a number from 0 on")
	case o.every == 0:
		o.every = -1
	}
	return nil
}

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
	file    *os.File
	failed  bool // the last write failed, which was told
	isTorn  bool // the file may end in the middle of a line: the disk was full

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
		isTorn: true,
		full:   make(chan struct{}, 1),
		stop:   make(chan struct{}),
		ended:  make(chan struct{}),
	}
	go l.run()
	return l, nil
}

func openLogFile(name string) (*os.File, error) {
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
func (l *accessLog) attach(server *sluice.Server, o accessLogOptions) {
	if l == nil {
		return
	}
	options := accesslog.Options{Every: o.every, Slow: o.slow, Write: l.log}
	switch o.format {
	case formatJSON:
		options.Logger, options.Write = slog.New(slog.NewJSONHandler(l, nil)), nil
	case formatText:
		options.Logger, options.Write = slog.New(slog.NewTextHandler(l, nil)), nil
	}
	accesslog.Attach(server, options)
}

// log appends the line of a request that is about to be answered.
func (l *accessLog) log(ctx *sluice.RequestCtx, e accesslog.Entry) {
	l.mu.Lock()
	l.pending = l.format.append(l.pending, ctx, &e)
	size := len(l.pending)
	l.mu.Unlock()
	l.appended(size)
}

// Write appends a line.
func (l *accessLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	l.pending = append(l.pending, line...)
	size := len(l.pending)
	l.mu.Unlock()
	l.appended(size)
	return len(line), nil
}

// appended has so many bytes written, if they are many.
func (l *accessLog) appended(size int) {
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
	if l.isTorn && endsWithinLine(l.name, l.file) {
		lines = append([]byte{'\n'}, lines...)
	}
	_, err := l.file.Write(lines)
	if err != nil && !l.failed {
		l.logger.Printf("cannot write the access log: %v", err)
	}
	l.failed, l.isTorn = err != nil, err != nil
}

// endsWithinLine reports whether the last line of file, which has a name, lacks its end. It may be that of
// another worker.
func endsWithinLine(name string, file *os.File) bool {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	read, err := os.Open(name) // file is for writing only
	if err != nil {
		return false
	}
	defer read.Close()
	last := []byte{'\n'}
	if same, err := read.Stat(); err == nil && os.SameFile(info, same) {
		read.ReadAt(last, info.Size()-1) // an error does not change last
	}
	return last[0] != '\n'
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
	l.file, l.failed, l.isTorn = file, false, true
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
