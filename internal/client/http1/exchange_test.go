package http1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// stubConn is a connection without a peer. It tells what it was asked.
type stubConn struct {
	net.Conn
	in       string // what is read; then a time-out
	told     []string
	writes   []int
	failAt   int   // the number of the Write that fails, from 1
	limitErr error // of setting a deadline
}

var errStub = errors.New("stub")

func (c *stubConn) Write(p []byte) (int, error) {
	c.writes = append(c.writes, len(p))
	if len(c.writes) == c.failAt {
		return 7, errStub
	}
	return len(p), nil
}

func (c *stubConn) Read(p []byte) (int, error) {
	if c.in == "" {
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(p, c.in)
	c.in = c.in[n:]
	return n, nil
}

func (c *stubConn) tell(what string, at time.Time) error {
	switch {
	case at.IsZero():
		what += " none"
	case at.Equal(clock.Past()):
		what += " past"
	default:
		what += " " + time.Until(at).String()
	}
	c.told = append(c.told, what)
	return c.limitErr
}

func (c *stubConn) SetDeadline(at time.Time) error      { return c.tell("both", at) }
func (c *stubConn) SetReadDeadline(at time.Time) error  { return c.tell("read", at) }
func (c *stubConn) SetWriteDeadline(at time.Time) error { return c.tell("write", at) }

func newConn(nc net.Conn) *Conn {
	c := new(Conn)
	c.Init(nc, new(Exchange), nil)
	return c
}

// textMessage is a request of bytes. Its response has one line as its head, and a body.
type textMessage struct {
	x       *Exchange
	body    io.Reader // of the request
	line    string
	stream  string // the body of the response, if it is a stream
	outcome Outcome
	ended   []error
	table   field.Table
	interim int // how many were read
}

// maxInterim is how many interim responses a textMessage takes.
const maxInterim = 10

var errUnanswered = errors.New("unanswered")

func (m *textMessage) Write(bw *bufio.Writer) error {
	_, err := io.Copy(bw, m.body)
	return err
}

func (m *textMessage) Heads() (*field.Table, h1.Limits) { return &m.table, h1.DefaultLimits }

func (m *textMessage) Interim(br *bufio.Reader, _ *h1.LastHead) bool {
	for line := ""; line != "\r\n"; {
		line, _ = br.ReadString('\n')
	}
	m.interim++
	return m.interim < maxInterim
}

func (m *textMessage) Receive(br *bufio.Reader, _ *h1.LastHead) (err error) {
	m.line, err = br.ReadString('\n')
	if m.stream != "" {
		m.x.Body, m.x.Length = &textBody{br, len(m.stream)}, len(m.stream)
	}
	return err
}

func (m *textMessage) Unanswered(err error) error { return errors.Join(errUnanswered, err) }

func (m *textMessage) Ended(outcome Outcome, err error) error {
	m.outcome, m.ended = outcome, append(m.ended, err)
	return err
}

// textBody is the next bytes of a reader.
type textBody struct {
	r    io.Reader
	left int
}

func (b *textBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func (b *textBody) IsComplete() bool { return b.left == 0 }

// newExchange returns an Exchange on a connection on which in arrives.
func newExchange(in string) (*Exchange, *stubConn, *textMessage) {
	stub := &stubConn{in: in}
	m := &textMessage{}
	m.x = &Exchange{Bounds: new(clock.Bounds), ReadBuffer: 4096, WriteBuffer: 4096}
	new(Conn).Init(stub, m.x, m)
	return m.x, stub, m
}

// TestRun: what a request leaves the connection as.
func TestRun(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name, in, stream string
		set              func(x *Exchange, c *stubConn)
		outcome          Outcome
		err              error
		isSent           bool
	}{
		{"answered", "yes\n", "", nil, Reusable, nil, true},
		{"more than the answer", "yes\nno", "", nil, MustClose, nil, true},
		{"the last one", "yes\n", "", func(x *Exchange, _ *stubConn) { x.IsLast = true }, MustClose, nil, true},
		{"no answer", "", "", nil, MustCut, errUnanswered, true},
		{"writing fails", "yes\n", "", func(_ *Exchange, c *stubConn) { c.failAt = 1 }, MustCut, errStub, false},
		{"the context has ended", "yes\n", "", func(x *Exchange, _ *stubConn) { x.Bounds.Context = ended }, MustCut, nil, true},
		{"written through a buffer", "yes\n", "", func(x *Exchange, _ *stubConn) {
			x.Content, x.Message.(*textMessage).body = nil, strings.NewReader("go")
		}, Reusable, nil, true},
		{"watched", "HTTP/1.1 200 OK\r\n\r\n", "", func(x *Exchange, _ *stubConn) {
			x.Content, x.IsWatched, x.Message.(*textMessage).body = nil, true, strings.NewReader("go")
		}, MustClose, nil, true},
		{"a stream", "yes\nbody", "body", nil, Streamed, nil, true},
		{"an unwanted stream", "yes\nbody", "body", func(x *Exchange, _ *stubConn) { x.IsUnwanted = true }, Reusable, nil, true},
		{"no deadline can be cleared", "yes\nbody", "body", func(x *Exchange, c *stubConn) {
			x.Conn.NoteDeadline()
			c.limitErr = errStub
		}, MustCut, errStub, false},
	} {
		x, stub, m := newExchange(tc.in)
		m.stream, x.Content = tc.stream, []byte("go")
		var wrote []error
		x.Wrote = func(err error) { wrote = append(wrote, err) }
		if tc.set != nil {
			tc.set(x, stub)
		}
		outcome, err := x.Run()
		if outcome != tc.outcome || !errors.Is(err, tc.err) || x.IsSent() != tc.isSent {
			t.Errorf("%s: outcome %d, %v, sent %v", tc.name, outcome, err, x.IsSent())
		}
		if isTried := len(stub.writes) > 0; isTried != (len(wrote) == 1) || x.Conn.HasWritten() != isTried {
			t.Errorf("%s: writes %v, told %v", tc.name, stub.writes, wrote)
		}
		if x.Clear(); x.Conn.HasWritten() || x.Bounds != nil || x.Wrote != nil || x.Content != nil || x.Body != nil || x.br != nil || x.IsSent() {
			t.Errorf("%s: after Clear %+v", tc.name, x)
		}
	}
}

// TestStream: the connection can be reused after a body that was read, and after one
// that was closed when nothing of it was left.
func TestStream(t *testing.T) {
	for name, tc := range map[string]struct {
		read    int
		timeout time.Duration
		outcome Outcome
		err     error
	}{
		"all":             {5, 0, Reusable, io.EOF},
		"all but the end": {4, 0, Reusable, io.EOF},
		"half":            {2, 0, MustCut, body.ErrClosed},
		"in time":         {5, time.Hour, Reusable, io.EOF},
	} {
		x, stub, m := newExchange("yes\nbody")
		m.stream, x.Content, x.ReadTimeout = "body", []byte("go"), tc.timeout
		if outcome, err := x.Run(); outcome != Streamed || err != nil || x.Content != nil {
			t.Fatalf("%s: outcome %d, %v", name, outcome, err)
		}
		s := x.Stream()
		got, err := io.ReadAll(io.LimitReader(s, int64(tc.read)))
		if want := "body"[:min(tc.read, 4)]; string(got) != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err := s.Close(); err != nil || m.outcome != tc.outcome || len(m.ended) != 1 || m.ended[0] != tc.err {
			t.Errorf("%s: %v, outcome %d, %v", name, err, m.outcome, m.ended)
		}
		if hasLimit := slices.ContainsFunc(stub.told, func(s string) bool { return strings.HasPrefix(s, "read 1h1m") }); hasLimit != (tc.timeout > 0) {
			t.Errorf("%s: %q", name, stub.told)
		}
	}
}

// TestDetach: a chunked body that was not read from gives its connection away, with the bytes
// that have arrived; any other body does not.
func TestDetach(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	for _, test := range []struct {
		name    string
		length  int
		prepare func(x *Exchange)
		wants   bool
		want    bool
	}{
		{"chunked", -1, func(*Exchange) {}, true, true},
		{"of a length", 4, func(*Exchange) {}, true, false},
		{"up to the end", -2, func(*Exchange) {}, true, false},
		{"not wanted", -1, func(*Exchange) {}, false, false},
		{"closed", -1, func(x *Exchange) { _ = x.Stream().Close() }, true, false},
		{"the context has ended", -1, func(*Exchange) { cancel() }, true, false},
	} {
		x, stub, m := newExchange("yes\nbody")
		m.stream, x.Content, x.Bounds.Context = "body", []byte("request"), ended
		if outcome, err := x.Run(); outcome != Streamed || err != nil {
			t.Fatalf("%s: %v, %v", test.name, outcome, err)
		}
		x.Length = test.length
		test.prepare(x)
		conn, rest, ok := x.Stream().Detach(func(nc net.Conn) bool { return test.wants && nc == net.Conn(stub) })
		if ok != test.want || ok && (conn != net.Conn(stub) || string(rest) != "body") {
			t.Errorf("%s: %v, %q", test.name, ok, rest)
		}
		if !ok {
			_ = x.Stream().Close()
			continue
		}
		if m.outcome != MustClose || len(m.ended) != 1 || x.Conn.Net.Close() != nil {
			t.Errorf("%s: %v, %v; closing closes the connection", test.name, m.outcome, m.ended)
		}
		if n, err := x.Stream().Read(make([]byte, 1)); n != 0 || err != body.ErrClosed {
			t.Errorf("%s: then Read returns %d, %v", test.name, n, err)
		}
	}
}

// TestInterruptOutlivesDeadline: a Read that sets its deadline after the interruption
// does not wait. The next request has no deadline.
func TestInterruptOutlivesDeadline(t *testing.T) {
	x, stub, m := newExchange("yes\nbody")
	m.stream, x.Content, x.ReadTimeout = "body", []byte("go"), time.Second
	if outcome, err := x.Run(); outcome != Streamed || err != nil {
		t.Fatal(outcome, err)
	}
	s := x.stream
	s.Interrupt()
	stub.told = nil
	_, _ = s.ReadBody(make([]byte, 10))
	if len(stub.told) != 2 || stub.told[1] != "both past" {
		t.Errorf("%q", stub.told)
	}
	x.Conn.hasDeadline = false
	if _ = s.End(io.EOF); !x.Conn.hasDeadline || m.outcome != Reusable {
		t.Errorf("a deadline %v, outcome %d", x.Conn.hasDeadline, m.outcome)
	}
}

// TestDrop: the connection is closed after an unwanted body that has not ended.
func TestDrop(t *testing.T) {
	for _, tc := range []struct {
		left, length int // of the body: real and announced
		isLast       bool
		err          error
	}{
		{4, 4, false, nil},
		{5, 5, true, io.EOF},
		{4, -1, true, nil},
		{4, -2, true, nil},
		{4, MaxDropped + 1, true, nil},
	} {
		x, _, _ := newExchange("")
		x.Body, x.Length = &textBody{io.MultiReader(strings.NewReader("body"), iotest.ErrReader(errStub)), tc.left}, tc.length
		want := tc.err
		if want != nil {
			want = errStub
		}
		if err := x.drop(); err != want || x.IsLast != tc.isLast {
			t.Errorf("%d of %d: %v, last %v", tc.left, tc.length, err, x.IsLast)
		}
		if isRead := x.Body.(*textBody).left != tc.left; isRead != (tc.length >= 0 && tc.length <= MaxDropped) {
			t.Errorf("%d of %d: read %v", tc.left, tc.length, isRead)
		}
	}
}

// TestReadAway: an unwanted body is read for a second at most, and as ReadTimeout says.
func TestReadAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			read time.Duration
			want string
		}{{0, "read 1s"}, {time.Hour, "read 1s"}, {time.Millisecond, "read 1ms"}} {
			x, stub, _ := newExchange("")
			x.ReadTimeout, x.Body = tc.read, &textBody{strings.NewReader("body"), 4}
			if err := x.readAway(); err != nil || !slices.Equal(stub.told, []string{tc.want}) || !x.Body.IsComplete() {
				t.Errorf("%v: %v, %q", tc.read, err, stub.told)
			}
		}
		x, stub, _ := newExchange("")
		stub.limitErr = errStub
		if err := x.readAway(); err != errStub {
			t.Errorf("without a deadline: %v", err)
		}
	})
}

// TestPools: what is returned to a pool is used again.
func TestPools(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector drops values of pools")
	}
	stub := &stubConn{}
	c := newConn(stub)
	for name, use := range map[string]func(){
		"reader": func() { ReleaseReader(AcquireReader(stub, 4096)) },
		"writer": func() { ReleaseWriter(AcquireWriter(stub, 4096)) },
		"input":  func() { releaseInput(acquireInput(c, 4096)) },
	} {
		if n := testing.AllocsPerRun(100, use); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
