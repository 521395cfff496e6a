package sluice

import (
	"errors"
	"io"
	"time"

	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/client/dial"
	"github.com/sluicehttp/sluice/internal/client/pipeline"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
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
	ErrConnectionClosed = server.ErrConnectionClosed
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
	ErrBodyTooLarge = body.ErrTooLarge
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

// Errors of clients.
var (
	// ErrNoFreeConns is returned when MaxConns connections to the host are in use
	// and none became free within MaxConnWaitTimeout. Raise either of them.
	ErrNoFreeConns = errors.New("sluice: no free connections to the host")
	// ErrTLSHandshakeTimeout is returned when a TLS handshake took too long, or
	// when dialing and the handshake together took longer than WriteTimeout.
	ErrTLSHandshakeTimeout = errors.New("sluice: the TLS handshake took too long")
	// ErrTooManyRedirects is returned when there are more redirects than the call
	// may follow.
	ErrTooManyRedirects = errors.New("sluice: too many redirects")
	// ErrMissingLocation is returned for a redirect without a Location.
	ErrMissingLocation = errors.New("sluice: the redirect has no Location")
	// ErrRedirectBodyStream is returned for a redirect that requires the body
	// again after the body was a stream.
	ErrRedirectBodyStream = errors.New("sluice: the redirect asks for a body stream that was sent already")
	// ErrHostClientRedirectToDifferentScheme is returned by a HostClient when the
	// scheme of a request does not match IsTLS, for example after a redirect from
	// https to http.
	ErrHostClientRedirectToDifferentScheme = errors.New("sluice: the scheme of the request is not that of the HostClient")
	// ErrNoConnectProtocol is returned by ConnectProtocol if the server, or the field HTTP2
	// of the client, does not admit extended CONNECT.
	ErrNoConnectProtocol = errors.New("sluice: extended CONNECT is not possible with this server")
	// ErrConnPoolStrategyNotImpl is returned when ConnPoolStrategy is neither
	// FIFO nor LIFO and there is an idle connection to choose.
	ErrConnPoolStrategyNotImpl = errors.New("sluice: unknown ConnPoolStrategy")

	errSpokenFirst       = errors.New("sluice: the server has sent something before the request")
	errRedirectScheme    = errors.New("sluice: the redirect's scheme is neither http nor https")
	errUnsupportedScheme = errors.New("sluice: the scheme of the request is neither http nor https")
)

// ErrDialTimeout is returned, wrapped in an *ErrDialWithUpstream, when a dial
// function has no connection within its time limit. Its method Timeout returns
// true.
var ErrDialTimeout = dial.ErrTimeout

// ErrDialWithUpstream is returned when connecting failed. A failed lookup is
// not wrapped in it; it is a *net.DNSError. The error is a pointer: use
// errors.As to find it and its causes (ErrDialTimeout, *net.OpError, an errno).
//
// Its field Upstream is the address that failed: IP address and port. It is the address
// as it was dialed if no IP address was tried: because the time ran out
// before, or with TCPDialer.DisableDNSResolution.
type ErrDialWithUpstream = dial.ErrDialWithUpstream

const (
	// DefaultMaxPendingRequests is the default of
	// PipelineClient.MaxPendingRequests.
	DefaultMaxPendingRequests = 1024

	// DefaultLBClientTimeout is the default of LBClient.Timeout.
	DefaultLBClientTimeout = time.Second
)

// Errors of PipelineClient and LBClient.
var (
	// ErrPipelineOverflow is returned by PipelineClient for a request that was
	// not sent because the queue is full: a newer request took its place, or none
	// of the requests there could be displaced. Raise MaxPendingRequests or
	// MaxConns, or send fewer requests.
	ErrPipelineOverflow = pipeline.ErrOverflow
	// ErrNoAvailableClients is returned by LBClient when it has no clients.
	ErrNoAvailableClients = errors.New("sluice: the LBClient has no clients")

	errPipelineClosed = message.Known(ErrConnectionClosed, io.EOF)
	errPlainHTTPS     = errors.New("sluice: a request with the scheme https must not be sent without TLS")
)
