package prefork

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"

	"github.com/valyala/fasthttp"
	fastprefork "github.com/valyala/fasthttp/prefork"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

const role = "workers"

// Roles has what the subcommand's processes do, and those of Start.
func Roles() map[string]process.Role {
	all := load.Roles()
	all[role] = serve
	return all
}

// config is what a server's processes get.
type config struct {
	Options
	Addr string
}

// serve is the role of a server's processes. The first one tells the others'
// numbers, and ends them with itself when its standard input ends.
func serve(text []byte) error {
	var c config
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	if prefork.IsChild() {
		return c.listenAndServe(nil)
	}
	f := &family{want: c.processes(), pids: []int{os.Getpid()}}
	go f.obey()
	f.tell()
	return c.listenAndServe(f.add)
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

// obey ends all processes when standard input ends, as it does when the parent
// dies.
func (f *family) obey() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
	}
	f.mu.Lock()
	for _, pid := range f.pids[1:] {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
	os.Exit(0)
}

// listenAndServe is what each of the processes does. spawned is called in the
// master, for each worker.
func (c config) listenAndServe(spawned func(pid int) error) error {
	if c.Kind == peers.FastHTTP {
		return c.fastHTTP(spawned)
	}
	engine, err := sluice.ParseEngine(c.Kind)
	if err != nil {
		return err
	}
	handler, err := peers.SluiceHandler(peers.Options{Handler: peers.Handler{Sleep: c.Sleep}})
	if err != nil {
		return err
	}
	s := &sluice.Server{Handler: handler, Logger: log.New(io.Discard, "", 0), Engine: engine}
	if !c.Prefork {
		ln, err := listen(c.Addr)
		if err != nil {
			return err
		}
		if info := s.EngineInfo(ln); info.Engine != engine {
			return fmt.Errorf("engine %v was asked for, and %v would serve", engine, info)
		}
		return s.Serve(ln)
	}
	p := prefork.New(s)
	p.Workers, p.SharedSockets, p.GOMAXPROCS = c.Workers, c.Shared, c.Procs
	p.OnChildSpawn = spawned
	return p.ListenAndServe(c.Addr)
}

// listen returns a socket of plain TCP, as both packages' workers have: net's
// own speaks multipath TCP, whose connections cost more to accept.
func listen(addr string) (net.Listener, error) {
	var listening net.ListenConfig
	listening.SetMultipathTCP(false)
	return listening.Listen(context.Background(), "tcp4", addr)
}

func (c config) fastHTTP(spawned func(pid int) error) error {
	handler, err := peers.FastHTTPHandler(peers.Options{Handler: peers.Handler{Sleep: c.Sleep}})
	if err != nil {
		return err
	}
	s := &fasthttp.Server{Handler: handler, Logger: log.New(io.Discard, "", 0)}
	if !c.Prefork {
		ln, err := listen(c.Addr)
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
	} else if runtime.GOMAXPROCS(0) != c.Workers { // that is how many it starts
		return fmt.Errorf("GOMAXPROCS %d: want %d", runtime.GOMAXPROCS(0), c.Workers)
	}
	p := fastprefork.New(s)
	p.Reuseport = c.Reuseport
	p.OnMasterDeath = func() { os.Exit(0) }
	p.OnChildSpawn = spawned
	return p.ListenAndServe(c.Addr)
}
