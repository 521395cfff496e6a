package sluice

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/http1"
)

// TestALPNConn: nothing is done with the bytes of a connection that a ServeHandler gets.
func TestALPNConn(t *testing.T) {
	var states []ConnState
	s := quietServer(func(*RequestCtx) {})
	s.ConnState = func(_ net.Conn, state ConnState) { states = append(states, state) }
	logger := &recordingLogger{}
	s.Logger = logger
	one := acquireSingle(s)
	c := &scriptedConn{}
	failure := errors.New("of the handler")
	a := &alpnConn{conn: c, cfg: &one.config, handler: func(net.Conn) error { return failure }}
	in, out := []byte("in"), []byte("out")
	if a.Capabilities() != engine.CanStart || a.Start() != engine.Detach || a.Pause() || string(a.HalfClosed(out)) != "out" {
		t.Error("it does not start with Detach")
	}
	if used, next := a.Feed(in); used != 0 || next != engine.Detach {
		t.Errorf("Feed: %d, %v", used, next)
	}
	if got, next := a.Run(out); string(got) != "out" || next != engine.Detach {
		t.Errorf("Run: %q, %v", got, next)
	}
	if got, next := a.TimedOut(out); string(got) != "out" || next != engine.Abort {
		t.Errorf("TimedOut: %q, %v", got, next)
	}
	a.Detached(scriptedNetConn{c})
	a.Closed(nil)
	if one.failure != failure || logger.count() != 1 || !strings.Contains(logger.lines[0], "of the handler") || !slices.Equal(states, []ConnState{StateClosed}) {
		t.Errorf("failure %v, log %q, states %v", one.failure, logger.lines, states)
	}
	a.Closed(errors.New("of the connection"))
	if logger.count() != 2 || !strings.Contains(logger.lines[1], "of the connection") {
		t.Errorf("log %q", logger.lines)
	}
}

// TestAcceptErrorIsLogged: the log is the only place that has it.
func TestAcceptErrorIsLogged(t *testing.T) {
	logger := &recordingLogger{}
	s := &Server{Logger: logger, Handler: func(*RequestCtx) {}}
	newAcceptor(s, s.config()).AcceptError(errors.New("no descriptors"))
	if got := strings.Join(logger.lines, "|"); got != "cannot accept a connection, trying again: no descriptors" {
		t.Errorf("log %q", got)
	}
}

// TestControlOfAnIdleServer: without an engine there is nothing to hand over and to probe.
func TestControlOfAnIdleServer(t *testing.T) {
	s := &Server{}
	if n := s.Control().HandOver(-1, nil); n != 0 {
		t.Errorf("%d connections were handed over", n)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if first, second := s.Control().Probe(context.Background()), s.Control().Probe(ended); first != nil || second != context.Canceled {
		t.Errorf("Probe: %v, %v", first, second)
	}
	if again := s.Control(); again != s.Control() {
		t.Error("there are two ServerControls")
	}
	other := errors.New("x")
	if closedError(engine.ErrShutdown) != ErrServerClosed || closedError(other) != other || closedError(nil) != nil {
		t.Error("closedError")
	}
	var zero Parcel
	if zero.Kind() != 0 || (Parcel{State: []byte{1, 2}}).Kind() != 1<<43 || stateKind("talk") != 1<<54 { // other processes compare them
		t.Errorf("kinds of Parcels: %x, %x", (Parcel{State: []byte{1, 2}}).Kind(), stateKind("talk"))
	}
}

// TestDeadlinesInHandlers: what the connection gets for the deadlines that handlers set.
func TestDeadlinesInHandlers(t *testing.T) {
	const hour = time.Hour
	for _, test := range []struct {
		in          time.Duration // from now; 0: the zero time
		least, most time.Duration // of reads
		write       time.Duration // at least
	}{
		{0, 0, 0, 0}, {-hour, 1, 1, minWriteTimeout}, {hour, hour - time.Minute, hour, hour - time.Minute},
	} {
		c := &scriptedConn{}
		s := quietServer(func(ctx *RequestCtx) {
			var at time.Time
			if test.in != 0 {
				at = time.Now().Add(test.in)
			}
			if err := errors.Join(ctx.SetReadDeadline(at), ctx.SetWriteDeadline(at)); err != nil {
				t.Error(err)
			}
			if c.readTimeout < test.least || c.readTimeout > test.most || ctx.readTimeout != c.readTimeout {
				t.Errorf("%v: reads have %v", test.in, c.readTimeout)
			}
			if c.writeTimeout < test.write || c.writeTimeout > max(test.most, test.write) {
				t.Errorf("%v: writes have %v", test.in, c.writeTimeout)
			}
		})
		s.ReadTimeout, s.WriteTimeout = 2*hour, 3*hour
		if sent, _ := c.converse(t, s, []byte(simpleGet)); !strings.HasPrefix(sent, "HTTP/1.1 200") {
			t.Errorf("%q", sent)
		}
		if c.writeTimeout != 3*hour {
			t.Errorf("%v: the next response has %v", test.in, c.writeTimeout)
		}
	}
	if minWriteTimeout != 10*time.Millisecond {
		t.Error("the documentation of SetWriteDeadline says 10 ms")
	}
}

// TestDoneAtShutdown: Done is closed from the beginning if the server shuts down.
func TestDoneAtShutdown(t *testing.T) {
	s := quietServer(func(ctx *RequestCtx) {
		<-ctx.Done()
		fmt.Fprint(ctx, ctx.Err())
	})
	s.done.Close()
	if sent, _ := (&scriptedConn{}).converse(t, s, []byte(simpleGet)); !strings.HasPrefix(sent, "HTTP/1.1 200") || !strings.HasSuffix(sent, "\r\n\r\ncontext canceled") {
		t.Errorf("%q", sent)
	}
	if n := s.done.Len(); n != 0 || !s.done.IsClosed() {
		t.Errorf("%d states are kept", n)
	}
}

// TestFlushWithoutTheBody: after a response that has begun without it, the body that waits
// for 100-continue is not asked for, and the connection ends.
func TestFlushWithoutTheBody(t *testing.T) {
	s := quietServer(func(ctx *RequestCtx) {
		ctx.SetBodyString("a")
		_ = ctx.Flush()
	})
	s.StreamRequestBody = true
	sent, last := (&scriptedConn{}).converse(t, s, []byte("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"))
	const want = "HTTP/1.1 200 OK\r\nServer: sluice\r\nContent-Type: text/plain; charset=utf-8\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n1\r\na\r\n0\r\n\r\n"
	if sent != want || last != engine.CloseLinger {
		t.Errorf("%q, %v", sent, last)
	}
}

// TestFlushWithTrailers: the length that a handler has set does not limit a body with trailers.
func TestFlushWithTrailers(t *testing.T) {
	s := quietServer(func(ctx *RequestCtx) {
		_ = ctx.Response.Header.SetTrailer("X-Sum")
		ctx.Response.Header.Set("X-Sum", "3")
		ctx.Response.Header.SetContentLength(2)
		_ = ctx.Flush()
		ctx.SetBodyString("abc")
	})
	sent, _ := (&scriptedConn{}).converse(t, s, []byte(simpleGet))
	if !strings.HasSuffix(sent, "\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 3\r\n\r\n") || strings.Contains(sent, "Content-Length") {
		t.Errorf("%q", sent)
	}
}

// TestCorrectedStatusesKeepTheClose that a handler has asked for.
func TestCorrectedStatusesKeepTheClose(t *testing.T) {
	for _, closes := range []bool{false, true} {
		s := quietServer(func(ctx *RequestCtx) {
			ctx.SetStatusCode(StatusProcessing)
			if closes {
				ctx.SetConnectionClose()
			}
		})
		sent, _ := (&scriptedConn{}).converse(t, s, []byte(simpleGet))
		if !strings.HasPrefix(sent, "HTTP/1.1 500") || strings.Contains(sent, "Connection: close") != closes {
			t.Errorf("closes %v: %q", closes, sent)
		}
	}
}

// TestImpossibleStatuses: the log tells a status that no response has from one that only
// comes before another.
func TestImpossibleStatuses(t *testing.T) {
	for status, want := range map[int]string{-1: "the impossible status -1", 42: "the impossible status 42", 100: "the interim status 100", 103: "the interim status 103"} {
		var log strings.Builder
		s := &Server{Handler: func(ctx *RequestCtx) { ctx.SetStatusCode(status) }, Logger: stdlog.New(&log, "", 0)}
		sent, _ := (&scriptedConn{}).converse(t, s, []byte(simpleGet))
		if !strings.HasPrefix(sent, "HTTP/1.1 500") || !strings.Contains(log.String(), want) {
			t.Errorf("%d: %q, logged %q", status, sent, log.String())
		}
	}
}

// TestErrorsOfRequests: the statuses and types of errors.
func TestErrorsOfRequests(t *testing.T) {
	for err, want := range map[error]int{
		ErrBodyTooLarge: 413, ErrGetOnly: 405, http1.ErrTimeout: 408, errBodyMemory: 503, errCallbackPanicked: 500, errors.New("x"): 400,
	} {
		if got := failureStatus(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
	var timeout net.Error
	//lint:ignore SA1019 it is a net.Error
	if !errors.As(http1.ErrTimeout, &timeout) || !timeout.Timeout() || !timeout.Temporary() {
		t.Error("http1.ErrTimeout")
	}
}
