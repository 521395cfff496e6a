package http2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/client/streams"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

func TestGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{}
		c, p := newPair(t, Config{}, w)
		r := newRequest("GET", "")
		done := do(c, r)
		p.await("settings")
		p.await("0 window")
		p.await("1 GET / end")
		p.send(settings(func(s *h2.Settings) { s.MaxConcurrentStreams = 7 }), h2.AppendSettingsAck(nil),
			p.respond(1, 103, false, "link", "x"), p.respond(1, 200, false, "server", "s"),
			data(1, "hel", false), data(1, "lo", false), p.respond(1, 0, true, "x-t", "v"))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		p.await("settings ack")
		if got, want := r.String(), `[103 200] link=x;server=s;"hello" x-t=v;`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if c.Limit() != 7 || c.Streams() != 0 {
			t.Errorf("limit %d, %d streams", c.Limit(), c.Streams())
		}
		_ = c.Close()
		if got := p.awaitEnd(); len(got) != 1 || got[0] != "goaway NO_ERROR" {
			t.Errorf("at the end, the client has sent %q", got)
		}
		if got, want := w.String(), "[7] [sluice: http2: closed]"; got != want {
			t.Errorf("the watcher was told %s, want %s", got, want)
		}
		wantError(t, c.Do(&r.stream), Unsent, ErrClosed)
	})
}

func TestPostWithTrailer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		defer c.Close()
		r := newRequest("POST", "abc")
		r.stream.HasTrailer = true
		done := do(c, r)
		p.await("1 POST /")
		p.await("1 trailer x-end=1; end")
		p.send(settings(nil), p.respond(1, 204, true))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if string(p.data[1]) != "abc" {
			t.Errorf("the body is %q", p.data[1])
		}
	})
}

// Interim heads are passed on when they come, and all of them before Do returns. Who gets them
// may take its time: other streams go on.
func TestInterims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		defer c.Close()
		slow, goOn, heads := newRequest("GET", ""), make(chan bool), make(chan string, 5)
		slow.stream.WantsInterims = true
		slow.interim = func(status int, fields string) {
			heads <- fmt.Sprint(status, " ", fields)
			<-goOn
		}
		done := do(c, slow)
		p.await("1 GET")
		p.send(settings(nil), p.respond(1, 103, false, "link", "a"))
		if got := <-heads; got != "103 link=a;" {
			t.Errorf("got %q", got)
		}
		other := do(c, newRequest("GET", ""))
		p.await("3 GET")
		p.send(p.respond(1, 102, false), p.respond(1, 103, false, "link", "b"), p.respond(1, 204, true), p.respond(3, 204, true))
		if err := <-other; err != nil {
			t.Error(err)
		}
		close(goOn)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if first, second := <-heads, <-heads; first != "102 " || second != "103 link=b;" || len(heads) > 0 {
			t.Errorf("got %q and %q", first, second)
		}
		if want := "[103 102 103 204] link=a;link=b;\"\" "; slow.String() != want {
			t.Errorf("%s, want %s", slow, want)
		}
	})
}

// A panic with an interim head ends its stream alone.
func TestInterimPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		defer c.Close()
		r, panicked := newRequest("GET", ""), make(chan any)
		r.stream.WantsInterims = true
		r.interim = func(int, string) { panic("on purpose") }
		go func() {
			defer func() { panicked <- recover() }()
			_ = c.Do(&r.stream)
		}()
		p.await("1 GET")
		p.send(settings(nil), p.respond(1, 103, false))
		if got := <-panicked; got != "on purpose" {
			t.Errorf("recovered %v", got)
		}
		p.await("1 reset CANCEL")
		done := do(c, newRequest("GET", ""))
		p.await("3 GET")
		p.send(p.respond(3, 204, true))
		if err := <-done; err != nil || c.Streams() != 0 {
			t.Errorf("%v, %d streams", err, c.Streams())
		}
	})
}

// TestNoTrailerAfterAll: who may have trailer fields, and has none, ends the request as others do.
func TestNoTrailerAfterAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		defer c.Close()
		r := &plainRequest{fields: fieldlist.RequestFields{Method: []byte("POST"), Scheme: []byte("http"), Authority: []byte("a"), Path: []byte("/")}}
		r.stream.Request, r.stream.Content, r.stream.HasTrailer = r, []byte("abc"), true
		done := make(chan error, 1)
		go func() { done <- c.Do(&r.stream) }()
		p.await("1 POST /")
		p.await("1 data 3 end")
		p.send(settings(nil), p.respond(1, 204, true))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// A violation of the protocol on a stream ends only that stream.
func TestStreamViolations(t *testing.T) {
	tests := []struct {
		name   string
		method string
		frames func(p *fakePeer) []byte
		cause  error
		code   string
	}{
		{"no status", "GET", func(p *fakePeer) []byte { return p.respond(1, 0, true, "a", "b") }, fieldlist.ErrPseudoMissing, "PROTOCOL_ERROR"},
		{"connection field", "GET", func(p *fakePeer) []byte {
			return h2.AppendHeaders(nil, 1, append([]byte{0x88, 0x00, 10}, "keep-alive\x01a"...), true, h2.MinMaxFrameSize)
		}, fieldlist.ErrConnectionOnly, "PROTOCOL_ERROR"},
		{"101", "GET", func(p *fakePeer) []byte { return p.respond(1, 101, false) }, fieldlist.ErrStatus, "PROTOCOL_ERROR"},
		{"interim ends", "GET", func(p *fakePeer) []byte { return p.respond(1, 100, true) }, h2.ErrMalformed, "PROTOCOL_ERROR"},
		{"data first", "GET", func(p *fakePeer) []byte { return data(1, "x", true) }, h2.ErrMalformed, "PROTOCOL_ERROR"},
		{"body too long", "GET", func(p *fakePeer) []byte {
			return append(p.respond(1, 200, false, "content-length", "2"), data(1, "abc", false)...)
		}, h2.ErrContentLength, "PROTOCOL_ERROR"},
		{"body too short", "GET", func(p *fakePeer) []byte {
			return append(p.respond(1, 200, false, "content-length", "2"), data(1, "a", true)...)
		}, h2.ErrContentLength, "PROTOCOL_ERROR"},
		{"no body", "GET", func(p *fakePeer) []byte { return p.respond(1, 200, true, "content-length", "2") }, h2.ErrContentLength, "PROTOCOL_ERROR"},
		{"body of HEAD", "HEAD", func(p *fakePeer) []byte {
			return append(p.respond(1, 200, false, "content-length", "2"), data(1, "ab", true)...)
		}, h2.ErrContentLength, "PROTOCOL_ERROR"},
		{"body of 204", "GET", func(p *fakePeer) []byte {
			return append(p.respond(1, 204, false), data(1, "ab", true)...)
		}, h2.ErrContentLength, "PROTOCOL_ERROR"},
		{"trailer goes on", "GET", func(p *fakePeer) []byte {
			return append(p.respond(1, 200, false), p.respond(1, 0, false, "a", "b")...)
		}, h2.ErrTrailerNotLast, "PROTOCOL_ERROR"},
		{"too many interims", "GET", func(p *fakePeer) (b []byte) {
			for range streams.MaxInterims + 1 {
				b = append(b, p.respond(1, 103, false)...)
			}
			return b
		}, streams.ErrInterim, "CANCEL"},
		{"too many fields", "GET", func(p *fakePeer) []byte {
			fields := make([]string, 2*(h1.DefaultLimits.MaxFields+1))
			for i := range fields {
				fields[i] = "a"
			}
			return p.respond(1, 200, true, fields...)
		}, h1.ErrTooManyFields, "CANCEL"},
		{"head too large", "GET", func(p *fakePeer) []byte {
			return p.respond(1, 200, true, "a", strings.Repeat("x", 70<<10))
		}, h1.ErrHeadTooLarge, "CANCEL"},
		{"window overflow", "GET", func(p *fakePeer) []byte { return h2.AppendWindowUpdate(nil, 1, 1<<31-1) }, h2.ErrStreamWindowOverflow, "FLOW_CONTROL_ERROR"},
		{"window of 0", "GET", func(p *fakePeer) []byte { return h2.AppendWindowUpdate(nil, 1, 0) }, h2.ErrStreamIncrement, "PROTOCOL_ERROR"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := newPair(t, Config{}, nil)
				defer c.Close()
				done := do(c, newRequest(test.method, ""))
				p.await("1 ")
				p.send(settings(nil), test.frames(p))
				wantError(t, <-done, MaybeProcessed, test.cause)
				p.await("1 reset " + test.code)
				done = do(c, newRequest("GET", ""))
				p.await("3 GET")
				p.send(p.respond(3, 200, true))
				if err := <-done; err != nil {
					t.Errorf("the next request: %v", err)
				}
			})
		})
	}
}

// A violation of the protocol by the connection ends it with GOAWAY.
func TestConnectionViolations(t *testing.T) {
	raw := func(s string) func(*fakePeer) []byte { return func(*fakePeer) []byte { return []byte(s) } }
	tests := []struct {
		name   string
		frames func(p *fakePeer) []byte
		code   string
	}{
		{"push", raw("\x00\x00\x05\x05\x04\x00\x00\x00\x01\x00\x00\x00\x02\x88"), "PROTOCOL_ERROR"},
		{"even stream", func(p *fakePeer) []byte { return p.respond(2, 200, true) }, "PROTOCOL_ERROR"},
		{"idle stream", func(p *fakePeer) []byte { return p.respond(3, 200, true) }, "PROTOCOL_ERROR"},
		{"data on idle stream", func(p *fakePeer) []byte { return data(3, "x", true) }, "PROTOCOL_ERROR"},
		{"reset of idle stream", func(p *fakePeer) []byte { return h2.AppendReset(nil, 3, 0) }, "PROTOCOL_ERROR"},
		{"window of idle stream", func(p *fakePeer) []byte { return h2.AppendWindowUpdate(nil, 3, 1) }, "PROTOCOL_ERROR"},
		{"block", raw("\x00\x00\x01\x01\x05\x00\x00\x00\x01\xff"), "COMPRESSION_ERROR"},
		{"ack", func(*fakePeer) []byte { return append(h2.AppendSettingsAck(nil), h2.AppendSettingsAck(nil)...) }, "PROTOCOL_ERROR"},
		{"enable push", raw("\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x01"), "PROTOCOL_ERROR"},
		{"window overflow", func(*fakePeer) []byte { return h2.AppendWindowUpdate(nil, 0, 1<<31-1) }, "FLOW_CONTROL_ERROR"},
		{"frame size", raw("\x00\x40\x01\x00\x00\x00\x00\x00\x01"), "FRAME_SIZE_ERROR"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &watched{}
				c, p := newPair(t, Config{}, w)
				done := do(c, newRequest("GET", ""))
				p.await("1 ")
				p.send(settings(nil), test.frames(p))
				err := <-done
				var violation *h2.Error
				if outcome, cause := outcomeOf(t, err); outcome != MaybeProcessed || !errors.As(cause, &violation) {
					t.Errorf("the result is %d, %v", outcome, cause)
				}
				p.await("goaway " + test.code)
				p.awaitEnd()
				synctest.Wait()
				if c.Limit() != 0 || len(w.ended) != 1 {
					t.Errorf("limit %d, watcher %v", c.Limit(), w)
				}
			})
		})
	}
}

// An HTTP/1.1 server answers the preface with something that is not HTTP/2.
func TestNotHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		done := do(c, newRequest("GET", ""))
		p.await("1 ")
		p.send([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		outcome, cause := outcomeOf(t, <-done)
		if v, ok := cause.(*h2.Error); outcome != MaybeProcessed || !ok {
			t.Errorf("the result is %v, %v", outcome, v)
		}
		p.awaitEnd()
	})
}

func TestGoAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{}
		c, p := newPair(t, Config{}, w)
		first := do(c, newRequest("GET", ""))
		p.await("1 ")
		second := do(c, newRequest("GET", ""))
		p.await("3 ")
		p.send(settings(nil), h2.AppendGoAway(nil, 1, h2.CodeNoError, "bye"))
		wantError(t, <-second, Unprocessed, ErrGoingAway)
		wantError(t, c.Do(&newRequest("GET", "").stream), Unsent, ErrGoingAway)
		if got := w.String(); got != "[1000] ["+ErrGoingAway.Error()+"]" {
			t.Errorf("the watcher was told %s", got)
		}
		p.send(p.respond(1, 200, true))
		if err := <-first; err != nil {
			t.Error(err)
		}
		p.awaitEnd()
	})
}

// A client that gets ENHANCE_YOUR_CALM does not send the same elsewhere.
func TestCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		done := do(c, newRequest("GET", ""))
		p.await("1 ")
		p.send(settings(nil), h2.AppendGoAway(nil, 0, h2.CodeEnhanceYourCalm, ""))
		wantError(t, <-done, MaybeProcessed, ErrGoingAway)
		p.awaitEnd()
	})
}

func TestResetByPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		defer c.Close()
		refused, reset := do(c, newRequest("GET", "")), (<-chan error)(nil)
		p.await("1 ")
		reset = do(c, newRequest("GET", ""))
		p.await("3 ")
		p.send(settings(nil), h2.AppendReset(nil, 1, h2.CodeRefusedStream), h2.AppendReset(nil, 3, h2.CodeInternalError))
		wantError(t, <-refused, Refused, ErrReset)
		err := <-reset
		wantError(t, err, MaybeProcessed, ErrReset)
		if e := err.(*Error); e.Code != h2.CodeInternalError || e.Outcome.IsSafe() || !Refused.IsSafe() {
			t.Errorf("the code is %v", e.Code)
		}
	})
}

// The end of the connection ends all streams; those whose head was not written are
// Unsent.
func TestConnectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		first, second := do(c, newRequest("GET", "")), (<-chan error)(nil)
		p.await("1 ")
		second = do(c, newRequest("GET", ""))
		p.await("3 ")
		_ = p.conn.Close()
		wantError(t, <-first, MaybeProcessed, io.EOF)
		wantError(t, <-second, MaybeProcessed, io.EOF)
		if c.Streams() != 0 {
			t.Error("streams remain")
		}

		c, p = newPair(t, Config{}, nil)
		_ = p.conn.Close()
		outcome, _ := outcomeOf(t, c.Do(&newRequest("GET", "").stream))
		if outcome != Unsent {
			t.Errorf("the outcome is %d", outcome)
		}
	})
}

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{}
		c, p := newPair(t, Config{}, w)
		defer c.Close()
		if c.Limit() != assumedStreams {
			t.Errorf("limit %d at first", c.Limit())
		}
		done := do(c, newRequest("GET", ""))
		p.await("1 ")
		p.send(settings(func(s *h2.Settings) { s.MaxConcurrentStreams = 1 }))
		synctest.Wait()
		wantError(t, c.Do(&newRequest("GET", "").stream), Unsent, ErrFull)
		p.send(p.respond(1, 200, true))
		if err := <-done; err != nil {
			t.Error(err)
		}
		done = do(c, newRequest("GET", ""))
		p.await("3 ")
		p.send(settings(func(s *h2.Settings) { s.MaxConcurrentStreams = 2000 }), p.respond(3, 200, true))
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := w.String(); got != "[1 1000] []" {
			t.Errorf("the watcher was told %s", got)
		}
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		done := do(c, newRequest("GET", ""))
		p.await("1 ")
		c.Drain()
		wantError(t, c.Do(&newRequest("GET", "").stream), Unsent, ErrClosed)
		p.send(settings(nil), p.respond(1, 200, true))
		if err := <-done; err != nil {
			t.Error(err)
		}
		p.await("goaway NO_ERROR")
		p.awaitEnd()
	})
}

// Close ends the streams, also those of callers that read.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		first := do(c, newRequest("GET", ""))
		p.await("1 ")
		second := do(c, newRequest("GET", ""))
		p.await("3 ")
		_ = c.Close()
		wantError(t, <-first, MaybeProcessed, ErrClosed)
		wantError(t, <-second, MaybeProcessed, ErrClosed)
		p.await("goaway NO_ERROR")
		p.awaitEnd()
		_ = c.Close()
	})
}

func TestTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		defer c.Close()
		long := newRequest("GET", "")
		long.stream.Deadline = in(time.Hour)
		first := do(c, long)
		p.await("1 ")
		short := newRequest("GET", "")
		short.stream.Deadline = in(time.Second) // earlier than that of the leader
		second := do(c, short)
		p.await("3 ")
		began := time.Now()
		wantError(t, <-second, MaybeProcessed, errTimeout)
		if d := time.Since(began); d != time.Second {
			t.Errorf("it has taken %v", d)
		}
		p.await("3 reset CANCEL")
		read := newRequest("GET", "")
		read.stream.ReadTimeout = 2 * time.Second
		third := do(c, read)
		p.await("5 ")
		began = time.Now()
		wantError(t, <-third, MaybeProcessed, errTimeout)
		if d := time.Since(began); d != 2*time.Second {
			t.Errorf("it has taken %v", d)
		}
		p.send(settings(nil), p.respond(3, 200, true), p.respond(1, 200, true))
		if err := <-first; err != nil {
			t.Error(err)
		}
		late := newRequest("GET", "")
		late.stream.Deadline = in(-time.Second)
		wantError(t, c.Do(&late.stream), Unsent, errTimeout)
	})
}

func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		defer c.Close()
		cause := errors.New("enough")
		for _, id := range []string{"1", "3"} { // as the leader, and as another
			ctx, cancel := context.WithCancelCause(t.Context())
			r := newRequest("GET", "")
			r.stream.Context = ctx
			done := do(c, r)
			p.await(id + " ")
			var other <-chan error
			if id == "1" {
				other = do(c, newRequest("GET", ""))
				p.await("3 ")
			}
			cancel(cause)
			wantError(t, <-done, MaybeProcessed, cause)
			p.await(id + " reset CANCEL")
			if other != nil {
				p.send(settings(nil), p.respond(3, 200, true))
				if err := <-other; err != nil {
					t.Fatal(err)
				}
				break
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		r := newRequest("GET", "")
		r.stream.Context = ctx
		wantError(t, c.Do(&r.stream), Unsent, cause)
	})
}

// A brokenConn fails to write after a while. It can still be read.
type brokenConn struct {
	net.Conn
	isBroken atomic.Bool
}

var errBroken = errors.New("broken")

func (c *brokenConn) Write(p []byte) (int, error) {
	if c.isBroken.Load() {
		return 0, errBroken
	}
	return c.Conn.Write(p)
}

// What has come before the connection broke counts, although writing fails first.
func TestWriteFails(t *testing.T) {
	for name, end := range map[string]func(p *fakePeer){
		"end":    func(p *fakePeer) { synctest.Wait(); p.conn.Close() },
		"silent": func(*fakePeer) {},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, server := net.Pipe()
			defer server.Close()
			broken := &brokenConn{Conn: client}
			c, p := NewConn(broken, &Config{}, nil), newPeer(t, server)
			go p.read()
			var calls []<-chan error
			for i := range 3 {
				calls = append(calls, do(c, newRequest("POST", "")))
				p.await(fmt.Sprint(2*i+1, " POST"))
			}
			p.send(settings(nil))
			p.await("settings ack")
			broken.isBroken.Store(true)
			wantError(t, c.Do(&newRequest("POST", "").stream), Unsent, errBroken)
			wantError(t, c.Do(&newRequest("POST", "").stream), Unsent, errBroken)
			p.send(p.respond(1, 200, true), h2.AppendGoAway(nil, 3, h2.CodeNoError, ""))
			end(p)
			if err := <-calls[0]; err != nil {
				t.Errorf("%s: %v", name, err)
			}
			wantError(t, <-calls[2], Unprocessed, ErrGoingAway)
			began := time.Now()
			cause := errBroken
			if name == "end" {
				cause = io.EOF
			}
			wantError(t, <-calls[1], MaybeProcessed, cause)
			if d := time.Since(began); d > time.Second {
				t.Errorf("%s: it has taken %v", name, d)
			}
			p.awaitEnd()
		})
	}
}
