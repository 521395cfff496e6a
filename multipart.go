package sluice

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"

	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/compress"
	"github.com/sluicehttp/sluice/internal/message"
)

// formData is a parsed multipart form.
type formData struct {
	form     *multipart.Form
	boundary string
	// files are the temporary files of the form, nil if there are none.
	files *message.FormFiles
	// isBody: the form was read from a stream. The body exists only as this
	// form.
	isBody bool
	reader *bytes.Reader // reads the form, written again; nil before its first use
	// err: the form could not be read from a stream, part of which was consumed.
	// form is then nil.
	err error
}

// stream returns the reader of the form, which it writes again to b. All calls
// return the same reader.
func (f *formData) stream(b *messageBody) io.Reader {
	if f.reader == nil {
		f.reader = bytes.NewReader(b.marshalForm())
	}
	return f.reader
}

// MultipartForm returns the form of a multipart/form-data body. The first call
// parses it. That call reads a body stream to its end, and decodes a body whose
// Content-Encoding is gzip, deflate, br or zstd. The form is then the body in place
// of the stream, without a Content-Encoding. Parts that exceed the memory
// limit are stored in temporary files until the request is reset or
// RemoveMultipartFormFiles is called.
//
// The error is ErrNoMultipartForm if Content-Type is not multipart/form-data or
// has no boundary. A form that decodes to more than the request's limit is
// ErrBodyTooLarge; see BodyUncompressed for that limit. It does not apply to a
// body stream that is not encoded. A form with more than 1000 parts is also
// ErrBodyTooLarge, and so is one with more than 14 MiB of fields that are not
// files.
func (r *Request) MultipartForm() (*multipart.Form, error) { return r.MultipartFormWithLimit(0) }

// MultipartFormWithLimit is MultipartForm with a limit of maxBodySize bytes for
// the decoded body; a longer one is ErrBodyTooLarge. If maxBodySize is 0 or
// less, the limit of MultipartForm applies.
func (r *Request) MultipartFormWithLimit(maxBodySize int) (*multipart.Form, error) {
	if r.form != nil {
		return r.form.form, r.form.err
	}
	boundary := r.Header.MultipartFormBoundary()
	if len(boundary) == 0 {
		return nil, ErrNoMultipartForm
	}
	form, err := r.parseForm(string(boundary), r.Header.ContentEncoding(), maxBodySize)
	if err != nil {
		return nil, err
	}
	if r.form.files != nil {
		r.formFiles.Store(r.form.files)
	}
	if r.form.isBody { // which is written without a coding
		r.Header.delAny(HeaderContentEncoding)
	}
	return form, nil
}

// RemoveMultipartFormFiles removes the temporary files of the multipart form.
// The form must not be used afterwards. A later MultipartForm parses the body
// again.
func (r *Request) RemoveMultipartFormFiles() { r.removeForm() }

// parseForm parses the body as a form. limit bounds the decoded body: memory and
// files together hold no more bytes.
func (b *messageBody) parseForm(boundary string, encoding []byte, limit int) (*multipart.Form, error) {
	coding, isEncoded, err := contentCoding(encoding)
	if err != nil {
		return nil, err
	}
	isStream := b.stream != nil
	var source io.Reader = bytes.NewReader(b.bodyBytes())
	if isStream {
		source = b.takeStream()
	}
	if isEncoded || !isStream {
		// Not for an unencoded stream: the client has to send every byte of it.
		limit = b.bound(limit)
	}
	if isEncoded {
		decoder := compress.NewReader(source, coding, limit)
		defer decoder.Close()
		source = decoder
	} else if limit > 0 {
		source = body.LimitReader(source, limit)
	}
	form, err := message.ReadForm(source, boundary)
	if err != nil {
		err = fmt.Errorf("sluice: cannot read multipart/form-data body: %w", publicLimitError(body.Unexpected(err)))
		if isStream {
			b.form = &formData{err: err}
		}
		return nil, err
	}
	b.hasOthers = true
	b.form = &formData{form: form, files: message.FilesOf(form), boundary: boundary, isBody: isStream}
	if isStream {
		if err := b.closeStream(nil); err != nil {
			b.removeForm()
			return nil, err
		}
	}
	return form, nil
}

// hasForm reports whether the body was parsed as a form.
func (b *messageBody) hasForm() bool { return b.form != nil }

// removeForm drops the form and removes its temporary files.
func (b *messageBody) removeForm() {
	if b.form != nil && b.form.files != nil {
		b.form.files.Remove()
	}
	b.form = nil
}

// marshalForm writes the form to b.memory and returns them. If that fails, they
// are the text of the error.
func (b *messageBody) marshalForm() []byte {
	b.hold()
	m := b.memory
	text := bytes.NewBuffer(m.bytes[:0])
	if err := WriteMultipartForm(text, b.form.form, b.form.boundary); err != nil {
		text.Reset()
		text.WriteString(err.Error())
	}
	m.bytes = text.Bytes()
	return m.bytes
}

// WriteMultipartForm writes f to w in the format multipart/form-data (RFC 7578)
// with the given boundary: the fields, sorted by name, then the files, sorted by
// the name of their field. The boundary must follow RFC 2046 section 5.1.1 and
// must not occur in the form. The error says that the boundary is empty or
// invalid, that a file cannot be opened or read, or is the error of w.
func WriteMultipartForm(w io.Writer, f *multipart.Form, boundary string) error {
	return message.WriteForm(w, f, boundary)
}

// SaveMultipartFile copies an uploaded file to path. It creates the file or
// overwrites an existing one. path is used verbatim: the client chose
// fh.Filename, so check that name before making it part of path. If the copy
// fails, the file at path is removed.
func SaveMultipartFile(fh *multipart.FileHeader, path string) error {
	return message.SaveFormFile(fh, path)
}
