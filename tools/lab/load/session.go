package load

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// What is wrong with responses over HTTP/2 besides the violations that h2 finds.
var (
	errNoSettings = errors.New("the server ends the connection before its SETTINGS")
	errUnasked    = errors.New("a frame on a stream that was not opened")
	errNoHead     = errors.New("DATA before the head of a response")
	errHasBody    = errors.New("a body where there must be none")
	errLength     = errors.New("the body has not the length of content-length")
)

// A resetError is the RST_STREAM that ended a stream, or the GOAWAY that ended a
// connection.
type resetError struct {
	frame string
	code  h2.Code
}

// Error implements error.
func (e *resetError) Error() string {
	return fmt.Sprintf("the server sends %s with %v (0x%x)", e.frame, e.code, uint32(e.code))
}

const (
	// ownWindow is what we admit on a stream and on a connection, as h2load does: flow
	// control must not limit the server. Credit is returned in quarters.
	ownWindow  = 1<<30 - 1
	leastOwed  = ownWindow / 4
	maxWaiting = 256 << 10 // bytes of output, beyond which bodies wait
	noLength   = -1
)

// A http2Plan is what all connections of a run over HTTP/2 send.
type http2Plan struct {
	greeting []byte // preface, SETTINGS and WINDOW_UPDATE
	pseudo   fieldlist.RequestFields
	fields   field.Table
	body     []byte
	isHead   bool
	depth    int      // streams that a connection has open at the same time
	pairs    h2.Pairs // of the request
}

// newHTTP2Plan translates a request of HTTP/1.1.
func newHTTP2Plan(c *Config) (*http2Plan, error) {
	p := &http2Plan{isHead: c.IsHead, depth: c.Depth}
	p.fields.KeepNames = true
	size := len(c.Request)
	parser := h1.HeadParser{Role: h1.Requests, Limits: h1.Limits{MaxLine: size, MaxHead: size, MaxFields: size}}
	used, isComplete, err := parser.Parse(&p.fields, c.Request)
	if err == nil && !isComplete {
		err = errors.New("its head is not complete")
	}
	if err != nil {
		return nil, fmt.Errorf("the request cannot be sent over HTTP/2: %w", err)
	}
	raw := p.fields.Raw()
	p.body = c.Request[used:]
	p.pseudo = fieldlist.RequestFields{Method: parser.Method.In(raw), Scheme: []byte("http"), Path: parser.Target.In(raw),
		Authority: p.fields.Get(field.Host)}
	if c.TLS != nil {
		p.pseudo.Scheme = []byte("https")
	}
	settings, defaults := h2.DefaultSettings(), h2.DefaultSettings()
	settings.EnablePush = false
	settings.InitialWindowSize = ownWindow
	p.greeting = h2.AppendSettings([]byte(h2.Preface), &settings, &defaults)
	p.greeting = h2.AppendWindowUpdate(p.greeting, 0, ownWindow-defaults.InitialWindowSize)
	// Fields become pairs when they were seen a few times: before the run.
	var encoder h2.Encoder
	encoder.Reset(&p.pairs)
	for range 8 {
		p.appendFields(nil, &encoder)
	}
	return p, nil
}

// appendFields appends the field block of the request.
func (p *http2Plan) appendFields(dst []byte, e *h2.Encoder) []byte {
	dst = e.AppendRequest(e.Begin(dst), p.pseudo)
	for i := range p.fields.Len() {
		if id := p.fields.ID(i); id != field.Host {
			dst = e.AppendField(dst, id, p.fields.Name(i), p.fields.Value(i))
		}
	}
	return dst
}

// An exchange is a request under way, and its response.
type exchange struct {
	id      uint32 // of the stream; 0: none
	held    uint32 // bytes that were received, and whose credit was not returned
	due     int64
	sent    int64
	left    int64 // bytes of the response's body that are missing, or noLength
	unsent  int   // bytes of the request's body
	window  h2.SendWindow
	status  int // 0: the final head has not come
	interim uint8
}

// newsKind is what a session tells of.
type newsKind uint8

const (
	noNews   newsKind = iota // all input is used
	greeted                  // the server's SETTINGS have come: requests may be sent
	answered                 // the response of an exchange is complete
	failed                   // an exchange has failed, the others go on
	leaving                  // the server accepts no more requests: it has sent GOAWAY
)

// news is what a session has found. After answered and failed, drop the exchange.
type news struct {
	kind  newsKind
	fault Kind // of failed
	x     *exchange
	last  uint32 // of leaving: the last stream that the server has processed or will
	err   error  // of failed, and of leaving if an error is why
}

// A session is the client's end of one HTTP/2 connection: frames go in and out; it does
// no I/O. Call reset for each connection.
type session struct {
	plan    *http2Plan
	parser  h2.Parser
	decoder h2.Decoder
	encoder h2.Encoder
	head    fieldlist.Head
	fields  field.Table
	out     []byte // what is to be sent

	slots     []exchange // a stream's place is its number; a power of two
	open      int        // streams
	next      uint32     // the number of the next stream
	isGreeted bool
	isLeaving bool

	peer    h2.Settings
	initial uint32 // the initial window before the SETTINGS that arrive
	window  h2.SendWindow
	held    uint32   // bytes that were received on the connection, whose credit was not returned
	bodies  []uint32 // streams with a part of a body to send

	request  []byte // the HEADERS of the last request, on stream 0
	isSteady bool   // and of all that follow

	block    *exchange // whose field block arrives; nil: nobody's
	kind     fieldlist.Kind
	last     []byte // the block of the last response
	outcome  outcome
	isKnown  bool // a block like last means outcome, and leaves the table as it is
	isPieced bool // the block does not lie in one piece
}

func newSession(p *http2Plan) *session {
	size := 2
	for size < 2*p.depth {
		size *= 2
	}
	s := &session{plan: p, slots: make([]exchange, size)}
	s.decoder.Limits = h1.DefaultLimits
	return s
}

// reset prepares for another connection, and has the greeting sent. What was under way is
// forgotten.
func (s *session) reset() {
	s.clear()
	s.parser = h2.Parser{Side: h2.ClientSide}
	s.decoder.Reset()
	s.encoder.Reset(&s.plan.pairs)
	s.out = append(s.out[:0], s.plan.greeting...)
	s.next, s.isGreeted, s.isLeaving = 1, false, false
	s.peer = h2.DefaultSettings()
	s.window, s.held = h2.SendWindow(s.peer.InitialWindowSize), 0
	s.request, s.isSteady = s.request[:0], false
	s.isKnown, s.block = false, nil
}

// clear forgets what is under way.
func (s *session) clear() {
	if s.open > 0 {
		clear(s.slots)
	}
	s.open, s.bodies, s.block = 0, s.bodies[:0], nil
}

// room returns how many requests may be begun now.
func (s *session) room() int {
	if !s.isGreeted || s.isLeaving {
		return 0
	}
	return max(int(min(int64(s.plan.depth), int64(s.peer.MaxConcurrentStreams)))-s.open, 0)
}

// at returns the place of a stream.
func (s *session) at(id uint32) *exchange { return &s.slots[id>>1&uint32(len(s.slots)-1)] }

// find returns the exchange of a stream, or nil.
func (s *session) find(id uint32) *exchange {
	if x := s.at(id); x.id == id {
		return x
	}
	return nil
}

// begin appends a request, for which there is room.
func (s *session) begin(due, now int64) {
	x := s.at(s.next)
	for x.id != 0 { // a slow one has the place: its number is left out
		s.next += 2
		x = s.at(s.next)
	}
	*x = exchange{id: s.next, due: due, sent: now, left: noLength, unsent: len(s.plan.body), window: h2.SendWindow(s.peer.InitialWindowSize)}
	s.open++
	if s.next += 2; s.next > h2.MaxStream-4*uint32(len(s.slots)) {
		s.isLeaving = true // there are no numbers left
	}
	s.appendRequest(x)
	if x.unsent > 0 {
		s.bodies = append(s.bodies, x.id)
		s.pump()
	}
}

// appendRequest appends the HEADERS of a request. It is encoded anew until the peer's
// table has all that repeats.
func (s *session) appendRequest(x *exchange) {
	const idAt = 5 // in the head of a frame
	start := len(s.out)
	if s.isSteady {
		s.out = append(s.out, s.request...)
		binary.BigEndian.PutUint32(s.out[start+idAt:], x.id)
		return
	}
	s.out = s.plan.appendFields(h2.BeginHeaders(s.out), &s.encoder)
	isWhole := len(s.out)-start-h2.FrameHeadSize <= int(s.peer.MaxFrameSize)
	s.out = h2.FinishHeaders(s.out, start, x.id, x.unsent == 0, s.peer.MaxFrameSize)
	frame := s.out[start:]
	isSame := len(frame) == len(s.request) && bytes.Equal(frame[h2.FrameHeadSize:], s.request[h2.FrameHeadSize:])
	s.isSteady = isWhole && isSame && s.peer.HeaderTableSize >= h2.DefaultTableSize
	s.request = append(s.request[:0], frame...)
}

// pump appends bodies, as far as the windows permit it.
func (s *session) pump() {
	waiting := s.bodies[:0]
	for _, id := range s.bodies {
		x := s.find(id)
		if x == nil {
			continue
		}
		for x.unsent > 0 && len(s.out) < maxWaiting {
			n := int(min(int64(x.unsent), int64(x.window), int64(s.window), int64(s.peer.MaxFrameSize)))
			if n <= 0 {
				break
			}
			body := s.plan.body[len(s.plan.body)-x.unsent:]
			x.unsent -= n
			x.window.Take(n)
			s.window.Take(n)
			s.out = append(h2.AppendDataHead(s.out, id, n, x.unsent == 0), body[:n]...)
		}
		if x.unsent > 0 {
			waiting = append(waiting, id)
		}
	}
	s.bodies = waiting
}

// sent is called when all of out was sent.
func (s *session) sent() {
	s.out = s.out[:0]
	if len(s.bodies) > 0 {
		s.pump()
	}
}

// drop forgets an exchange. A request that is not all sent is cancelled.
func (s *session) drop(x *exchange) {
	if x.unsent > 0 {
		s.out = h2.AppendReset(s.out, x.id, h2.CodeCancel)
	}
	if s.block == x {
		s.block = nil
	}
	*x = exchange{}
	s.open--
}

// cancel gives an exchange up.
func (s *session) cancel(x *exchange) {
	if x.unsent == 0 {
		s.out = h2.AppendReset(s.out, x.id, h2.CodeCancel)
	}
	s.drop(x)
}

// unprocessed removes the requests that the server has not processed and will not, and
// appends when they were due to dst.
func (s *session) unprocessed(dst []int64, last uint32) []int64 {
	for i := range s.slots {
		if x := &s.slots[i]; x.id > last {
			dst = append(dst, x.due)
			x.unsent = 0
			s.drop(x)
		}
	}
	return dst
}

// underWay appends when the requests under way were due to dst.
func (s *session) underWay(dst []int64) []int64 {
	for i := range s.slots {
		if x := &s.slots[i]; x.id != 0 {
			dst = append(dst, x.due)
		}
	}
	return dst
}

// feed reads from in up to the next news. After an error the connection is of no use.
func (s *session) feed(in []byte) (used int, n news, err error) {
	for n.kind == noNews && err == nil {
		size, ev, violation := s.parser.Next(in[used:])
		used += size
		if violation != nil {
			return used, n, violation
		}
		if ev.Kind == h2.EventNone {
			return used, n, nil
		}
		n, err = s.handle(&ev)
	}
	return used, n, err
}

// handle acts on a frame.
func (s *session) handle(ev *h2.Event) (n news, err error) {
	switch ev.Kind {
	case h2.EventHeaders:
		return s.fieldsReceived(ev)
	case h2.EventData:
		return s.dataReceived(ev)
	case h2.EventSetting:
		return s.settingReceived(ev)
	case h2.EventPing:
		s.out = h2.AppendPing(s.out, ev.Ping, true)
	case h2.EventWindowUpdate:
		return n, s.windowReceived(ev)
	case h2.EventReset:
		if x := s.find(ev.Stream); x != nil {
			x.unsent = 0 // nothing to cancel
			n = news{kind: failed, fault: Reset, x: x, err: &resetError{"RST_STREAM", ev.Code}}
			if ev.Code == h2.CodeRefusedStream {
				n.fault = Refused
			}
		}
	case h2.EventGoAway:
		s.isLeaving = true
		n = news{kind: leaving, last: ev.Stream}
		if ev.Code != h2.CodeNoError {
			n.err = &resetError{"GOAWAY", ev.Code}
		}
	case h2.EventStreamError:
		if x := s.find(ev.Stream); x != nil {
			return s.invalid(x, ev.Err), nil
		}
	}
	return n, nil
}

// invalid ends an exchange whose response is none.
func (s *session) invalid(x *exchange, err error) news {
	if x.unsent == 0 {
		s.out = h2.AppendReset(s.out, x.id, h2.CodeProtocolError)
	}
	return news{kind: failed, fault: Invalid, x: x, err: err}
}

func (s *session) settingReceived(ev *h2.Event) (n news, err error) {
	if ev.Has(h2.FrameStart) {
		s.initial = s.peer.InitialWindowSize
	}
	tableSize := s.peer.HeaderTableSize
	if violation := s.peer.Apply(ev.Setting, ev.Value); violation != nil {
		return n, violation
	}
	if s.peer.HeaderTableSize != tableSize {
		s.encoder.SetLimit(int(min(s.peer.HeaderTableSize, h2.MaxTableSize)))
		s.request, s.isSteady = s.request[:0], false
	}
	if !ev.Has(h2.EndSettings) {
		return n, nil
	}
	s.out = h2.AppendSettingsAck(s.out)
	if s.peer.InitialWindowSize != s.initial {
		for i := range s.slots {
			if x := &s.slots[i]; x.id != 0 && !x.window.Shift(s.initial, s.peer.InitialWindowSize) {
				return n, h2.ErrWindowOverflow
			}
		}
		s.pump()
	}
	if !s.isGreeted {
		s.isGreeted = true
		n.kind = greeted
	}
	return n, nil
}

func (s *session) windowReceived(ev *h2.Event) error {
	window := &s.window
	if ev.Stream != 0 {
		x := s.find(ev.Stream)
		if x == nil {
			return s.known(ev.Stream)
		}
		window = &x.window
	}
	if !window.Add(ev.Value) {
		return h2.ErrWindowOverflow
	}
	if len(s.bodies) > 0 {
		s.pump()
	}
	return nil
}

// known returns an error if a stream that is not open never was.
func (s *session) known(id uint32) error {
	if id >= s.next {
		return errUnasked
	}
	return nil
}

// dataReceived handles a piece of DATA.
func (s *session) dataReceived(ev *h2.Event) (n news, err error) {
	if s.held += ev.Length; s.held >= leastOwed {
		s.out = h2.AppendWindowUpdate(s.out, 0, s.held)
		s.held = 0
	}
	x := s.find(ev.Stream)
	switch {
	case x == nil:
		return n, s.known(ev.Stream)
	case x.status == 0:
		return s.invalid(x, errNoHead), nil
	case s.plan.isHead && len(ev.Payload) > 0:
		return s.invalid(x, errHasBody), nil
	}
	if x.held += ev.Length; x.held >= leastOwed {
		s.out = h2.AppendWindowUpdate(s.out, x.id, x.held)
		x.held = 0
	}
	if x.left != noLength {
		if x.left -= int64(len(ev.Payload)); x.left < 0 {
			return s.invalid(x, errLength), nil
		}
	}
	if ev.Has(h2.EndStream) {
		return s.ended(x), nil
	}
	return n, nil
}

// ended handles the end of a response.
func (s *session) ended(x *exchange) news {
	switch {
	case x.status == 0:
		return s.invalid(x, errNoHead)
	case x.left > 0:
		return s.invalid(x, errLength)
	}
	return news{kind: answered, x: x}
}

// fieldsReceived handles a piece of a field block. All blocks are decoded, because the
// tables of both sides must agree.
func (s *session) fieldsReceived(ev *h2.Event) (n news, err error) {
	if ev.Has(h2.BlockStart) {
		if s.block = s.find(ev.Stream); s.block == nil {
			if err := s.known(ev.Stream); err != nil {
				return n, err
			}
		}
		s.isPieced = !ev.Has(h2.EndHeaders)
		isHead := s.block != nil && s.block.status == 0
		if isHead && !s.isPieced && s.isKnown && ev.Err == nil && bytes.Equal(ev.Payload, s.last) {
			return s.headReceived(ev.Has(h2.EndStream)), nil
		}
		s.kind = fieldlist.Unwanted
		s.fields.Reset()
		switch {
		case isHead:
			s.kind = fieldlist.Response
		case s.block != nil:
			s.kind = fieldlist.Trailer
		}
		s.decoder.Begin(s.kind, &s.fields, &s.head)
	}
	if err := s.decoder.Push(ev.Payload); err != nil {
		return n, err
	}
	if !ev.Has(h2.EndHeaders) {
		return n, nil
	}
	err = s.decoder.End()
	if violation, ok := err.(*h2.Error); ok && violation.Scope == h2.ConnectionScope {
		return n, err
	}
	if ev.Err != nil {
		err = ev.Err
	}
	keeps := !s.isPieced && leavesTable(ev.Payload)
	s.isKnown = s.isKnown && keeps
	switch {
	case s.block == nil:
		return n, nil
	case err != nil:
		return s.invalid(s.block, err), nil
	case s.kind == fieldlist.Trailer && !ev.Has(h2.EndStream):
		return s.invalid(s.block, h2.ErrTrailerNotLast), nil
	case s.kind == fieldlist.Trailer:
		return s.ended(s.block), nil
	}
	s.outcome = outcome{status: s.head.StatusCode, flags: s.head.Flags, length: s.head.ContentLength}
	s.isKnown = keeps
	s.last = append(s.last[:0], ev.Payload...)
	return s.headReceived(ev.Has(h2.EndStream)), nil
}

// headReceived takes the head that is in s.outcome.
func (s *session) headReceived(isLast bool) (n news) {
	x, o := s.block, &s.outcome
	s.block = nil
	if o.status < 200 {
		if x.interim++; x.interim > maxInterim {
			return s.invalid(x, errInterim)
		}
		if isLast {
			return s.invalid(x, errNoHead)
		}
		return n
	}
	x.status = o.status
	if o.flags&h1.HasLength != 0 && !s.plan.isHead && o.status != 304 {
		x.left = o.length
	}
	if isLast {
		return s.ended(x)
	}
	return n
}

// leavesTable reports whether a field block, which was decoded, has left the table as it
// was: it has only indexed fields and literals without indexing (RFC 7541 section 6).
func leavesTable(block []byte) bool {
	for len(block) > 0 {
		switch first := block[0]; {
		case first >= 0x80:
			_, block = readNumber(block, 0x7f)
		case first >= 0x20: // an insertion, or another size
			return false
		default:
			var index int
			if index, block = readNumber(block, 0x0f); index == 0 {
				block = skipString(block)
			}
			block = skipString(block)
		}
	}
	return true
}

// readNumber reads an integer (RFC 7541 section 5.1).
func readNumber(in []byte, mask byte) (n int, rest []byte) {
	n, in = int(in[0]&mask), in[1:]
	if n < int(mask) {
		return n, in
	}
	for shift := 0; len(in) > 0; shift += 7 {
		b := in[0]
		n, in = n+int(b&0x7f)<<shift, in[1:]
		if b < 0x80 {
			break
		}
	}
	return n, in
}

// skipString skips a string (RFC 7541 section 5.2).
func skipString(in []byte) (rest []byte) {
	if len(in) == 0 {
		return nil
	}
	n, in := readNumber(in, 0x7f)
	return in[min(n, len(in)):]
}
