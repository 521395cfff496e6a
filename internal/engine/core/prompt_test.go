//go:build linux && (amd64 || arm64)

package core

import (
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A speaker sends everything back, and says "prompted" when it is prompted.
type speaker struct {
	*echo
	drains bool // Prompted reads what is there first
}

func (s *speaker) Capabilities() engine.Capabilities { return engine.CanSleep | engine.CanPrompt }

func (s *speaker) Prompted(out []byte) ([]byte, engine.Next) {
	if s.drains {
		p := make([]byte, 1)
		_, _ = s.conn.Read(p)
	}
	return append(out, "prompted"...), engine.Read
}

// A connection that a prompt alone has claimed does not look for input, for it
// had none when it began to wait.
func TestPromptReadsNothing(t *testing.T) {
	for _, c := range []struct {
		name   string
		flags  uint64
		drains bool
		reads  bool
	}{
		{"a prompt alone", flagPrompt | flagPromptOnly, false, false},
		{"a prompt, and input meanwhile", flagPrompt | flagPromptOnly | flagInput, false, true},
		{"input, and a prompt meanwhile", flagPrompt, false, true},
		{"a prompt, and the end of the input", flagPrompt | flagPromptOnly | flagGone, false, true},
		{"a Run that fills its buffer", flagPrompt | flagPromptOnly, true, true},
	} {
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		d := swept()
		one := &conn{connState: connState{driver: d, place: d.table.open(pair[0]), fd: pair[0], phase: phaseOpen}}
		one.ServedBy(one)
		one.Protocol = &speaker{&echo{acceptor: newEcho(), conn: one}, c.drains}
		one.Can = one.Protocol.Capabilities()
		one.attach(&worker{})
		one.slot().set(c.flags)
		if _, err := syscall.Write(pair[1], []byte("input")); err != nil {
			t.Fatal(err)
		}
		if next := one.turn(); next != engine.Read {
			t.Errorf("%s: next is %d", c.name, next)
		}
		got := make([]byte, 64)
		n, _ := syscall.Read(pair[1], got)
		if text := string(got[:n]); text[:8] != "prompted" || (len(text) > 8) != c.reads {
			t.Errorf("%s: the peer got %q", c.name, text)
		}
		_ = syscall.Close(pair[0])
		_ = syscall.Close(pair[1])
	}
}
