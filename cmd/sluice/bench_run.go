package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
	"unicode/utf8"

	"github.com/sluicehttp/sluice/tools/lab/load"
)

var (
	errNoResponse = errors.New("there was no response")
	errNoStream   = errors.New("there was no stream")
)

// runBench does what o says.
func runBench(ctx context.Context, o benchOptions) error {
	ctx, stop := untilInterrupted(ctx)
	defer stop()
	target, err := o.target(ctx)
	if err != nil {
		return err
	}
	config, err := o.config(target)
	if err != nil {
		return err
	}
	if err := checkDescriptors(config); err != nil {
		return err
	}
	var out *os.File
	if o.json != "" && o.json != stdoutName {
		if out, err = os.OpenFile(o.json, os.O_CREATE|os.O_WRONLY, 0o666); err != nil {
			return fmt.Errorf("--json: %w", err)
		}
		defer out.Close()
	}
	threads := min(o.threads, o.connections)
	if config.TLS == nil && !o.sse {
		threads++ // each holds a processor all the time, and there is other work
	}
	runtime.GOMAXPROCS(threads)
	shown := o.newProgress()
	if shown != nil {
		config.Progress = shown.show
	}
	m := measurement{options: &o, target: &target, config: &config, begin: time.Now()}
	cpu := processCPU()
	if o.sse {
		m.streams, err = runStreams(ctx, config)
		m.result = &m.streams.result
	} else {
		m.result, err = load.Run(ctx, config)
	}
	m.cpu = processCPU() - cpu
	shown.end()
	if m.result == nil {
		return err
	}
	m.isInterrupted = context.Cause(ctx) == errInterrupted
	if err == nil {
		err = m.print()
		if !m.isAnswered() {
			err = errors.Join(err, m.noResponse())
		}
	}
	return errors.Join(err, m.write(out))
}

// config returns what the load generator is to do.
func (o *benchOptions) config(t benchTarget) (load.Config, error) {
	config := load.Config{
		Network: t.network, Address: t.address, Request: t.request, IsHead: o.method == "HEAD",
		Connections: o.connections, Threads: o.threads, Depth: o.pipeline * o.streams, HTTP2: o.http2, HTTP3: o.http3,
		Duration: o.duration, Requests: o.requests, Rate: o.rate,
		OncePerConn: o.disableKeepAlive, Timeout: o.timeout,
	}
	if o.warmUp {
		config.Begin = func() {}
	}
	if o.requests > 0 && !o.sse {
		config.Connections = int(min(int64(o.connections), o.requests)) // no other would be used
	}
	if t.message != nil {
		config.WebSocket = &load.WebSocket{Message: t.message, IsText: utf8.Valid(t.message)}
	}
	if !t.isSecure() {
		return config, nil
	}
	secure, err := (&getOptions{insecure: o.insecure, caFile: o.caFile}).tlsConfig()
	if err != nil {
		return config, err
	}
	secure.ServerName = t.url.Hostname()
	secure.NextProtos = []string{"http/1.1"}
	if o.disableKeepAlive {
		secure.ClientSessionCache = nil // every connection is one of a new client
	} else {
		secure.ClientSessionCache = tls.NewLRUClientSessionCache(o.connections)
	}
	config.TLS = secure
	return config, nil
}

// print writes the summary.
func (m *measurement) print() error {
	if m.options.quiet {
		return nil
	}
	var w io.Writer = os.Stdout
	if m.options.json == stdoutName {
		w = os.Stderr
	}
	_, err := w.Write(m.appendSummary(nil))
	return err
}

// write writes the JSON, if it is wanted, to out or stdout.
func (m *measurement) write(out *os.File) error {
	if m.options.json == "" {
		return nil
	}
	text, err := m.appendJSON(nil)
	if err != nil {
		return err
	}
	if out == nil {
		_, err = os.Stdout.Write(text)
		return err
	}
	// A pipe cannot be truncated, and need not be.
	if info, err := out.Stat(); err == nil && info.Mode().IsRegular() {
		if err := out.Truncate(0); err != nil {
			return fmt.Errorf("--json: %w", err)
		}
	}
	if _, err := out.Write(text); err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	return out.Close()
}
