package body

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The first of Open, Close and the end of the wait decides.
func TestGate(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(g *Gate)
		err  error
		wait time.Duration
	}{
		{"opened", (*Gate).Open, nil, 0},
		{"closed", (*Gate).Close, ErrWithheld, 0},
		{"opened, then closed", func(g *Gate) { g.Open(); g.Close() }, nil, 0},
		{"closed, then opened", func(g *Gate) { g.Close(); g.Open() }, ErrWithheld, 0},
		{"nothing comes", func(*Gate) {}, nil, time.Second},
		{"opened while it waits", func(g *Gate) { time.AfterFunc(time.Millisecond, g.Open) }, nil, time.Millisecond},
		{"closed while it waits", func(g *Gate) { time.AfterFunc(time.Millisecond, g.Close) }, ErrWithheld, time.Millisecond},
		{"closed too late", func(g *Gate) { time.AfterFunc(time.Hour, g.Close) }, nil, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := NewGate()
			tc.do(g)
			began := time.Now()
			if err := g.Wait(time.Second); err != tc.err || time.Since(began) != tc.wait {
				t.Errorf("%s: %v after %v", tc.name, err, time.Since(began))
			}
			if err := g.Wait(time.Second); err != tc.err || time.Since(began) != tc.wait {
				t.Errorf("%s: then %v after %v", tc.name, err, time.Since(began))
			}
		})
	}
}

// A body that is held back is read after the Gate has opened, and not after Close.
func TestHeldUpload(t *testing.T) {
	for _, closes := range []bool{false, true} {
		h := HeldUpload{Upload: &Upload{Stream: strings.NewReader("body")}, Gate: NewGate(), Patience: time.Hour}
		want, wantErr := "body", error(nil)
		if closes {
			want, wantErr = "", ErrWithheld
			time.AfterFunc(time.Millisecond, func() { _ = h.Close() })
		} else {
			time.AfterFunc(time.Millisecond, h.Gate.Open)
		}
		if got, err := io.ReadAll(h); string(got) != want || !errors.Is(err, wantErr) {
			t.Errorf("%q, %v", got, err)
		}
		_ = h.Close()
		if h.Rewind() != closes {
			t.Errorf("closed %v: it can be sent again: %v", closes, !closes)
		}
	}
}
