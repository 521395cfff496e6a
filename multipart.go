package sluice

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"os"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/compress"
)

// maxFormMemory is how many bytes of a form's files are kept in memory. Further
// files are stored in temporary files. Fields that are not files have 10 MiB
// more. Package multipart refuses a form with more of these, with more than 1000
// parts, or with more than 10,000 fields in the heads of its parts.
const maxFormMemory = 4 << 20

// errEmptyBoundary is the reason why a form cannot be written.
var errEmptyBoundary = errors.New("sluice: the boundary of a multipart form is empty")

// formData is a parsed multipart form.
type formData struct {
	form     *multipart.Form
	boundary string
	// files are the temporary files of the form, nil if there are none.
	files *formFiles
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
func (f *formData) stream(b *body) io.Reader {
	if f.reader == nil {
		f.reader = bytes.NewReader(b.marshalForm())
	}
	return f.reader
}

// parseForm parses the body as a form. limit bounds the decoded body: memory and
// files together hold no more bytes.
func (b *body) parseForm(boundary string, encoding []byte, limit int) (*multipart.Form, error) {
	coding, isEncoded, err := contentCoding(encoding)
	if err != nil {
		return nil, err
	}
	source, isStream := b.formSource()
	if isEncoded || !isStream {
		// Not for an unencoded stream: the client has to send every byte of it.
		limit = b.bound(limit)
	}
	if isEncoded {
		decoder := compress.NewReader(source, coding, limit)
		defer decoder.Close()
		source = decoder
	} else if limit > 0 {
		source = &limitedReader{source, limit}
	}
	form, err := readForm(&errorKeeper{r: source}, boundary)
	if err != nil {
		err = fmt.Errorf("sluice: cannot read multipart/form-data body: %w", publicLimitError(err))
		if isStream {
			b.form = &formData{err: err}
		}
		return nil, err
	}
	b.form = &formData{form: form, files: filesOf(form), boundary: boundary, isBody: isStream}
	if isStream {
		if err := b.closeStream(nil); err != nil {
			b.removeForm()
			return nil, err
		}
	}
	return form, nil
}

// formSource returns the reader of the form.
func (b *body) formSource() (r io.Reader, isStream bool) {
	if b.stream != nil {
		return b.takeStream(), true
	}
	return bytes.NewReader(b.bodyBytes()), false
}

// readForm reads a form and discards the epilogue after it, which is part of the
// body, too (RFC 2046 section 5.1.1).
func readForm(r *errorKeeper, boundary string) (*multipart.Form, error) {
	form, err := multipart.NewReader(r, boundary).ReadForm(maxFormMemory)
	if r.err != nil {
		err = r.err
	}
	if err != nil {
		if form != nil {
			_ = form.RemoveAll() // the first error counts
		}
		return nil, unexpectedEOF(err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		_ = form.RemoveAll() // the first error counts
		return nil, err
	}
	return form, nil
}

// errorKeeper stores the error of r, unless it is io.EOF. It is needed because
// package multipart reports a malformed form if its input fails within the head
// of a part.
type errorKeeper struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (k *errorKeeper) Read(p []byte) (int, error) {
	n, err := k.r.Read(p)
	if err != nil && err != io.EOF {
		k.err = err
	}
	return n, err
}

// limitedReader reads at most left bytes from r. It returns ErrBodyTooLarge if r
// has more.
type limitedReader struct {
	r    io.Reader
	left int
}

// Read implements io.Reader.
func (l *limitedReader) Read(p []byte) (int, error) {
	// Reading one byte more than allowed distinguishes the end from a violation.
	if len(p) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.r.Read(p)
	if n > l.left {
		n, err = l.left, ErrBodyTooLarge
	}
	l.left -= n
	return n, err
}

// removeForm drops the form and removes its temporary files.
func (b *body) removeForm() {
	if b.form != nil && b.form.files != nil {
		b.form.files.remove()
	}
	b.form = nil
}

// formFiles are the temporary files of a form. They are removed when remove is
// called, or when nothing refers to the headers that open them any more. The
// latter is needed because the server does not call remove for a RequestCtx that
// it has given up.
type formFiles struct {
	copies     multipart.Form // copies of the headers, which do not keep the headers alive
	users      atomic.Int64   // headers that may still be used
	areRemoved atomic.Bool
}

// filesOf returns the temporary files of form, nil if all of it is in memory.
func filesOf(form *multipart.Form) *formFiles {
	size := int64(0)
	for _, headers := range form.File {
		for _, header := range headers {
			size += header.Size
		}
	}
	if size <= maxFormMemory {
		return nil
	}
	f := &formFiles{copies: multipart.Form{File: make(map[string][]*multipart.FileHeader)}}
	for name, headers := range form.File {
		for _, header := range headers {
			copied := *header
			f.copies.File[name] = append(f.copies.File[name], &copied)
			f.users.Add(1)
			runtime.AddCleanup(header, (*formFiles).leave, f)
		}
	}
	return f
}

// leave is called once for each header that nothing refers to any more. The last
// call removes the files.
func (f *formFiles) leave() {
	if f.users.Add(-1) == 0 {
		f.remove()
	}
}

// remove removes the files.
func (f *formFiles) remove() {
	if f.areRemoved.CompareAndSwap(false, true) {
		_ = f.copies.RemoveAll() // no caller could act on the error
	}
}

// marshalForm writes the form to b.bytes and returns them. If that fails, they
// are the text of the error.
func (b *body) marshalForm() []byte {
	b.bytes = b.bytes[:0]
	if err := WriteMultipartForm((*bytesAppender)(&b.bytes), b.form.form, b.form.boundary); err != nil {
		b.bytes = append(b.bytes[:0], err.Error()...)
	}
	return b.bytes
}

// bytesAppender is an io.Writer that appends to a slice.
type bytesAppender []byte

// Write implements io.Writer.
func (b *bytesAppender) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// WriteMultipartForm writes f to w in the format multipart/form-data (RFC 7578)
// with the given boundary: the fields, sorted by name, then the files, sorted by
// the name of their field. The boundary must follow RFC 2046 section 5.1.1 and
// must not occur in the form. The error says that the boundary is empty or
// invalid, that a file cannot be opened or read, or is the error of w.
func WriteMultipartForm(w io.Writer, f *multipart.Form, boundary string) error {
	if boundary == "" {
		return errEmptyBoundary
	}
	mw := multipart.NewWriter(w)
	if err := mw.SetBoundary(boundary); err != nil {
		return fmt.Errorf("sluice: cannot write multipart form: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Value)) {
		for _, value := range f.Value[name] {
			if err := mw.WriteField(name, value); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.File)) {
		for _, file := range f.File[name] {
			if err := writeFormFile(mw, file); err != nil {
				return err
			}
		}
	}
	return mw.Close()
}

func writeFormFile(mw *multipart.Writer, file *multipart.FileHeader) error {
	part, err := mw.CreatePart(file.Header)
	if err != nil {
		return err
	}
	content, err := file.Open()
	if err != nil {
		return fmt.Errorf("sluice: cannot open form file %q: %w", file.Filename, err)
	}
	defer content.Close()
	_, err = io.Copy(part, content)
	return err
}

// SaveMultipartFile copies an uploaded file to path. It creates the file or
// overwrites an existing one. path is used verbatim: the client chose
// fh.Filename, so check that name before making it part of path. If the copy
// fails, the file at path is removed.
func SaveMultipartFile(fh *multipart.FileHeader, path string) (err error) {
	content, err := fh.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = os.Remove(path) // the first error counts
	}
	return err
}
