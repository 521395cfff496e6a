package http2

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// A testRequest is a Request that keeps what it was told.
type testRequest struct {
	stream  Stream
	method  string
	path    string
	streams bool   // the response is streamed
	connect string // the protocol of an extended CONNECT
	refuses error
	interim func(status int, fields string) // without the lock

	table    field.Table
	statuses []int
	fields   string
	body     []byte
	trailer  string
}

func newRequest(method, body string) *testRequest {
	r := &testRequest{method: method, path: "/"}
	r.stream.Request = r
	r.stream.IsHead = method == "HEAD"
	if body != "" {
		r.stream.Content = []byte(body)
	}
	return r
}

func (r *testRequest) AppendHead(dst []byte, e message.FieldEncoder) []byte {
	return e.AppendRequest(dst, fieldlist.RequestFields{
		Method: []byte(r.method), Scheme: []byte("http"), Authority: []byte("a.example"), Path: []byte(r.path),
		Protocol: []byte(r.connect),
	})
}

func (r *testRequest) AppendTrailer(dst []byte, e message.FieldEncoder) []byte {
	return e.AppendField(dst, field.Other, []byte("x-end"), []byte("1"))
}

func (r *testRequest) Fields() *field.Table { return &r.table }

func (r *testRequest) HeadReceived(head *fieldlist.Head, isLast bool) (isStreamed bool, err error) {
	r.statuses = append(r.statuses, head.StatusCode)
	r.fields += textOf(&r.table)
	return r.streams, r.refuses
}

func textOf(t *field.Table) string {
	var b strings.Builder
	for i := range t.Len() {
		fmt.Fprintf(&b, "%s=%s;", strings.ToLower(string(t.Name(i))), t.Value(i))
	}
	return b.String()
}

func (r *testRequest) BodyReceived(p []byte) error {
	r.body = append(r.body, p...)
	return nil
}

func (r *testRequest) TrailerReceived(t *field.Table) { r.trailer = textOf(t) }

func (r *testRequest) InterimReceived(head *fieldlist.Head, t *field.Table) {
	r.interim(head.StatusCode, textOf(t))
}

// String says what the response is.
func (r *testRequest) String() string {
	return fmt.Sprintf("%v %s%q %s", r.statuses, r.fields, r.body, r.trailer)
}

// A fakePeer is the server's end of a net.Pipe: it notes the frames that it reads, and
// sends what a test says.
type fakePeer struct {
	t    testing.TB
	conn net.Conn

	writes chan []byte
	ended  chan struct{}

	mu      sync.Mutex
	changed *sync.Cond
	lines   []string // frames that were read
	isEnded bool     // the client has closed the connection
	data    map[uint32][]byte
	pings   [][8]byte

	parser  h2.Parser
	decoder h2.Decoder
	encoder h2.Encoder
	table   field.Table
	head    fieldlist.Head
	kind    fieldlist.Kind
	opened  map[uint32]bool
}

// newPair returns a Conn and its peer, which has sent nothing. The peer reads from now on.
func newPair(t testing.TB, cfg Config, w Watcher) (*Conn, *fakePeer) {
	client, server := net.Pipe()
	p := newPeer(t, server)
	go p.read()
	return NewConn(client, &cfg, w), p
}

func newPeer(t testing.TB, conn net.Conn) *fakePeer {
	p := &fakePeer{
		t: t, conn: conn, data: map[uint32][]byte{}, opened: map[uint32]bool{},
		writes: make(chan []byte, 1000), ended: make(chan struct{}),
	}
	p.changed = sync.NewCond(&p.mu)
	p.decoder.Limits, p.decoder.AcceptsConnect = h1.DefaultLimits, true
	p.decoder.Reset()
	p.encoder.Reset(&h2.Pairs{})
	go p.write()
	return p
}

// write sends what waits, until the client has closed the connection.
func (p *fakePeer) write() {
	for {
		select {
		case frames := <-p.writes:
			_, _ = p.conn.Write(frames)
		case <-p.ended:
			return
		}
	}
}

// read notes what the client sends, until the end.
func (p *fakePeer) read() {
	in := make([]byte, 64<<10)
	for {
		n, err := p.conn.Read(in)
		p.feed(in[:n])
		if err != nil {
			p.mu.Lock()
			p.isEnded = true
			close(p.ended)
			p.changed.Broadcast()
			p.mu.Unlock()
			return
		}
	}
}

// feed notes what was read.
func (p *fakePeer) feed(in []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.changed.Broadcast()
	for {
		used, ev, violation := p.parser.Next(in)
		in = in[used:]
		if violation != nil {
			p.lines = append(p.lines, "violation: "+violation.Error())
			return
		}
		if ev.Kind == h2.EventNone {
			return
		}
		p.note(&ev)
	}
}

func (p *fakePeer) note(ev *h2.Event) {
	end := ""
	if ev.Has(h2.EndStream) {
		end = " end"
	}
	line := ""
	switch ev.Kind {
	case h2.EventHeaders:
		if ev.Has(h2.BlockStart) {
			p.table.Reset()
			p.kind = fieldlist.Request
			if p.opened[ev.Stream] {
				p.kind = fieldlist.Trailer
			}
			p.opened[ev.Stream] = true
			p.decoder.Begin(p.kind, &p.table, &p.head)
		}
		err := p.decoder.Push(ev.Payload)
		if !ev.Has(h2.EndHeaders) {
			return
		}
		if err = errors.Join(err, p.decoder.End()); err != nil {
			line = "block: " + err.Error()
			break
		}
		raw := p.table.Raw()
		if p.kind == fieldlist.Request {
			line = fmt.Sprintf("%d %s %s%s", ev.Stream, p.head.Method.In(raw), p.head.Target.In(raw), end)
		} else {
			line = fmt.Sprintf("%d trailer %s%s", ev.Stream, textOf(&p.table), end)
		}
	case h2.EventData:
		p.data[ev.Stream] = append(p.data[ev.Stream], ev.Payload...)
		if end == "" {
			return
		}
		line = fmt.Sprintf("%d data %d%s", ev.Stream, len(p.data[ev.Stream]), end)
	case h2.EventReset:
		line = fmt.Sprintf("%d reset %v", ev.Stream, ev.Code)
	case h2.EventGoAway:
		line = fmt.Sprintf("goaway %v", ev.Code)
	case h2.EventSetting:
		if !ev.Has(h2.EndSettings) {
			return
		}
		line = "settings"
	case h2.EventSettingsAck:
		line = "settings ack"
	case h2.EventPing:
		p.pings = append(p.pings, ev.Ping)
		line = fmt.Sprintf("ping %s", ev.Ping[:])
	case h2.EventPingAck:
		line = "ping ack"
	case h2.EventWindowUpdate:
		line = fmt.Sprintf("%d window", ev.Stream)
	default:
		line = fmt.Sprintf("kind %d", ev.Kind)
	}
	p.lines = append(p.lines, line)
}

// await waits until the client has sent a frame whose line begins with prefix, and
// forgets the lines up to it.
func (p *fakePeer) await(prefix string) string {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for i, line := range p.lines {
			if strings.HasPrefix(line, prefix) {
				p.lines = p.lines[i+1:]
				return line
			}
		}
		if p.isEnded {
			p.t.Errorf("the client has ended without %q; it has sent %q", prefix, p.lines)
			return ""
		}
		p.changed.Wait()
	}
}

// awaitEnd waits until the client has closed the connection, and returns the lines that
// were not awaited.
func (p *fakePeer) awaitEnd() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.isEnded {
		p.changed.Wait()
	}
	return p.lines
}

// seen returns the lines that were not awaited.
func (p *fakePeer) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.lines...)
}

// send sends frames when the client reads.
func (p *fakePeer) send(frames ...[]byte) {
	p.writes <- bytes.Join(frames, nil)
}

// settings are the frames with which a server begins.
func settings(change func(*h2.Settings)) []byte {
	s, inForce := h2.DefaultSettings(), h2.DefaultSettings()
	if change != nil {
		change(&s)
	}
	return h2.AppendSettings(nil, &s, &inForce)
}

// head is a HEADERS frame of a response or, with status 0, of trailers.
func (p *fakePeer) respond(stream uint32, status int, isLast bool, fields ...string) []byte {
	return p.headIn(stream, status, isLast, h2.MinMaxFrameSize, fields...)
}

func (p *fakePeer) headIn(stream uint32, status int, isLast bool, maxFrame uint32, fields ...string) []byte {
	block := p.encoder.Begin(nil)
	if status != 0 {
		block = p.encoder.AppendStatus(block, status)
	}
	for i := 0; i < len(fields); i += 2 {
		block = p.encoder.AppendField(block, field.Lookup(fields[i]), []byte(fields[i]), []byte(fields[i+1]))
	}
	return h2.AppendHeaders(nil, stream, block, isLast, maxFrame)
}

func data(stream uint32, p string, isLast bool) []byte {
	return append(h2.AppendDataHead(nil, stream, len(p), isLast), p...)
}

// do runs Do on a goroutine of its own.
func do(c *Conn, r *testRequest) <-chan error {
	done := make(chan error, 1)
	go func() { done <- c.Do(&r.stream) }()
	return done
}

// outcomeOf returns the outcome and the cause of err.
func outcomeOf(t testing.TB, err error) (Outcome, error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("the result is %v, not an *Error", err)
	}
	return e.Outcome, e.Err
}

func wantError(t testing.TB, err error, outcome Outcome, cause error) {
	t.Helper()
	if got, why := outcomeOf(t, err); got != outcome || !errors.Is(why, cause) {
		t.Errorf("the result is outcome %d, %v; want %d, %v", got, why, outcome, cause)
	}
}

// in returns the time in d, as deadlines have it.
func in(d time.Duration) int64 { return clock.Nanos() + int64(d) }

// watched notes what a Watcher is told.
type watched struct {
	mu     sync.Mutex
	limits []int
	ended  []error
}

func (w *watched) LimitChanged(limit int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limits = append(w.limits, limit)
}

func (w *watched) Ended(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, err)
}

// String says what w was told. It waits until nothing runs in the bubble of synctest: streams
// that an event ends may return before the Watcher is told.
func (w *watched) String() string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprint(w.limits, w.ended)
}

var errTimeout = os.ErrDeadlineExceeded
