package h2

import "encoding/binary"

// A Side says on which side of the connection a Parser or Settings are.
type Side uint8

const (
	// ServerSide: the peer is a client.
	ServerSide Side = iota
	// ClientSide: the peer is a server.
	ClientSide
)

// Bounds of a field block, without which a few bytes of fields could cost any number
// of frames.
const (
	defaultContinuations  = 16
	maxEmptyContinuations = 4
)

// A parserState is what the Parser reads next.
type parserState uint8

const (
	inPreface   parserState = iota // what a client sends before its first frame
	atFirstHead                    // of a frame that must be SETTINGS
	atHead
	atPadding  // the length of padding
	atPriority // the priority fields of HEADERS
	atValues   // of a control frame
	atUpdate   // the field value of a PRIORITY_UPDATE
	inPieces   // DATA, a field block or debug data
	inSkipped  // padding, and frames that are ignored
)

// A Parser reads the frames that the peer sends. They may arrive in any pieces. The
// zero value is ready on the side of the server. After an error, every call returns
// that error.
//
// It checks all that a frame and the order of frames show (RFC 9113 sections 4 and 6,
// RFC 9218 section 7.1): every check depends only on bytes up to one position, and is
// made when these have arrived. So the result does not depend on how the input is cut.
// It knows no streams.
type Parser struct {
	// Side is where the Parser is.
	Side Side
	// MaxFrameSize is our SETTINGS_MAX_FRAME_SIZE in force; 0: 16,384.
	MaxFrameSize uint32
	// MaxContinuations bounds the CONTINUATION frames of one field block; 0: 16. Of
	// these, four may be empty.
	MaxContinuations uint16

	continuations uint16 // of the open field block
	empty         uint8  // of those, without a byte

	state parserState
	kind  frameType
	flags uint8
	need  uint8 // bytes that the state needs at once
	have  uint8 // bytes of those in partial

	padding uint8 // bytes after the payload
	marks   Marks // of the next piece, and those kept for the end of the block

	units  uint32 // frames that have begun, except those that continue a field block
	length uint32 // of the frame's payload
	left   uint32 // bytes of the payload, without padding
	stream uint32
	block  uint32 // the stream whose field block is open, or 0

	blockErr *Error // of the open field block
	failed   *Error
	partial  [maxPartial]byte
}

// Resume makes the zero value with its options a Parser between two frames: the preface
// and the first SETTINGS frame were read by another Parser.
func (p *Parser) Resume() { p.toHead() }

// BetweenFrames reports whether nothing of a frame has been read, and no field block is
// open. Then Resume on a zero Parser continues. It is false before the first SETTINGS
// frame.
func (p *Parser) BetweenFrames() bool { return p.state == atHead && p.have == 0 && p.block == 0 }

// IsWithin reports whether a frame or a field block has begun and is not complete. Those of
// DATA do not count: their content may take its time.
func (p *Parser) IsWithin() bool {
	return p.have > 0 || p.block != 0 || p.state != atHead && (p.state != inPieces || p.kind != frameData)
}

// Unit returns the number of the newest frame or field block of which something was read.
func (p *Parser) Unit() uint32 {
	if p.state == atHead && p.have > 0 && p.block == 0 {
		return p.units + 1
	}
	return p.units
}

// Next reads from in up to one Event, and returns how many bytes it has used. Call it
// again with the rest until ev.Kind is EventNone; then all input is used. An empty rest
// never makes an Event.
func (p *Parser) Next(in []byte) (used int, ev Event, err *Error) {
	if p.failed != nil {
		return 0, ev, p.failed
	}
	for ev.Kind == EventNone && err == nil {
		rest := in[used:]
		switch p.state {
		case inPreface:
			var n int
			n, err = p.readPreface(rest)
			used += n
			if p.state == inPreface && err == nil {
				return used, ev, nil
			}
		case inPieces:
			if len(rest) == 0 && p.left > 0 {
				return used, ev, nil
			}
			used += p.piece(rest, &ev)
		case inSkipped:
			n := min(uint64(p.left), uint64(len(rest)))
			used += int(n)
			p.left -= uint32(n)
			if p.left > 0 {
				return used, ev, nil
			}
			p.toHead()
		default:
			part, n := p.take(rest)
			used += n
			if part == nil {
				return used, ev, nil
			}
			err = p.read(part, &ev)
		}
	}
	p.failed = err
	return used, ev, err
}

// take returns the bytes that the state needs at once: a part of in, if they lie there
// together.
func (p *Parser) take(in []byte) (part []byte, used int) {
	if p.have == 0 && len(in) >= int(p.need) {
		return in[:p.need], int(p.need)
	}
	used = copy(p.partial[p.have:p.need], in)
	p.have += uint8(used)
	if p.have < p.need {
		return nil, used
	}
	p.have = 0
	return p.partial[:p.need], used
}

// read handles the bytes that the state has needed.
func (p *Parser) read(part []byte, ev *Event) *Error {
	switch p.state {
	case atFirstHead, atHead:
		return p.readHead(part, ev)
	case atPadding:
		return p.readPadding(part[0])
	case atPriority:
		p.left -= priorityLength
		if word(part) == p.stream {
			p.blockErr = ErrSelfDependency
		}
		p.state = inPieces
	case atValues:
		p.left -= uint32(len(part))
		return p.readValues(part, ev)
	case atUpdate:
		*ev = Event{Kind: EventPriorityUpdate, Stream: p.stream, Payload: part}
		p.toHead()
	}
	return nil
}

func (p *Parser) readPreface(in []byte) (used int, err *Error) {
	if p.Side == ServerSide {
		used = min(len(in), len(Preface)-int(p.have))
		if string(in[:used]) != Preface[p.have:int(p.have)+used] {
			return 0, ErrPreface
		}
		p.have += uint8(used)
		if int(p.have) < len(Preface) {
			return used, nil
		}
	}
	p.toHead()
	p.state = atFirstHead
	return used, nil
}

func (p *Parser) toHead() { p.state, p.need, p.have = atHead, FrameHeadSize, 0 }

// wait continues in state with its next n bytes.
func (p *Parser) wait(state parserState, n uint8) *Error {
	p.state, p.need = state, n
	return nil
}

// skip passes over n bytes before the next head.
func (p *Parser) skip(n uint32) { p.state, p.left = inSkipped, n }

func word(b []byte) uint32 { return binary.BigEndian.Uint32(b) & maxWord }

// readHead reads the head of a frame (RFC 9113 section 4.1).
func (p *Parser) readHead(b []byte, ev *Event) *Error {
	p.length = uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
	p.kind, p.flags = frameType(b[3]), b[4]
	p.stream = word(b[5:])
	p.left, p.padding = p.length, 0
	if p.block == 0 {
		p.units++
	}
	if p.state == atFirstHead && (p.kind != frameSettings || p.flags&flagAck != 0) {
		return ErrFirstFrame
	}
	if p.length > max(p.MaxFrameSize, MinMaxFrameSize) {
		return ErrFrameTooLarge
	}
	if p.block != 0 && (p.kind != frameContinuation || p.stream != p.block) {
		return ErrBlockInterrupted
	}
	if err := p.checkStream(); err != nil {
		return err
	}
	switch p.kind {
	case frameData:
		p.marks = FrameStart
		return p.begin()
	case frameHeaders:
		p.block, p.blockErr, p.continuations, p.empty = p.stream, nil, 0, 0
		p.marks = FrameStart | BlockStart
		if p.flags&flagEndStream != 0 {
			p.marks |= EndStream
		}
		return p.begin()
	case frameContinuation:
		return p.beginContinuation()
	case framePushPromise:
		return ErrPush
	default:
		return p.beginControl(ev)
	}
}

// checkStream refuses frames on a stream that their type forbids (RFC 9113 sections
// 5.1.1 and 6). Streams with an even number could only be pushed.
func (p *Parser) checkStream() *Error {
	switch p.kind {
	case frameData, frameHeaders, frameReset:
		if p.stream == 0 {
			return ErrStreamMissing
		}
		if p.stream&1 == 0 {
			return ErrStreamEven
		}
	case frameWindowUpdate:
		if p.stream&1 == 0 && p.stream != 0 {
			return ErrStreamEven
		}
	case framePriority, frameContinuation:
		if p.stream == 0 {
			return ErrStreamMissing
		}
	case frameSettings, framePing, frameGoAway, framePriorityUpdate:
		if p.stream != 0 {
			return ErrStreamForbidden
		}
	}
	return nil
}

// begin continues after the head of DATA or HEADERS.
func (p *Parser) begin() *Error {
	var fixed uint32
	if p.flags&flagPadded != 0 {
		fixed++
	}
	if p.hasPriority() {
		fixed += priorityLength
	}
	if p.length < fixed {
		return ErrFrameLength
	}
	if p.flags&flagPadded != 0 {
		return p.wait(atPadding, 1)
	}
	return p.beginPieces()
}

func (p *Parser) hasPriority() bool { return p.kind == frameHeaders && p.flags&flagPriority != 0 }

func (p *Parser) beginPieces() *Error {
	if p.hasPriority() {
		return p.wait(atPriority, priorityLength)
	}
	p.state = inPieces
	return nil
}

// readPadding reads the length of the padding (RFC 9113 sections 6.1 and 6.2).
func (p *Parser) readPadding(length uint8) *Error {
	p.left--
	fixed := uint32(0)
	if p.hasPriority() {
		fixed = priorityLength
	}
	if uint32(length)+fixed > p.left {
		return ErrPadding
	}
	p.padding = length
	p.left -= uint32(length)
	return p.beginPieces()
}

func (p *Parser) beginContinuation() *Error {
	if p.block == 0 {
		return ErrContinuation
	}
	most := p.MaxContinuations
	if most == 0 {
		most = defaultContinuations
	}
	if p.length == 0 {
		p.empty++
	}
	if p.continuations == most || p.empty > maxEmptyContinuations {
		return ErrContinuations
	}
	p.continuations++
	p.marks |= FrameStart
	p.state = inPieces
	return nil
}

// piece passes on what in has of DATA, a field block or debug data.
func (p *Parser) piece(in []byte, ev *Event) (used int) {
	used = int(min(uint64(p.left), uint64(len(in))))
	p.left -= uint32(used)
	ev.Payload = in[:used]
	if p.kind == frameGoAway {
		ev.Kind = EventDebug
	} else {
		p.describe(ev)
	}
	if p.left == 0 {
		p.toHead()
		if p.padding > 0 {
			p.skip(uint32(p.padding))
		}
	}
	return used
}

// describe completes the Event of a piece of DATA or of a field block.
func (p *Parser) describe(ev *Event) {
	ev.Stream = p.stream
	if p.marks&FrameStart != 0 {
		ev.Length = p.length
		if p.flags&flagPadded != 0 && p.kind != frameContinuation {
			ev.Padding = 1 + uint16(p.padding)
		}
	}
	ev.Marks = p.marks &^ EndStream
	p.marks &= EndStream
	if p.kind == frameData {
		ev.Kind = EventData
		if p.left == 0 && p.flags&flagEndStream != 0 {
			ev.Marks |= EndStream
		}
		return
	}
	ev.Kind = EventHeaders
	if p.left == 0 && p.flags&flagEndHeaders != 0 {
		ev.Marks |= p.marks | EndHeaders
		ev.Err = p.blockErr
		p.block = 0
	}
}
