package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/process"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/valyala/fasthttp"
	fastprefork "github.com/valyala/fasthttp/prefork"
)

const serverRole = "prefork server"

// A variant is a server and the processes that it runs in.
type variant struct {
	name string
	base string // the variant that it is compared with; "": this is one of those

	kind      string // of package peers
	prefork   bool
	reuseport bool // fasthttp: a socket for each process
	shared    bool // sluice: a socket for all processes
	procs     int  // sluice's Prefork.GOMAXPROCS
	oneP      bool // a single process has GOMAXPROCS 1
	optional  bool // runs if it is named only
}

func allVariants() []variant {
	return []variant{
		{name: "epoll", kind: peers.Epoll},
		{name: "epoll, one P", base: "epoll", kind: peers.Epoll, oneP: true},
		{name: "epoll prefork", base: "epoll", kind: peers.Epoll, prefork: true},
		{name: "epoll prefork, one socket", base: "epoll", kind: peers.Epoll, prefork: true, shared: true, optional: true},
		{name: "epoll prefork, two Ps", base: "epoll", kind: peers.Epoll, prefork: true, procs: 2, optional: true},
		{name: "perconn", kind: peers.PerConn},
		{name: "perconn prefork", base: "perconn", kind: peers.PerConn, prefork: true},
		{name: "fasthttp", kind: peers.FastHTTP},
		{name: "fasthttp, one P", base: "fasthttp", kind: peers.FastHTTP, oneP: true},
		{name: "fasthttp prefork", base: "fasthttp", kind: peers.FastHTTP, prefork: true},
		{name: "fasthttp prefork, reuseport", base: "fasthttp", kind: peers.FastHTTP, prefork: true, reuseport: true},
	}
}

func variantNames() (names []string) {
	for _, v := range allVariants() {
		names = append(names, v.name)
	}
	return names
}

// serverConfig is what a server's processes get.
type serverConfig struct {
	Variant string
	Addr    string
	Workers int
}

// A server is a variant's processes.
type server struct {
	*process.Child
	addr string
	pids []int // the master's, if there is one, and those that serve
}

// startServer returns when the server's processes serve.
func startServer(ctx context.Context, v variant, workers int) (*server, error) {
	addr, err := process.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	config := serverConfig{Variant: v.name, Addr: addr, Workers: workers}
	procs := workers
	if v.oneP {
		procs = 1
	}
	child, err := process.Start(ctx, process.Options{CPU: process.AnyCPU, Procs: procs}, serverRole, config)
	if err != nil {
		return nil, err
	}
	s := &server{Child: child, addr: addr}
	if err := s.Result(&s.pids); err != nil {
		return nil, err
	}
	want := 1
	if v.prefork {
		want += workers
	}
	if len(s.pids) != want {
		return nil, errors.Join(fmt.Errorf("processes %v: want %d", s.pids, want), s.Stop())
	}
	if err := awaitServer(addr); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// awaitServer waits until a server can be connected to.
func awaitServer(addr string) error {
	const patience, pause = 10 * time.Second, 10 * time.Millisecond
	for begin := time.Now(); ; time.Sleep(pause) {
		c, err := net.Dial("tcp4", addr)
		if err == nil {
			return c.Close()
		}
		if time.Since(begin) > patience {
			return err
		}
	}
}

// usages returns what each process has used.
func (s *server) usages() ([]usage, error) {
	all := make([]usage, len(s.pids))
	for i, pid := range s.pids {
		var err error
		if all[i], err = usageOf(pid); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// serve is the role of a server's processes. The first one tells the others'
// numbers, and ends them with itself when its standard input ends.
func serve(text []byte) error {
	var config serverConfig
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	for _, v := range allVariants() {
		if v.name != config.Variant {
			continue
		}
		if prefork.IsChild() {
			return v.listenAndServe(config, nil)
		}
		f := &family{want: 1, pids: []int{os.Getpid()}}
		if v.prefork {
			f.want += config.Workers
		}
		go f.obey()
		f.tell()
		return v.listenAndServe(config, f.add)
	}
	return fmt.Errorf("no server %q", config.Variant)
}

// A family is a server's processes, as the first one sees them.
type family struct {
	mu   sync.Mutex
	want int
	pids []int
}

func (f *family) add(pid int) error {
	f.mu.Lock()
	f.pids = append(f.pids, pid)
	f.mu.Unlock()
	f.tell()
	return nil
}

// tell says the numbers when they are complete.
func (f *family) tell() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.pids) == f.want {
		text, _ := json.Marshal(f.pids) // numbers: cannot fail
		fmt.Println(string(text))
	}
}

// obey ends all processes when standard input ends.
func (f *family) obey() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
	}
	f.mu.Lock()
	for _, pid := range f.pids[1:] {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
	os.Exit(0)
}

// listenAndServe is what a process of the variant does. spawned is called in
// the master, for each process.
func (v variant) listenAndServe(config serverConfig, spawned func(pid int) error) error {
	if v.kind == peers.FastHTTP {
		return v.fastHTTP(config, spawned)
	}
	engine, err := sluice.ParseEngine(v.kind)
	if err != nil {
		return err
	}
	s := &sluice.Server{
		Handler: func(ctx *sluice.RequestCtx) {
			ctx.SetContentType(peers.ContentType)
			ctx.WriteString(peers.Body)
		},
		Logger: log.New(io.Discard, "", 0),
		Engine: engine,
	}
	if !v.prefork {
		ln, err := listen(config.Addr)
		if err != nil {
			return err
		}
		if info := s.EngineInfo(ln); info.Engine != engine {
			return fmt.Errorf("engine %v was asked for, and %v would serve", engine, info)
		}
		return s.Serve(ln)
	}
	p := prefork.New(s)
	p.Workers, p.SharedSockets, p.GOMAXPROCS = config.Workers, v.shared, v.procs
	p.OnChildSpawn = spawned
	return p.ListenAndServe(config.Addr)
}

// listen returns a socket of plain TCP, as both packages' workers have: net's
// own speaks multipath TCP, whose connections cost more to accept.
func listen(addr string) (net.Listener, error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	return config.Listen(context.Background(), "tcp4", addr)
}

func (v variant) fastHTTP(config serverConfig, spawned func(pid int) error) error {
	s := &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) {
			ctx.SetContentType(peers.ContentType)
			ctx.WriteString(peers.Body)
		},
		Logger: log.New(io.Discard, "", 0),
	}
	if !v.prefork {
		ln, err := listen(config.Addr)
		if err != nil {
			return err
		}
		return s.Serve(ln)
	}
	if prefork.IsChild() {
		// Sluice's package takes the variable out of the environment when the
		// program is loaded; fasthttp's looks for it later.
		if err := os.Setenv("FASTHTTP_PREFORK_CHILD", "1"); err != nil {
			return err
		}
	} else if runtime.GOMAXPROCS(0) != config.Workers { // that is how many it starts
		return fmt.Errorf("GOMAXPROCS %d: want %d", runtime.GOMAXPROCS(0), config.Workers)
	}
	p := fastprefork.New(s)
	p.Reuseport = v.reuseport
	p.OnMasterDeath = func() { os.Exit(0) }
	p.OnChildSpawn = spawned
	return p.ListenAndServe(config.Addr)
}
