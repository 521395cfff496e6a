package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/probe"
)

const serveRole = "serve"

// Commands on a server's standard input. Each is answered by a line of JSON.
const (
	settleCommand = "settle" // give memory back
	countCommand  = "count"  // goroutines
	probeCommand  = "probe " // and a probe.Config
)

// serverConfig is what a server's process gets.
type serverConfig struct {
	Kind      string
	Options   peers.Options
	Listeners int // descriptors 3 and up
}

// serve is the server's process: it serves the listeners that it inherited
// until its standard input ends, as it does when the parent dies.
func serve(text []byte) error {
	var config serverConfig
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	server, err := peers.New(config.Kind, config.Options)
	if err != nil {
		return err
	}
	failed := make(chan error, config.Listeners+1)
	for i := range config.Listeners {
		f := os.NewFile(uintptr(3+i), "listener")
		ln, err := net.FileListener(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		go func() { failed <- server.Serve(ln) }()
	}
	go func() { failed <- obey(carryOut) }()
	return <-failed
}

// obey lets carryOut carry out the commands on standard input and answers each.
func obey(carryOut func(command string) (answer any, err error)) error {
	commands := bufio.NewScanner(os.Stdin)
	commands.Buffer(nil, longestLine)
	for commands.Scan() {
		answer, err := carryOut(commands.Text())
		if err != nil {
			return err
		}
		text, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		fmt.Println(string(text))
	}
	return commands.Err()
}

// carryOut carries out a command that every server obeys.
func carryOut(command string) (answer any, err error) {
	switch {
	case command == settleCommand:
		runtime.GC() // pools keep what they hold for one more collection
		debug.FreeOSMemory()
		return true, nil
	case command == countCommand:
		return runtime.NumGoroutine(), nil
	case strings.HasPrefix(command, probeCommand):
		var config probe.Config
		if err := json.Unmarshal([]byte(command[len(probeCommand):]), &config); err != nil {
			return nil, err
		}
		return probe.Run(config)
	}
	return nil, fmt.Errorf("unknown command %q", command)
}

// ServerOptions say what server is started and how.
type ServerOptions struct {
	Options
	Kind      string // of package peers
	Peer      peers.Options
	Addresses int // the server listens on so many of 127.0.0.1, 127.0.0.2 …; 0: one
}

// A Server is a server of peers in a process of its own.
type Server struct {
	*Child
	Addr  string   // 127.0.0.1 and a port
	Addrs []string // all addresses, with the same port
}

// StartServer starts a server on a free port.
func StartServer(ctx context.Context, o ServerOptions) (*Server, error) {
	listeners, err := listen(ctx, max(o.Addresses, 1))
	if err != nil {
		return nil, err
	}
	server := &Server{Addr: listeners[0].Addr().String()}
	for _, ln := range listeners {
		defer ln.Close()
		server.Addrs = append(server.Addrs, ln.Addr().String())
		f, err := ln.(*net.TCPListener).File()
		if err != nil {
			return nil, err
		}
		defer f.Close()
		o.files = append(o.files, f)
	}
	config := serverConfig{Kind: o.Kind, Options: o.Peer, Listeners: len(listeners)}
	server.Child, err = Start(ctx, o.Options, serveRole, config)
	return server, err
}

// StopServers stops servers.
func StopServers(servers []*Server) error {
	var errs []error
	for _, s := range servers {
		errs = append(errs, s.Stop())
	}
	return errors.Join(errs...)
}

// Settle makes the server collect its garbage and return free memory.
func (s *Server) Settle() error {
	var done bool
	return s.ask(settleCommand, &done)
}

// Goroutines returns how many goroutines the server has.
func (s *Server) Goroutines() (n int, err error) {
	return n, s.ask(countCommand, &n)
}

// Probe measures in the server's process how long others wait for its CPU.
func (s *Server) Probe(config probe.Config) (*probe.Result, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	result := new(probe.Result)
	return result, s.ask(probeCommand+string(text), result)
}

func (s *Server) ask(command string, answer any) error {
	if err := s.Tell(command); err != nil {
		return err
	}
	return s.Result(answer)
}

// listen listens on the first loopback addresses at one port below the range
// that the system gives to clients: within it, the port may be taken by a
// connection that is closing.
func listen(ctx context.Context, addresses int) (listeners []net.Listener, err error) {
	const lowest = 12_000
	first, err := firstClientPort()
	if err != nil {
		return nil, err
	}
	if first <= lowest {
		return nil, fmt.Errorf("the range of client ports begins at %d, which leaves none above %d for servers: raise net.ipv4.ip_local_port_range", first, lowest)
	}
	for range 100 {
		port := lowest + rand.IntN(first-lowest)
		if listeners, err = listenAt(ctx, port, addresses); err == nil {
			return listeners, nil
		}
	}
	return nil, err
}

func listenAt(ctx context.Context, port, addresses int) (listeners []net.Listener, err error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	for i := range addresses {
		ln, err := config.Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.%d:%d", 1+i, port))
		if err != nil {
			for _, ln := range listeners {
				ln.Close()
			}
			return nil, err
		}
		listeners = append(listeners, ln)
	}
	return listeners, nil
}

func firstClientPort() (int, error) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), "\t")
	return strconv.Atoi(first)
}
