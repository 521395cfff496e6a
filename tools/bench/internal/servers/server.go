// Package servers starts the servers that are compared, in processes of their own.
package servers

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

const (
	serveRole  = "serve"
	listenRole = "listen"
)

const (
	probeCommand   = "probe" // and a Probe
	collectCommand = "collect"
)

// serverConfig is what a server's process gets.
type serverConfig struct {
	Kind    string
	Options peers.Options
}

// newServer is the service of a server's process.
func newServer(text []byte) (s process.Service, err error) {
	var config serverConfig
	if err := json.Unmarshal(text, &config); err != nil {
		return s, err
	}
	server, err := peers.New(config.Kind, config.Options)
	if err != nil {
		return s, err
	}
	return process.Service{Serve: server.Serve, Answers: map[string]func(argument string) (any, error){
		probeCommand: func(argument string) (any, error) {
			var p Probe
			if err := json.Unmarshal([]byte(argument), &p); err != nil {
				return nil, err
			}
			return p.run()
		},
		collectCommand: func(string) (any, error) {
			debug.FreeOSMemory()
			return nil, nil
		},
	}}, nil
}

// Roles has what processes do that measure servers of peers.
func Roles() map[string]process.Role {
	all := load.Roles()
	all[serveRole] = process.ServiceRole(newServer)
	all[listenRole] = listen
	return all
}

// listenConfig is what the process of a server gets that takes no listener.
type listenConfig struct {
	serverConfig
	Addr  string
	Procs int // GOMAXPROCS
}

func listen(text []byte) error {
	var config listenConfig
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	runtime.GOMAXPROCS(config.Procs)
	return peers.ListenAndServe(config.Kind, config.Addr, config.Options)
}

// StartProgram starts a server of a kind of peers that OwnsListener, and returns when a client
// can connect. peers.ErrCannot: it has no such case.
func StartProgram(ctx context.Context, service process.Options, kind string, o peers.Options) (program *process.Program, addr string, err error) {
	if err := peers.CheckOwn(o); err != nil {
		return nil, "", err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	if addr, err = process.FreeAddress(ctx); err != nil {
		return nil, "", err
	}
	text, err := json.Marshal(listenConfig{serverConfig{Kind: kind, Options: o}, addr, service.Procs})
	if err != nil {
		return nil, "", err
	}
	program, err = process.StartServer(ctx, service.CPU, addr, self, listenRole, string(text))
	return program, addr, err
}

// A Server is a server of peers in a process of its own.
type Server struct{ *process.Server }

// Options say what server is started and how.
type Options struct {
	process.Options
	Kind string // of package peers
	Peer peers.Options
}

// Start starts a server of peers on a free port.
func Start(ctx context.Context, o Options) (*Server, error) {
	s, err := process.StartService(ctx, o.Options, serveRole, serverConfig{Kind: o.Kind, Options: o.Peer})
	return &Server{s}, err
}

// StopAll stops servers.
func StopAll(servers []*Server) error {
	var errs []error
	for _, s := range servers {
		errs = append(errs, s.Stop())
	}
	return errors.Join(errs...)
}

// Probe measures in the server's process how long others wait for its CPU.
func (s *Server) Probe(p Probe) (*ProbeResult, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	result := new(ProbeResult)
	return result, s.Ask(probeCommand+" "+string(text), result)
}

// Collect has the server's process return the memory that it does not use to the system.
func (s *Server) Collect() error { return s.Ask(collectCommand, new(any)) }
