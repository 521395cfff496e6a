// Package instructions counts the instructions that a server executes for a request, in user
// space. Times of the same program differ by a tenth from minute to minute; these figures
// repeat within 1 %, also on a busy machine. Run it in the bench module, on Linux with
// valgrind:
//
//	go -C tools/bench run . instructions [--case REGEXP] [--servers LIST] [--program NAME=COMMAND] [--keep FOLDER]
//
// callgrind counts what a server with one processor and without garbage collection executes for
// n requests, and for twice as many: the difference, divided by n, is a request. It does not
// count the kernel. The cases in memory are those of the benchmarks, with their harness, which
// the floor shows alone. Over TCP, 64 connections have one request at a time each, or are
// made for one. The cases of a proxy count package proxy before nginx, which is not counted. Those
// of WebSockets count a message that is echoed, of which each connection has one at a time.
package instructions

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	gobwasws "github.com/gobwas/ws"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/bench/internal/proxies"
	"github.com/sluicehttp/sluice/tools/bench/internal/ratios"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/bench/internal/websockets"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// The servers that can be counted, over TCP and in memory.
var (
	allKinds    = [...]string{peers.Epoll, peers.PerConn, peers.FastHTTP, peers.Fiber, peers.Hertz, peers.NetHTTP}
	memoryKinds = [...]string{"sluice", "fasthttp", "floor"}
	ownKinds    = [...]string{peers.Sluice} // of proxies and WebSockets
)

// options are the command's flags.
type options struct {
	rounds, requests int
	kinds            []string
	others           map[string]string // commands of servers, by their kinds
	cases            []loadCase
	keep             string // folder for callgrind's files; "": they are removed
}

// Command returns the subcommand.
func Command() *cobra.Command {
	return command.New("instructions", "Count the instructions of a request, in memory and over TCP", flags, run)
}

func flags(flags *pflag.FlagSet) func() (options, error) {
	var o options
	flags.IntVar(&o.rounds, "rounds", 3, "rounds; they show how well a figure repeats")
	flags.IntVar(&o.requests, "requests", 16_384, "requests by which the two runs of a figure differ")
	pattern := flags.String("case", ".", "regular `expression` of the cases, such as ^memory or Post")
	servers := flags.String("servers", peers.Epoll+","+peers.FastHTTP, "servers over TCP")
	programs := flags.StringArray("program", nil, "a further server over TCP, as `NAME=COMMAND`: a program with its arguments, in which {addr} is where it is to listen; it ends by SIGTERM")
	flags.StringVar(&o.keep, "keep", "", "`folder` in which callgrind's files stay, for callgrind_annotate: of the last round, named by case, server and requests")
	return func() (_ options, err error) {
		if o.rounds < 1 || o.requests < 1 {
			return o, fmt.Errorf("--rounds %d --requests %d: want at least one of each", o.rounds, o.requests)
		}
		if o.kinds, err = peers.ParseKinds(*servers, allKinds[:]); err != nil {
			return o, err
		}
		var names []string
		if names, o.others, err = command.ParsePrograms(*programs, allKinds[:]); err != nil {
			return o, err
		}
		o.kinds = append(o.kinds, names...)
		o.cases, err = command.Choose("case", *pattern, allCases(), func(c loadCase) string { return c.name })
		return o, err
	}
}

// A loadCase is what is sent to servers.
type loadCase struct {
	name    string
	bench   string // the benchmark in memory; "": over TCP
	request []byte
	depth   int  // pipelined requests; 0: none
	closes  bool // each request has a connection of its own
	proxied bool // the server is a proxy before another one
	echoed  bool // request is a message of a WebSocket, which the server echoes
	peer    peers.Options
}

// allCases returns the cases: those in memory are the benchmarks'.
func allCases() (cases []loadCase) {
	for _, bench := range []string{"Get1ReqPerConn", "Get10ReqPerConn", "Get10KReqPerConn", "GetBrowser", "Post1KiB", "Pipelined16"} {
		cases = append(cases, loadCase{name: "memory, " + bench, bench: bench})
	}
	const line = peers.Target + " HTTP/1.1\r\n"
	twoFields, browser := []byte("GET "+line+load.TwoFields.Lines("")+"\r\n"), []byte("GET "+line+load.Browser.Lines("")+"\r\n")
	post := slices.Concat([]byte("POST "+line+load.TwoFields.Lines("Content-Length: 1024\r\n")+"\r\n"), make([]byte, 1024))
	return append(cases,
		loadCase{name: "TCP, two fields", request: twoFields},
		loadCase{name: "TCP, two fields, metered", request: twoFields, peer: peers.Options{Metered: true}},
		loadCase{name: "TCP, browser head", request: browser},
		loadCase{name: "TCP, POST 1 KiB", request: post, peer: peers.Options{BodySize: 1024}},
		loadCase{name: "TCP, JSON", request: twoFields, peer: peers.Options{Answer: peers.AnswerJSON}},
		loadCase{name: "TCP, pipeline of 16", request: twoFields, depth: 16},
		loadCase{name: "TCP, connection per request", request: []byte("GET " + line + load.TwoFields.Lines("Connection: close\r\n") + "\r\n"), closes: true},
		loadCase{name: "proxy, two fields", request: twoFields, proxied: true},
		loadCase{name: "proxy, browser head", request: browser, proxied: true},
		loadCase{name: "WebSocket, 32 B", request: message(32), echoed: true},
		loadCase{name: "WebSocket, 1 KiB", request: message(1 << 10), echoed: true},
	)
}

// message returns the frame of a client with a text of size bytes.
func message(size int) []byte {
	return gobwasws.MustCompileFrame(gobwasws.MaskFrame(gobwasws.NewTextFrame(bytes.Repeat([]byte("a"), size))))
}

// maskSize is what the frame of a client has, and that of a server has not.
const maskSize = 4

// kinds returns the servers that the case has.
func (c loadCase) kinds(o options) []string {
	if c.bench != "" {
		return memoryKinds[:]
	}
	if c.proxied || c.echoed {
		return ownKinds[:]
	}
	return slices.DeleteFunc(slices.Clone(o.kinds), func(kind string) bool {
		isOurs := kind == peers.Epoll || kind == peers.PerConn
		return o.others[kind] != "" && c.peer != (peers.Options{}) || c.peer.Metered && !isOurs // handlers of others only answer GET
	})
}

func run(ctx context.Context, o options) (d report.Document, err error) {
	if err := command.Require("valgrind"); err != nil {
		return d, err
	}
	c := counter{options: o}
	if c.folder, err = os.MkdirTemp("", "instructions"); err != nil {
		return d, err
	}
	if c.keep == "" {
		c.keep = c.folder
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.folder)) }()
	if slices.ContainsFunc(o.cases, func(each loadCase) bool { return each.proxied }) {
		var stop func() error
		if c.upstream, stop, err = proxies.StartUpstream(ctx, c.folder); err != nil {
			return d, err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	section := report.Section{
		Title: "Instructions of a request, in user space",
		Head:  []string{"case", "server", "instructions", "lowest", "highest"},
		Notes: []string{fmt.Sprintf("Medians of %d rounds, each the difference of two runs by %d requests. In memory they include the harness, which the floor shows alone.", o.rounds, o.requests)},
	}
	for i, each := range o.cases {
		for _, kind := range each.kinds(o) {
			command.Progress("case %d/%d, %s: %s", i+1, len(o.cases), each.name, kind)
			var values []float64
			for range o.rounds {
				value, err := c.perRequest(ctx, each, kind)
				if err != nil {
					return d, fmt.Errorf("%s: %s: %w", each.name, kind, err)
				}
				values = append(values, value)
			}
			section.Rows = append(section.Rows, []string{
				each.name, kind, fmt.Sprintf("%.0f", report.Median(values)), fmt.Sprintf("%.0f", slices.Min(values)), fmt.Sprintf("%.0f", slices.Max(values)),
			})
		}
	}
	d.Sections = []report.Section{section}
	return d, nil
}

// A counter runs servers under callgrind.
type counter struct {
	options
	folder   string // temporary files
	tests    string // the benchmarks' program; "": not built yet
	upstream string // what proxies forward to
}

// perRequest returns the instructions of one request.
func (c *counter) perRequest(ctx context.Context, each loadCase, kind string) (float64, error) {
	var totals [2]uint64
	for i := range totals {
		n := (i + 1) * c.requests
		out := filepath.Join(c.keep, fmt.Sprintf("callgrind, %s, %s, %d", each.name, kind, n))
		var err error
		if each.bench != "" {
			err = c.runBenchmark(ctx, each.bench+"/"+kind, n, valgrind(out))
		} else {
			err = c.runServer(ctx, each, kind, n, valgrind(out))
		}
		if err != nil {
			return 0, err
		}
		if totals[i], err = totalOf(out); err != nil {
			return 0, err
		}
	}
	return (float64(totals[1]) - float64(totals[0])) / float64(c.requests), nil
}

// valgrind returns a command that counts the instructions of the one that follows it.
func valgrind(out string) []string {
	return []string{"valgrind", "--quiet", "--tool=callgrind", "--callgrind-out-file=" + out}
}

// settings make runs alike: a collection would fall into one of them. callgrind fails at the
// signals that interrupt goroutines.
var settings = []string{"GOGC=off", "GODEBUG=asyncpreemptoff=1"}

// runBenchmark runs a benchmark of n requests.
func (c *counter) runBenchmark(ctx context.Context, name string, n int, under []string) error {
	if c.tests == "" {
		tests := filepath.Join(c.folder, "bench.test")
		if err := ratios.Build(ctx, ratios.Servers, tests); err != nil {
			return err
		}
		c.tests = tests
	}
	o := process.Options{CPU: process.AnyCPU, Procs: 1, Env: settings, Under: under}
	cmd := o.Command(ctx, c.tests, "-test.run", "^$", "-test.bench", "^BenchmarkServer$/^"+strings.ReplaceAll(name, "/", "$/^")+"$",
		"-test.benchtime", strconv.Itoa(n)+"x", "-test.cpu", "1")
	out, err := cmd.Output()
	if err == nil && !strings.Contains(string(out), name) {
		err = errors.New("there is no such benchmark")
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// A server is one that is counted.
type server interface {
	Signal(os.Signal) error
	Stop() error
}

// runServer has a server answer n requests.
func (c *counter) runServer(ctx context.Context, each loadCase, kind string, n int, under []string) (err error) {
	s, addr, err := c.start(ctx, each, kind, under)
	if err != nil {
		return err
	}
	return errors.Join(ask(s, addr, each, n), s.Stop())
}

// start starts a server.
func (c *counter) start(ctx context.Context, each loadCase, kind string, under []string) (s server, addr string, err error) {
	o := process.Options{CPU: process.AnyCPU, Procs: 1, Env: settings, Under: under}
	if each.proxied {
		p, err := proxies.StartOurs(ctx, o, c.upstream)
		if err != nil {
			return nil, "", err
		}
		return p, p.Addr, nil
	}
	if each.echoed {
		w, err := websockets.StartOurs(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return w, w.Addr, nil
	}
	line, isOther := c.others[kind]
	if !isOther {
		s, err := servers.Start(ctx, servers.Options{Options: o, Kind: kind, Peer: each.peer})
		return s, s.Addr, err
	}
	if addr, err = process.FreeAddress(ctx); err != nil {
		return nil, "", err
	}
	words := append([]string{"GOMAXPROCS=1"}, settings...)
	words = slices.Concat(words, under, strings.Fields(strings.ReplaceAll(line, "{addr}", addr)))
	program, err := process.StartServer(ctx, process.AnyCPU, addr, "env", words...)
	return program, addr, err
}

// connections are how many there are over TCP.
const connections = 64

// ask sends n requests, one on each connection, or depth of them, and then reads the answers.
// Meanwhile the server is stopped: so it finds the requests of all connections together, as it
// does under load, and in the same way in each run.
func ask(s server, addr string, each loadCase, n int) error {
	depth := max(each.depth, 1)
	requests := bytes.Repeat(each.request, depth)
	size, err := each.answerSize(addr)
	if err != nil {
		return err
	}
	var conns [connections]net.Conn
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	answers := make([]byte, size*depth)
	if each.echoed {
		for i := range conns {
			if conns[i], _, _, err = gobwasws.Dial(context.Background(), "ws://"+addr); err != nil {
				return err
			}
		}
	}
	for ; n > 0; n -= connections * depth {
		if err := s.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		for i, c := range conns {
			if c == nil || each.closes {
				if c, err = net.Dial("tcp4", addr); err != nil { // the kernel accepts it
					return err
				}
				conns[i] = c
			}
			if _, err := c.Write(requests); err != nil {
				return err
			}
		}
		if err := s.Signal(syscall.SIGCONT); err != nil {
			return err
		}
		for _, c := range conns {
			if _, err := io.ReadFull(c, answers); err != nil {
				return err
			}
			if each.closes {
				_ = c.Close()
			}
		}
	}
	return nil
}

// answerSize returns the bytes of the server's answer.
func (c loadCase) answerSize(addr string) (int, error) {
	if c.echoed {
		return len(c.request) - maskSize, nil
	}
	first, err := load.Load{Addr: addr, Request: c.request}.Ask()
	if err != nil {
		return 0, err
	}
	if first.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("answered with %s", first.Status)
	}
	return first.Size, nil
}

// totalOf reads the sum of what callgrind has counted.
func totalOf(out string) (uint64, error) {
	f, err := os.Open(out)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if sum, ok := strings.CutPrefix(lines.Text(), "totals: "); ok {
			return strconv.ParseUint(sum, 10, 64)
		}
	}
	return 0, errors.Join(lines.Err(), fmt.Errorf("no sum in %s", out))
}
