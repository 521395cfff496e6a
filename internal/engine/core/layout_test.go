//go:build linux && (amd64 || arm64)

package core

import (
	"testing"
	"unsafe"
)

// Words that are written for each connection share no cache line with those that each
// request reads.
func TestWrittenWordsAreApart(t *testing.T) {
	type words map[string]uintptr
	const line = unsafe.Sizeof(cacheLine{})
	if size := unsafe.Sizeof(tally{}); size != line {
		t.Errorf("a tally has %d bytes, want %d", size, line)
	}
	var (
		d driver
		l loop
		s serving
		c chunk
	)
	for _, test := range []struct {
		name          string
		size          uintptr
		read, written words
	}{
		{
			"driver", unsafe.Sizeof(d),
			words{
				"source": unsafe.Offsetof(d.source), "options": unsafe.Offsetof(d.options), "table": unsafe.Offsetof(d.table),
				"sweep": unsafe.Offsetof(d.sweep), "servings": unsafe.Offsetof(d.servings), "life": unsafe.Offsetof(d.life),
				"loops": unsafe.Offsetof(d.loops), "parcels": unsafe.Offsetof(d.parcels),
			},
			words{"turn": unsafe.Offsetof(d.turn), "handshakes": unsafe.Offsetof(d.handshakes)},
		},
		{
			"loop, for its workers", unsafe.Sizeof(l),
			words{"driver": unsafe.Offsetof(l.driver), "index": unsafe.Offsetof(l.index), "poller": unsafe.Offsetof(l.poller)},
			words{
				"queue": unsafe.Offsetof(l.queue), "open": unsafe.Offsetof(l.open), "held": unsafe.Offsetof(l.held),
				"gone": unsafe.Offsetof(l.gone), "ready": unsafe.Offsetof(l.ready),
			},
		},
		{
			"loop, for its goroutine", unsafe.Sizeof(l),
			words{"ready": unsafe.Offsetof(l.ready), "intake": unsafe.Offsetof(l.intake)},
			words{"the end of queue": unsafe.Offsetof(l.queue) + unsafe.Sizeof(l.queue) - 1, "open": unsafe.Offsetof(l.open), "held": unsafe.Offsetof(l.held)},
		},
		{
			"serving", unsafe.Sizeof(s),
			words{
				"acceptor": unsafe.Offsetof(s.acceptor), "waker": unsafe.Offsetof(s.waker), "hooks": unsafe.Offsetof(s.hooks),
				"config": unsafe.Offsetof(s.config), "index": unsafe.Offsetof(s.index),
				"users": unsafe.Offsetof(s.users), "control": unsafe.Offsetof(s.control),
				"isPrompt": unsafe.Offsetof(s.isPrompt),
			},
			words{"local": unsafe.Offsetof(s.local), "holds": unsafe.Offsetof(s.holds), "mu": unsafe.Offsetof(s.mu), "accepted": unsafe.Offsetof(s.accepted)},
		},
		{
			"chunk", unsafe.Sizeof(c),
			words{"the last conn": unsafe.Offsetof(c.conns) + unsafe.Sizeof(c.conns) - 1, "tlsConns": unsafe.Offsetof(c.tlsConns)},
			words{"open": unsafe.Offsetof(c.open), "generation": unsafe.Offsetof(c.generation)},
		},
	} {
		for written, at := range test.written {
			for read, other := range test.read {
				// The allocation may begin anywhere in a line.
				if at-other < line || other-at < line {
					t.Errorf("%s: %s, at %d, is written near %s, at %d", test.name, written, at, read, other)
				}
			}
			if test.size-at < line {
				t.Errorf("%s: %s is written near the end, beside another allocation", test.name, written)
			}
		}
	}
}
