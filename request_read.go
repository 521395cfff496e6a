package sluice

import (
	"bufio"

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/transfer"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
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
			return transfer.Unexpected(err)
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
	r.setServerStream(transfer.NewReader(br, &r.Header.m.Header, length, message.ReaderLimits(br)))
	r.limit = max(maxBodySize, 0)
	return nil
}

// ReadBody reads a body of contentLength bytes from br. -1 is a chunked body;
// its trailer section is left for Header.ReadTrailer. Less than -1 reads to the
// end of br. A body longer than maxBodySize is ErrBodyTooLarge; 0 or less is no
// limit. After an error, the body is empty.
func (r *Request) ReadBody(br *bufio.Reader, contentLength, maxBodySize int) (err error) {
	r.ResetBody()
	r.limit = max(maxBodySize, 0)
	m := r.hold()
	m.bytes, err = transfer.Append(m.bytes, br, contentLength, maxBodySize)
	if err != nil {
		r.ResetBody()
		return err
	}
	if contentLength < -1 {
		r.Header.SetContentLength(len(r.buffered()))
	}
	return nil
}
