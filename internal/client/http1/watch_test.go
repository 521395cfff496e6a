package http1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/clock"
)

// signalling tells when it is closed.
type signalling struct{ closed chan struct{} }

func (s *signalling) Close() error { close(s.closed); return nil }

// waits reports whether the stack of a goroutine has all parts.
func waits(parts ...string) bool {
	buf := make([]byte, 1<<16)
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(g, part) }) {
			return true
		}
	}
	return false
}

// TestJoin: what join returns, and when it interrupts the writing.
func TestJoin(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name    string
		err     error // of the writing
		isLate  bool  // it ends after it was interrupted
		ctx     context.Context
		isCut   bool
		pending bool // it ends while join waits
	}{
		{"ended", nil, false, nil, false, false},
		{"failed", errStub, false, nil, false, false},
		{"ends", nil, false, nil, false, true},
		{"fails", errStub, false, nil, false, true},
		{"ends at the interruption", nil, true, nil, false, false},
		{"interrupted", errStub, true, nil, true, false},
		{"context ended", errStub, true, ended, true, false},
	} {
		stub := &stubConn{}
		x := &Exchange{Conn: newConn(stub), Bounds: &clock.Bounds{Context: tc.ctx}}
		source := &signalling{make(chan struct{})}
		w := &watch{source: source}
		written := make(chan error, 1)
		patience := time.Hour
		switch {
		case tc.isLate:
			if tc.ctx == nil {
				patience = 0
			}
			go func() { <-source.closed; written <- tc.err }()
		case tc.pending:
			go func() {
				for !waits("(*watch).join", "[select") {
					runtime.Gosched()
				}
				written <- tc.err
			}()
		default:
			written <- tc.err
		}
		if err, isCut := w.join(x, written, patience); err != tc.err || isCut != tc.isCut {
			t.Errorf("%s: %v, cut %v", tc.name, err, isCut)
		}
		if want := map[bool]string{true: "[write past]", false: "[]"}[tc.isLate]; fmt.Sprint(stub.told) != want {
			t.Errorf("%s: %q, want %s", tc.name, stub.told, want)
		}
	}
}

// TestEndWriting: after a refusal, writing has a tenth of a second.
func TestEndWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, stub, _ := newExchange("")
		x.endWriting()
		if want := []string{"write 100ms"}; !slices.Equal(stub.told, want) {
			t.Errorf("%q, want %q", stub.told, want)
		}
	})
}

// TestWriteAside: how long the answer is waited for after the writing has ended.
func TestWriteAside(t *testing.T) {
	errSick := errors.New("sick")
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			name   string
			failAt int
			body   io.Reader
			read   time.Duration
			isOld  bool // the answer has come before
			err    error
			want   string
		}{
			{"written", 0, strings.NewReader("body"), time.Minute, false, nil, "[read 1m0s]"},
			{"written, no limit", 0, strings.NewReader("body"), 0, false, nil, "[]"},
			{"written, answered", 0, strings.NewReader("body"), time.Minute, true, nil, "[]"},
			{"the connection fails", 1, strings.NewReader("body"), 0, false, errStub, "[read 1s]"},
			{"the body fails", 0, iotest.ErrReader(errSick), 0, false, errSick, "[read -1ns]"},
		} {
			x, stub, m := newExchange("")
			stub.failAt, m.body, x.ReadTimeout = tc.failAt, tc.body, tc.read
			if err := x.writeAside(bufio.NewWriter(x.Conn), &watch{isAnswered: tc.isOld}); !errors.Is(err, tc.err) || fmt.Sprint(stub.told) != tc.want {
				t.Errorf("%s: %v, %q, want %s", tc.name, err, stub.told, tc.want)
			}
		}
	})
}

// TestUnanswered: what has come of an answer counts, even one byte, unless the writing has
// failed.
func TestUnanswered(t *testing.T) {
	errSick := errors.New("sick")
	for _, tc := range []struct {
		name, came string
		err        error // of waiting
		written    error
		want       error
	}{
		{"nothing came", "", errStub, nil, errUnanswered},
		{"nothing came, the end", "", io.EOF, nil, os.ErrDeadlineExceeded},
		{"writing has failed", "H", errStub, errSick, errSick},
		{"one byte came", "H", errStub, nil, os.ErrDeadlineExceeded},
	} {
		var told error
		x, _, _ := newExchange(tc.came)
		x.Wrote = func(err error) { told = err }
		x.br = acquireInput(x.Conn, 64)
		_, _ = x.br.Peek(1)
		if err := x.unanswered(tc.err, tc.written); !errors.Is(err, tc.want) || told != tc.written {
			t.Errorf("%s: %v, want %v; told %v", tc.name, err, tc.want, told)
		}
	}
}

// TestAwaitStatus: interim responses are passed on, and the final one stays unread.
func TestAwaitStatus(t *testing.T) {
	const interim, final = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", "HTTP/1.1 %d X\r\n\r\n"
	for _, tc := range []struct {
		interims int
		in       string
		digit    int
		err      error
	}{
		{0, fmt.Sprintf(final, 200), 2, nil},
		{0, fmt.Sprintf(final, 413), 4, nil},
		{0, fmt.Sprintf(final, 101), 1, nil},
		{2, fmt.Sprintf(final, 500), 5, nil},
		{0, "garbage\r\n\r\n", 9, nil},
		{1, "HTTP/1.1 103 " + strings.Repeat("x", 512), 9, nil},
		{maxInterim, interim, 1, nil}, // Receive finds that they are too many
		{1, "", 0, os.ErrDeadlineExceeded},
		{0, "", 0, os.ErrDeadlineExceeded},
	} {
		rest := tc.in
		tc.in = strings.Repeat(interim, tc.interims) + tc.in
		x, _, m := newExchange(tc.in)
		x.br = acquireInput(x.Conn, 512)
		digit, err := x.awaitStatus()
		if digit != tc.digit || !errors.Is(err, tc.err) || m.table.Len() != 0 {
			t.Errorf("%.60q: %d, %v, %d fields left", tc.in, digit, err, m.table.Len())
		}
		if n := min(len(rest), 512); x.br.Buffered() != n || m.interim != tc.interims {
			t.Errorf("%.60q: %d bytes are buffered after %d interim responses", tc.in, x.br.Buffered(), m.interim)
		}
	}
}

// TestAwaitContinue: a body that is kept back is sent after the status 100 or some time, with
// WriteTimeout from then on, and not after a final response.
func TestAwaitContinue(t *testing.T) {
	const final = "HTTP/1.1 417 X\r\n\r\n"
	for _, tc := range []struct {
		in   string
		want error
	}{
		{"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + final, nil},
		{"", nil},
		{final, body.ErrWithheld},
	} {
		synctest.Test(t, func(t *testing.T) {
			x, _, _ := newExchange(tc.in)
			x.br = acquireInput(x.Conn, 512)
			x.Gate, x.WriteTimeout = body.NewGate(), time.Second
			if status, _ := x.awaitStatus(); status != 0 {
				x.Gate.Close()
			}
			if err := x.AwaitContinue(time.Minute); err != tc.want {
				t.Errorf("%q: %v, want %v", tc.in, err, tc.want)
			}
		})
	}
}

// TestWatchingNeedsDeadlines: without them, nothing is written.
func TestWatchingNeedsDeadlines(t *testing.T) {
	for _, limit := range []func(x *Exchange){
		func(x *Exchange) { x.WriteTimeout = time.Second },
		func(x *Exchange) { x.Bounds.Allow(time.Hour) },
	} {
		x, stub, m := newExchange("HTTP/1.1 200 OK\r\n\r\n")
		m.body, stub.limitErr, x.IsWatched = strings.NewReader("go"), errStub, true
		limit(x)
		if outcome, err := x.Run(); outcome != MustCut || err != errStub || x.Conn.HasWritten() {
			t.Errorf("outcome %d, %v, written %v", outcome, err, x.Conn.HasWritten())
		}
	}
}
