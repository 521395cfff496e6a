package h3

// A FrameType is the type of a frame (RFC 9114 section 7.2).
type FrameType uint64

// The frames of RFC 9114 section 7.2 and RFC 9218 section 7.2.
const (
	FrameData           FrameType = 0x0
	FrameHeaders        FrameType = 0x1
	FrameCancelPush     FrameType = 0x3
	FrameSettings       FrameType = 0x4
	FramePushPromise    FrameType = 0x5
	FrameGoAway         FrameType = 0x7
	FrameMaxPushID      FrameType = 0xd
	FramePriorityUpdate FrameType = 0xf0700 // of a request
	FramePriorityPush   FrameType = 0xf0701
)

// isReserved reports whether the type is one of HTTP/2 that HTTP/3 does not have (RFC 9114
// section 7.2.8).
func (t FrameType) isReserved() bool { return t == 0x2 || t == 0x6 || t == 0x8 || t == 0x9 }

// maxFrameHeader is the length of the longest header of a frame: its type and its length.
const maxFrameHeader = 16

// AppendFrameHeader appends the header of a frame with a payload of so many bytes.
func AppendFrameHeader(dst []byte, t FrameType, length uint64) []byte {
	return AppendVarint(AppendVarint(dst, uint64(t)), length)
}

// A FrameReader finds the frames of a stream, whose bytes may arrive in any pieces. The zero
// value is at the beginning of a frame.
type FrameReader struct {
	Type FrameType
	Left uint64 // bytes of the payload that Next has not returned

	header   [maxFrameHeader]byte // the beginning of a header that has not arrived
	have     uint8
	isInside bool // the header was read, and the frame has not ended
}

// IsBetween reports whether the stream may end here: between two frames.
func (r *FrameReader) IsBetween() bool { return r.have == 0 && !r.isInside }

// ReadHeader reads the header of the next frame, and returns how many bytes of in it has used.
// If isWhole, Type and Left are those of the frame. Otherwise all of in was used.
func (r *FrameReader) ReadHeader(in []byte) (used int, isWhole bool) {
	header := in
	if r.have > 0 {
		header = r.header[:r.have+uint8(copy(r.header[r.have:], in))]
	}
	t, n := ReadVarint(header)
	if n > 0 {
		if length, m := ReadVarint(header[n:]); m > 0 {
			used = n + m - int(r.have)
			r.Type, r.Left, r.have, r.isInside = FrameType(t), length, 0, true
			return used, true
		}
	}
	if r.have == 0 {
		copy(r.header[:], in)
	}
	r.have = uint8(len(header))
	return len(in), false
}

// Take returns what in has of the payload. The frame ends with its last byte: isEnd tells
// that, also for a frame without a payload.
func (r *FrameReader) Take(in []byte) (payload []byte, isEnd bool) {
	payload = in[:min(uint64(len(in)), r.Left)]
	r.Left -= uint64(len(payload))
	isEnd = r.Left == 0
	r.isInside = !isEnd
	return payload, isEnd
}
