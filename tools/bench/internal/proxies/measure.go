package proxies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// A sample is one proxy's turn in one round.
type sample struct {
	load.Result
	cpu time.Duration // of the proxy with its processes
}

// measured is what was measured in a case.
type measured struct {
	proxyCase
	samples map[string][]sample // by kind, round by round
	absent  map[string]string   // why a kind is not there
}

// measure starts a case's upstream and proxies, runs its rounds, and stops them.
func measure(ctx context.Context, o options, c proxyCase) (m measured, err error) {
	m = measured{proxyCase: c, absent: make(map[string]string)}
	folder, err := os.MkdirTemp("", "proxy")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	command.Progress("%s: starting proxies", c.name)
	upstream, stop, err := startUpstream(ctx, c, folder)
	if err != nil {
		return m, fmt.Errorf("upstream: %w", err)
	}
	defer func() { err = errors.Join(err, stop()) }()
	alive, absent, err := startAll(ctx, o, upstream, folder, need{tls: c.load.TLS, http2: c.load.HTTP2})
	m.absent = absent
	defer func() { err = errors.Join(err, stopAll(alive)) }()
	if err != nil {
		return m, err
	}
	var kinds []string
	for _, p := range alive {
		if err := c.check(p); err != nil {
			return m, fmt.Errorf("%s: %w", p.kind, err)
		}
		kinds = append(kinds, p.kind)
	}
	generator, err := load.Start(ctx, process.Options{CPU: clientCPU, Procs: 1})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, generator.Stop()) }()
	m.samples, err = command.Rounds(c.name, o.rounds, kinds, func(i int, _ bool) (sample, error) {
		return c.turn(o, alive[i], generator)
	})
	return m, err
}

// startAll starts a proxy of each kind, and returns why others are absent. What it returns is to
// be stopped even if it failed.
func startAll(ctx context.Context, o options, upstream, folder string, n need) (alive []*contender, absent map[string]string, err error) {
	absent = make(map[string]string)
	for i, kind := range o.kinds {
		own := fmt.Sprintf("%s/%d", folder, i)
		if err := os.Mkdir(own, 0o755); err != nil {
			return alive, absent, err
		}
		p, err := o.start(ctx, kind, upstream, own, n)
		switch {
		case isAbsence(err):
			absent[kind] = err.Error()
		case err != nil:
			return alive, absent, fmt.Errorf("%s: %w", kind, err)
		default:
			alive = append(alive, p)
		}
	}
	return alive, absent, nil
}

func stopAll(alive []*contender) (err error) {
	for _, p := range alive {
		if stopped := p.process.Stop(); stopped != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", p.kind, stopped))
		}
	}
	return err
}

// check asks a proxy once: what is measured must be the same everywhere.
func (c proxyCase) check(p *contender) error {
	l := c.load
	l.Addr, l.Request = p.addr, c.request()
	answer, err := l.Ask()
	switch {
	case err != nil:
		return err
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("status %s", answer.Status)
	case !bytes.Equal(answer.Content, c.body()):
		return fmt.Errorf("another body, of %d bytes", len(answer.Content))
	}
	return nil
}

// turn puts the load on a proxy once.
func (c proxyCase) turn(o options, p *contender, generator *load.Generator) (s sample, err error) {
	l := c.load
	l.Addr, l.Request, l.Duration, l.Requests = p.addr, c.request(), o.duration, o.requests
	result, before, after, err := load.Measure(generator, l, p.process.TreeUsage)
	if err != nil {
		return s, err
	}
	c.checkLength(&result)
	return sample{Result: result, cpu: after.CPU - before.CPU}, nil
}

// checkLength counts an error if less came than the bodies of all answers.
func (c proxyCase) checkLength(r *load.Result) {
	least := int64(r.Requests) * int64(len(c.body()))
	if r.Received >= least {
		return
	}
	if r.Failures++; r.FirstFailure == "" {
		r.FirstFailure = fmt.Sprintf("%d bytes came, and the bodies have %d", r.Received, least)
	}
}
