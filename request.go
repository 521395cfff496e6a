package sluice

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server/route"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// A Request is an HTTP request that a client sends or that a server received.
//
// The zero value is an empty GET request, ready to use. It owns the slices that its
// methods return; see the package comment. Copy it with CopyTo: a copy by assignment takes
// memory of its own when it is changed, and until then shows the original's changes.
type Request struct {
	noCopy noCopy

	// Header is the request line and the fields. It must not be copied.
	Header RequestHeader

	// KeepBodyBuffer keeps the memory of the body, of any size, when the request
	// is reset. It is for a Request that is reused many times. Reset and CopyTo
	// do not change KeepBodyBuffer; ReleaseRequest and servers clear it.
	KeepBodyBuffer bool

	// UseHostHeader sends the Host that Header.SetHost set instead of the URI's
	// host.
	UseHostHeader bool

	// DisableRedirectPathNormalizing leaves the path of a followed redirect as
	// the server sent it.
	DisableRedirectPathNormalizing bool

	messageBody
	// formFiles are the files of the form that was parsed last. Goroutines other
	// than the request's read it. nil: there are none.
	formFiles  atomic.Pointer[message.FormFiles]
	uri        URI
	postArgs   Args
	userValues valueList
	match      *route.Match // of package router; nil: there never was one. It is used again
	timeout    time.Duration
	call       *clientCall // nil unless a client sends the request
	calls      *clientCall // memory for calls, as many as there were at a time; nil: none
	wire       []byte      // memory for what is sent; holds what was sent last. See wireRoom
	owner      field.Owner // of wire

	hasURI      bool // uri has been parsed or set, and takes precedence over Header
	hasPostArgs bool // postArgs have been parsed or set
	connection  connScheme
	basic       uint32 // tells the Authorization that was made of the URI's user information, from basicSum; 0: none
	uriError    error
}

// Reset makes the request an empty one. It removes the temporary files of a
// multipart form, and closes a body stream and all user values that are
// io.Closers. SetBodySizePoolLimit and KeepBodyBuffer determine whether the
// body's memory is kept.
func (r *Request) Reset() {
	r.ResetUserValues()
	r.resetContent() // before Header, whose memory it takes back
	r.Header.Reset()
	r.UseHostHeader = false
	r.DisableRedirectPathNormalizing = false
	r.timeout = 0
	r.call = nil
	r.basic = 0
}

// resetContent resets everything except Header and the settings.
func (r *Request) resetContent() {
	r.ResetBody()
	if r.formFiles.Load() != nil {
		r.formFiles.Store(nil)
	}
	if r.hasURI { // dropURI, inlined
		r.uri.Reset()
		r.hasURI, r.uriError = false, nil
	}
	r.Header.m.TakeBack()
	if r.hasPostArgs {
		r.postArgs.Reset()
		r.hasPostArgs = false
	}
	r.connection = notReceived
}

// dropPostArgs makes PostArgs parse the body again.
func (r *Request) dropPostArgs() {
	r.postArgs.Reset()
	r.hasPostArgs = false
}

// hasUserValues reports whether there are user values.
func (r *Request) hasUserValues() bool { return len(r.userValues) > 0 }

// resetUserValues removes all user values, and calls end with those that are io.Closers.
func (r *Request) resetUserValues(end func(io.Closer)) { r.userValues.resetWith(end) }

// hasFormFiles reports whether the last form had files that are stored. Any goroutine may ask.
func (r *Request) hasFormFiles() bool { return r.formFiles.Load() != nil }

// resetForServer prepares the request for the server's next request.
func (r *Request) resetForServer() {
	r.KeepBodyBuffer = false
	r.Reset()
}

// CopyTo makes dst a copy of r that shares no memory with r. It does not copy
// user values, the timeout, or a body stream; to copy a stream's bytes, call
// Body before.
func (r *Request) CopyTo(dst *Request) {
	if r == dst {
		return
	}
	dst.Reset()
	r.Header.CopyTo(&dst.Header)
	if r.hasURI {
		r.uri.CopyTo(&dst.uri)
		dst.hasURI, dst.uriError = true, r.uriError
	}
	if r.hasPostArgs {
		r.postArgs.CopyTo(&dst.postArgs)
		dst.hasPostArgs = true
	}
	dst.connection = r.connection
	dst.basic = r.basic
	dst.UseHostHeader = r.UseHostHeader
	dst.DisableRedirectPathNormalizing = r.DisableRedirectPathNormalizing
	r.copyBodyTo(&dst.messageBody)
}

// ResetBody makes the body empty.
func (r *Request) ResetBody() { r.clear(r.KeepBodyBuffer, &bodyPoolLimits.request) }

// SetBodyStream makes the bytes of stream, up to io.EOF, the body. size is
// their number: no more are read, and writing the request fails if there are
// fewer. A negative size is an unknown length; the body is then sent chunked.
//
// The request owns stream. It closes stream after writing it, and when the
// request is reset, released or given another body: with CloseWithError if
// stream is a ReadCloserWithError, otherwise with Close if it is an io.Closer.
// See BodyWriterTo for streams with a WriteTo method.
func (r *Request) SetBodyStream(stream io.Reader, size int) {
	r.ResetBody()
	r.setStream(stream, size)
	r.Header.SetContentLength(size)
}

// SetBodyStreamWriter makes what sw writes the body, which is sent chunked. sw
// is called later, and in any case, even if the request is never written; see
// StreamWriter.
func (r *Request) SetBodyStreamWriter(sw StreamWriter) {
	r.ResetBody()
	r.setStreamWriter(sw, nil)
	r.Header.SetContentLength(-1)
}

// setServerStream makes s, which the server owns, the body.
func (r *Request) setServerStream(s io.Reader) { r.setStream(s, r.Header.ContentLength()) }

// BodyUncompressed returns the body decoded according to Content-Encoding:
// gzip, deflate, br or zstd. Another coding is ErrContentEncodingUnsupported. A
// body that is not encoded is returned without a copy.
//
// A body that decodes to more than the request's limit is ErrBodyTooLarge. The
// limit is Server.MaxRequestBodySize in a handler, or what ReadLimitBody was
// given, and applies until ResetBody. A request that you created, or read with
// Read, has no limit: use BodyUncompressedWithLimit for a body from an
// untrusted source.
func (r *Request) BodyUncompressed() ([]byte, error) { return r.BodyUncompressedWithLimit(0) }

// BodyUncompressedWithLimit is BodyUncompressed with a limit of maxBodySize
// bytes; a longer body is ErrBodyTooLarge. If maxBodySize is 0 or less, the
// limit of BodyUncompressed applies.
func (r *Request) BodyUncompressedWithLimit(maxBodySize int) ([]byte, error) {
	return r.uncompressed(r.Header.ContentEncoding(), maxBodySize)
}

// PostArgs returns the arguments of an application/x-www-form-urlencoded body,
// or an empty list for any other body. The first call parses it. The list is
// also empty if the body cannot be read. If the request is written without a
// body, the arguments are sent as the body.
func (r *Request) PostArgs() *Args {
	if !r.hasPostArgs {
		r.hasPostArgs = true
		if isFormURLEncoded(r.Header.ContentType()) {
			if content, err := r.content(); err == nil {
				r.postArgs.ParseBytes(content)
			}
		}
	}
	return &r.postArgs
}

// isFormURLEncoded compares the media type without its parameters.
func isFormURLEncoded(contentType []byte) bool {
	mediaType, _, _ := ascii.Cut(contentType, ';')
	return ascii.EqualFold(ascii.TrimOWS(mediaType), "application/x-www-form-urlencoded")
}

// ConnectionClose reports whether the connection closes after this request.
func (r *Request) ConnectionClose() bool { return r.Header.ConnectionClose() }

// SetConnectionClose makes the connection close after this request.
func (r *Request) SetConnectionClose() { r.Header.SetConnectionClose() }

// SetTimeout limits the time that a client takes to send this request and read
// its response, as Client.DoTimeout does. 0 is no limit.
func (r *Request) SetTimeout(t time.Duration) { r.timeout = t }

// GetTimeOut returns the timeout that SetTimeout set.
func (r *Request) GetTimeOut() time.Duration { return r.timeout }
