package h3

// A Side is an end of a connection.
type Side uint8

const (
	// Server: it receives requests.
	Server Side = iota
	// Client: it receives responses.
	Client
)

// A part is what a Message may have next.
type part uint8

const (
	atHead   part = iota // HEADERS
	atBody               // DATA, or HEADERS with trailer fields
	atEnd                // only the end of the stream, and frames without a meaning
	inTunnel             // DATA
)

// A Message checks the order of the frames of one message on a request stream (RFC 9114
// section 4.1). The zero value is a request that a server receives.
type Message struct {
	Side Side
	next part
}

// Admit is called with the type of each frame. isKnown is false for one that has no meaning,
// whose payload is passed over.
func (m *Message) Admit(t FrameType) (isKnown bool, err *Error) {
	switch {
	case t == FrameData:
		switch m.next {
		case atHead:
			return false, ErrDataFirst
		case atEnd:
			return false, ErrAfterTrailer
		}
		return true, nil
	case t == FrameHeaders:
		switch m.next {
		case inTunnel:
			return false, ErrTunnelFrame
		case atEnd:
			return false, ErrAfterTrailer
		}
		return true, nil
	case t == FramePushPromise:
		return false, ErrPush
	case t.isReserved():
		return false, ErrFrameReserved
	case t == FrameSettings, t == FrameGoAway, t == FrameCancelPush, t == FrameMaxPushID, t == FramePriorityUpdate, t == FramePriorityPush:
		return false, ErrFrameOnRequest
	}
	return false, nil
}

// IsTrailer reports whether the HEADERS that was admitted has trailer fields.
func (m *Message) IsTrailer() bool { return m.next == atBody }

// HeadReceived says that the head was received. An interim response is followed by another head.
func (m *Message) HeadReceived(isInterim bool) {
	if !isInterim {
		m.next = atBody
	}
}

// TrailerReceived says that the trailer fields were received.
func (m *Message) TrailerReceived() { m.next = atEnd }

// Tunnel says that the stream is a tunnel from now on (RFC 9114 section 4.4).
func (m *Message) Tunnel() { m.next = inTunnel }

// End is called at the end of the stream, between two frames. It returns ErrIncomplete or
// ErrNoResponse if the head is missing.
func (m *Message) End() *Error {
	switch {
	case m.next != atHead:
		return nil
	case m.Side == Client:
		return ErrNoResponse
	}
	return ErrIncomplete
}
