package h2

// A Code is an error code of RST_STREAM and GOAWAY (RFC 9113 section 7). A peer may
// send codes without a name; they mean the same as CodeInternalError.
type Code uint32

// The codes of RFC 9113 section 7.
const (
	CodeNoError            Code = 0x0
	CodeProtocolError      Code = 0x1
	CodeInternalError      Code = 0x2
	CodeFlowControlError   Code = 0x3
	CodeSettingsTimeout    Code = 0x4
	CodeStreamClosed       Code = 0x5
	CodeFrameSizeError     Code = 0x6
	CodeRefusedStream      Code = 0x7
	CodeCancel             Code = 0x8
	CodeCompressionError   Code = 0x9
	CodeConnectError       Code = 0xa
	CodeEnhanceYourCalm    Code = 0xb
	CodeInadequateSecurity Code = 0xc
	CodeHTTP11Required     Code = 0xd
)

var codeNames = [...]string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR",
	"REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

// String returns the name that RFC 9113 gives the code, "unknown code" if it gives
// none.
func (c Code) String() string {
	if c < Code(len(codeNames)) {
		return codeNames[c]
	}
	return "unknown code"
}

// A Scope tells what an Error ends (RFC 9113 section 5.4).
type Scope uint8

const (
	// ConnectionScope: answer with GOAWAY, then close the connection.
	ConnectionScope Scope = iota
	// StreamScope: answer with RST_STREAM. Other streams go on.
	StreamScope
)

// An Error is a violation of the wire format or of a limit. All values are variables
// of this package; compare pointers.
type Error struct {
	Code  Code  // of the RST_STREAM or GOAWAY that answers it
	Scope Scope // which of both
	msg   string
	cause error // a fieldlist.Violation, or nil
}

// Error describes the violation.
func (e *Error) Error() string { return "sluice: http2: " + e.msg }

// Unwrap returns the fieldlist.Violation of a malformed message, nil for other errors.
func (e *Error) Unwrap() error { return e.cause }

func connectionError(c Code, msg string) *Error { return &Error{Code: c, msg: msg} }

func streamError(c Code, msg string) *Error { return &Error{Code: c, Scope: StreamScope, msg: msg} }

// Violations that one frame or the order of frames shows.
var (
	ErrPreface          = connectionError(CodeProtocolError, "invalid connection preface")
	ErrFirstFrame       = connectionError(CodeProtocolError, "the first frame is not SETTINGS")
	ErrFrameTooLarge    = connectionError(CodeFrameSizeError, "frame exceeds the maximum size")
	ErrFrameLength      = connectionError(CodeFrameSizeError, "frame has a wrong length for its type")
	ErrStreamMissing    = connectionError(CodeProtocolError, "frame of a stream on stream 0")
	ErrStreamForbidden  = connectionError(CodeProtocolError, "frame of the connection on a stream")
	ErrStreamEven       = connectionError(CodeProtocolError, "frame on a stream with an even number, although nothing is pushed")
	ErrBlockInterrupted = connectionError(CodeProtocolError, "another frame within a field block")
	ErrContinuation     = connectionError(CodeProtocolError, "CONTINUATION without a field block")
	ErrContinuations    = connectionError(CodeEnhanceYourCalm, "too many CONTINUATION frames")
	ErrPadding          = connectionError(CodeProtocolError, "padding is longer than its frame")
	ErrPush             = connectionError(CodeProtocolError, "PUSH_PROMISE, although push is disabled")
	ErrIncrement        = connectionError(CodeProtocolError, "WINDOW_UPDATE of 0")
	ErrStreamIncrement  = streamError(CodeProtocolError, "WINDOW_UPDATE of 0 on a stream")
	ErrPriorityLength   = streamError(CodeFrameSizeError, "PRIORITY has a wrong length")
	ErrSelfDependency   = streamError(CodeProtocolError, "stream depends on itself")
	ErrPriorityUpdate   = connectionError(CodeProtocolError, "PRIORITY_UPDATE from a server, or for no request")
	ErrSetting          = connectionError(CodeProtocolError, "setting has a forbidden value")
	ErrInitialWindow    = connectionError(CodeFlowControlError, "initial window exceeds 2^31-1")
	ErrUnexpectedAck    = connectionError(CodeProtocolError, "acknowledgement of settings that were not sent")
)

// Violations of flow control (RFC 9113 section 6.9.1): with the window of the
// connection, and with that of a stream.
var (
	ErrWindowOverflow       = connectionError(CodeFlowControlError, "window exceeds 2^31-1")
	ErrStreamWindowOverflow = streamError(CodeFlowControlError, "window of a stream exceeds 2^31-1")
	ErrWindowExceeded       = connectionError(CodeFlowControlError, "more data than the window admits")
	ErrStreamWindowExceeded = streamError(CodeFlowControlError, "more data than the window of the stream admits")
)

// ErrExcessiveLoad: the peer has used its Budget up.
var ErrExcessiveLoad = connectionError(CodeEnhanceYourCalm, "the peer causes too much work")

// Violations that the state of a stream shows (RFC 9113 section 5.1), and what else ends
// a stream or a connection.
var (
	ErrIdleStream      = connectionError(CodeProtocolError, "frame on a stream that was not opened")
	ErrClosedStream    = connectionError(CodeStreamClosed, "frame on a stream that has ended")
	ErrStreamOrder     = connectionError(CodeProtocolError, "request with a lower number than those before")
	ErrSettingsTimeout = connectionError(CodeSettingsTimeout, "settings were not acknowledged in time")
	ErrSlow            = connectionError(CodeEnhanceYourCalm, "field block or frame did not arrive in time")
	ErrStreamClosed    = streamError(CodeStreamClosed, "frame after the end of the stream")
	ErrTrailerNotLast  = streamError(CodeProtocolError, "trailer fields do not end the stream")
	ErrTunnelFields    = streamError(CodeProtocolError, "fields within a tunnel")
	ErrMalformed       = streamError(CodeProtocolError, "malformed field list")
	ErrContentLength   = streamError(CodeProtocolError, "body has not the length of content-length")
	ErrRefused         = streamError(CodeRefusedStream, "too many streams")
)

// Violation returns the *Error that err is, or nil.
func Violation(err error) *Error {
	v, _ := err.(*Error)
	return v
}
