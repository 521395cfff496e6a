package h2

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// A sample is one server's turn in one round.
type sample struct {
	cpu      float64 // µs per request
	failures int
}

// columnsOf returns the CPU times round by round, and all failures.
func columnsOf(samples []sample) (cpu []float64, failures int) {
	for _, s := range samples {
		cpu = append(cpu, s.cpu)
		failures += s.failures
	}
	return cpu, failures
}

// A contender is a server that is alive.
type contender struct {
	kind, addr string
	cpu        func() (time.Duration, error)
	stop       func() error
}

// errAbsent: this server cannot do the case, or is not installed.
var errAbsent = errors.New("not here")

// measure starts a case's servers, runs its rounds, and stops them.
func measure(ctx context.Context, o options, c loadCase) (all map[string][]sample, err error) {
	folder, err := os.MkdirTemp("", "h2")
	if err != nil {
		return nil, err
	}
	var alive []*contender
	var names []string
	defer func() {
		for _, server := range alive {
			err = errors.Join(err, server.stop())
		}
		err = errors.Join(err, os.RemoveAll(folder))
	}()
	for _, kind := range o.kinds {
		server, err := start(ctx, kind, o.before, c, folder)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		alive, names = append(alive, server), append(names, kind)
	}
	requests := c.requests(o.requests)
	return command.Rounds(c.name, o.rounds, names, func(i int, _ bool) (sample, error) {
		return turn(ctx, alive[i], c, requests, folder)
	})
}

// start starts a server. old is the program of before. errAbsent: it cannot do the case.
func start(ctx context.Context, kind, old string, c loadCase, folder string) (*contender, error) {
	if isProgram(kind) {
		return startProgram(ctx, kind, c, folder)
	}
	service := servers.Options{Options: process.Options{CPU: serverCPU, Procs: 1}, Kind: kind, Peer: c.peer}
	switch kind {
	case ownHTTP:
		service.Kind = peers.Epoll
	case before:
		service.Kind, service.Program = peers.Epoll, old
	}
	server, err := servers.Start(ctx, service)
	if err != nil {
		return nil, err
	}
	return &contender{kind: kind, addr: server.Addr, cpu: server.TreeCPU, stop: server.Stop}, nil
}

// turn puts the load on a server once, and returns its CPU time for a request in µs.
func turn(ctx context.Context, server *contender, c loadCase, requests int, folder string) (s sample, err error) {
	scheme := "http"
	if c.peer.TLS {
		scheme = "https"
	}
	args := []string{"-c", strconv.Itoa(clientCPU), "h2load", "-n", strconv.Itoa(requests), "-c", strconv.Itoa(c.conns), "-m", strconv.Itoa(c.streams)}
	if server.kind == ownHTTP {
		args = append(args, "--h1")
	}
	if c.peer.BodySize > 0 {
		body := filepath.Join(folder, "body")
		if err := os.WriteFile(body, make([]byte, c.peer.BodySize), 0o600); err != nil {
			return s, err
		}
		args = append(args, "-d", body)
	}
	before, err := server.cpu()
	if err != nil {
		return s, err
	}
	for i := range c.targets {
		args = append(args, fmt.Sprintf("%s://%s%s&session=%d", scheme, server.addr, peers.Target, i))
	}
	out, err := exec.CommandContext(ctx, "taskset", args...).CombinedOutput()
	if err != nil {
		return s, fmt.Errorf("h2load: %w: %s", err, out)
	}
	after, err := server.cpu()
	if err != nil {
		return s, err
	}
	good, failures, err := parseOutput(string(out))
	if err == nil && good == 0 {
		err = fmt.Errorf("h2load had no good response: %s", out)
	}
	return sample{float64((after - before).Microseconds()) / float64(max(good, 1)), failures}, err
}

// parseOutput reads what h2load prints.
func parseOutput(out string) (good, failures int, err error) {
	status := regexp.MustCompile(`(?m)^status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx$`).FindStringSubmatch(out)
	requests := regexp.MustCompile(`(?m)^requests: .* (\d+) failed, (\d+) errored, (\d+) timeout$`).FindStringSubmatch(out)
	if status == nil || requests == nil {
		return 0, 0, fmt.Errorf("h2load printed %q", strings.TrimSpace(out))
	}
	good, _ = strconv.Atoi(status[1]) // digits
	for _, text := range append(status[2:], requests[1:]...) {
		n, _ := strconv.Atoi(text) // digits
		failures += n
	}
	return good, failures, nil
}
