package sluice

import (
	"bufio"

	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/field"
)

// Read reads a request from br: ReadLimitBody without a limit. Use that for
// requests of others.
func (r *Request) Read(br *bufio.Reader) error { return r.ReadLimitBody(br, 0) }

// ReadLimitBody reads a request, head and body, from br. A body longer than
// maxBodySize is ErrBodyTooLarge, before any of it is read where its length is
// announced; maxBodySize <= 0 is no limit. Memory follows what arrives and not
// what is announced. maxBodySize is then the limit of MultipartForm,
// BodyUncompressed and their relatives, too.
//
// If MayContinue tells that the client waits for a decision, the body is not
// read yet. For errors of the head see RequestHeader.Read; a body that is cut
// off is io.ErrUnexpectedEOF, one in a malformed chunk ErrBrokenChunk.
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

// MayContinue tells whether the client sends the body only after it was sent
// the status 100 (RFC 9110 section 10.1.1): answer that before calling
// ContinueReadBody, or answer a final status and close the connection.
func (r *Request) MayContinue() bool {
	return r.Header.IsHTTP11() && ascii.EqualFold(r.Header.table.Get(field.Expect), "100-continue")
}

// ContinueReadBody reads the body behind a head that was read: for requests
// for which MayContinue is true. maxBodySize is as for ReadLimitBody.
// preParseMultipartForm is without effect: multipart forms are parsed when
// they are asked for.
func (r *Request) ContinueReadBody(br *bufio.Reader, maxBodySize int, preParseMultipartForm ...bool) error {
	length := r.Header.ContentLength()
	if length == 0 || length < -1 {
		r.ResetBody()
		r.Header.settleLength()
		return nil // a request without a length has no body
	}
	if err := r.ReadBody(br, length, maxBodySize); err != nil {
		return err
	}
	if length == -1 {
		if err := r.Header.ReadTrailer(br); err != nil {
			return unexpectedEOF(err)
		}
		r.Header.settleChunked(len(r.bytes))
	}
	return nil
}

// settleChunked tells that a chunked body, which was read, was empty: there is no
// more to say of it than of a body of length 0, unless it has trailers.
func (h *RequestHeader) settleChunked(length int) {
	if length == 0 && h.contentLength == -1 && !h.hasTrailers() {
		h.setLength(0)
	}
}

// settleLength tells that a request which came without a length has an empty
// body (RFC 9112 section 6.3), as fasthttp does: handlers look whether the length
// is 0. GET and HEAD usually have none, and tell none.
func (h *RequestHeader) settleLength() {
	if h.contentLength == -2 && !h.IsGet() && !h.IsHead() {
		h.setLength(0)
	}
}

// ContinueReadBodyStream is ContinueReadBody that does not read the body but
// makes it a stream, to be read from br. br must not be used otherwise before
// the stream has returned io.EOF. What is collected from it, by Body and the
// like, is bounded by maxBodySize; what is read from it is not.
func (r *Request) ContinueReadBodyStream(br *bufio.Reader, maxBodySize int, preParseMultipartForm ...bool) error {
	r.ResetBody()
	length := r.Header.ContentLength()
	if length == 0 || length < -1 {
		r.Header.settleLength()
		return nil
	}
	if length == tooLong {
		return ErrBodyTooLarge
	}
	r.setServerStream(newMessageStream(br, &r.Header, length))
	r.limit = max(maxBodySize, 0)
	return nil
}

// ReadBody reads a body of contentLength bytes from br; -1 stands for a chunked
// body, whose trailer section is left for Header.ReadTrailer, and less than that
// for all up to the end of br. A body longer than maxBodySize is
// ErrBodyTooLarge; maxBodySize <= 0 is no limit. After an error the body is
// empty.
func (r *Request) ReadBody(br *bufio.Reader, contentLength, maxBodySize int) (err error) {
	r.ResetBody()
	r.limit = max(maxBodySize, 0)
	r.bytes, err = appendBody(r.bytes, br, contentLength, maxBodySize)
	if err != nil {
		r.ResetBody()
		return err
	}
	if contentLength < -1 {
		r.Header.SetContentLength(len(r.bytes))
	}
	return nil
}
