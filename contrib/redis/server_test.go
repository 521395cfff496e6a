package sluiceredis

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A server is a redis-server of its own, on a unix socket.
type server struct {
	t       *testing.T
	program string
	folder  string
	running *exec.Cmd
}

// newServer starts a server. Without the program, the test is skipped.
func newServer(t *testing.T) *server {
	s := &server{t: t}
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
	s.folder = folder
	t.Cleanup(func() { os.RemoveAll(folder) })
	s.start()
	return s
}

func (s *server) socket() string { return filepath.Join(s.folder, "socket") }

// start starts the program and waits until it answers.
func (s *server) start() {
	s.running = exec.Command(s.program, "--port", "0", "--unixsocket", s.socket(), "--dir", s.folder, "--save", "", "--appendonly", "no")
	if err := s.running.Start(); err != nil {
		s.t.Fatal(err)
	}
	process := s.running
	s.t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	client := s.client()
	for end := time.Now().Add(20 * time.Second); client.Ping(s.t.Context()).Err() != nil; {
		if time.Now().After(end) {
			s.t.Fatal("redis-server does not answer")
		}
	}
}

// kill ends the program at once.
func (s *server) kill() {
	_ = s.running.Process.Kill()
	_ = s.running.Wait()
}

func (s *server) client() *redis.Client {
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.socket(), ReadTimeout: 20 * time.Second})
	s.t.Cleanup(func() { c.Close() })
	return c
}

// store returns a Store, and the number of its errors.
func (s *server) store(o Options) (*Store, *atomic.Int64) {
	s.t.Helper()
	errs := &atomic.Int64{}
	o.OnError = func(error) { errs.Add(1) }
	store, err := New(&redis.UniversalOptions{Addrs: []string{s.socket()}}, o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := store.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			s.t.Error(err)
		}
	})
	return store, errs
}

// patient are options for tests on a busy machine, in which Redis is not away.
var patient = Options{Timeout: 20 * time.Second}
