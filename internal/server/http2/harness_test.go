package http2

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// fakeEngine is the engine.Conn, the Prompter, the Workers and the Host of one
// connection. Tasks run when the test says so.
type fakeEngine struct {
	engine.Conn
	t    testing.TB
	conn *Conn
	cfg  *Config

	mu         sync.Mutex
	tasks      []engine.Task
	isPrompted bool
	exempt     int
	streams    []*testRequest // those that were made

	sleeper      *talker // Wake returns it
	free         []*testRequest
	recycle      bool          // requests are used again
	deadline     int64         // in Nanos, 0: none
	writeTimeout time.Duration // of SetWriteTimeout
	isBlocked    bool          // the peer does not read
	closing      bool          // IsClosing
	cuts         bool          // Stage: StageShutDown
	isLast       bool          // the Protocol has said Close
	isClosed     bool
	slept        int   // how often the connection has slept
	isMoving     bool  // it moves to another process whenever it can
	moved        int   // how often
	failure      error // of Host.Closed
	mostOut      int   // the longest that Conn.out was after Feed

	isStreamed func(r *testRequest) bool
	refuse     func(r *testRequest) error // of HeadComplete
	bodyError  error                      // of BodyReceived
	handler    func(r *testRequest)

	peer peer
}

func (e *fakeEngine) Prompter() engine.Prompter { return e }
func (e *fakeEngine) Workers() engine.Workers   { return e }

func (e *fakeEngine) Prompt() {
	e.mu.Lock()
	e.isPrompted = true
	e.mu.Unlock()
}

func (e *fakeEngine) Go(t engine.Task) {
	e.mu.Lock()
	e.tasks = append(e.tasks, t)
	e.mu.Unlock()
}

func (e *fakeEngine) Exempt(n int) {
	e.mu.Lock()
	e.exempt += n
	e.mu.Unlock()
}

func (e *fakeEngine) SetReadDeadline(now int64, timeout time.Duration) {
	if e.deadline = 0; timeout > 0 {
		e.deadline = now + int64(timeout)
	}
}

func (e *fakeEngine) SetWriteTimeout(timeout time.Duration) { e.writeTimeout = timeout }

func (e *fakeEngine) IsClosing(*server.Facts) bool { return e.closing }

func (e *fakeEngine) Stage() server.Stage {
	switch {
	case e.cuts:
		return server.StageShutDown
	case e.closing:
		return server.StageEnding
	}
	return server.StageServing
}

func (e *fakeEngine) Closed(err error) { e.failure = err }

func (e *fakeEngine) NewRequest(x server.Exchange, _ server.Request) server.Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	var r *testRequest
	if n := len(e.free); n > 0 && e.recycle {
		r, e.free = e.free[n-1], e.free[:n-1]
	} else {
		r = &testRequest{engine: e}
		e.streams = append(e.streams, r)
	}
	r.exchange = x.(*Exchange)
	r.stream = &r.exchange.stream
	return r
}

func (e *fakeEngine) Log(engine.Conn, error)                    {}
func (e *fakeEngine) RunHijacked(net.Conn, func(net.Conn)) bool { return true }
func (e *fakeEngine) NetConn() net.Conn                         { return nil }

func (e *fakeEngine) Wake(c engine.Conn, m engine.Memo) engine.Protocol { return e.sleeper.Wake(c, m) }

// testConfig has small times and the sizes of a server.
func testConfig() *Config {
	settings := h2.DefaultSettings()
	settings.MaxConcurrentStreams = 250
	settings.InitialWindowSize = 64 << 10
	return &Config{
		Settings: settings, Limits: h1.DefaultLimits, Pairs: &h2.Pairs{}, Gauges: &Gauges{}, Records: &Records{},
		ConnWindow: 1 << 20, MaxConnWindow: 16 << 20, MaxStreamWindow: 1 << 20,
		ReadTimeout: 10 * time.Second, StallTimeout: 30 * time.Second, IdleTimeout: time.Minute,
	}
}

// newEngine returns a connection whose preface was exchanged.
func newEngine(t testing.TB, cfg *Config) *fakeEngine {
	e := newSilentEngine(t, cfg)
	e.feed(prefaceAnd(h2.DefaultSettings()))
	e.feed(h2.AppendSettingsAck(nil))
	e.peer.lines = nil
	return e
}

// newSilentEngine returns a connection whose peer has sent nothing.
func newSilentEngine(t testing.TB, cfg *Config) *fakeEngine {
	e := &fakeEngine{t: t, cfg: cfg, handler: func(r *testRequest) { r.stream.Respond(fields{status: 200}, nil) }}
	e.peer.begin()
	e.start()
	return e
}

// start begins the connection.
func (e *fakeEngine) start() {
	e.conn = NewConn(e, e, e.cfg, server.Facts{}, nil)
	e.conn.Start()
	e.pump()
}

func prefaceAnd(s h2.Settings) []byte {
	inForce := h2.DefaultSettings()
	return h2.AppendSettings([]byte(h2.Preface), &s, &inForce)
}

// feed passes in to the Conn, as the engine does, and then sends what there is.
func (e *fakeEngine) feed(in []byte) {
	if e.isLast || e.isClosed {
		return
	}
	used, next := e.conn.Feed(in)
	if used != len(in) {
		e.t.Fatalf("Feed used %d of %d bytes", used, len(in))
	}
	e.conn.mu.Lock() // Tasks may be running
	e.mostOut = max(e.mostOut, len(e.conn.out))
	e.conn.mu.Unlock()
	if next == engine.Run {
		e.Prompt()
	}
	e.pump()
	e.park()
}

// park lets the Conn sleep if it wants to, and wakes it.
func (e *fakeEngine) park() {
	if e.isLast || e.isClosed || !e.conn.Pause() {
		return
	}
	if e.isMoving {
		e.move()
		return
	}
	deadline := e.conn.armed
	record, ok := e.conn.Sleep()
	if !ok {
		return
	}
	e.slept++
	cfg := e.cfg
	e.conn = Wake(e, e, cfg, server.Facts{}, record)
	if deadline != e.conn.armed {
		e.t.Fatalf("the deadline was %d, and is %d", deadline, e.conn.armed)
	}
}

// move hands the connection over to a process that has seen no pairs.
func (e *fakeEngine) move() {
	state, ok := e.conn.Pack(nil)
	if !ok {
		e.t.Fatal("an idle connection cannot be packed")
	}
	e.conn.Closed(nil)
	cfg := *e.cfg
	cfg.Pairs = &h2.Pairs{}
	e.cfg = &cfg
	if e.conn = Unpack(e, e, e.cfg, server.Facts{}, state); e.conn == nil {
		e.t.Fatalf("%x cannot be unpacked", state)
	}
	e.moved++
	e.conn.Start()
	e.pump()
}

func (e *fakeEngine) takePrompt() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.isPrompted
	e.isPrompted = false
	return was
}

// pump sends what the Conn has, unless the peer does not read.
func (e *fakeEngine) pump() {
	for !e.isBlocked && !e.isLast && !e.isClosed && e.takePrompt() {
		out, next := e.conn.Prompted(nil)
		e.sent(out, next)
	}
}

func (e *fakeEngine) sent(out []byte, next engine.Next) {
	if err := e.peer.read(out); err != nil {
		e.t.Fatalf("the peer cannot read what was sent: %v", err)
	}
	e.checkOwners()
	if next != engine.Read {
		e.isLast = true
	}
}

// runTask runs the first task, on this goroutine.
func (e *fakeEngine) runTask() {
	e.mu.Lock()
	t := e.tasks[0]
	e.tasks = e.tasks[1:]
	e.mu.Unlock()
	engine.RunTask(t)
}

// runTasks runs all tasks, and sends what they have answered.
func (e *fakeEngine) runTasks() {
	for len(e.tasks) > 0 {
		e.runTask()
	}
	e.pump()
	e.park()
}

// expire calls TimedOut if the deadline is over. Use it in a synctest bubble.
func (e *fakeEngine) expire() {
	for e.deadline != 0 && e.deadline <= clock.Nanos() && !e.isLast {
		e.deadline = 0
		e.sent(e.conn.TimedOut(nil))
		e.pump()
		e.park()
	}
}

// wait lets d pass, with the time-outs that are due meanwhile. Use it in a synctest
// bubble.
func (e *fakeEngine) wait(d time.Duration) {
	until := clock.Nanos() + int64(d)
	for e.deadline != 0 && e.deadline <= until && !e.isLast {
		time.Sleep(time.Duration(e.deadline - clock.Nanos()))
		e.expire()
		e.pump()
	}
	time.Sleep(time.Duration(max(0, until-clock.Nanos())))
}

// close ends the connection, as the engine does.
func (e *fakeEngine) close() {
	e.isClosed = true
	e.conn.Closed(nil)
	if e.conn.host == nil { // it was released
		e.conn = &Conn{}
	}
}

// checkEnded fails the test unless every request was ended once. Call it after close
// and runTasks.
func (e *fakeEngine) checkEnded() {
	e.t.Helper()
	for _, r := range e.streams {
		if r.ended != 1 {
			e.t.Errorf("request %d: End was called %d times", r.id, r.ended)
		}
	}
	if e.exempt != 0 {
		e.t.Errorf("%d tasks are exempt after the end", e.exempt)
	}
	if n := e.conn.streams.count(); n > 0 {
		e.t.Errorf("%d streams remain", n)
	}
	if e.conn.heads != 0 || e.conn.held != 0 {
		e.t.Errorf("%d bytes of heads and %d of content are counted after the end", e.conn.heads, e.conn.held)
	}
}

// A testRequest is a server.Request that keeps what it was told.
type testRequest struct {
	engine   *fakeEngine
	exchange *Exchange
	stream   *Stream // of exchange
	header   message.RequestHeader
	response message.ResponseHeader
	id       uint32
	body     []byte

	failure error                                                     // of Refuse
	outcome server.Outcome                                            // of Serve
	open    func(c engine.Conn, out []byte) (engine.Protocol, []byte) // of Open
	holds   int                                                       // 0: its content is not its own
	served  int
	ended   int
}

func (r *testRequest) Headers() (*message.RequestHeader, *message.ResponseHeader) {
	return &r.header, &r.response
}

func (r *testRequest) Begin(f *server.Facts, _ int64) { r.id, r.ended = uint32(f.Stream), 0 }

func (r *testRequest) HeadComplete(_, _ bool) error {
	if r.engine.refuse == nil {
		return nil
	}
	return r.engine.refuse(r)
}

func (r *testRequest) ExtendedConnect()      {}
func (r *testRequest) HeaderReceived() error { return nil }

func (r *testRequest) ExpectBody(int64) (isStreamed bool, err error) {
	return r.engine.isStreamed != nil && r.engine.isStreamed(r), nil
}

func (r *testRequest) ExpectContinue(bool) (isWanted bool, err error) { return true, nil }

func (r *testRequest) BodyReceived(p []byte, _ uint64) error {
	r.body = append(r.body, p...)
	return r.engine.bodyError
}

func (r *testRequest) BodyTimeout() time.Duration { return 0 }

func (r *testRequest) Serve(int64) (server.Request, server.Outcome) {
	if r.ended > 0 {
		panic("Serve after End")
	}
	r.served++
	r.engine.handler(r)
	return nil, r.outcome
}

func (r *testRequest) Refuse(err, _ error) { r.served, r.failure = r.served+1, err }

// Respond answers what was refused. Handlers answer themselves.
func (r *testRequest) Respond() bool {
	if r.failure != nil {
		r.stream.Respond(fields{status: 400}, nil)
	}
	return true
}

func (r *testRequest) Decline(int)                        {}
func (r *testRequest) Hijacker() (func(net.Conn), func()) { return nil, nil }
func (r *testRequest) BeginBody()                         {}

func (r *testRequest) Open(c engine.Conn, out []byte) (engine.Protocol, []byte) {
	return r.open(c, out)
}

func (r *testRequest) MayWait() error                    { return nil }
func (r *testRequest) Unread() (server.BodyState, error) { return server.BodyRead, nil }
func (r *testRequest) ReadLimit() (int64, time.Duration) { return 0, 0 }
func (r *testRequest) EndReads()                         {}
func (r *testRequest) Holds() (n int, isOwn bool)        { return r.holds, r.holds > 0 }
func (r *testRequest) IsSpent() bool                     { return false }
func (r *testRequest) Rest() server.Rested               { return r }
func (r *testRequest) Shrink()                           {}

// Wake and Drop make r a server.Rested.
func (r *testRequest) Wake(server.Exchange) server.Request { return r }
func (r *testRequest) Drop()                               { r.End(); r.Release(false) }

func (r *testRequest) Release(bool) {
	r.engine.mu.Lock()
	defer r.engine.mu.Unlock()
	r.engine.free = append(r.engine.free, r)
}

func (r *testRequest) End() server.Request {
	r.ended++
	r.header.Reset()
	r.body, r.failure, r.outcome, r.open = r.body[:0], nil, server.OutcomeResponse, nil
	return nil
}

// readAll reads a streamed body.
func (r *testRequest) readAll() (n int, err error) {
	p := make([]byte, 4<<10)
	for {
		k, err := r.stream.ReadBody(p, func() error { return nil })
		if n += k; err == io.EOF {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
}

// fields is a field list that is sent.
type fields struct {
	status int // 0: a trailer
	extra  string
}

func (f fields) AppendFields(dst []byte, e message.FieldEncoder) []byte {
	if f.status != 0 {
		dst = e.AppendStatus(dst, f.status)
	}
	if f.extra != "" {
		dst = e.AppendField(dst, field.Other, []byte("x-extra"), []byte(f.extra))
	}
	return dst
}

// A peer is the client's end: it encodes requests and reads what was sent.
type peer struct {
	encoder h2.Encoder
	parser  h2.Parser
	decoder h2.Decoder
	head    fieldlist.Head
	table   field.Table
	lines   []string // what was read
	data    map[uint32]int
	credit  map[uint32]int // increments by stream
	open    map[uint32]bool
	isQuiet bool // lines are not kept
	goAway  h2.Code
	hasGone bool
}

func (p *peer) begin() {
	p.encoder.Reset(&h2.Pairs{})
	p.parser.Side = h2.ClientSide
	p.decoder.Limits = h1.Limits{MaxLine: 1 << 20, MaxHead: 1 << 20, MaxFields: 1 << 16}
	p.decoder.Reset()
	p.data, p.credit, p.open = map[uint32]int{}, map[uint32]int{}, map[uint32]bool{}
}

func (p *peer) note(format string, args ...any) {
	if !p.isQuiet {
		p.lines = append(p.lines, fmt.Sprintf(format, args...))
	}
}

func (p *peer) read(in []byte) error {
	for {
		n, ev, err := p.parser.Next(in)
		in = in[n:]
		if err != nil {
			return err
		}
		if ev.Kind == h2.EventNone {
			return nil
		}
		if err := p.handle(&ev); err != nil {
			return err
		}
	}
}

func (p *peer) handle(ev *h2.Event) error {
	end := ""
	if ev.Has(h2.EndStream) {
		end = " END"
	}
	switch ev.Kind {
	case h2.EventHeaders:
		return p.headers(ev, end)
	case h2.EventData:
		p.data[ev.Stream] += len(ev.Payload)
		p.note("DATA %d %d%s", ev.Stream, len(ev.Payload), end)
	case h2.EventSetting:
		if ev.Has(h2.EndSettings) {
			p.note("SETTINGS")
		}
	case h2.EventSettingsAck:
		p.note("SETTINGS ACK")
	case h2.EventPing:
		p.note("PING %s", ev.Ping[:])
	case h2.EventPingAck:
		p.note("PING ACK")
	case h2.EventWindowUpdate:
		p.credit[ev.Stream] += int(ev.Value)
		p.note("WINDOW_UPDATE %d %d", ev.Stream, ev.Value)
	case h2.EventReset:
		p.note("RST_STREAM %d %v", ev.Stream, ev.Code)
	case h2.EventGoAway:
		p.goAway, p.hasGone = ev.Code, true
		p.note("GOAWAY %d %v", ev.Stream, ev.Code)
	}
	return nil
}

func (p *peer) headers(ev *h2.Event, end string) error {
	if ev.Has(h2.BlockStart) {
		p.table.Reset()
		kind := fieldlist.Response
		if p.open[ev.Stream] {
			kind = fieldlist.Trailer
		}
		p.decoder.Begin(kind, &p.table, &p.head)
	}
	if err := p.decoder.Push(ev.Payload); err != nil {
		return err
	}
	if !ev.Has(h2.EndHeaders) {
		return nil
	}
	if err := p.decoder.End(); err != nil {
		return err
	}
	if p.open[ev.Stream] {
		p.note("TRAILER %d%s", ev.Stream, end)
		return nil
	}
	p.open[ev.Stream] = p.head.StatusCode >= 200
	p.note("HEADERS %d %d%s", ev.Stream, p.head.StatusCode, end)
	return nil
}

// took returns what was read since the last call, in one line.
func (p *peer) took() string {
	s := strings.Join(p.lines, ", ")
	p.lines = nil
	return s
}

var (
	get  = fieldlist.RequestFields{Method: []byte("GET"), Scheme: []byte("http"), Authority: []byte("a"), Path: []byte("/")}
	post = fieldlist.RequestFields{Method: []byte("POST"), Scheme: []byte("http"), Authority: []byte("a"), Path: []byte("/")}
)

// request appends the head of a request with fields name, value, ….
func (p *peer) request(dst []byte, stream uint32, r fieldlist.RequestFields, isLast bool, more ...string) []byte {
	start := len(dst)
	dst = h2.BeginHeaders(dst)
	dst = p.encoder.AppendRequest(p.encoder.Begin(dst), r)
	for i := 0; i < len(more); i += 2 {
		name := []byte(more[i])
		dst = p.encoder.AppendField(dst, field.Lookup(name), name, []byte(more[i+1]))
	}
	return h2.FinishHeaders(dst, start, stream, isLast, h2.MinMaxFrameSize)
}

// trailer appends a trailer section.
func (p *peer) trailer(dst []byte, stream uint32, isLast bool) []byte {
	start := len(dst)
	dst = fields{extra: "trailer"}.AppendFields(p.encoder.Begin(h2.BeginHeaders(dst)), &p.encoder)
	return h2.FinishHeaders(dst, start, stream, isLast, h2.MinMaxFrameSize)
}

// data appends a DATA frame.
func data(dst []byte, stream uint32, n int, isLast bool) []byte {
	return append(h2.AppendDataHead(dst, stream, n, isLast), make([]byte, n)...)
}

// paddedData appends a DATA frame with n bytes and padding.
func paddedData(dst []byte, stream uint32, n int, padding uint8, isLast bool) []byte {
	payload := append([]byte{padding}, make([]byte, n+int(padding))...)
	flags := byte(0x8)
	if isLast {
		flags |= 0x1
	}
	return frame(dst, 0x0, flags, stream, payload)
}

// frame appends any frame.
func frame(dst []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	dst = append(dst, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	dst = binary.BigEndian.AppendUint32(dst, stream)
	return append(dst, payload...)
}

// setting appends a SETTINGS frame of ids and values.
func setting(dst []byte, values ...uint32) []byte {
	var payload []byte
	for i := 0; i < len(values); i += 2 {
		payload = binary.BigEndian.AppendUint16(payload, uint16(values[i]))
		payload = binary.BigEndian.AppendUint32(payload, values[i+1])
	}
	return frame(dst, 0x4, 0, 0, payload)
}
