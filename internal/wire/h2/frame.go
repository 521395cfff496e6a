package h2

// Preface is what a client sends before its first frame (RFC 9113 section 3.4).
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// MaxStream is the largest identifier of a stream, and the Last of a GOAWAY that does
// not yet refuse streams (RFC 9113 section 6.8).
const MaxStream = 1<<31 - 1

// Sizes of frames (RFC 9113 sections 4.1 and 4.2).
const (
	FrameHeadSize   = 9          // bytes of a frame's head
	MinMaxFrameSize = 16 << 10   // bytes of payload that every endpoint accepts; the default
	MaxMaxFrameSize = 1<<24 - 1  // the largest SETTINGS_MAX_FRAME_SIZE
	maxWindow       = 1<<31 - 1  // RFC 9113 section 6.9.1
	maxWord         = 1<<31 - 1  // without the reserved bit
	settingSize     = 2 + 4      // RFC 9113 section 6.5.1
	priorityLength  = 4 + 1      // stream dependency and weight; RFC 9113 section 6.3
	maxPartial      = 16         // bytes that a Parser keeps from one input to the next
	maxUpdateValue  = maxPartial // bytes of the field value of a PRIORITY_UPDATE
)

// A frameType is the type of a frame (RFC 9113 section 6, RFC 9218 section 7.1).
type frameType uint8

const (
	frameData           frameType = 0x0
	frameHeaders        frameType = 0x1
	framePriority       frameType = 0x2
	frameReset          frameType = 0x3
	frameSettings       frameType = 0x4
	framePushPromise    frameType = 0x5
	framePing           frameType = 0x6
	frameGoAway         frameType = 0x7
	frameWindowUpdate   frameType = 0x8
	frameContinuation   frameType = 0x9
	framePriorityUpdate frameType = 0x10
)

// Flags of frames. Their meaning depends on the type.
const (
	flagAck        = 0x1 // SETTINGS, PING
	flagEndStream  = 0x1 // DATA, HEADERS
	flagEndHeaders = 0x4 // HEADERS, CONTINUATION
	flagPadded     = 0x8 // DATA, HEADERS
	flagPriority   = 0x20
)

// An EventKind says what an Event is about. Its comment names the fields of Event
// that are set beside Kind.
type EventKind uint8

const (
	// EventNone: all input is used, and nothing is complete.
	EventNone EventKind = iota
	// EventHeaders is a piece of a field block: Stream, Payload, Marks. The first
	// piece of a frame has Length and Padding. The last piece of a block may have
	// Err: decode the block, then reset the stream.
	EventHeaders
	// EventData is a piece of DATA: Stream, Payload, Marks. The first piece of a
	// frame has Length, the bytes that flow control counts, and Padding.
	EventData
	// EventSetting is one value of a SETTINGS frame: Setting, Value, Marks. The
	// value is in its range. The first value of a frame has Length. A frame without
	// values makes one event with Setting 0, which has no meaning, and Length 0.
	EventSetting
	// EventSettingsAck acknowledges SETTINGS.
	EventSettingsAck
	// EventPing is a PING to answer: Ping.
	EventPing
	// EventPingAck is the answer to a PING: Ping.
	EventPingAck
	// EventWindowUpdate: Stream (0: the connection), Value from 1 to 2^31-1.
	EventWindowUpdate
	// EventReset is RST_STREAM: Stream, Code.
	EventReset
	// EventGoAway: Stream is the last stream that the peer will process; Code.
	EventGoAway
	// EventDebug is a piece of the debug data that follows in a GOAWAY: Payload. It
	// has no bound but that of a frame.
	EventDebug
	// EventPriorityUpdate: Stream is the prioritized one, Payload a value for
	// ParsePriority of at most 16 bytes.
	EventPriorityUpdate
	// EventIgnored is a frame without a meaning for us: Stream and Length as in its
	// head. It is of an unknown type, or PRIORITY, or a PRIORITY_UPDATE with a value
	// of more than 16 bytes.
	EventIgnored
	// EventStreamError is a frame that violates the protocol on one stream: Stream,
	// Err.
	EventStreamError
)

// Marks are facts about an Event.
type Marks uint8

const (
	// FrameStart: the first piece, or setting, of a frame.
	FrameStart Marks = 1 << iota
	// BlockStart: the first piece of a field block.
	BlockStart
	// EndHeaders: the last piece of a field block.
	EndHeaders
	// EndStream: the peer sends nothing more on the stream. Of several pieces only
	// the last has it.
	EndStream
	// EndSettings: the last value of a SETTINGS frame. Apply the values, then
	// acknowledge.
	EndSettings
)

// An Event is what a Parser has found. The comment of its Kind says which fields are
// set; the others are zero.
type Event struct {
	// Payload is a part of the input, or of the Parser until its next call.
	Payload []byte
	Err     *Error // of StreamScope
	Ping    [8]byte
	Stream  uint32
	Length  uint32 // of the frame's payload, with its padding
	Value   uint32
	Code    Code
	Setting SettingID
	Kind    EventKind
	Marks   Marks
	Padding uint16 // of Length, the bytes of padding and of its length
}

// Has reports whether any of the marks m is set.
func (e *Event) Has(m Marks) bool { return e.Marks&m != 0 }
