package engine

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

func TestIsTemporary(t *testing.T) {
	wrap := func(err error) error { return &net.OpError{Op: "accept", Err: err} }
	for _, test := range []struct {
		err  error
		want bool
	}{
		{wrap(syscall.EMFILE), true},
		{wrap(syscall.ENFILE), true},
		{wrap(syscall.ECONNABORTED), true},
		{wrap(syscall.ENOMEM), true},
		{wrap(syscall.EBADF), false},
		{wrap(net.ErrClosed), false},
		{net.ErrClosed, false},
		{io.EOF, false},
		{errors.New("something else"), false},
	} {
		if got := IsTemporary(test.err); got != test.want {
			t.Errorf("IsTemporary(%v) = %v", test.err, got)
		}
	}
}

func TestBackoff(t *testing.T) {
	var b Backoff
	step := func(want time.Duration) {
		t.Helper()
		if got := b.Next(); got != want {
			t.Errorf("Next() is %v, want %v", got, want)
		}
	}
	for _, want := range []time.Duration{5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000} {
		step(want * time.Millisecond)
	}
	b.Reset()
	step(5 * time.Millisecond)
}
