package proxies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// untilIdle is how long connections have been quiet when memory is measured: some proxies keep
// the buffers of a connection for a second or two.
const untilIdle = 4 * time.Second

// collections are how often a proxy collects its garbage before its memory counts: each halves
// stacks that are larger than their goroutines need.
const collections = 5

// An idleCase is connections through a proxy that have had a message and are quiet.
type idleCase struct {
	name string
	hold func(ctx context.Context, addr string, n int) (release func() error, err error)
}

var idleCases = []idleCase{
	{"idle WebSockets", holdWebSockets},
	{"idle streams of events", holdEvents},
}

// idleFigures are bytes of a proxy's anonymous memory.
type idleFigures struct {
	before        int64
	held, settled float64 // for each connection: before and after garbage collections
	collects      bool    // it has garbage, so that settled is measured
}

// measuredIdle is what was measured in a case.
type measuredIdle struct {
	idleCase
	figures map[string]idleFigures
	absent  map[string]string
}

// measureIdle has one proxy after the other hold connections.
func measureIdle(ctx context.Context, o options) (all []measuredIdle, err error) {
	folder, err := os.MkdirTemp("", "proxy")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	upstream, err := process.StartService(ctx, process.Options{CPU: clientCPU}, streamsRole, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, upstream.Stop()) }()
	for i, c := range o.idle {
		own := fmt.Sprintf("%s/idle%d", folder, i)
		if err := os.Mkdir(own, 0o755); err != nil {
			return nil, err
		}
		m, err := c.measure(ctx, o, upstream.Addr, own)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		all = append(all, m)
	}
	return all, nil
}

func (c idleCase) measure(ctx context.Context, o options, upstream, folder string) (m measuredIdle, err error) {
	m = measuredIdle{idleCase: c, figures: make(map[string]idleFigures)}
	alive, absent, err := startAll(ctx, o, upstream, folder, need{streams: true})
	m.absent = absent
	defer func() { err = errors.Join(err, stopAll(alive)) }()
	if err != nil {
		return m, err
	}
	for _, p := range alive {
		command.Progress("%s: %s", c.name, p.kind)
		if m.figures[p.kind], err = c.measureOne(ctx, o, p); err != nil {
			return m, fmt.Errorf("%s: %w", p.kind, err)
		}
	}
	return m, nil
}

// firstConns are open before the memory of a proxy is measured, and stay, so that what it has but
// once does not count, such as buffers for the handshakes at a time.
const firstConns = 2 * opening

// measureOne returns what connections through a proxy cost it, besides the first ones.
func (c idleCase) measureOne(ctx context.Context, o options, p *contender) (f idleFigures, err error) {
	var releases []func() error
	defer func() {
		for _, release := range releases {
			err = errors.Join(err, release())
		}
	}()
	release, err := c.hold(ctx, p.addr, firstConns)
	if err != nil {
		return f, err
	}
	releases = append(releases, release)
	if f.before, err = p.quietMemory(ctx, o.untilIdle, true); err != nil {
		return f, err
	}
	if release, err = c.hold(ctx, p.addr, o.conns); err != nil {
		return f, err
	}
	releases = append(releases, release)
	held, err := p.quietMemory(ctx, o.untilIdle, false)
	if err != nil {
		return f, err
	}
	settled, err := p.quietMemory(ctx, 0, true)
	f.held, f.settled = float64(held-f.before)/float64(o.conns), float64(settled-f.before)/float64(o.conns)
	f.collects = p.settle != nil
	return f, err
}

// quietMemory returns the proxy's anonymous memory after a while, in which it gets nothing.
func (p *contender) quietMemory(ctx context.Context, wait time.Duration, settles bool) (int64, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(wait):
	}
	if settles && p.settle != nil {
		for range collections {
			if err := p.settle(); err != nil {
				return 0, err
			}
		}
	}
	memory, err := p.process.TreeMemory()
	return memory.Anonymous, err
}

// holdWebSockets opens n WebSockets. Each has two messages and their echoes.
func holdWebSockets(ctx context.Context, addr string, n int) (release func() error, err error) {
	g, err := load.Hold(ctx, load.Load{Addr: addr, Conns: n, Request: load.Get(webSocketPath, ""), Message: []byte("hi")})
	if err != nil {
		return nil, err
	}
	return g.Stop, nil
}

// opening is how many streams of events are opened at a time, as of WebSockets: HAProxy holds the
// first event of one back for a while.
const opening = 128

// holdEvents opens streams of events, and waits for an event on each.
func holdEvents(ctx context.Context, addr string, n int) (release func() error, err error) {
	conns, errs := make([]net.Conn, n), make([]error, n)
	release = func() error {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
		return nil
	}
	var wg sync.WaitGroup
	for first := range opening {
		wg.Go(func() {
			for i := first; i < n; i += opening {
				var dialer net.Dialer
				if conns[i], errs[i] = dialer.DialContext(ctx, "tcp4", addr); errs[i] == nil {
					errs[i] = awaitEvent(conns[i])
				}
				if errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, release())
	}
	return release, nil
}

const eventPatience = 10 * time.Second

func awaitEvent(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(eventPatience)); err != nil {
		return err
	}
	if _, err := c.Write(load.Get(eventsPath, "")); err != nil {
		return err
	}
	got, part := []byte(nil), make([]byte, 4<<10)
	for !bytes.Contains(got, []byte(event)) {
		n, err := c.Read(part)
		if got = append(got, part[:n]...); err != nil || len(got) > 64<<10 {
			return fmt.Errorf("no event came: %w: %.200q", err, got)
		}
	}
	if !bytes.HasPrefix(got, []byte("HTTP/1.1 200 ")) {
		return fmt.Errorf("the answer is %.200q", got)
	}
	return nil
}
