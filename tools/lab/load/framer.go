package load

import (
	"bytes"
	"errors"

	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// What is wrong with a response besides the violations that h1 finds.
var (
	errTruncated = errors.New("the connection ended inside a response")
	errSurplus   = errors.New("there is more than the responses to the requests")
	errSwitched  = errors.New("101 Switching Protocols, which nobody asked for")
	errInterim   = errors.New("too many interim responses")
)

// maxInterim bounds the interim responses before a final one.
const maxInterim = 100

// bodyPhase is which part of a response comes next.
type bodyPhase uint8

const (
	inHead bodyPhase = iota
	inSized
	inChunks
	inTrailer
	untilEnd   // of the connection
	inMessages // of WebSocket
)

// A framer finds the ends of the responses on one connection. Make it with heads;
// it belongs to the thread that heads belongs to.
type framer struct {
	heads   *headReader
	partial *headParser // has read a part of a head or trailer section; nil: there is none
	chunked h1.Chunked
	left    int64 // bytes of a sized body
	outcome outcome
	phase   bodyPhase
	interim uint8
	socket  *socket // nil: this is not WebSocket
}

// outcome is what a head says.
type outcome struct {
	length  int64
	status  int
	flags   h1.Flags
	closes  bool // the connection does not persist
	accepts bool // the handshake of WebSocket
}

// reset prepares for another connection.
func (f *framer) reset() {
	f.heads.put(f.partial)
	*f = framer{heads: f.heads, socket: f.socket}
	if f.socket != nil {
		f.socket.pong = f.socket.pong[:0]
	}
}

// isBetween reports whether nothing of a response was read yet.
func (f *framer) isBetween() bool {
	if f.phase == inMessages {
		return f.socket.reader.IsBetween()
	}
	return f.phase == inHead && f.partial == nil && f.interim == 0
}

// feed reads from in up to the end of a response. isDone says that it is there;
// used is how much of in belongs to it. Otherwise all of in is used. After an
// error the connection is of no use.
func (f *framer) feed(in []byte) (used int, isDone bool, err error) {
	for {
		n, isDone, err := f.step(in[used:])
		used += n
		if isDone && f.phase != inMessages {
			f.phase, f.interim = inHead, 0
		}
		if isDone || err != nil || used == len(in) {
			return used, isDone, err
		}
	}
}

// end reports whether the end of the connection completes a response.
func (f *framer) end() (isDone bool) { return f.phase == untilEnd }

// step reads one part of a response, or all of in.
func (f *framer) step(in []byte) (used int, isDone bool, err error) {
	switch f.phase {
	case inHead:
		return f.head(in)
	case inSized:
		used = int(min(int64(len(in)), f.left))
		f.left -= int64(used)
		return used, f.left == 0, nil
	case inChunks:
		return f.chunks(in)
	case inTrailer:
		used, isComplete, err := f.parse(in)
		return used, isComplete, err
	case inMessages:
		return f.socket.message(in)
	}
	return len(in), false, nil
}

// head reads a head and decides what follows it (RFC 9112 section 6.3).
func (f *framer) head(in []byte) (used int, isDone bool, err error) {
	if f.partial == nil {
		used, known := f.heads.recall(in)
		if known == nil {
			return f.newHead(in)
		}
		f.outcome = *known
		isDone, err = f.body()
		return used, isDone, err
	}
	used, isComplete, err := f.parse(in)
	if err != nil || !isComplete {
		return used, false, err
	}
	isDone, err = f.body()
	return used, isDone, err
}

// newHead reads a head that is not like the one before.
func (f *framer) newHead(in []byte) (used int, isDone bool, err error) {
	f.partial = f.heads.get()
	used, isComplete, err := f.parse(in)
	if err != nil || !isComplete {
		return used, false, err
	}
	f.heads.remember(in[:used], f.outcome)
	isDone, err = f.body()
	return used, isDone, err
}

// parse gives in to the parser of this head or trailer section. When that is
// complete, the parser is free again.
func (f *framer) parse(in []byte) (used int, isComplete bool, err error) {
	p := f.partial
	used, isComplete, err = p.parser.Parse(&p.fields, in)
	if err != nil || !isComplete {
		return used, false, err
	}
	if f.phase == inHead {
		head := &p.parser.Head
		f.outcome = outcome{length: head.ContentLength, status: head.StatusCode, flags: head.Flags, closes: !head.KeepsAlive()}
		if f.heads.handshake != nil {
			f.outcome.accepts = f.heads.handshake.accepts(&p.fields)
		}
	}
	f.heads.put(p)
	f.partial = nil
	return used, true, nil
}

// body prepares for what follows a head.
func (f *framer) body() (isDone bool, err error) {
	o := &f.outcome
	switch {
	case f.socket != nil && (o.status == 101 || o.status >= 200):
		return true, f.upgraded()
	case o.status == 101:
		return false, errSwitched
	case o.status < 200:
		if f.interim++; f.interim > maxInterim {
			return false, errInterim
		}
		return false, nil
	case f.heads.isBodiless || o.status == 204 || o.status == 304:
		return true, nil
	case o.flags&h1.ChunkedBody != 0:
		f.phase, f.chunked = inChunks, h1.Chunked{}
	case o.flags&h1.HasLength != 0:
		f.phase, f.left = inSized, o.length
		return o.length == 0, nil
	default:
		f.phase, o.closes = untilEnd, true
	}
	return false, nil
}

// chunks reads from a chunked body.
func (f *framer) chunks(in []byte) (used int, isDone bool, err error) {
	for used < len(in) && !f.chunked.Done() {
		n, _, err := f.chunked.Next(in[used:])
		if err != nil {
			return used, false, err
		}
		used += n
	}
	if !f.chunked.Done() {
		return used, false, nil
	}
	if rest := in[used:]; len(rest) >= 2 && rest[0] == '\r' && rest[1] == '\n' {
		return used + 2, true, nil // no trailer section
	}
	f.phase = inTrailer
	f.partial = f.heads.get()
	f.partial.parser.Role = h1.Requests // the client refuses folded trailers, too
	f.partial.parser.ResetTrailer()
	return used, false, nil
}

// headParser reads one head or trailer section.
type headParser struct {
	parser h1.HeadParser
	fields field.Table
}

// headReader has what the framers of one thread share.
type headReader struct {
	isBodiless bool       // responses to HEAD
	handshake  *handshake // nil: this is not WebSocket
	// The same bytes mean the same: a head like the one before, which most are
	// while the clock shows the same second, need not be parsed again.
	last    []byte
	outcome outcome
	free    []*headParser
}

// recall returns what the head at the start of in says if it is that before;
// else nil.
func (h *headReader) recall(in []byte) (used int, known *outcome) {
	if len(h.last) == 0 || !bytes.HasPrefix(in, h.last) {
		return 0, nil
	}
	return len(h.last), &h.outcome
}

// remember keeps what a head says.
func (h *headReader) remember(head []byte, o outcome) {
	h.last = append(h.last[:0], head...)
	h.outcome = o
}

// get returns a parser for a head.
func (h *headReader) get() *headParser {
	if n := len(h.free); n > 0 {
		p := h.free[n-1]
		h.free = h.free[:n-1]
		p.parser.Role = h1.Responses
		return p
	}
	p := &headParser{}
	p.parser.Limits, p.parser.Role = h1.DefaultLimits, h1.Responses
	return p
}

// put takes a parser back, if there is one.
func (h *headReader) put(p *headParser) {
	if p == nil {
		return
	}
	p.parser.Reset()
	p.fields.Reset()
	h.free = append(h.free, p)
}
