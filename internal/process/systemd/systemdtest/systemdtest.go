//go:build linux

// Package systemdtest plays systemd for tests.
package systemdtest

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// A Manager is the socket to which a service sends its notifications.
type Manager struct {
	// Path is the value of NOTIFY_SOCKET.
	Path string

	mu       sync.Mutex
	messages []string
	store    []*os.File
	removed  []*os.File // from the store
}

// New returns a Manager that receives until the test ends. name is "" or the name of an
// abstract socket, without its @.
func New(t testing.TB, name string) *Manager {
	t.Helper()
	m := &Manager{Path: filepath.Join(t.TempDir(), "notify")}
	if name != "" {
		m.Path = "@" + name
	}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: m.Path})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.receive(c)
	}()
	t.Cleanup(func() {
		c.Close()
		<-done
		for _, f := range append(m.Store(), m.removed...) {
			f.Close()
		}
	})
	return m
}

// receive keeps what arrives. As systemd does, it keeps a socket once.
func (m *Manager) receive(c *net.UnixConn) {
	text, rights := make([]byte, 4096), make([]byte, 256)
	for {
		n, oobn, _, _, err := c.ReadMsgUnix(text, rights)
		if err != nil {
			return
		}
		m.mu.Lock()
		m.messages = append(m.messages, string(text[:n]))
		if bytes.HasPrefix(text[:n], []byte("FDSTOREREMOVE=1")) {
			m.removed = append(m.removed, m.store...) // a process may be about to inherit them
			m.store = nil
		}
		m.keep(rights[:oobn])
		m.mu.Unlock()
	}
}

// keep adds descriptors to the store.
func (m *Manager) keep(rights []byte) {
	all, _ := syscall.ParseSocketControlMessage(rights)
	for _, one := range all {
		fds, _ := syscall.ParseUnixRights(&one)
		for _, fd := range fds {
			f := os.NewFile(uintptr(fd), "stored")
			if m.has(f) {
				f.Close()
				continue
			}
			m.store = append(m.store, f)
		}
	}
}

// has reports whether the store has f.
func (m *Manager) has(f *os.File) bool {
	info, err := f.Stat()
	for _, other := range m.store {
		if o, otherErr := other.Stat(); err == nil && otherErr == nil && os.SameFile(info, o) {
			return true
		}
	}
	return false
}

// Messages returns what has arrived so far.
func (m *Manager) Messages() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.messages...)
}

// Count returns how many messages have the line.
func (m *Manager) Count(line string) (n int) {
	for _, message := range m.Messages() {
		for l := range strings.SplitSeq(message, "\n") {
			if l == line {
				n++
			}
		}
	}
	return n
}

// States returns the lines about the state of the service, in the order of their arrival.
func (m *Manager) States() (states []string) {
	for _, message := range m.Messages() {
		for line := range strings.SplitSeq(message, "\n") {
			switch line {
			case "READY=1", "RELOADING=1", "STOPPING=1":
				states = append(states, line)
			}
		}
	}
	return states
}

// Store returns the descriptors that the service has stored.
func (m *Manager) Store() []*os.File {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]*os.File(nil), m.store...)
}
