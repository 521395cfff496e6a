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
	"sync"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
	fastprefork "github.com/valyala/fasthttp/prefork"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/process"
	"github.com/sluicehttp/sluice/prefork"
)

const serverRole = "seeds server"

// preforkKinds are the servers of the prefork part; ours are the first two.
var preforkKinds = [...]string{peers.Epoll, peers.PerConn, peers.FastHTTP}

// serverConfig is what a server's processes get.
type serverConfig struct {
	Kind    string
	Prefork bool
	Sleep   time.Duration
	Workers int // processes, or CPUs of one
	Addr    string
}

// startServer returns when the server answers connections, with all processes.
func startServer(ctx context.Context, config serverConfig) (*server, error) {
	var err error
	if config.Addr, err = process.FreeAddress(ctx); err != nil {
		return nil, err
	}
	child, err := process.Start(ctx, process.Options{CPU: process.AnyCPU, Procs: config.Workers}, serverRole, config)
	if err != nil {
		return nil, err
	}
	s := &server{child, config.Addr}
	if _, err := s.Line(); err != nil {
		return nil, err
	}
	const patience, pause = 10 * time.Second, 10 * time.Millisecond
	for begin := time.Now(); ; time.Sleep(pause) {
		c, err := net.Dial("tcp4", s.addr)
		if err == nil {
			return s, c.Close()
		}
		if time.Since(begin) > patience {
			return nil, errors.Join(err, s.Stop())
		}
	}
}

// serve is the role of a server's processes.
func serve(text []byte) error {
	var config serverConfig
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	if !config.Prefork {
		return config.single()
	}
	if prefork.IsChild() {
		return config.listenAndServe(nil)
	}
	f := &family{want: config.Workers}
	go f.obey()
	return config.listenAndServe(f.add)
}

// single serves with this process alone.
func (config serverConfig) single() error {
	s, err := peers.New(config.Kind, peers.Options{Handler: peers.Handler{Sleep: config.Sleep}})
	if err != nil {
		return err
	}
	var listening net.ListenConfig
	listening.SetMultipathTCP(false) // as the sockets of prefork's workers
	ln, err := listening.Listen(context.Background(), "tcp4", config.Addr)
	if err != nil {
		return err
	}
	go new(family).obey()
	fmt.Println("listening")
	return s.Serve(ln)
}

// A family is the worker processes, as the master sees them.
type family struct {
	mu   sync.Mutex
	want int
	pids []int
}

// add notes a worker, and says so when all are there.
func (f *family) add(pid int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pids = append(f.pids, pid)
	if len(f.pids) == f.want {
		fmt.Println("started")
	}
	return nil
}

// obey ends all processes when standard input ends, as it does when the parent
// dies.
func (f *family) obey() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
	}
	f.mu.Lock()
	for _, pid := range f.pids {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
	os.Exit(0)
}

// listenAndServe is what a process of a prefork server does. spawned is called
// in the master, for each worker.
func (config serverConfig) listenAndServe(spawned func(pid int) error) error {
	quiet := log.New(io.Discard, "", 0)
	if config.Kind == peers.FastHTTP {
		if prefork.IsChild() {
			// Sluice's package takes the variable out of the environment when the
			// program is loaded; fasthttp's looks for it later.
			if err := os.Setenv("FASTHTTP_PREFORK_CHILD", "1"); err != nil {
				return err
			}
		}
		p := fastprefork.New(&fasthttp.Server{Logger: quiet, Handler: func(ctx *fasthttp.RequestCtx) {
			time.Sleep(config.Sleep)
			ctx.SetContentType(peers.ContentType)
			ctx.WriteString(peers.Body)
		}})
		p.OnMasterDeath = func() { os.Exit(0) }
		p.OnChildSpawn = spawned
		return p.ListenAndServe(config.Addr)
	}
	engine, err := sluice.ParseEngine(config.Kind)
	if err != nil {
		return err
	}
	p := prefork.New(&sluice.Server{Logger: quiet, Engine: engine, Handler: func(ctx *sluice.RequestCtx) {
		time.Sleep(config.Sleep)
		ctx.SetContentType(peers.ContentType)
		ctx.WriteString(peers.Body)
	}})
	p.Workers, p.OnChildSpawn = config.Workers, spawned
	return p.ListenAndServe(config.Addr)
}
