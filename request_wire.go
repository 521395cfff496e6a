package sluice

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"io"

	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/uri"
)

// Read reads a request from br without a limit. Use ReadLimitBody for requests
// from untrusted sources.
func (r *Request) Read(br *bufio.Reader) error { return r.ReadLimitBody(br, 0) }

// ReadLimitBody reads a request, head and body, from br. A body longer than
// maxBodySize is ErrBodyTooLarge; if its length is announced, none of it is
// read. If maxBodySize is 0 or less, there is no limit. Memory grows with the
// bytes that arrive and not with the announced length. maxBodySize is also the
// limit of MultipartForm, BodyUncompressed and similar methods.
//
// If MayContinue is true, ReadLimitBody does not read the body. For errors of
// the head see RequestHeader.Read. A truncated body is io.ErrUnexpectedEOF, and
// a malformed chunk is ErrBrokenChunk.
func (r *Request) ReadLimitBody(br *bufio.Reader, maxBodySize int) error {
	r.resetContent()
	if err := r.Header.Read(br); err != nil {
		return err
	}
	if r.MayContinue() {
		return nil
	}
	return r.ContinueReadBody(br, maxBodySize)
}

// MayContinue reports whether the client waits for the status 100 before it
// sends the body (RFC 9110 section 10.1.1). Either send status 100 and call
// ContinueReadBody, or send a final status and close the connection.
func (r *Request) MayContinue() bool {
	return r.Header.IsHTTP11() && ascii.EqualFold(r.Header.m.Table.Get(field.Expect), "100-continue")
}

// ContinueReadBody reads the body after the head was read, if MayContinue was
// true. maxBodySize is as for ReadLimitBody. preParseMultipartForm has no
// effect: MultipartForm parses the form when it is called.
func (r *Request) ContinueReadBody(br *bufio.Reader, maxBodySize int, preParseMultipartForm ...bool) error {
	length := r.Header.ContentLength()
	if length == 0 || length < -1 {
		r.ResetBody()
		r.Header.m.SettleLength()
		return nil // a request without a length has no body
	}
	if err := r.ReadBody(br, length, maxBodySize); err != nil {
		return err
	}
	if length == -1 {
		if err := r.Header.ReadTrailer(br); err != nil {
			return body.Unexpected(err)
		}
		r.Header.m.SettleChunked(len(r.buffered()))
	}
	return nil
}

// ContinueReadBodyStream is ContinueReadBody, except that the body becomes a
// stream that reads from br. br must not be used otherwise until the stream has
// returned io.EOF. maxBodySize limits what Body and similar methods collect
// from the stream, but not what is read from the stream itself.
func (r *Request) ContinueReadBodyStream(br *bufio.Reader, maxBodySize int, preParseMultipartForm ...bool) error {
	r.ResetBody()
	length := r.Header.ContentLength()
	if length == 0 || length < -1 {
		r.Header.m.SettleLength()
		return nil
	}
	if length == message.TooLong {
		return ErrBodyTooLarge
	}
	r.setServerStream(body.NewReader(br, &r.Header.m.Header, length, message.ReaderLimits(br)))
	r.setLimit(max(maxBodySize, 0))
	return nil
}

// ReadBody reads a body of contentLength bytes from br. -1 is a chunked body;
// its trailer section is left for Header.ReadTrailer. Less than -1 reads to the
// end of br. A body longer than maxBodySize is ErrBodyTooLarge; 0 or less is no
// limit. After an error, the body is empty.
func (r *Request) ReadBody(br *bufio.Reader, contentLength, maxBodySize int) error {
	r.ResetBody()
	r.setLimit(max(maxBodySize, 0))
	if err := r.readBuffered(br, contentLength, maxBodySize); err != nil {
		r.ResetBody()
		return err
	}
	if contentLength < -1 {
		r.Header.SetContentLength(len(r.buffered()))
	}
	return nil
}

// errMissingHost is the error for a request with neither a Host field nor a URI
// with a host.
var errMissingHost = errors.New("sluice: the request has no host")

// Write writes the request to w. It does not flush w, except before it waits
// for a body stream. It closes a body stream.
//
// If Header has a Host and the URI was not used with URI, SetURI or SetHost,
// target and Host are written unchanged. Otherwise, the target is the URI's
// path and query, and Host is its host, without the zone of an IPv6 address,
// unless UseHostHeader is set. The URI's user information is decoded and sent
// as an Authorization field with the scheme Basic. User information with
// control characters or a malformed percent-encoding is an error, and so is a
// user name with a colon.
func (r *Request) Write(w *bufio.Writer) error { return r.write(w, nil) }

// write is Write, except that it flushes the head and calls await before it writes the
// body, which await may refuse with an error; nil: it does not.
func (r *Request) write(w *bufio.Writer, await func() error) error {
	if err := r.prepareHead(); err != nil {
		return err
	}
	if r.streamed() != nil {
		if r.bodyLength() < 0 && r.Header.m.IsHTTP10 {
			// HTTP/1.0 has no way to send a body of unknown length to a server.
			if err := r.bufferGuarded(); err != nil {
				return err
			}
			return r.writeBuffered(w, await)
		}
		return r.writeStreamed(w, await)
	}
	return r.writeBuffered(w, await)
}

// flushHead flushes the head in w and calls await, if there is one.
func flushHead(w *bufio.Writer, await func() error) error {
	if await == nil {
		return nil
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return await()
}

// hasBody reports whether there is a body, which may turn out to be empty if it is a stream.
func (r *Request) hasBody() bool {
	return r.streamed() != nil || len(r.bodyBytes()) > 0 || r.hasForm() || r.hasPostArgs
}

// bufferGuarded is bufferStream that returns a panic as an error, as writeStream does: a
// client calls Write on a goroutine of its own.
func (r *Request) bufferGuarded() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = r.endStream(message.StreamPanic(v))
		}
	}()
	return r.bufferStream()
}

// prepareHead gives Header its final target, Host and Authorization, and a stream its length.
func (r *Request) prepareHead() error {
	h := &r.Header
	r.settleLength(&h.m.Header)
	if len(h.Host()) > 0 && !r.hasURI {
		return r.cleanTarget()
	}
	if h.IsConnect() && !r.hasURI && isAuthority(h.m.Target()) {
		h.SetHostBytes(h.RequestURI())
		return nil
	}
	u := r.URI()
	if r.uriError != nil {
		return r.uriError
	}
	host := uri.WithoutZone(u.Host())
	if len(h.Host()) == 0 || !r.UseHostHeader {
		if len(host) == 0 && len(h.Host()) == 0 {
			return errMissingHost
		}
		if len(host) > 0 {
			h.SetHostBytes(host)
		}
	}
	switch {
	case h.m.IsForwarded() && !h.IsConnect():
		h.m.SetFitTarget(u.m.AppendForwarded(h.m.TargetRoom(), &u.queryArgs.m))
	case !h.IsConnect():
		h.m.SetFitTarget(u.appendRequestURI(h.m.TargetRoom()))
	case !isAuthority(h.m.Target()):
		h.SetRequestURI(AddMissingPort(string(host), u.m.IsHTTPS()))
	}
	return r.authorize(u)
}

// isAuthority reports whether target is host:port, the target of CONNECT, and
// not a URI.
func isAuthority(target []byte) bool {
	return bytes.IndexByte(target, '/') < 0 && bytes.IndexByte(target, ':') > 0
}

// cleanTarget removes user information from a target in absolute form: it is
// never sent there (RFC 9110 section 4.2.4). appendHead removes a fragment.
func (r *Request) cleanTarget() error {
	target := r.Header.m.Target()
	if len(target) == 0 || target[0] == '/' || bytes.IndexByte(target, '@') < 0 {
		return r.authorize(nil)
	}
	uri := AcquireURI()
	defer ReleaseURI(uri)
	if err := uri.Parse(nil, target); err != nil {
		return err
	}
	if err := r.authorize(uri); err != nil {
		return err
	}
	r.Header.SetRequestURIBytes(uri.FullURI())
	r.basic = 0 // the field is all that is left of the user information
	return nil
}

// authorize makes an Authorization field of the URI's user information (RFC 7617),
// which may be nil, unless the caller has set one. The one that it has made for
// another URI goes.
func (r *Request) authorize(uri *URI) error {
	hasUser := uri != nil && len(uri.Username()) > 0
	switch {
	case !hasUser && r.basic == 0:
		return nil
	case r.hasAuthorization():
		r.basic = 0
		return nil
	case !hasUser:
		r.Header.m.DelAny(HeaderAuthorization)
		r.basic = 0
		return nil
	}
	both, err := uri.m.AppendCredentials(r.wireRoom())
	if err != nil {
		return err
	}
	n := len(both)
	both = append(both, "Basic "...)
	r.wire = base64.StdEncoding.AppendEncode(both, both[:n])
	made := r.wire[n:]
	r.basic = basicSum(made)
	r.Header.m.SetKnown(field.Authorization, made)
	return nil
}

// basicSum tells values of Authorization apart. It is not 0.
func basicSum(value []byte) uint32 { return ascii.AddSum(0, value) | 1 }

// hasAuthorization reports whether the caller has set an Authorization field, in any
// spelling. The one that authorize has made is none.
func (r *Request) hasAuthorization() bool {
	var memory [2][]byte
	values := r.Header.m.AppendAny(memory[:0], HeaderAuthorization)
	return len(values) > 1 || len(values) == 1 && r.basic != basicSum(values[0])
}

// maxWhole is the largest body, in bytes, that a client sends in one write with
// the head, from the request's own memory.
const maxWhole = 2048

// isShort reports whether appendWhole can encode the request.
func (r *Request) isShort() bool {
	return r.streamed() == nil && !r.hasForm() && !r.hasPostArgs && len(r.bodyBytes()) <= maxWhole && !r.Header.m.HasTrailers()
}

// appendWhole appends head and body of a request for which isShort is true.
func (r *Request) appendWhole(dst []byte) ([]byte, error) {
	if err := r.prepareHead(); err != nil {
		return dst, err
	}
	content, f := r.framed()
	return append(r.Header.m.AppendHead(dst, f), content...), nil
}

// wireRoom returns the memory for what is sent. A copy by assignment takes memory of its own: both
// may be sent at the same time.
func (r *Request) wireRoom() []byte {
	if !r.owner.Owns() && r.owner.IsCopy() {
		r.wire = nil
	}
	return r.wire[:0]
}

// encodeWhole is appendWhole with the request's own memory.
func (r *Request) encodeWhole() (encoded []byte, err error) {
	if r.wire, err = r.appendWhole(r.wireRoom()); err != nil {
		return nil, err
	}
	return r.wire, nil
}

// framed returns the body, which is not a stream, and its framing.
func (r *Request) framed() (content []byte, f message.Framing) {
	content = r.Body()
	if len(content) == 0 && r.hasPostArgs {
		content = r.postArgs.QueryString()
	}
	h := &r.Header
	f = message.Framing{Length: int64(len(content))}
	switch {
	case len(content) == 0 && (h.IsGet() || h.IsHead() || h.IsConnect()):
		f.Length = -2
	case h.m.HasTrailers() && !h.m.IsHTTP10:
		f.Length, f.HasContent = -1, len(content) > 0
	}
	if f.Length >= -1 {
		h.SetContentLength(int(f.Length))
	}
	return content, f
}

// writeBuffered writes head and body.
func (r *Request) writeBuffered(w *bufio.Writer, await func() error) error {
	content, f := r.framed()
	h := &r.Header
	if err := h.m.WriteHead(w, h.m.AppendHead(h.m.HeadRoom(w), f)); err != nil {
		return err
	}
	if err := flushHead(w, await); err != nil {
		return err
	}
	return body.WriteContent(w, content, f.Length, &h.m.Header)
}

// writeStreamed writes head and body stream.
func (r *Request) writeStreamed(w *bufio.Writer, await func() error) error {
	h := &r.Header
	f := message.Framing{Length: int64(max(r.bodyLength(), -1))}
	if h.m.HasTrailers() && !h.m.IsHTTP10 {
		f.Length, f.HasContent = -1, r.bodyLength() > 0
	}
	h.SetContentLength(int(f.Length))
	if err := h.m.WriteHead(w, h.m.AppendHead(h.m.HeadRoom(w), f)); err != nil {
		return r.endStream(err)
	}
	if err := flushHead(w, await); err != nil {
		return r.endStream(err)
	}
	if mayWait(r.streamed()) {
		// The server may answer to the head alone.
		if err := w.Flush(); err != nil {
			return r.endStream(err)
		}
	}
	return r.writeStream(w, f.Length, &h.m.Header)
}

// WriteTo writes the request to w; see Write. It implements io.WriterTo.
func (r *Request) WriteTo(w io.Writer) (int64, error) { return message.WriteTo(w, r) }

// String returns the request as it is written, or the text of the error of
// writing it. It reads a body stream and closes it.
func (r *Request) String() string { return message.String(r) }
