// Package h1 implements the HTTP/1.1 wire format (RFC 9112) for servers and clients:
// heads, framing, chunked bodies and trailers. It parses them from bytes and appends
// them to bytes. It does no I/O and uses no clock. Incomplete input is a normal
// result.
package h1

// An Error is a violation of the wire format. All values are variables of this
// package; compare with errors.Is.
type Error struct {
	// Status is the status of a server's response: 400, 413, 414, 417, 431, 501, 505.
	Status int
	msg    string
}

// Error describes the violation.
func (e *Error) Error() string { return "sluice: " + e.msg }

func bad(status int, msg string) *Error { return &Error{Status: status, msg: msg} }

// Violations of the head.
var (
	ErrBareLF           = bad(400, "line ends in a bare LF")
	ErrBareCR           = bad(400, "bare CR in head")
	ErrControl          = bad(400, "control character in head")
	ErrMethod           = bad(400, "method is not a token")
	ErrRequestLine      = bad(400, "malformed request line")
	ErrVersion          = bad(400, "malformed HTTP version")
	ErrMajorVersion     = bad(505, "HTTP version is not supported")
	ErrTarget           = bad(400, "invalid request target")
	ErrStatusLine       = bad(400, "malformed status line")
	ErrFieldName        = bad(400, "field name is not a token")
	ErrFieldLine        = bad(400, "field line has no colon")
	ErrFolding          = bad(400, "obsolete line folding")
	ErrHostMissing      = bad(400, "Host is missing")
	ErrHostDuplicate    = bad(400, "more than one Host")
	ErrHost             = bad(400, "invalid Host")
	ErrTwoCredentials   = bad(400, "more than one Authorization")
	ErrLineTooLong      = bad(414, "request line is too long")
	ErrHeadTooLarge     = bad(431, "head is too large")
	ErrTooManyFields    = bad(431, "too many fields")
	ErrExpectation      = bad(417, "unsupported expectation")
	ErrMisdirected      = bad(400, "request target has an unsupported scheme")
	ErrTargetForm       = bad(400, "request target does not fit the method")
	ErrTruncatedMessage = bad(400, "message ends early")
)

// Violations of the framing.
var (
	ErrContentLength          = bad(400, "invalid Content-Length")
	ErrContentLengthConflict  = bad(400, "repeated or contradictory Content-Length")
	ErrLengthAndCoding        = bad(400, "both Content-Length and Transfer-Encoding")
	ErrTransferCoding         = bad(400, "invalid Transfer-Encoding")
	ErrTransferCodingUnknown  = bad(501, "unsupported Transfer-Encoding")
	ErrTransferCodingHTTP10   = bad(400, "Transfer-Encoding in an HTTP/1.0 message")
	ErrChunkSize              = bad(400, "invalid chunk size")
	ErrChunkEnd               = bad(400, "chunk data does not end in CRLF")
	ErrChunkExtension         = bad(400, "invalid chunk extension")
	ErrChunkExtensionTooLarge = bad(400, "chunk extensions are too large")
	ErrTrailer                = bad(400, "malformed trailer section")
	ErrTrailerTooLarge        = bad(431, "trailer section is too large")
)
