//go:build unix

package redisbackplane

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/backplane"
	"github.com/sluicehttp/sluice/backplane/backplanetest"
)

// TestSilent: the client closes its connection to a server that answers no pings, and connects again.
func TestSilent(t *testing.T) {
	s, silent := newServer(t), make(chan struct{}, 100)
	signal := func(which syscall.Signal) {
		if err := s.running.Process.Signal(which); err != nil {
			t.Fatal(err)
		}
	}
	defer signal(syscall.SIGCONT)
	backplanetest.Restart(t, func(t *testing.T, n int) []backplane.Backplane {
		all := s.open(t, n-1, Options{})
		last := s.open(t, 1, Options{OnError: func(err error) { // it is connected, as it receives
			if errors.Is(err, errSilent) {
				silent <- struct{}{}
			}
		}})
		last[0].(*Backplane).link.pingAfter = 500 * time.Millisecond
		return append(all, last...)
	}, func() { signal(syscall.SIGSTOP); <-silent }, func() { signal(syscall.SIGCONT) })
}
