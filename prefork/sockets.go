package prefork

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/sluicehttp/sluice/internal/engine/listen"
	"github.com/sluicehttp/sluice/internal/process/systemd"
)

const (
	unixPrefix = "unix:"
	// maxUnixPath is the longest path of a unix socket that no system refuses.
	maxUnixPath = 103
	// portAttempts is how many ports the system may choose until one is free for UDP, too.
	portAttempts = 16
)

// An endpoint is an address to listen on.
type endpoint struct {
	network, address string
}

// sockets opens the workers' listening sockets. The supervisor calls open on its
// own goroutines.
type sockets struct {
	endpoints []endpoint
	perSlot   bool // TCP: a socket for each slot
	backlog   int
	mode      fs.FileMode
	affinity  func(slot int) []int // nil: the sockets of no slot prefer a CPU
	// isFree returns an error if UDP cannot have the port that the system has chosen for the first
	// endpoint. nil: UDP needs no port.
	isFree func(net.Addr) error

	service *systemd.Service
	log     Logger
	given   map[int][]systemd.Socket // by endpoint: what systemd has passed
	workers int                      // of the first start, for which given is

	mu     sync.Mutex
	addrs  []net.Addr          // known since the first open
	unix   []*os.File          // by endpoint; nil: TCP
	kept   []net.Listener      // by endpoint: opened by probe, for the first slot; nil: none
	files  []listen.SocketFile // of unix sockets, removed by close
	isOver bool                // the fleet stops: open no more unix sockets
}

// newSockets returns the sockets for p's addresses and addr.
func (p *Prefork) newSockets(addr string) (*sockets, error) {
	s := &sockets{perSlot: hasSlotSockets && !p.SharedSockets, backlog: p.Backlog, mode: p.UnixMode}
	if p.IncomingCPU && s.perSlot {
		s.affinity = p.Affinity
	}
	if slices.Contains(p.PacketListen, "") {
		s.isFree = p.packetsFree
	}
	hasTCP := false
	for _, a := range append([]string{addr}, p.Listen...) {
		e := endpoint{p.network(), a}
		if path, isUnix := strings.CutPrefix(a, unixPrefix); isUnix {
			e = endpoint{"unix", path}
		} else if e.network != "tcp" && e.network != "tcp4" && e.network != "tcp6" {
			return nil, net.UnknownNetworkError(e.network)
		} else {
			hasTCP = true
		}
		s.endpoints = append(s.endpoints, e)
	}
	s.perSlot = s.perSlot && hasTCP
	s.given = make(map[int][]systemd.Socket)
	s.unix = make([]*os.File, len(s.endpoints))
	s.kept = make([]net.Listener, len(s.endpoints))
	return s, nil
}

// probe returns an error if another process listens on one of the addresses.
// Without it, sockets with SO_REUSEPORT would silently share the port with another
// fleet of the same user. Where the system chooses a free port, it keeps the socket, and so the port.
func (s *sockets) probe() error {
	for i, e := range s.endpoints {
		if e.network == "unix" || s.isGiven(i) {
			continue
		}
		_, port, _ := net.SplitHostPort(e.address)
		if port == "" || port == "0" {
			if err := s.choosePort(i); err != nil {
				return err
			}
			continue
		}
		if !s.perSlot {
			continue // without SO_REUSEPORT, listening fails
		}
		ln, err := listen.Listen(context.Background(), e.network, e.address, listen.Options{})
		if err != nil {
			return err
		}
		s.endpoints[i].address = ln.Addr().String() // with the resolved host
		if err := ln.Close(); err != nil {
			return err
		}
	}
	return nil
}

// choosePort listens on endpoint i, whose port the system chooses.
func (s *sockets) choosePort(i int) error {
	for attempt := 1; ; attempt++ {
		ln, err := listen.Listen(context.Background(), s.endpoints[i].network, s.endpoints[i].address, s.options())
		if err != nil {
			return err
		}
		if i == 0 && s.isFree != nil {
			err = s.isFree(ln.Addr())
		}
		if err == nil {
			s.endpoints[i].address, s.kept[i] = ln.Addr().String(), ln
			return nil
		}
		defer ln.Close() // so that the next port is another one
		if attempt == portAttempts || !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
}

// options returns the options of TCP sockets.
func (s *sockets) options() listen.Options {
	return listen.Options{ReusePort: s.perSlot, Backlog: s.backlog}
}

// open returns the sockets of a slot. The caller owns them.
func (s *sockets) open(slot int) (files []*os.File, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	isFirst := len(s.addrs) == 0
	var addrs []net.Addr
	defer func() {
		switch {
		case err != nil:
			for _, f := range files {
				f.Close()
			}
			files = nil
		case isFirst:
			s.addrs = addrs
		}
	}()
	for i, e := range s.endpoints {
		given, err := s.openGiven(i, slot)
		if err != nil {
			return files, err
		}
		if len(given) > 0 {
			files, addrs = append(files, given...), append(addrs, s.givenAddrs(i)...)
			continue
		}
		f, addr, err := s.openOne(i, e, slot)
		if err != nil {
			return files, err
		}
		files, addrs = append(files, f), append(addrs, addr)
	}
	return files, nil
}

// openOne returns a slot's socket of endpoint i.
func (s *sockets) openOne(i int, e endpoint, slot int) (*os.File, net.Addr, error) {
	if e.network == "unix" {
		return s.openUnix(i, e)
	}
	ln := s.kept[i]
	if s.kept[i] = nil; ln == nil {
		var err error
		if ln, err = listen.Listen(context.Background(), e.network, e.address, s.options()); err != nil {
			return nil, nil, err
		}
	}
	defer ln.Close() // the file is a duplicate
	if err := s.prefer(ln.(*net.TCPListener), slot); err != nil {
		return nil, nil, err
	}
	f, err := listen.File(ln)
	if err == nil {
		s.store(f)
	}
	return f, ln.Addr(), err
}

// prefer has a slot's socket get the connections of the CPU to which its worker is
// pinned. On loopback it would be the client's CPU.
func (s *sockets) prefer(ln *net.TCPListener, slot int) error {
	if s.affinity == nil || ln.Addr().(*net.TCPAddr).IP.IsLoopback() {
		return nil
	}
	if cpus := s.affinity(slot); len(cpus) == 1 {
		return listen.SetIncomingCPU(ln, cpus[0])
	}
	return nil
}

// openUnix returns a duplicate of the unix socket, which all slots share.
func (s *sockets) openUnix(i int, e endpoint) (*os.File, net.Addr, error) {
	addr := &net.UnixAddr{Net: "unix", Name: e.address}
	if s.isOver {
		return nil, nil, net.ErrClosed
	}
	if s.unix[i] == nil {
		if err := s.makeUnix(i, addr); err != nil {
			return nil, nil, err
		}
	}
	f, err := duplicate(s.unix[i])
	return f, addr, err
}

// makeUnix opens a unix socket. It replaces a socket that an earlier process has
// left behind. Any other file at the path is an error.
func (s *sockets) makeUnix(i int, addr *net.UnixAddr) error {
	ln, err := listenUnix(addr.Name, s.mode)
	if err != nil {
		return err
	}
	s.files = append(s.files, listen.OwnFile(ln, addr.Name))
	defer ln.Close()
	if s.mode != 0 {
		if err := os.Chmod(addr.Name, s.mode); err != nil { // restores bits that the umask removed
			return fmt.Errorf("sluice: cannot set the mode of the socket: %w", err)
		}
	}
	s.unix[i], err = ln.File()
	return err
}

// listenUnix listens on a path. On Linux, the socket has mode, minus the umask, from
// the bind on, so a process that mode excludes can never connect. With mode 0, only
// the umask decides.
func listenUnix(path string, mode fs.FileMode) (*net.UnixListener, error) {
	if path == "" { // the system would choose a name
		return nil, errors.New("sluice: the path of the unix socket is missing")
	}
	defer lockFolder(path)() // another process may find the same stale socket
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&fs.ModeSocket == 0 {
			return nil, fmt.Errorf("sluice: %q exists and is not a socket", path)
		}
		if err := removeStale(path); err != nil {
			return nil, err
		}
	}
	c := net.ListenConfig{}
	if mode != 0 {
		c.Control = setMode(mode)
	}
	ln, err := c.Listen(context.Background(), "unix", path)
	if errors.Is(err, syscall.EINVAL) && len(path) > maxUnixPath {
		err = fmt.Errorf("%w: the path has %d bytes, and all systems take %d", err, len(path), maxUnixPath)
	}
	if err != nil {
		return nil, err
	}
	return ln.(*net.UnixListener), nil
}

// removeStale removes a unix socket on which no process listens.
func removeStale(path string) error {
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
	}
	if err == nil || errors.Is(err, syscall.EAGAIN) { // its queue is full
		return &net.OpError{Op: "listen", Net: "unix", Addr: &net.UnixAddr{Net: "unix", Name: path}, Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("sluice: %q exists, and whether a process listens on it cannot be told: %w", path, err)
	}
	return os.Remove(path)
}

// duplicate returns a second File for f's socket.
func duplicate(f *os.File) (*os.File, error) {
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	defer ln.Close()
	return listen.File(ln)
}

// addresses returns the sockets' addresses; nil before the first open.
func (s *sockets) addresses() []net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addrs
}

// letGo closes the master's copies of the sockets. Otherwise clients could still
// connect after the workers have stopped accepting, and would get no answer.
func (s *sockets) letGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isOver = true
	s.closeGiven()
	for i, ln := range s.kept {
		if ln != nil {
			ln.Close()
		}
		s.kept[i] = nil
	}
	for i, f := range s.unix {
		if f != nil {
			f.Close()
		}
		s.unix[i] = nil
	}
}

// keepFiles makes close leave the unix sockets' files, because another master goes on.
func (s *sockets) keepFiles() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = nil
}

// close calls letGo and removes the unix sockets' files that are still this master's.
func (s *sockets) close() {
	s.letGo()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		f.Remove()
	}
	s.files = nil
}
