package http2

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/client/streams"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// A streamed response is read as it arrives, and its credit returned as it is read.
func TestStreamedResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{StreamWindow: 64 << 10}, nil)
		defer c.Close()
		r := newRequest("GET", "")
		r.streams = true
		done := do(c, r)
		p.await("1 ")
		p.send(settings(nil), h2.AppendSettingsAck(nil), p.respond(1, 200, false), data(1, "abc", false))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		s := &r.stream
		b := make([]byte, 2)
		for _, want := range []string{"ab", "c"} {
			if n, err := s.Read(b); string(b[:n]) != want || err != nil {
				t.Fatalf("read %q, %v", b[:n], err)
			}
		}
		p.send(data(1, strings.Repeat("x", 16<<10), false), data(1, strings.Repeat("x", 16<<10), false), data(1, strings.Repeat("x", 10<<10), false))
		other := do(c, newRequest("GET", "")) // it reads for both
		p.await("3 ")
		p.send(p.respond(3, 200, true))
		if err := <-other; err != nil {
			t.Fatal(err)
		}
		for _, line := range p.seen() {
			if strings.HasPrefix(line, "1 window") {
				t.Error("credit was returned for what was not read")
			}
		}
		all := make([]byte, 42<<10)
		if _, err := io.ReadFull(s, all); err != nil {
			t.Fatal(err)
		}
		p.await("1 window")
		p.send(data(1, "", false), data(1, "end", false), p.respond(1, 0, true, "x-t", "v"))
		rest, err := io.ReadAll(s)
		if string(rest) != "end" || err != nil || r.trailer != "x-t=v;" {
			t.Errorf("the rest is %q, %v, %s", rest, err, r.trailer)
		}
		if err := s.Close(); err != nil || c.Streams() != 0 {
			t.Errorf("Close: %v, %d streams", err, c.Streams())
		}
	})
}

// startStreamed returns a connection with a streamed response of which "abc" has come.
func startStreamed(t *testing.T) (*Conn, *fakePeer, *testRequest) {
	c, p := newPair(t, Config{}, nil)
	r := newRequest("GET", "")
	r.streams = true
	done := do(c, r)
	p.await("1 ")
	p.send(settings(nil), p.respond(1, 200, false), data(1, "abc", false))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return c, p, r
}

func TestStreamedResponseEnds(t *testing.T) {
	tests := []struct {
		name string
		do   func(t *testing.T, c *Conn, p *fakePeer, r *testRequest)
	}{
		{"closed", func(t *testing.T, _ *Conn, p *fakePeer, r *testRequest) {
			_ = r.stream.Close()
			p.await("1 reset CANCEL")
			_, err := r.stream.Read(make([]byte, 1))
			wantError(t, err, MaybeProcessed, ErrClosed)
			_ = r.stream.Close()
		}},
		{"closed while it is read", func(t *testing.T, _ *Conn, _ *fakePeer, r *testRequest) {
			failed := make(chan error)
			go func() {
				_, err := io.ReadAll(&r.stream)
				failed <- err
			}()
			synctest.Wait()
			_ = r.stream.Close()
			wantError(t, <-failed, MaybeProcessed, ErrClosed)
		}},
		{"time-out", func(t *testing.T, _ *Conn, p *fakePeer, r *testRequest) {
			r.stream.ReadTimeout = time.Second
			b, err := io.ReadAll(&r.stream)
			if wantError(t, err, MaybeProcessed, errTimeout); string(b) != "abc" {
				t.Errorf("read %q", b)
			}
			p.await("1 reset CANCEL")
		}},
		{"reset", func(t *testing.T, _ *Conn, p *fakePeer, r *testRequest) {
			p.send(h2.AppendReset(nil, 1, h2.CodeNoError))
			_, err := io.ReadAll(&r.stream)
			wantError(t, err, MaybeProcessed, ErrReset)
		}},
		{"too short", func(t *testing.T, _ *Conn, p *fakePeer, r *testRequest) {
			_ = p.conn.Close()
			_, err := io.ReadAll(&r.stream)
			wantError(t, err, MaybeProcessed, io.ErrUnexpectedEOF)
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p, r := startStreamed(t)
				test.do(t, c, p, r)
				_ = c.Close()
			})
		})
	}
}

// ReadTimeout bounds each Read that waits. What passes between the Reads does not count,
// although another request reads for both meanwhile.
func TestReadTimeoutIsForReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p, r := startStreamed(t)
		defer c.Close()
		r.stream.ReadTimeout = time.Second
		b := make([]byte, 4)
		read := func() string {
			n, err := r.stream.Read(b)
			return fmt.Sprintf("%s %v", b[:n], err)
		}
		if got := read(); got != "abc <nil>" {
			t.Fatal(got)
		}
		for range 2 { // each has a second of its own
			later := make(chan string)
			go func() { later <- read() }()
			time.Sleep(900 * time.Millisecond)
			p.send(data(1, "def", false))
			if got := <-later; got != "def <nil>" {
				t.Fatal(got)
			}
		}
		other := do(c, newRequest("GET", ""))
		p.await("3 ")
		time.Sleep(5 * time.Second)
		p.send(p.respond(3, 200, true))
		if err := <-other; err != nil {
			t.Fatal(err)
		}
		p.send(data(1, "ghi", true))
		if rest, err := io.ReadAll(&r.stream); string(rest) != "ghi" || err != nil {
			t.Errorf("the rest is %q, %v", rest, err)
		}
	})
}

// A Request that refuses the head ends only its stream.
func TestHeadRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		defer c.Close()
		r := newRequest("GET", "")
		r.refuses = errors.New("no")
		done := do(c, r)
		p.await("1 ")
		p.send(settings(nil), p.respond(1, 200, false))
		wantError(t, <-done, MaybeProcessed, r.refuses)
		p.await("1 reset CANCEL")
	})
}

// The initial window becomes smaller than what was sent; the body goes on when window
// updates have made up for it.
func TestWindowBecomesNegative(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		defer c.Close()
		r := newRequest("POST", strings.Repeat("x", 100_000))
		done := do(c, r)
		p.await("1 POST /")
		synctest.Wait()
		if n := p.received(1); n != 65535 {
			t.Fatalf("%d bytes before SETTINGS", n)
		}
		p.send(settings(func(s *h2.Settings) { s.InitialWindowSize = 10_000 }), h2.AppendWindowUpdate(nil, 0, 100_000))
		synctest.Wait()
		p.send(h2.AppendWindowUpdate(nil, 1, 55_535))
		synctest.Wait()
		if n := p.received(1); n != 65535 {
			t.Errorf("%d bytes with a window of 0", n)
		}
		p.send(h2.AppendWindowUpdate(nil, 1, 5))
		synctest.Wait()
		if n := p.received(1); n != 65540 {
			t.Errorf("%d bytes with a window of 5", n)
		}
		p.send(settings(func(s *h2.Settings) { s.InitialWindowSize = 100_000 }))
		p.await("1 data 100000 end")
		p.send(p.respond(1, 200, true))
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (p *fakePeer) received(stream uint32) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.data[stream])
}

// A request whose window is closed does not keep others from their answers, nor from
// their content.
func TestBlockedUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		defer c.Close()
		upload := newRequest("POST", strings.Repeat("x", 80_000))
		upload.stream.WriteTimeout = 5 * time.Second
		done := do(c, upload)
		p.await("1 POST /")
		p.send(settings(func(s *h2.Settings) { s.InitialWindowSize = 100 }), h2.AppendWindowUpdate(nil, 0, 1<<20))
		other := do(c, newRequest("POST", "abc"))
		p.await("3 data 3 end")
		p.send(p.respond(3, 200, true))
		if err := <-other; err != nil {
			t.Error(err)
		}
		wantError(t, <-done, MaybeProcessed, errTimeout)
		p.await("1 reset CANCEL")
	})
}

// A response before the end of the request ends the request.
func TestEarlyResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		defer c.Close()
		r := newRequest("POST", strings.Repeat("x", 100_000))
		done := do(c, r)
		p.await("1 POST /")
		p.send(settings(nil), p.respond(1, 413, false), data(1, "no", true), h2.AppendReset(nil, 1, h2.CodeNoError))
		if err := <-done; err != nil || r.String() != `[413] "no" ` {
			t.Errorf("got %v, %v", r, err)
		}
		p.await("1 reset CANCEL")
	})
}

// A pipeSource is a Source that Close unblocks.
type pipeSource struct {
	*io.PipeReader
	closed bool
}

func (s *pipeSource) Close() error {
	s.closed = true
	return s.PipeReader.Close()
}

func TestSource(t *testing.T) {
	failure := errors.New("no more")
	tests := []struct {
		name   string
		source io.Reader
		length int64
		want   string // the frame that ends the stream
		err    error
	}{
		{"unknown length", strings.NewReader("abc"), -1, "1 data 3 end", nil},
		{"known length", strings.NewReader("abcdef"), 3, "1 data 3 end", nil},
		{"no byte", strings.NewReader(""), -1, "1 data 0 end", nil},
		{"length of 0", strings.NewReader("abc"), 0, "1 data 0 end", nil},
		{"long", strings.NewReader(strings.Repeat("x", 60_000)), -1, "1 data 60000 end", nil},
		{"too short", strings.NewReader("ab"), 3, "1 reset CANCEL", streams.ErrSourceLength},
		{"fails", io.MultiReader(strings.NewReader("ab"), &failing{failure}), -1, "1 reset CANCEL", failure},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := newPair(t, Config{}, nil)
				defer c.Close()
				r := newRequest("POST", "")
				r.stream.Source, r.stream.Length = test.source, test.length
				done := do(c, r)
				p.await(test.want)
				if test.err != nil {
					wantError(t, <-done, MaybeProcessed, test.err)
					return
				}
				p.send(settings(nil), p.respond(1, 200, true))
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

// A Source that blocks is closed when the response is complete, and Do returns after
// its Read.
func TestSourceIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		defer c.Close()
		reader, writer := io.Pipe()
		source := &pipeSource{PipeReader: reader}
		r := newRequest("POST", "")
		r.stream.Source, r.stream.Length = source, -1
		done := do(c, r)
		_, _ = writer.Write([]byte("abc"))
		p.await("1 POST /")
		synctest.Wait()
		p.send(settings(nil), p.respond(1, 200, true))
		if err := <-done; err != nil || !source.closed {
			t.Errorf("%v; the source was closed: %v", err, source.closed)
		}
		p.await("1 reset CANCEL")
	})
}

// Both directions of a stream may go on at the same time.
func TestBothDirections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		defer c.Close()
		reader, writer := io.Pipe()
		r := newRequest("POST", "")
		r.streams = true
		r.stream.Source, r.stream.Length = reader, -1
		done := do(c, r)
		p.await("1 POST /")
		p.send(settings(nil), p.respond(1, 200, false))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 3)
		for _, part := range []string{"abc", "def"} {
			_, _ = writer.Write([]byte(part))
			synctest.Wait()
			if got := string(p.data[1]); !strings.HasSuffix(got, part) {
				t.Errorf("the peer has %q", got)
			}
			p.send(data(1, part, false))
			if n, err := io.ReadFull(&r.stream, b); string(b[:n]) != part || err != nil {
				t.Errorf("read %q, %v", b[:n], err)
			}
		}
		_ = writer.Close()
		p.await("1 data 6 end")
		p.send(data(1, "", true))
		if n, err := r.stream.Read(b); n != 0 || err != io.EOF {
			t.Errorf("at the end: %d, %v", n, err)
		}
		_ = r.stream.Close()
	})
}

// A field block in pieces, of a stream that is cancelled meanwhile, is decoded all the
// same: the tables of both sides agree afterwards.
func TestCancelledInBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		defer c.Close()
		r := newRequest("GET", "")
		r.stream.Deadline = in(time.Second)
		done := do(c, r)
		p.await("1 ")
		for range 3 { // so that the field is indexed
			p.encoder.AppendField(p.encoder.Begin(nil), 0, []byte("x-long"), []byte("repeated"))
		}
		block := p.respond(1, 200, true, "x-long", "repeated")
		p.send(settings(nil), block[:len(block)-3])
		wantError(t, <-done, MaybeProcessed, errTimeout)
		next := newRequest("GET", "")
		done = do(c, next)
		p.await("3 ")
		r.table.Set(0, []byte("again")) // the table belongs to the caller
		p.send(block[len(block)-3:], p.respond(3, 200, true, "x-long", "repeated"))
		if err := <-done; err != nil || next.fields != "x-long=repeated;" {
			t.Errorf("%v, %s", err, next.fields)
		}
	})
}

// A caller that gives up while it writes leaves the rest of the frame to another
// goroutine.
func TestHalfWrittenFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		c, p := NewConn(client, &Config{}, nil), newPeer(t, server)
		defer c.Close()
		r := newRequest("GET", "")
		r.stream.Deadline = in(time.Second)
		done := do(c, r)
		half := make([]byte, 40)
		if _, err := io.ReadFull(server, half); err != nil { // and nothing more for a while
			t.Fatal(err)
		}
		wantError(t, <-done, MaybeProcessed, errTimeout)
		other := do(c, newRequest("GET", ""))
		p.feed(half)
		go p.read()
		p.await("1 GET / end")
		p.await("1 reset CANCEL")
		p.await("3 GET / end")
		p.send(settings(nil), p.respond(3, 200, true))
		if err := <-other; err != nil {
			t.Error(err)
		}
	})
}

// The connection ends while a frame is half written: nothing follows the half, which
// would complete it.
func TestEndInHalfWrittenFrame(t *testing.T) {
	for at, want := range map[int]int{0: 17, 40: 0} { // GOAWAY, or nothing
		c := NewConn(&scriptConn{}, &Config{}, nil)
		c.mu.Lock()
		frames := c.out
		c.out, c.offered = nil, int64(len(frames)+100)
		c.takeBack(frames, at)
		c.end(ErrClosed, h2.CodeNoError)
		if len(c.out) != want {
			t.Errorf("cut at %d: %q follows", at, c.out)
		}
		c.mu.Unlock()
	}
}

// Who reads for all waits for the peer while it writes. The deadlines of the others hold.
func TestLeaderWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		c, p := NewConn(client, &Config{}, nil), newPeer(t, server)
		preface := make([]byte, 1<<10)
		first := do(c, newRequest("GET", ""))
		n, err := server.Read(preface)
		if err != nil {
			t.Fatal(err)
		}
		p.feed(preface[:n])
		p.await("1 GET")
		p.send(settings(nil)) // and does not read the acknowledgement
		synctest.Wait()
		began := time.Now()
		r := newRequest("GET", "")
		r.stream.Deadline = in(time.Second)
		outcome, err := outcomeOf(t, c.Do(&r.stream))
		if d := time.Since(began); d != time.Second || !errors.Is(err, errTimeout) {
			t.Errorf("after %v: %d, %v", d, outcome, err)
		}
		server.Close()
		<-first
		p.read()
	})
}

// A write over TLS cannot be interrupted. After much that the peer may not have read, the
// caller does not write itself.
func TestWritesAsideOverTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		c, p := NewConn(client, &Config{IsTLS: true}, nil), newPeer(t, server)
		upload := do(c, newRequest("POST", strings.Repeat("b", 40<<10)))
		for in := make([]byte, 64<<10); len(p.data[1]) < 40<<10; {
			n, err := server.Read(in)
			if err != nil {
				t.Fatal(err)
			}
			p.feed(in[:n])
		}
		synctest.Wait()
		began := time.Now()
		r := newRequest("GET", "")
		r.stream.Deadline = in(time.Second)
		outcome, err := outcomeOf(t, c.Do(&r.stream))
		if d := time.Since(began); d != time.Second || !errors.Is(err, errTimeout) {
			t.Errorf("after %v: %d, %v", d, outcome, err)
		}
		server.Close()
		<-upload
		p.read()
	})
}

// A peer that takes nothing ends the connection after StallTimeout.
func TestStall(t *testing.T) {
	for _, isTLS := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			client, server := net.Pipe()
			defer server.Close()
			c := NewConn(client, &Config{IsTLS: isTLS, StallTimeout: 10 * time.Second}, nil)
			began := time.Now()
			outcome, err := outcomeOf(t, c.Do(&newRequest("GET", "").stream))
			if d := time.Since(began); d != 10*time.Second || !errors.Is(err, errTimeout) || outcome != Unsent {
				t.Errorf("after %v: %d, %v", d, outcome, err)
			}
		})
	}
}

// What has come while the connection was idle is handled before the next request.
func TestCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		idle := &quietConn{netConn: client}
		c, p := NewConn(idle, &Config{}, nil), newPeer(t, server)
		go p.read()
		done := do(c, newRequest("GET", ""))
		p.await("1 ")
		p.send(settings(nil), p.respond(1, 200, true))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		idle.hasInput = true
		go p.send(h2.AppendPing(nil, healthPing, false), h2.AppendGoAway(nil, 1, h2.CodeNoError, ""))
		synctest.Wait()
		wantError(t, c.Do(&newRequest("GET", "").stream), Unsent, ErrGoingAway)
		p.awaitEnd()
	})
}

// A quietConn says whether there is something to read.
type quietConn struct {
	netConn
	hasInput bool
}

// netConn is a name by which the pool's Peeker does not find the net.Conn in quietConn.
type netConn = net.Conn

func (c *quietConn) IsQuiet() bool { return !c.hasInput }

// TestLateAcknowledgement: a server that acknowledges our SETTINGS late gets the window of a
// stream once, not as credit and by the acknowledgement.
func TestLateAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p, r := startStreamed(t)
		defer c.Close()
		for range 3 {
			p.send(data(1, strings.Repeat("x", 16<<10), false))
		}
		if _, err := io.ReadFull(&r.stream, make([]byte, 3+(48<<10))); err != nil {
			t.Fatal(err)
		}
		p.send(h2.AppendSettingsAck(nil), data(1, "end", false))
		if _, err := io.ReadFull(&r.stream, make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if w := &r.stream.window; w.Size() != c.cfg.StreamWindow || int64(w.Left())+int64(w.Held()) > int64(w.Size()) {
			t.Errorf("%d bytes may come, %d are held, of %d", w.Left(), w.Held(), w.Size())
		}
	})
}
