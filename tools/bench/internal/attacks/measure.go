package attacks

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/net/http2"

	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// A result is what one server has shown.
type result struct {
	units    float64 // on one connection, on average
	hasEnded bool    // the server has ended all connections
	cpu      float64 // µs for each unit
	memory   int64   // bytes that it grew
}

// batch is how many units are sent at once.
const batch = 100

// pause is how long the client waits after a batch, so that the server takes it before
// the next one.
const pause = 300 * time.Microsecond

// How long a server has after the last unit: to take the rest, and to end the connection
// although others may have the CPUs.
const (
	brief    = 10 * time.Millisecond
	patience = 2 * time.Second
)

// measure attacks one server.
func (o options) measure(ctx context.Context, a attack, kind string) (r result, err error) {
	server, err := servers.Start(ctx, servers.Options{Options: process.Options{CPU: process.AnyCPU, Procs: 2}, Kind: kind, Peer: peers.Options{HTTP2: true}})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	ordinary := attack{unit: func(c *client) { c.request(true); c.stream += 2 }}
	for range 5 {
		if _, _, err := attempt(ctx, server.Addr, ordinary, 500, brief); err != nil {
			return r, err
		}
	}
	idle, err := spent(server, o.conns, func() error {
		_, _, err := attempt(ctx, server.Addr, a, 0, brief)
		return err
	})
	if err != nil {
		return r, err
	}
	before, err := server.AnonymousMemory()
	if err != nil {
		return r, err
	}
	total, conns := 0, 0
	r.hasEnded = true
	cpu, err := spent(server, o.conns, func() error {
		if !r.hasEnded && conns > 0 {
			return nil
		}
		n, ended, err := attempt(ctx, server.Addr, a, o.units, patience)
		if err != nil {
			return err
		}
		total += n
		conns++
		r.hasEnded = r.hasEnded && ended
		now, err := server.AnonymousMemory()
		r.memory = max(r.memory, now-before)
		return err
	})
	if err != nil {
		return r, err
	}
	cpu -= idle * time.Duration(conns) / time.Duration(o.conns)
	r.units = float64(total) / float64(conns)
	r.cpu = float64(cpu.Nanoseconds()) / 1e3 / float64(total)
	return r, nil
}

// spent returns the CPU time that the server uses for n calls of f.
func spent(server *servers.Server, n int, f func() error) (time.Duration, error) {
	before, err := server.TreeCPU()
	if err != nil {
		return 0, err
	}
	for range n {
		if err := f(); err != nil {
			return 0, err
		}
	}
	after, err := server.TreeCPU()
	return after - before, err
}

// attempt sends up to units of an attack on a connection, and returns how many it sent
// before the server ended that, which may take as long as wait after the last one.
func attempt(ctx context.Context, addr string, a attack, units int, wait time.Duration) (sent int, hasEnded bool, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return 0, false, err
	}
	defer conn.Close()
	over, ended := context.WithCancel(ctx)
	defer ended()
	read := make(chan struct{})
	go func() { // takes what the server sends
		defer close(read)
		for framer := http2.NewFramer(nil, conn); ; {
			frame, err := framer.ReadFrame()
			if end, ok := frame.(*http2.GoAwayFrame); err != nil && !errors.As(err, new(http2.StreamError)) || ok && end.ErrCode != http2.ErrCodeNo {
				ended()
				_, _ = io.Copy(io.Discard, conn)
				return
			}
		}
	}()
	c := newClient()
	_, _ = io.WriteString(&c.out, http2.ClientPreface)
	settings := []http2.Setting{{ID: http2.SettingEnablePush, Val: 0}}
	if a.holdsAnswers {
		settings = append(settings, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	}
	_ = c.frames.WriteSettings(settings...)
	_ = c.frames.WriteSettingsAck()
	if a.begin != nil && units > 0 {
		a.begin(c)
	}
	for sent < units && over.Err() == nil {
		for range min(batch, units-sent) {
			a.unit(c)
			sent++
		}
		if _, err := conn.Write(c.out.Bytes()); err != nil {
			ended() // the reader may not have seen it yet
		}
		c.out.Reset()
		time.Sleep(pause)
	}
	_, _ = conn.Write(c.out.Bytes())
	select {
	case <-over.Done():
	case <-time.After(wait):
	}
	hasEnded = over.Err() != nil
	_ = conn.Close()
	<-read
	return sent, hasEnded, ctx.Err()
}
