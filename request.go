package sluice

import (
	"io"
	"mime/multipart"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/ascii"
)

// A Request is an HTTP request: one that is sent with a client, or one that a
// server received.
//
// The zero value is an empty GET request, ready to use. A Request must not be
// copied (use CopyTo) nor be used by several goroutines at once. Slices that its
// methods return belong to it and are valid until what they come from is
// changed, or the Request is reset or released.
type Request struct {
	noCopy noCopy

	// Header is the request line and the fields. It must not be copied.
	Header RequestHeader

	// KeepBodyBuffer keeps the memory of the body, however large, when the
	// request is reset: for a Request that is used for many requests. Reset and
	// CopyTo leave it as it is; ReleaseRequest and servers clear it.
	KeepBodyBuffer bool

	// UseHostHeader sends the Host that was set with Header.SetHost, instead of
	// the host of the URI.
	UseHostHeader bool

	// DisableRedirectPathNormalizing keeps the path of redirects that are
	// followed as the server gave it.
	DisableRedirectPathNormalizing bool

	body
	// formFiles are those of the form that was parsed last, for goroutines other
	// than the one that uses the request; nil: there are none.
	formFiles  atomic.Pointer[formFiles]
	uri        URI
	postArgs   Args
	userValues userValues
	timeout    time.Duration
	call       clientCall // while a client sends it
	wire       []byte     // memory of what is sent; what was sent last

	hasURI      bool // uri has been parsed or set, and has precedence over Header
	hasPostArgs bool // postArgs have been parsed or set
	isTLS       bool // received over TLS: the URI's scheme is https
	uriError    error
}

// Reset makes the request an empty one. Files of a multipart form are removed,
// a body stream and user values that are io.Closers are closed. Memory of the
// body is kept as SetBodySizePoolLimit and KeepBodyBuffer say.
func (r *Request) Reset() {
	r.userValues.reset()
	r.Header.Reset()
	r.resetContent()
	r.UseHostHeader = false
	r.DisableRedirectPathNormalizing = false
	r.timeout = 0
	r.call = clientCall{}
}

// resetContent removes what is not in Header, but not the settings.
func (r *Request) resetContent() {
	r.ResetBody()
	if r.formFiles.Load() != nil {
		r.formFiles.Store(nil)
	}
	if r.hasURI {
		r.uri.Reset()
		r.hasURI, r.uriError = false, nil
	}
	if r.hasPostArgs {
		r.postArgs.Reset()
		r.hasPostArgs = false
	}
	r.isTLS = false
}

// resetForServer prepares a request for the next one of a server.
func (r *Request) resetForServer() {
	r.KeepBodyBuffer = false
	r.Reset()
}

// CopyTo makes dst a copy of r that shares no memory with it, without user
// values and timeout. A body stream is not copied; call Body before to have it.
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
	dst.isTLS = r.isTLS
	dst.UseHostHeader = r.UseHostHeader
	dst.DisableRedirectPathNormalizing = r.DisableRedirectPathNormalizing
	r.copyBodyTo(&dst.body)
}

// ResetBody makes the body empty.
func (r *Request) ResetBody() { r.clear(r.KeepBodyBuffer, &bodyPoolLimits.request) }

// SetBodyStream makes what stream has, up to its io.EOF, the body. size is its
// length: the request can only be written if there are as many bytes, and no
// more are read. A negative size stands for an unknown length; the body is then
// sent chunked.
//
// The stream is closed when it was written, and when the request is reset,
// released or given another body: with CloseWithError if it is a
// ReadCloserWithError, else with Close if it is an io.Closer. See BodyWriterTo
// for streams that have a WriteTo.
func (r *Request) SetBodyStream(stream io.Reader, size int) {
	r.ResetBody()
	r.setStream(stream, size)
	r.Header.SetContentLength(size)
}

// SetBodyStreamWriter makes what sw writes the body, sent chunked. sw is called
// in any case, and later; see StreamWriter.
func (r *Request) SetBodyStreamWriter(sw StreamWriter) {
	r.ResetBody()
	r.setStreamWriter(sw)
	r.Header.SetContentLength(-1)
}

// setServerStream makes s, which belongs to the server, the body.
func (r *Request) setServerStream(s io.Reader) { r.setStream(s, r.Header.ContentLength()) }

// BodyUncompressed returns the body, decoded as Content-Encoding says: gzip,
// deflate, br or zstd. Another coding is ErrContentEncodingUnsupported. A body
// that is not encoded is returned without a copy.
//
// A body that is decoded to more than the request's limit is ErrBodyTooLarge.
// That is Server.MaxRequestBodySize in a handler, or what ReadLimitBody was
// given, and stays until ResetBody. A request that you have made, or read with
// Read, has none: use BodyUncompressedWithLimit for bodies of others.
func (r *Request) BodyUncompressed() ([]byte, error) { return r.BodyUncompressedWithLimit(0) }

// BodyUncompressedWithLimit is BodyUncompressed for at most maxBodySize bytes;
// more are ErrBodyTooLarge. maxBodySize <= 0 stands for the limit of
// BodyUncompressed.
func (r *Request) BodyUncompressedWithLimit(maxBodySize int) ([]byte, error) {
	return r.uncompressed(r.Header.ContentEncoding(), maxBodySize)
}

// MultipartForm returns the form of a multipart/form-data body. It is parsed on
// the first call: a body stream is then read to its end, and a body that
// Content-Encoding names one of gzip, deflate, br and zstd for is decoded.
// Parts that don't fit some memory are kept in temporary files until the
// request is reset or RemoveMultipartFormFiles is called.
//
// ErrNoMultipartForm says that Content-Type is another one or has no boundary.
// A form that decodes to more than the request's limit is ErrBodyTooLarge;
// BodyUncompressed says what that limit is. A body stream that is not encoded has
// none. A form with more than 1000 parts is ErrBodyTooLarge, too, and so is one
// with more than 14 MiB of fields that are no files.
func (r *Request) MultipartForm() (*multipart.Form, error) { return r.MultipartFormWithLimit(0) }

// MultipartFormWithLimit is MultipartForm for a body, decoded, of at most
// maxBodySize bytes; a longer one is ErrBodyTooLarge. maxBodySize <= 0 stands
// for the limit of MultipartForm.
func (r *Request) MultipartFormWithLimit(maxBodySize int) (*multipart.Form, error) {
	if r.form != nil {
		return r.form.form, r.form.err
	}
	boundary := r.Header.MultipartFormBoundary()
	if len(boundary) == 0 {
		return nil, ErrNoMultipartForm
	}
	form, err := r.parseForm(string(boundary), r.Header.ContentEncoding(), maxBodySize)
	if err == nil && r.form.files != nil {
		r.formFiles.Store(r.form.files)
	}
	return form, err
}

// RemoveMultipartFormFiles removes the temporary files of the multipart form.
// The form must not be used afterwards; MultipartForm parses the body again.
func (r *Request) RemoveMultipartFormFiles() { r.removeForm() }

// PostArgs returns the arguments of a body that is
// application/x-www-form-urlencoded, an empty list for any other. It is parsed
// on the first call, and empty if the body cannot be read. If the request has no
// body when it is written, the arguments are the body.
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

// isFormURLEncoded compares a media type without its parameters.
func isFormURLEncoded(contentType []byte) bool {
	mediaType, _, _ := cutByte(contentType, ';')
	return ascii.EqualFold(ascii.TrimOWS(mediaType), "application/x-www-form-urlencoded")
}

// ConnectionClose tells whether the connection ends after this request.
func (r *Request) ConnectionClose() bool { return r.Header.ConnectionClose() }

// SetConnectionClose makes the connection end after this request.
func (r *Request) SetConnectionClose() { r.Header.SetConnectionClose() }

// SetTimeout bounds the time that a client takes for this request, from sending
// it to having its response, as Client.DoTimeout does. 0 is no bound of its own.
func (r *Request) SetTimeout(t time.Duration) { r.timeout = t }

// GetTimeOut returns what SetTimeout was given.
func (r *Request) GetTimeOut() time.Duration { return r.timeout }

// UserValue returns the value that SetUserValue stored under key, nil if there
// is none. A string and a []byte with the same bytes are the same key.
func (r *Request) UserValue(key any) any { return r.userValues.get(key) }

// UserValueBytes is UserValue(string(key)).
func (r *Request) UserValueBytes(key []byte) any { return r.userValues.getBytes(key) }

// SetUserValue stores any value under key, until the request is reset, released
// or, in a server, answered. Values that are io.Closers are closed then. key
// must be comparable, or a []byte.
func (r *Request) SetUserValue(key, value any) { r.userValues.set(key, value) }

// SetUserValueBytes is SetUserValue(string(key), value).
func (r *Request) SetUserValueBytes(key []byte, value any) { r.userValues.set(key, value) }

// RemoveUserValue removes key and its value, which is not closed.
func (r *Request) RemoveUserValue(key any) { r.userValues.remove(key) }

// RemoveUserValueBytes is RemoveUserValue(string(key)).
func (r *Request) RemoveUserValueBytes(key []byte) { r.userValues.remove(key) }

// ResetUserValues removes all user values and closes those that are io.Closers.
func (r *Request) ResetUserValues() { r.userValues.reset() }

// VisitUserValues calls visitor for each user value whose key is a string.
// visitor must not keep or change the bytes of the key.
func (r *Request) VisitUserValues(visitor func(key []byte, value any)) {
	for i := range r.userValues {
		if key, ok := r.userValues[i].key.(string); ok {
			visitor(ascii.Bytes(key), r.userValues[i].value)
		}
	}
}

// VisitUserValuesAll calls visitor for each user value.
func (r *Request) VisitUserValuesAll(visitor func(key, value any)) {
	for i := range r.userValues {
		visitor(r.userValues[i].key, r.userValues[i].value)
	}
}
