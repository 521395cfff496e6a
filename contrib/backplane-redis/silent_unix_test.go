//go:build unix

package redisbackplane

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/backplane"
	"github.com/sluicehttp/sluice/backplane/backplanetest"
	"github.com/sluicehttp/sluice/internal/test/redistest"
)

// TestSilent: the client closes its connection to a server that answers no pings, and connects again.
func TestSilent(t *testing.T) {
	s, silent := redistest.New(t), make(chan struct{}, 100)
	defer s.Signal(syscall.SIGCONT)
	backplanetest.Restart(t, func(t *testing.T, n int) []backplane.Backplane {
		all := open(t, s, n-1, Options{})
		last := open(t, s, 1, Options{OnError: func(err error) { // it is connected, as it receives
			if errors.Is(err, errSilent) {
				silent <- struct{}{}
			}
		}})
		last[0].(*Backplane).link.pingAfter = 500 * time.Millisecond
		return append(all, last...)
	}, func() { s.Signal(syscall.SIGSTOP); <-silent }, func() { s.Signal(syscall.SIGCONT) })
}
