package prefork

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/process"
)

// Options say what server is started and how. It may have several processes, with the prefork
// package of its library.
type Options struct {
	Kind  string        // peers.Epoll, peers.PerConn or peers.FastHTTP
	Sleep time.Duration // of the handler

	Workers int  // with Prefork, its worker processes
	Prefork bool // otherwise there is one process, with Workers as GOMAXPROCS
	// Of prefork servers only:
	Reuseport bool // fasthttp: a socket for each process
	Shared    bool // sluice: a socket for all processes
	Procs     int  // sluice: GOMAXPROCS of a worker; 0: as the package chooses
}

// A Server is a server's processes.
type Server struct {
	*process.Child
	Addr string
	PIDs []int // with Prefork the master's, and those that serve
}

// Start returns when all of the server's processes are there and one answers
// connections. The program's roles must have those of Roles.
func Start(ctx context.Context, o Options) (*Server, error) {
	addr, err := process.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	child, err := process.Start(ctx, process.Options{CPU: process.AnyCPU, Procs: o.Workers}, role, config{o, addr})
	if err != nil {
		return nil, err
	}
	s := &Server{Child: child, Addr: addr}
	if err := s.Result(&s.PIDs); err != nil {
		return nil, err
	}
	if len(s.PIDs) != o.processes() {
		return nil, errors.Join(fmt.Errorf("processes %v: want %d", s.PIDs, o.processes()), s.Stop())
	}
	if err := process.AwaitServer(ctx, addr); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// processes is how many the server has.
func (o Options) processes() int {
	if o.Prefork {
		return 1 + o.Workers
	}
	return 1
}
