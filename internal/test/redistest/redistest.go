// Package redistest runs Redis or Valkey for tests.
package redistest

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// patience bounds how long a server may take to start. It is only reached when a test fails.
const patience = 20 * time.Second

// A Server is a server of its own, on a unix socket. It ends with the test.
type Server struct {
	t       testing.TB
	program string
	args    []string
	running *exec.Cmd

	// Socket is the path of the socket.
	Socket string
}

// New starts a server with more arguments. Without the program, the test is skipped, or fails
// if SLUICE_REQUIRE_REDIS is set.
func New(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{t: t}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			s.program = path
		}
	}
	if s.program == "" {
		if os.Getenv("SLUICE_REQUIRE_REDIS") != "" {
			t.Fatal("redis-server is not installed")
		}
		t.Skip("redis-server is not installed (apt-get install redis-server)")
	}
	folder, err := os.MkdirTemp("", "redis") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	s.Socket = filepath.Join(folder, "socket")
	s.args = append([]string{"--port", "0", "--unixsocket", s.Socket, "--dir", folder, "--save", "", "--appendonly", "no"}, args...)
	s.Start()
	return s
}

// Start starts the program, also after Kill, and waits until it answers.
func (s *Server) Start() {
	s.t.Helper()
	process := exec.Command(s.program, s.args...)
	if err := process.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.running = process
	s.t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	for end := time.Now().Add(patience); !s.answers(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatal("redis-server does not answer")
		}
	}
}

// answers reports whether the program answers a PING.
func (s *Server) answers() bool {
	c, err := net.Dial("unix", s.Socket)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	answer := make([]byte, len("+PONG\r\n"))
	_, _ = io.WriteString(c, "PING\r\n")
	_, err = io.ReadFull(c, answer)
	return err == nil && string(answer) == "+PONG\r\n"
}

// Kill ends the program at once.
func (s *Server) Kill() {
	_ = s.running.Process.Kill()
	_ = s.running.Wait()
}

// Signal sends a signal to the program.
func (s *Server) Signal(which os.Signal) {
	s.t.Helper()
	if err := s.running.Process.Signal(which); err != nil {
		s.t.Error(err)
	}
}
