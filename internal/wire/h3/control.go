package h3

// maxControlFrame is the length of the longest frame of a control stream that has a meaning.
const maxControlFrame = 1 << 10

// An Event is what a frame of a control stream says.
type Event struct {
	// Type is FrameSettings, FrameGoAway or FramePriorityUpdate; otherwise the frame says
	// nothing that matters, and the peer may be charged for it.
	Type     FrameType
	Settings Settings
	// ID is the first request, or for a server the first push, that the sender of
	// FrameGoAway does not process; or the stream of FramePriorityUpdate.
	ID uint64
	// Priority is the field value of FramePriorityUpdate (RFC 9218 section 7.2). It is valid
	// until the next call.
	Priority []byte
}

// A Control parses the control stream of a peer, after its type (RFC 9114 section 6.2.1). The
// zero value is that of a server.
type Control struct {
	Side Side

	reader      FrameReader
	payload     []byte // of a frame that has not arrived
	isSkipping  bool   // the frame has no meaning
	hasSettings bool
	hasGoAway   bool
	goAway      uint64 // the last one
	maxPush     uint64 // the last one of a client
}

// Next parses from in, and returns how many bytes it has used. isEvent is true when they end a
// frame. Unless all of in was used, more frames may follow.
func (c *Control) Next(in []byte) (used int, ev Event, isEvent bool, err *Error) {
	if !c.reader.isInside {
		n, isWhole := c.reader.ReadHeader(in)
		if !isWhole {
			return n, ev, false, nil
		}
		if err := c.admit(); err != nil {
			return n, ev, false, err
		}
		used, in = n, in[n:]
		c.payload = c.payload[:0]
	}
	piece, isEnd := c.reader.Take(in)
	used += len(piece)
	switch {
	case !isEnd && c.isSkipping:
		return used, ev, false, nil
	case !isEnd:
		c.payload = append(c.payload, piece...)
		return used, ev, false, nil
	case c.isSkipping:
		return used, Event{Type: c.reader.Type}, true, nil
	case len(c.payload) > 0:
		piece = append(c.payload, piece...)
		c.payload = piece[:0]
	}
	ev, err = c.read(piece)
	return used, ev, err == nil, err
}

// admit checks the header of a frame.
func (c *Control) admit() *Error {
	t := c.reader.Type
	c.isSkipping = false
	switch {
	case t == FrameSettings:
		if c.hasSettings {
			return ErrSettingsAgain
		}
		c.hasSettings = true
	case !c.hasSettings:
		return ErrMissingSettings
	case t == FrameData, t == FrameHeaders, t == FramePushPromise:
		return ErrFrameOnControl
	case t.isReserved():
		return ErrFrameReserved
	case t == FrameMaxPushID, t == FramePriorityUpdate, t == FramePriorityPush:
		if c.Side == Client {
			return ErrFromServer
		}
	case t != FrameGoAway && t != FrameCancelPush:
		c.isSkipping = true
		return nil
	}
	if c.reader.Left > maxControlFrame {
		return ErrFrameTooLarge
	}
	return nil
}

// read reads a whole frame.
func (c *Control) read(payload []byte) (ev Event, err *Error) {
	ev.Type = c.reader.Type
	if ev.Type == FrameSettings {
		ev.Settings, err = ReadSettings(payload)
		return ev, err
	}
	id, n := ReadVarint(payload)
	ev.ID = id
	isRequest := id%4 == 0 // of a stream that a client has opened, in both directions
	switch isOnlyID := n == len(payload); {
	case n == 0:
		return ev, ErrFrameLength
	case ev.Type == FramePriorityPush:
		return ev, ErrPushID
	case ev.Type == FramePriorityUpdate && !isRequest:
		return ev, ErrPriorityID
	case ev.Type == FramePriorityUpdate:
		ev.Priority = payload[n:]
		return ev, nil
	case !isOnlyID:
		return ev, ErrFrameLength
	case ev.Type == FrameCancelPush:
		return ev, ErrPushID // no push was promised or allowed
	case ev.Type == FrameMaxPushID && id < c.maxPush:
		return ev, ErrMaxPushID
	case ev.Type == FrameMaxPushID:
		c.maxPush = id
		return ev, nil
	case c.Side == Client && !isRequest, c.hasGoAway && id > c.goAway:
		return ev, ErrGoAwayID
	}
	c.hasGoAway, c.goAway = true, id
	return ev, nil
}

// AppendGoAway appends GOAWAY with the first request that is not processed.
func AppendGoAway(dst []byte, id uint64) []byte {
	var room [8]byte
	payload := AppendVarint(room[:0], id)
	return append(AppendFrameHeader(dst, FrameGoAway, uint64(len(payload))), payload...)
}

// A DecoderStream checks the peer's decoder stream, after its type (RFC 9204 section 4.4). The
// only instruction without a dynamic table is Stream Cancellation. The zero value is ready.
type DecoderStream struct {
	isInside bool // an integer continues
	rest     uint8
}

// maxIntegerRest is the number of bytes that an integer of 62 bits has after its first one.
const maxIntegerRest = 9

// Check checks the next bytes.
func (d *DecoderStream) Check(in []byte) *Error {
	for _, c := range in {
		switch {
		case !d.isInside && c>>6 != 1:
			return ErrDecoderStream
		case !d.isInside:
			d.isInside, d.rest = c&0x3f == 0x3f, 0
		default:
			d.isInside = c >= 0x80
			if d.rest++; d.rest > maxIntegerRest {
				return ErrDecoderStream
			}
		}
	}
	return nil
}
