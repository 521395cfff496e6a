//go:build unix

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
	"time"
)

// A Service is what a command's own server does in its process.
type Service struct {
	// Serve serves a listener until that fails.
	Serve func(ln net.Listener) error
	// Answers has the commands that this server obeys besides those of every
	// server, by name; they get what follows the name. It may be nil.
	Answers map[string]func(argument string) (any, error)
}

// ServiceRole makes a role of what makes a service of its configuration: it
// serves until its standard input ends, as that does when the parent dies.
func ServiceRole(begin func(config []byte) (Service, error)) Role {
	return func(config []byte) error {
		service, err := begin(config)
		if err != nil {
			return err
		}
		f := os.NewFile(3, "listener")
		ln, err := net.FileListener(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		failed := make(chan error, 2)
		go func() { failed <- service.Serve(ln) }()
		go func() { failed <- obey(service.carryOut) }()
		return <-failed
	}
}

// carryOut carries out a command, with Answers before those of every server.
func (s Service) carryOut(command string) (any, error) {
	name, argument, _ := strings.Cut(command, " ")
	if answer := s.Answers[name]; answer != nil {
		return answer(argument)
	}
	return carryOut(command)
}

// StartService starts this program in a role made by ServiceRole, with a
// listener on a free port.
func StartService(ctx context.Context, o Options, role string, config any) (*Server, error) {
	ln, err := listen(ctx, o.Multipath)
	if err != nil {
		return nil, err
	}
	defer ln.Close()
	f, err := ln.(*net.TCPListener).File()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	o.files = []*os.File{f}
	child, err := Start(ctx, o, role, config)
	return &Server{Child: child, Addr: ln.Addr().String()}, err
}

// Ask sends a command of Service.Answers and reads what it returned.
func (s *Server) Ask(command string, answer any) error {
	if err := s.Tell(command); err != nil {
		return err
	}
	return s.Result(answer)
}

// FreeAddress returns an address on which a program can listen that takes no
// listener: nobody listens there, and no client gets its port.
func FreeAddress(ctx context.Context) (string, error) {
	ln, err := listen(ctx, false)
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// AwaitServer waits until a server that takes no listener can be connected to.
func AwaitServer(ctx context.Context, addr string) error {
	const patience, pause = 20 * time.Second, 10 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		var dialer net.Dialer
		c, err := dialer.DialContext(ctx, "tcp4", addr)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// Commands on a server's standard input. Each is answered by a line of JSON.
const (
	settleCommand = "settle" // give memory back
	countCommand  = "count"  // goroutines
)

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
	switch command {
	case settleCommand:
		runtime.GC() // pools keep what they hold for one more collection
		debug.FreeOSMemory()
		return true, nil
	case countCommand:
		return runtime.NumGoroutine(), nil
	}
	return nil, fmt.Errorf("unknown command %q", command)
}

// A Server is a server in a process of its own.
type Server struct {
	*Child
	Addr string // 127.0.0.1 and a port
}

// Settle makes the server collect its garbage and return free memory.
func (s *Server) Settle() error {
	var done bool
	return s.Ask(settleCommand, &done)
}

// Goroutines returns how many goroutines the server has.
func (s *Server) Goroutines() (n int, err error) {
	return n, s.Ask(countCommand, &n)
}

// listen listens at a port below the range that the system gives to clients: within
// it, the port may be taken by a connection that is closing.
func listen(ctx context.Context, multipath bool) (ln net.Listener, err error) {
	const lowest = 12_000
	first, err := firstClientPort()
	if err != nil {
		return nil, err
	}
	if first <= lowest {
		return nil, fmt.Errorf("the range of client ports begins at %d, which leaves none above %d for servers: raise net.ipv4.ip_local_port_range", first, lowest)
	}
	var config net.ListenConfig
	config.SetMultipathTCP(multipath)
	for range 100 {
		port := lowest + rand.IntN(first-lowest)
		if ln, err = config.Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return ln, nil
		}
	}
	return nil, err
}

func firstClientPort() (int, error) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), "\t")
	return strconv.Atoi(first)
}
