package sluice

import (
	"errors"

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/transfer"
	"github.com/sluicehttp/sluice/internal/wire/uri"
)

// Errors of the server.
var (
	// ErrAlreadyServing is returned by Server methods that change how requests
	// are served if they are called while the Server serves.
	ErrAlreadyServing = errors.New("sluice: the server is serving connections already")
	// ErrConcurrencyLimit is returned when a connection is refused because
	// Server.Concurrency connections are open.
	ErrConcurrencyLimit = errors.New("sluice: too many connections: the server's concurrency limit is reached")
	// ErrPerIPConnLimit is returned when a connection is refused because
	// Server.MaxConnsPerIP connections are open from its address.
	ErrPerIPConnLimit = errors.New("sluice: too many connections from this address")
	// ErrGetOnly is returned when a server with GetOnly receives a request with a
	// method other than GET and HEAD.
	ErrGetOnly = errors.New("sluice: a method other than GET was used where only GET is served")
	// ErrNilConnection is returned by RequestCtx methods that need a connection
	// when the context has none.
	ErrNilConnection = errors.New("sluice: there is no connection")
	// ErrConnectionClosed is returned when the peer closed the connection before
	// a whole message was written or read.
	ErrConnectionClosed = errors.New("sluice: the connection was closed by the peer")
	// ErrHeadSent is returned by what decides about the head of a response, such as
	// EarlyHints and websocket.Endpoint.Upgrade, when Flush has sent it already.
	ErrHeadSent = errors.New("sluice: the head of the response was sent already: do this before Flush")
	// ErrTakenOver is returned when another protocol is to have the connection already: after
	// websocket.Endpoint.Upgrade and Accept, sse.Hub.Serve, tcp.Server.Upgrade, and Hijack.
	ErrTakenOver = errors.New("sluice: the connection is given away already: do that once, and write no body then")
	// ErrDeadlineUpdatesDisabled is returned by RequestCtx methods that set
	// deadlines after the handler's use of the connection has ended.
	ErrDeadlineUpdatesDisabled = errors.New("sluice: the connection's deadlines can no longer be changed")
)

// Errors of reading messages.
var (
	// ErrBodyTooLarge is returned when a body is longer than the limit, on the
	// wire or after decompression.
	ErrBodyTooLarge = transfer.ErrTooLarge
	// ErrContentEncodingUnsupported is returned when a body cannot be
	// decompressed because its Content-Encoding is unknown.
	ErrContentEncodingUnsupported = errors.New("sluice: unsupported Content-Encoding")
	// ErrMissingFile is returned by FormFile methods when the form has no file
	// under the given key.
	ErrMissingFile = errors.New("sluice: the form has no file with the given key")
	// ErrNoMultipartForm is returned when a multipart form is requested and the
	// request's Content-Type is not multipart/form-data or has no boundary.
	ErrNoMultipartForm = errors.New("sluice: the request's content type is not multipart/form-data, or has no boundary")
	// ErrReadingResponseHeaders is returned when the head of a response cannot
	// be read.
	ErrReadingResponseHeaders = message.ErrReadingResponseHeaders
	// ErrReadingResponseTrailer is returned when the trailer section of a
	// response cannot be read.
	ErrReadingResponseTrailer = errors.New("sluice: cannot read the response's trailer section")
	// ErrBadTrailer is returned when a field is announced or received as a
	// trailer and must not be one (RFC 9110 section 6.5.1), or when a trailer
	// section is malformed.
	ErrBadTrailer = message.ErrBadTrailer
	// ErrNeedMore is returned by parsers when the input ends before the element
	// that they parse is complete.
	ErrNeedMore = errors.New("sluice: more input is needed: the line has no end yet")
	// ErrSmallReadBuffer is returned when a head does not fit the read buffer.
	// Raise ReadBufferSize.
	ErrSmallReadBuffer = message.ErrSmallReadBuffer
	// ErrMissingRequestMethod is returned when a request line has no method.
	ErrMissingRequestMethod = message.ErrMissingRequestMethod
	// ErrUnsupportedRequestMethod is returned when the method of a request is not
	// a token (RFC 9110 section 9.1).
	ErrUnsupportedRequestMethod = message.ErrUnsupportedRequestMethod
	// ErrExtraWhitespaceInRequestLine is returned when the parts of a request
	// line are separated by more than one space.
	ErrExtraWhitespaceInRequestLine = message.ErrExtraWhitespaceInRequestLine
	// ErrEmptyRequestURI is returned when a request line has no target.
	ErrEmptyRequestURI = uri.ErrEmptyTarget
	// ErrDuplicateContentLength is returned when a message has more than one
	// Content-Length (RFC 9112 section 6.3).
	ErrDuplicateContentLength = message.ErrDuplicateContentLength
	// ErrUnsupportedTransferEncoding is returned when the Transfer-Encoding of
	// a message is not exactly "chunked".
	ErrUnsupportedTransferEncoding = message.ErrUnsupportedTransferEncoding
	// ErrNonNumericChars is returned when a Content-Length contains a character
	// other than a digit.
	ErrNonNumericChars = message.ErrNonNumericChars
	// ErrResponseFirstLineMissingSpace is returned when a status line has no
	// space after the version.
	ErrResponseFirstLineMissingSpace = message.ErrResponseFirstLineMissingSpace
	// ErrUnexpectedStatusCodeChar is returned when a status code is followed by a
	// character other than a space, before the end of the line.
	ErrUnexpectedStatusCodeChar = message.ErrUnexpectedStatusCodeChar
)

// Errors of Args, URI, Cookie and the functions for text.
var (
	// ErrNoArgValue is returned by Args.GetUint and Args.GetUfloat when the key
	// is missing or has an empty value.
	ErrNoArgValue = errors.New("sluice: the key has no value")
	// ErrNoCookies is returned by Cookie.Parse when there is nothing to parse.
	ErrNoCookies = message.ErrNoCookies
	// ErrInvalidCookieValue is returned by Cookie.Parse when the value, the
	// domain or the path contains a forbidden character.
	ErrInvalidCookieValue = message.ErrInvalidCookieValue
	// ErrorInvalidURI is returned by URI.Parse when a URI contains control
	// characters, or its scheme or user information is malformed.
	ErrorInvalidURI = uri.ErrInvalid

	// errRangeMalformed: a Range field without a valid range (RFC 9110 section
	// 14.1.1). errRangeUnsatisfiable: a range that selects no byte of the
	// content.
	errRangeMalformed     = errors.New("sluice: malformed byte range")
	errRangeUnsatisfiable = errors.New("sluice: the byte range lies outside of the content")

	errIPv4 = errors.New("sluice: malformed ipv4 address")
)

// EscapeError is the percent-encoding because of which URI.Parse refused a
// host: it is malformed, or it is not allowed there.
type EscapeError = uri.EscapeError

// InvalidHostError is the host that URI.Parse refused, with its port if it had
// one.
type InvalidHostError = uri.InvalidHostError

// ErrTimeout is returned by calls that exceeded their time limit. Its method
// Timeout returns true, as in net.Error.
var ErrTimeout = &timeoutError{}

// timeoutError is the type of ErrTimeout.
type timeoutError struct{}

// Error returns the text of the error.
func (*timeoutError) Error() string { return "sluice: timeout" }

// Timeout returns true; see net.Error.
func (*timeoutError) Timeout() bool { return true }

// ErrNothingRead is returned when a connection ends, or its time runs out,
// before the first byte of a message. A keep-alive connection normally ends
// this way. Use errors.As to find it. Its Unwrap returns the error that ended the
// connection, or nil if it is unknown.
type ErrNothingRead = message.ErrNothingRead

// ErrSmallBuffer is returned, as a pointer, when a head does not fit the read buffer.
// Raise ReadBufferSize of the Server or client. Use errors.As to find it.
type ErrSmallBuffer = message.ErrSmallBuffer

// ErrBrokenChunk is returned when a chunked body is malformed (RFC 9112
// section 7.1). Use errors.As to find it. Its Unwrap returns the error that describes
// the malformed part, or nil if it is unknown.
type ErrBrokenChunk = message.ErrBrokenChunk

// ErrBodyStreamWritePanic is returned, as a pointer, when a body stream panicked while
// its body was written. Use errors.As to find it. Its Unwrap returns the panic's value
// as an error, or nil if it is unknown.
type ErrBodyStreamWritePanic = message.ErrBodyStreamWritePanic
