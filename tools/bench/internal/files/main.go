// Package files compares what serving static files costs with nginx. Run it in
// the bench module, on Linux with nginx, taskset and two CPUs:
//
//	apt-get install --no-install-recommends nginx-light
//	go -C tools/bench run . files [--rounds 7] [--seconds 1] [--sizes 1KiB,1MiB]
//
// Every server has CPU 0, the load has CPU 1. All servers live from the beginning to
// the end and take turns in random order in every round; ratios are medians of
// the rounds' ratios. CPU time is user and system time of the server's process
// and of those that it started: nginx's worker. nginx runs with a configuration
// of its own, in a temporary folder, on a port of the loopback interface.
package files

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// The CPUs of servers and of the load.
const (
	serverCPU = 0
	clientCPU = 1
)

// allKinds are the servers that can be compared. The baseline always is.
var allKinds = [...]string{nginx, nginxCache, peers.Epoll, peers.PerConn, peers.FastHTTP, peers.NetHTTP}

const baseline = nginx

// options are the command's flags.
type options struct {
	rounds   int
	duration time.Duration
	conns    int
	kinds    []string
	sizes    []command.Size
}

// Command returns the subcommand.
func Command() *cobra.Command {
	return command.New("files", "Compare servers' CPU time per request for static files with nginx's", flags, run)
}

func flags(flags *pflag.FlagSet) func() (options, error) {
	var o options
	flags.IntVar(&o.rounds, "rounds", 7, "rounds, after one to warm up")
	seconds := flags.Int("seconds", 1, "time of one server with one file in one round, in seconds")
	flags.IntVar(&o.conns, "conns", 64, "keep-alive connections")
	servers := flags.String("servers", strings.Join(allKinds[:], ","), "servers to compare; "+baseline+" always is")
	sizes := flags.String("sizes", "1KiB,1MiB", "sizes of the files")
	return func() (_ options, err error) {
		o.duration = time.Duration(*seconds) * time.Second
		if o.rounds < 1 || *seconds < 1 {
			return o, fmt.Errorf("--rounds %d --seconds %d: want at least one of each", o.rounds, *seconds)
		}
		if err := process.CheckConnections(o.conns); err != nil {
			return o, err
		}
		if o.kinds, err = peers.ParseKinds(*servers, allKinds[:]); err != nil {
			return o, err
		}
		if !slices.Contains(o.kinds, baseline) {
			o.kinds = append([]string{baseline}, o.kinds...)
		}
		o.sizes, err = parseSizes(*sizes)
		return o, err
	}
}

func parseSizes(list string) (sizes []command.Size, err error) {
	for text := range strings.SplitSeq(list, ",") {
		size, err := command.ParseSize(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("-sizes: %w", err)
		}
		if !slices.Contains(sizes, size) {
			sizes = append(sizes, size)
		}
	}
	return sizes, nil
}

func run(ctx context.Context, o options) (d report.Document, err error) {
	if err := command.Require("taskset"); err != nil {
		return d, err
	}
	folder, err := os.MkdirTemp("", "sluice-files-")
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	files, err := writeFiles(filepath.Join(folder, "root"), o.sizes)
	if err != nil {
		return d, err
	}
	generator, err := load.Start(ctx, process.Options{CPU: clientCPU})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, generator.Stop()) }()
	contenders, startErr := startAll(ctx, o.kinds, folder)
	defer func() { err = errors.Join(err, stopAll(contenders)) }()
	if startErr != nil {
		return d, startErr
	}
	m := newMeasurement(o, contenders, files)
	for _, c := range contenders {
		command.Progress("checking what %s answers", c.kind)
		if err := m.check(ctx, c); err != nil {
			return d, fmt.Errorf("%s: %w", c.kind, err)
		}
	}
	for round := range o.rounds + 1 { // round 0 warms up
		if err := m.round(generator, round); err != nil {
			return d, err
		}
	}
	d.Sections = []report.Section{m.measured(), m.compared(), m.answered()}
	return d, m.failure()
}

// A file is what is served.
type file struct {
	size    command.Size
	target  string
	content []byte
}

// writeFiles makes a file of each size in a folder.
func writeFiles(root string, sizes []command.Size) (files []file, err error) {
	const mayRead, mayEnter = 0o644, 0o755
	if err := os.MkdirAll(root, mayEnter); err != nil {
		return nil, err
	}
	for _, size := range sizes {
		f := file{size: size, target: "/" + size.String() + ".html", content: text(size)}
		if err := os.WriteFile(filepath.Join(root, f.target), f.content, mayRead); err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// text returns lines that differ, so that parts cannot be mistaken for others.
func text(size command.Size) []byte {
	content := make([]byte, 0, size+32)
	for i := 0; len(content) < int(size); i++ {
		content = fmt.Appendf(content, "<p>Line %d of the file\n", i)
	}
	return content[:size]
}

// A sample is one load of one file against one server.
type sample struct {
	load.Result
	cpu time.Duration // of the server
}

// A pair is what is measured: a file of a server.
type pair struct {
	size command.Size
	kind string
}

// A measurement is what was measured so far.
type measurement struct {
	options    options
	contenders []*contender
	files      []file
	samples    map[pair][]sample // round by round
	fields     map[string]string // of the answers, by kind
}

func newMeasurement(o options, contenders []*contender, files []file) *measurement {
	return &measurement{
		options: o, contenders: contenders, files: files,
		samples: make(map[pair][]sample), fields: make(map[string]string),
	}
}

// round puts the load on every server once for each file, in random order.
func (m *measurement) round(generator *load.Generator, round int) error {
	duration := m.options.duration
	if round == 0 {
		duration = time.Second
	}
	for _, f := range m.files {
		command.Progress("round %d/%d, %s", round, m.options.rounds, f.size)
		for _, i := range rand.Perm(len(m.contenders)) {
			c := m.contenders[i]
			s, err := c.measure(generator, m.options.conns, f, duration)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c.kind, f.size, err)
			}
			if round > 0 {
				p := pair{f.size, c.kind}
				m.samples[p] = append(m.samples[p], s)
			}
		}
	}
	return nil
}

func (c *contender) measure(generator *load.Generator, conns int, f file, duration time.Duration) (s sample, err error) {
	before, err := c.cpu()
	if err != nil {
		return s, err
	}
	if s.Result, err = generator.Put(load.Load{Addr: c.addr, Request: load.Get(f.target, ""), Conns: conns, Duration: duration}); err != nil {
		return s, err
	}
	after, err := c.cpu()
	s.cpu = after - before
	return s, err
}
