package http2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// A randomPeer answers requests in a random order and in random pieces, changes its
// windows, and resets some streams.
type randomPeer struct {
	*fakePeer
	rng   *rand.Rand
	open  []uint32          // streams whose request is not complete
	queue map[uint32][]byte // what is to be sent on a stream, whole frames
	resets,
	answers int
}

// bodyFor is the body of the response to a request for path.
func bodyFor(path string) string { return strings.Repeat(path, 1+len(path)*37) }

// act does what is due for a millisecond.
func (p *randomPeer) act() {
	for _, line := range p.take() {
		var id uint32
		var what, path string
		if n, _ := fmt.Sscanf(line, "%d %s %s", &id, &what, &path); n < 2 || what == "window" {
			continue
		}
		switch {
		case what == "reset":
			delete(p.queue, id)
		case what != "data" && what != "trailer":
			p.open = append(p.open, id)
			p.answer(id, path)
		}
	}
	var out []byte
	for id, frames := range p.queue {
		if p.rng.IntN(2) == 0 {
			out = append(out, frames...)
			delete(p.queue, id)
		}
	}
	out = h2.AppendWindowUpdate(out, 0, 5000)
	for _, id := range p.open {
		out = h2.AppendWindowUpdate(out, id, 1024+uint32(p.rng.IntN(2000)))
	}
	p.open = p.open[len(p.open)/4:]
	if p.rng.IntN(10) == 0 {
		out = append(out, settings(func(s *h2.Settings) { s.InitialWindowSize = uint32(p.rng.IntN(70_000)) })...)
	}
	for len(out) > 0 {
		n := min(len(out), 1+p.rng.IntN(3000))
		p.send(out[:n:n])
		out = out[n:]
	}
}

// take returns the frames that were read since the last call.
func (p *randomPeer) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := p.lines
	p.lines = nil
	return lines
}

// answer queues the response to a request, or a reset. Fields are encoded in the order
// in which they are sent, so that all of a head is sent at once.
func (p *randomPeer) answer(id uint32, path string) {
	if p.rng.IntN(8) == 0 {
		p.resets++
		p.queue[id] = h2.AppendReset(nil, id, h2.CodeRefusedStream)
		return
	}
	p.answers++
	p.send(p.respond(id, 200, false, "x-path", path))
	var out []byte
	for rest := bodyFor(path); rest != ""; {
		n := min(len(rest), 1+p.rng.IntN(4000))
		out = append(out, data(id, rest[:n], n == len(rest))...)
		rest = rest[n:]
	}
	p.queue[id] = out
}

// randomCall sends requests and checks what comes of them.
func randomCall(t *testing.T, c *Conn, rng *rand.Rand, name string) {
	for i := range 20 {
		path := fmt.Sprintf("/%s-%d", name, i)
		r := newRequest("POST", strings.Repeat("x", rng.IntN(3)*rng.IntN(20_000)))
		r.path, r.streams = path, rng.IntN(2) == 0
		ctx, cancel := context.WithCancel(t.Context())
		switch rng.IntN(4) {
		case 0:
			r.stream.Source, r.stream.Length = bytes.NewReader(r.stream.Content), -1
		case 1:
			r.stream.Deadline = in(time.Duration(rng.IntN(20)) * time.Millisecond)
		case 2:
			r.stream.Context = ctx
			time.AfterFunc(time.Duration(rng.IntN(20))*time.Millisecond, cancel)
		}
		err := c.Do(&r.stream)
		if err == nil && r.streams {
			if rng.IntN(4) == 0 {
				_ = r.stream.Close()
				cancel()
				continue
			}
			r.body, err = io.ReadAll(&r.stream)
			_ = r.stream.Close()
		}
		cancel()
		var failed *Error
		switch {
		case err == nil && (r.fields != "x-path="+path+";" || string(r.body) != bodyFor(path)):
			t.Errorf("%s: got %s and %d bytes", path, r.fields, len(r.body))
		case err != nil && (!errors.As(err, &failed) || !isExpected(failed)):
			t.Errorf("%s: %v", path, err)
		}
		time.Sleep(time.Duration(rng.IntN(3)) * time.Millisecond)
	}
}

func isExpected(err *Error) bool {
	return err.Outcome == Refused || errors.Is(err, errTimeout) || errors.Is(err, context.Canceled)
}

// Whatever peer and callers do, every request gets its own response or a reason.
func TestModel(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			c, fake := newPair(t, Config{}, nil)
			p := &randomPeer{fakePeer: fake, rng: rand.New(rand.NewPCG(seed, 0)), queue: map[uint32][]byte{}}
			p.send(settings(nil))
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() { randomCall(t, c, rand.New(rand.NewPCG(seed, uint64(i+1))), fmt.Sprint(i)) })
			}
			var isOver atomic.Bool
			go func() {
				all.Wait()
				isOver.Store(true)
			}()
			for synctest.Wait(); !isOver.Load(); synctest.Wait() {
				p.act()
				time.Sleep(time.Millisecond)
			}
			c.mu.Lock()
			if len(c.streams) > 0 || c.leader != nil || c.waiting != nil || c.in != nil || c.phase != phaseOpen || !c.ready.IsEmpty() {
				t.Errorf("seed %d: the connection is not idle: %+v, %v", seed, c.reading, c.failure)
			}
			c.mu.Unlock()
			if p.resets == 0 || p.answers == 0 {
				t.Errorf("seed %d: %d resets, %d answers", seed, p.resets, p.answers)
			}
			_ = c.Close()
			p.awaitEnd()
		})
	}
}

// A scriptConn is a net.Conn that has input to read, and then its end.
type scriptConn struct {
	net.Conn
	mu    sync.Mutex
	input []byte
	size  int // of a read
}

func (c *scriptConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.input) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(c.size, len(p))], c.input)
	c.input = c.input[n:]
	return n, nil
}

func (c *scriptConn) Write(p []byte) (int, error)      { return len(p), nil }
func (c *scriptConn) Close() error                     { return nil }
func (c *scriptConn) SetReadDeadline(time.Time) error  { return nil }
func (c *scriptConn) SetWriteDeadline(time.Time) error { return nil }

// Input of any kind neither panics nor leaves a caller waiting, and the result of the
// first request does not depend on how the input is cut.
func FuzzInput(f *testing.F) {
	p := newPeerForSeeds()
	f.Add(bytes.Join([][]byte{settings(nil), p.respond(1, 103, false), p.respond(1, 200, false, "content-length", "3"), data(1, "abc", true)}, nil))
	f.Add(bytes.Join([][]byte{settings(nil), p.respond(1, 200, false), data(1, "abc", false), p.respond(1, 0, true, "a", "b")}, nil))
	f.Add(bytes.Join([][]byte{settings(func(s *h2.Settings) { s.InitialWindowSize = 0 }), h2.AppendWindowUpdate(nil, 1, 99), h2.AppendReset(nil, 1, 7)}, nil))
	f.Add(bytes.Join([][]byte{settings(nil), h2.AppendPing(nil, [8]byte{}, false), h2.AppendGoAway(nil, 0, 0, "x")}, nil))
	f.Fuzz(func(t *testing.T, input []byte) {
		var first string
		for _, size := range []int{1 << 20, 1, 7} {
			c := NewConn(&scriptConn{input: input, size: size}, &Config{}, nil)
			r := newRequest("POST", "content")
			err := c.Do(&r.stream)
			if err != nil {
				r.body = nil // how much of it has come does depend on the pieces
			}
			result := fmt.Sprint(err, r)
			if first == "" {
				first = result
			} else if result != first {
				t.Errorf("in pieces of %d: %s, at once: %s", size, result, first)
			}
			for _, streams := range []bool{true, false} {
				next := newRequest("GET", "")
				next.streams = streams
				if c.Do(&next.stream) == nil && streams {
					_, _ = io.Copy(io.Discard, &next.stream)
					_ = next.stream.Close()
				}
			}
			_ = c.Close()
			if c.Streams() != 0 || c.leader != nil || c.waiting != nil || c.phase != phaseClosed {
				t.Errorf("after Close: %+v", c.reading)
			}
		}
	})
}

// newPeerForSeeds returns a peer that only encodes.
func newPeerForSeeds() *fakePeer {
	p := &fakePeer{}
	p.encoder.Reset(&h2.Pairs{})
	return p
}
