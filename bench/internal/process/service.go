package process

import (
	"context"
	"errors"
	"net"
	"os"
	"time"
)

// A Service is what a command's own server does in its process.
type Service struct {
	// Serve serves a listener until that fails.
	Serve func(ln net.Listener) error
	// Answers has the commands that this server obeys besides those of every
	// server, by name. It may be nil.
	Answers map[string]func() (any, error)
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
	if answer := s.Answers[command]; answer != nil {
		return answer()
	}
	return carryOut(command)
}

// StartService starts this program in a role made by ServiceRole, with a
// listener on a free port.
func StartService(ctx context.Context, o Options, role string, config any) (*Server, error) {
	listeners, err := listen(ctx, 1)
	if err != nil {
		return nil, err
	}
	ln := listeners[0]
	defer ln.Close()
	f, err := ln.(*net.TCPListener).File()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	o.files = []*os.File{f}
	addr := ln.Addr().String()
	child, err := Start(ctx, o, role, config)
	return &Server{Child: child, Addr: addr, Addrs: []string{addr}}, err
}

// Ask sends a command of Service.Answers and reads what it returned.
func (s *Server) Ask(command string, answer any) error { return s.ask(command, answer) }

// FreeAddress returns an address on which a program can listen that takes no
// listener: nobody listens there, and no client gets its port.
func FreeAddress(ctx context.Context) (string, error) {
	listeners, err := listen(ctx, 1)
	if err != nil {
		return "", err
	}
	return listeners[0].Addr().String(), listeners[0].Close()
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
