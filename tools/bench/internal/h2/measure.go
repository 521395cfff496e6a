package h2

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// samples are what was measured of one server, round by round.
type samples struct {
	cpu      []float64 // µs per request
	failures int
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
func measure(ctx context.Context, o options, c loadCase) (all map[string]*samples, err error) {
	folder, err := os.MkdirTemp("", "h2")
	if err != nil {
		return nil, err
	}
	var alive []*contender
	defer func() {
		for _, server := range alive {
			err = errors.Join(err, server.stop())
		}
		err = errors.Join(err, os.RemoveAll(folder))
	}()
	all = make(map[string]*samples)
	for _, kind := range o.kinds {
		server, err := start(ctx, kind, c, folder)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		alive = append(alive, server)
		all[kind] = new(samples)
	}
	requests := c.requests(o.requests)
	for round := range o.rounds + 1 { // round 0 warms up
		command.Progress("%s: round %d/%d", c.name, round, o.rounds)
		for _, i := range rand.Perm(len(alive)) {
			server := alive[i]
			cpu, failures, err := turn(ctx, server, c, requests, folder)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", server.kind, err)
			}
			if round > 0 {
				got := all[server.kind]
				got.cpu = append(got.cpu, cpu)
				got.failures += failures
			}
		}
	}
	return all, nil
}

// start starts a server. errAbsent: it cannot do the case.
func start(ctx context.Context, kind string, c loadCase, folder string) (*contender, error) {
	if isProgram(kind) {
		return startProgram(ctx, kind, c, folder)
	}
	peer := kind
	if kind == ownHTTP {
		peer = peers.Epoll
	}
	server, err := servers.Start(ctx, servers.Options{Options: process.Options{CPU: serverCPU, Procs: 1}, Kind: peer, Peer: c.peer})
	if err != nil {
		return nil, err
	}
	return &contender{kind: kind, addr: server.Addr, cpu: server.TreeCPU, stop: server.Stop}, nil
}

// turn puts the load on a server once, and returns its CPU time for a request in µs.
func turn(ctx context.Context, server *contender, c loadCase, requests int, folder string) (cpu float64, failures int, err error) {
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
			return 0, 0, err
		}
		args = append(args, "-d", body)
	}
	before, err := server.cpu()
	if err != nil {
		return 0, 0, err
	}
	for i := range c.targets {
		args = append(args, fmt.Sprintf("%s://%s%s&session=%d", scheme, server.addr, peers.Target, i))
	}
	out, err := exec.CommandContext(ctx, "taskset", args...).CombinedOutput()
	if err != nil {
		return 0, 0, fmt.Errorf("h2load: %w: %s", err, out)
	}
	after, err := server.cpu()
	if err != nil {
		return 0, 0, err
	}
	good, failures, err := parseOutput(string(out))
	if err == nil && good == 0 {
		err = fmt.Errorf("h2load had no good response: %s", out)
	}
	return float64((after - before).Microseconds()) / float64(max(good, 1)), failures, err
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
