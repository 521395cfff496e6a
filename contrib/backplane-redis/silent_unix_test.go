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

// TestSilent: a server that answers no pings is left, and found again.
func TestSilent(t *testing.T) {
	s, silent := newServer(t), make(chan struct{}, 100)
	signal := func(which syscall.Signal) {
		if err := s.running.Process.Signal(which); err != nil {
			t.Fatal(err)
		}
	}
	defer signal(syscall.SIGCONT)
	backplanetest.Restart(t, func(t *testing.T, n int) []backplane.Backplane {
		all := s.open(t, n, Options{OnError: func(err error) {
			if errors.Is(err, errSilent) {
				silent <- struct{}{}
			}
		}})
		for _, b := range all {
			b.(*Backplane).link.pingAfter = 200 * time.Millisecond
		}
		return all
	}, func() { signal(syscall.SIGSTOP); <-silent; <-silent }, func() { signal(syscall.SIGCONT) })
}
