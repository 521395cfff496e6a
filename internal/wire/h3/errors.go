package h3

// A Code is an error code of a stream or a connection (RFC 9114 section 8.1, RFC 9204 section
// 8.3). A peer may send others; they mean the same as NoError (RFC 9114 section 9).
type Code uint64

// The codes of RFC 9114 section 8.1 and RFC 9204 section 8.3.
const (
	NoError             Code = 0x100
	ProtocolError       Code = 0x101
	InternalError       Code = 0x102
	StreamCreationError Code = 0x103
	ClosedCritical      Code = 0x104
	FrameUnexpected     Code = 0x105
	FrameError          Code = 0x106
	ExcessiveLoad       Code = 0x107
	IDError             Code = 0x108
	SettingsError       Code = 0x109
	MissingSettings     Code = 0x10a
	RequestRejected     Code = 0x10b
	RequestCancelled    Code = 0x10c
	RequestIncomplete   Code = 0x10d
	MessageError        Code = 0x10e
	ConnectError        Code = 0x10f
	VersionFallback     Code = 0x110

	DecompressionFailed Code = 0x200
	EncoderStreamError  Code = 0x201
	DecoderStreamError  Code = 0x202
)

var codeNames = map[Code]string{
	NoError: "H3_NO_ERROR", ProtocolError: "H3_GENERAL_PROTOCOL_ERROR", InternalError: "H3_INTERNAL_ERROR",
	StreamCreationError: "H3_STREAM_CREATION_ERROR", ClosedCritical: "H3_CLOSED_CRITICAL_STREAM", FrameUnexpected: "H3_FRAME_UNEXPECTED",
	FrameError: "H3_FRAME_ERROR", ExcessiveLoad: "H3_EXCESSIVE_LOAD", IDError: "H3_ID_ERROR", SettingsError: "H3_SETTINGS_ERROR",
	MissingSettings: "H3_MISSING_SETTINGS", RequestRejected: "H3_REQUEST_REJECTED", RequestCancelled: "H3_REQUEST_CANCELLED",
	RequestIncomplete: "H3_REQUEST_INCOMPLETE", MessageError: "H3_MESSAGE_ERROR", ConnectError: "H3_CONNECT_ERROR",
	VersionFallback:     "H3_VERSION_FALLBACK",
	DecompressionFailed: "QPACK_DECOMPRESSION_FAILED", EncoderStreamError: "QPACK_ENCODER_STREAM_ERROR", DecoderStreamError: "QPACK_DECODER_STREAM_ERROR",
}

// String returns the name that the RFC gives the code, "unknown code" if none does.
func (c Code) String() string {
	if name := codeNames[c]; name != "" {
		return name
	}
	return "unknown code"
}

// A Scope tells what an Error ends.
type Scope uint8

const (
	// ConnectionScope: the connection is closed with the code.
	ConnectionScope Scope = iota
	// StreamScope: the stream is reset with the code. Others go on.
	StreamScope
)

// An Error is a violation of the wire format. All values are variables of this package;
// compare pointers.
type Error struct {
	Code  Code
	Scope Scope
	msg   string
	cause error // a fieldlist.Violation, or nil
}

// Error describes the violation.
func (e *Error) Error() string { return "sluice: http3: " + e.msg }

// IsViolation implements server.Violation.
func (e *Error) IsViolation() {}

// Unwrap returns the fieldlist.Violation of a malformed message, nil for other errors.
func (e *Error) Unwrap() error { return e.cause }

func connectionError(c Code, msg string) *Error { return &Error{Code: c, msg: msg} }

// Violations that a frame or the order of frames shows.
var (
	ErrFrameLength     = connectionError(FrameError, "frame has a wrong length for its type")
	ErrFrameTooLarge   = connectionError(ExcessiveLoad, "frame of the control stream is too large")
	ErrFrameReserved   = connectionError(FrameUnexpected, "frame of HTTP/2")
	ErrFrameOnRequest  = connectionError(FrameUnexpected, "frame of the control stream on a request")
	ErrFrameOnControl  = connectionError(FrameUnexpected, "frame of a request on the control stream")
	ErrPush            = connectionError(FrameUnexpected, "PUSH_PROMISE, although push is not allowed")
	ErrDataFirst       = connectionError(FrameUnexpected, "DATA before HEADERS")
	ErrAfterTrailer    = connectionError(FrameUnexpected, "frame after the trailer fields")
	ErrTunnelFrame     = connectionError(FrameUnexpected, "frame other than DATA within a tunnel")
	ErrMissingSettings = connectionError(MissingSettings, "the first frame is not SETTINGS")
	ErrSettingsAgain   = connectionError(FrameUnexpected, "second SETTINGS")
	ErrFromServer      = connectionError(FrameUnexpected, "frame that only clients may send")
	ErrSettingReserved = connectionError(SettingsError, "setting of HTTP/2")
	ErrSettingRepeated = connectionError(SettingsError, "repeated setting")
	ErrSettingValue    = connectionError(SettingsError, "setting has a forbidden value")
	ErrSettingsNumber  = connectionError(ExcessiveLoad, "too many settings")
	ErrPushID          = connectionError(IDError, "number of a push that was not allowed")
	ErrMaxPushID       = connectionError(IDError, "MAX_PUSH_ID is lower than before")
	ErrGoAwayID        = connectionError(IDError, "GOAWAY has a number of no request, or a higher one than before")
	ErrPriorityID      = connectionError(IDError, "PRIORITY_UPDATE for no request")
)

// Violations of RFC 9204, for tables without a capacity.
var (
	ErrDynamicTable     = connectionError(DecompressionFailed, "reference to the dynamic table, which has no capacity")
	ErrBase             = connectionError(DecompressionFailed, "base is negative")
	ErrIndex            = connectionError(DecompressionFailed, "index is not in the static table")
	ErrInteger          = connectionError(DecompressionFailed, "integer is too large")
	ErrHuffman          = connectionError(DecompressionFailed, "invalid Huffman code")
	ErrSectionTruncated = connectionError(DecompressionFailed, "field section ends early")
	ErrDecoderStream    = connectionError(DecoderStreamError, "acknowledgement of insertions that were not made")
)

// Violations by unidirectional streams, and by the number of what brings nothing.
var (
	ErrCriticalClosed = connectionError(ClosedCritical, "control or QPACK stream was closed")
	ErrCriticalAgain  = connectionError(StreamCreationError, "second control or QPACK stream")
	ErrPushStream     = connectionError(StreamCreationError, "push stream of a client")
	ErrEncoderStream  = connectionError(EncoderStreamError, "instruction for a table without a capacity")
	ErrNothing        = connectionError(ExcessiveLoad, "too many frames or streams that bring nothing")
)

// ErrBodyLength is a body that is longer or shorter than content-length.
var ErrBodyLength = &Error{Code: MessageError, Scope: StreamScope, msg: "body does not have the length that was announced"}

// Messages that end too early.
var (
	ErrIncomplete = &Error{Code: RequestIncomplete, Scope: StreamScope, msg: "the stream ends before the request does"}
	ErrNoResponse = &Error{Code: MessageError, Scope: StreamScope, msg: "the stream ends before the response does"}
)

// Violation returns the *Error that err is, or nil.
func Violation(err error) *Error {
	v, _ := err.(*Error)
	return v
}
