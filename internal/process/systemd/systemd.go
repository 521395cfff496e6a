// Package systemd is a service's side of what systemd and a service say to each other:
// notifications (sd_notify(3)), sockets that systemd has opened (sd_listen_fds(3)), the
// watchdog (sd_watchdog_enabled(3)) and the store of descriptors that outlives the
// process. Without systemd, and on systems other than Linux, everything does nothing.
package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// firstFD is the descriptor of the first socket.
	firstFD = 3
	// maxSockets bounds LISTEN_FDS: a typing error must not make us close everything.
	maxSockets = 4096
	// Stored is the name of the sockets that Store has given to systemd.
	Stored = "sluice-listener"
	// namePrefix begins an address that names a socket of systemd.
	namePrefix = "fd:"
)

// variables are those of which systemd's manual says that children must not get them,
// and FDSTORE, which says how many descriptors systemd stores.
var variables = [...]string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "FDSTORE"}

// A Service is what systemd has told this process. Its methods may be called
// concurrently, except Claim, Unclaim and Close.
type Service struct {
	// Sockets are those that were passed and not claimed.
	Sockets []Socket
	// Watchdog is the time after which systemd ends a process that has not sent
	// WATCHDOG=1; 0: it does not.
	Watchdog time.Duration

	socket string // of notifications; "": there is none
	stores bool   // systemd keeps descriptors
	// claimed are those of Stored that were claimed.
	claimed []Socket
}

// A Socket is one that systemd has passed to this process.
type Socket struct {
	// Name is its name: FileDescriptorName= of the unit, or Stored.
	Name string
	// Addr is the address on which it listens; nil if it does not listen.
	Addr net.Addr
	// File is its descriptor, which belongs to the holder of the Socket.
	File *os.File
}

// Take reads what systemd has told this process in its environment, and removes it,
// so that child processes do not take it for theirs. A second call finds nothing.
func Take() (*Service, error) { return TakeOf(os.Getpid()) }

// TakeOf is Take in a process that has got everything that systemd has passed to process
// pid, the sockets under the same numbers.
func TakeOf(pid int) (*Service, error) {
	values := environment()
	for _, name := range variables {
		os.Unsetenv(name)
	}
	if !isSupported {
		return &Service{}, nil
	}
	s, names, err := parse(values, pid)
	if err == nil && pid == os.Getpid() {
		err = checkPassed(len(names))
	}
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		s.Sockets = append(s.Sockets, openSocket(firstFD+i, name))
	}
	return s, nil
}

// environment returns the values of variables.
func environment() map[string]string {
	values := make(map[string]string)
	for _, name := range variables {
		values[name] = os.Getenv(name)
	}
	return values
}

// parse returns what the values of variables tell process pid, and the names of its
// sockets.
func parse(values map[string]string, pid int) (s *Service, sockets []string, err error) {
	s = &Service{socket: values["NOTIFY_SOCKET"], stores: values["FDSTORE"] != "" && values["FDSTORE"] != "0"}
	if s.socket != "" && s.socket[0] != '/' && s.socket[0] != '@' {
		return nil, nil, fmt.Errorf("sluice: NOTIFY_SOCKET=%s is not a unix socket", s.socket)
	}
	isFor := func(name string) bool { return values[name] == strconv.Itoa(pid) }
	if text := values["WATCHDOG_USEC"]; text != "" && (values["WATCHDOG_PID"] == "" || isFor("WATCHDOG_PID")) {
		us, err := strconv.ParseInt(text, 10, 64)
		if err != nil || us <= 0 || us > int64(365*24*time.Hour/time.Microsecond) {
			return nil, nil, fmt.Errorf("sluice: WATCHDOG_USEC=%s is no time in microseconds", text)
		}
		s.Watchdog = time.Duration(us) * time.Microsecond
	}
	if !isFor("LISTEN_PID") {
		return s, nil, nil
	}
	n, err := strconv.Atoi(values["LISTEN_FDS"])
	if err != nil || n < 0 || n > maxSockets {
		return nil, nil, fmt.Errorf("sluice: LISTEN_FDS=%s is no number of sockets", values["LISTEN_FDS"])
	}
	sockets = make([]string, n)
	names := strings.Split(values["LISTEN_FDNAMES"], ":")
	for i := range sockets {
		if i < len(names) {
			sockets[i] = names[i]
		}
	}
	return s, sockets, nil
}

// IsName reports whether an address to listen on is "fd:" and the name of a socket of
// systemd.
func IsName(address string) bool { return strings.HasPrefix(address, namePrefix) }

// Claim takes the sockets that listen on an address out of Sockets, and returns them;
// the caller owns them. network is "tcp", "tcp4", "tcp6" or "unix". An address "fd:NAME"
// stands for the sockets of that name, whatever their network is; that there is none is
// an error.
//
// An address without a host is that of all sockets on its port which listen on all
// addresses, of IPv4 or IPv6. Port 0 has none.
func (s *Service) Claim(network, address string) ([]Socket, error) {
	name, isName := strings.CutPrefix(address, namePrefix)
	var want net.Addr
	if !isName {
		if want = resolve(network, address); want == nil {
			return nil, nil // listening says what is wrong
		}
	}
	var claimed, others []Socket
	for _, socket := range s.Sockets {
		if socket.Addr != nil && (isName && socket.Name == name || !isName && isSame(want, socket.Addr)) {
			claimed = append(claimed, socket)
		} else {
			others = append(others, socket)
		}
	}
	if isName && len(claimed) == 0 {
		return nil, fmt.Errorf("sluice: systemd has passed no listening socket %q to this process: %s", name, s.describe())
	}
	s.Sockets = others
	for _, socket := range claimed {
		if socket.Name == Stored {
			s.claimed = append(s.claimed, socket)
		}
	}
	return claimed, nil
}

// Unclaim puts sockets that Claim has returned back into Sockets.
func (s *Service) Unclaim(sockets ...Socket) {
	s.Sockets = append(s.Sockets, sockets...)
	s.claimed = slices.DeleteFunc(s.claimed, func(c Socket) bool { return slices.Contains(sockets, c) })
}

// describe returns what was passed, for an error.
func (s *Service) describe() string {
	if len(s.Sockets) == 0 {
		return "there are none (LISTEN_FDS)"
	}
	names := make([]string, len(s.Sockets))
	for i, socket := range s.Sockets {
		names[i] = socket.String()
	}
	return "there are " + strings.Join(names, ", ")
}

// String returns the name and the address.
func (s Socket) String() string {
	if s.Addr == nil {
		return fmt.Sprintf("%q, which does not listen", s.Name)
	}
	return fmt.Sprintf("%q on %v", s.Name, s.Addr)
}

// resolve returns the address to listen on, or nil.
func resolve(network, address string) net.Addr {
	if network == "unix" {
		return &net.UnixAddr{Net: "unix", Name: address}
	}
	addr, err := net.ResolveTCPAddr(network, address)
	if err != nil || addr.Port == 0 {
		return nil
	}
	return addr
}

// isSame reports whether a socket that listens on got is what listening on want makes.
func isSame(want, got net.Addr) bool {
	w, isTCP := want.(*net.TCPAddr)
	g, ok := got.(*net.TCPAddr)
	if !isTCP || !ok {
		return !isTCP && !ok && want.String() == got.String()
	}
	isAll := len(w.IP) == 0 || w.IP.IsUnspecified()
	return w.Port == g.Port && (w.IP.Equal(g.IP) || isAll && g.IP.IsUnspecified())
}

// Notify sends lines such as READY=1 to systemd. It does nothing if systemd does not
// listen. It waits for a second at most.
func (s *Service) Notify(lines ...string) error {
	return s.send(strings.Join(lines, "\n"), nil)
}

// Notifies reports whether systemd listens to notifications.
func (s *Service) Notifies() bool { return s.socket != "" }

// Status returns the line that makes text the service's state in "systemctl status".
func Status(text string) string {
	return "STATUS=" + strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
}

// Reloading returns the lines that say that the service reads its configuration again.
// READY=1 ends it.
func Reloading() []string {
	return []string{"RELOADING=1", "MONOTONIC_USEC=" + strconv.FormatInt(monotonic(), 10)}
}

// Stopping returns the lines that say that the service ends, within a time.
func Stopping(within time.Duration) []string {
	return []string{"STOPPING=1", "EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(within.Microseconds(), 10)}
}

// Store gives systemd a copy of a listening socket, under the name Stored. When the
// service is restarted, the new process gets it in Sockets, with the connections that
// wait in it. It does nothing if systemd stores nothing: FileDescriptorStoreMax= of the
// unit is 0, or systemd is older than 254, which is the first that says so (FDSTORE).
func (s *Service) Store(socket syscall.Conn) error {
	if !s.stores {
		return nil
	}
	return s.send("FDSTORE=1\nFDNAME="+Stored, socket)
}

// Passed returns the number of sockets that systemd has passed to this process. Unlike Take
// it leaves the environment alone.
func Passed() (int, error) {
	if !isSupported {
		return 0, nil
	}
	_, names, err := parse(environment(), os.Getpid())
	if err != nil {
		return 0, err
	}
	return len(names), checkPassed(len(names))
}

// Close closes the sockets that the program has not claimed. If systemd has stored one of them for
// an earlier process, it forgets all that it has stored, and gets those again that were
// claimed, unless forgets is false. Call it before Store, while the claimed sockets are open. The
// result is the sockets of units among them, whose files are closed.
func (s *Service) Close(forgets bool) (units []Socket, err error) {
	var errs []error
	isStale := false
	for _, socket := range s.Sockets {
		if socket.Name == Stored {
			isStale = true
		} else {
			units = append(units, socket)
		}
		errs = append(errs, socket.File.Close())
	}
	s.Sockets = nil
	if isStale && s.stores && forgets {
		errs = append(errs, s.send("FDSTOREREMOVE=1\nFDNAME="+Stored, nil))
		for _, socket := range s.claimed {
			errs = append(errs, s.Store(socket.File))
		}
	}
	s.claimed = nil
	return units, errors.Join(errs...)
}
