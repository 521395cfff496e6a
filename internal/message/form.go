package message

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
)

// MaxFormMemory is how many bytes of a form's files are kept in memory. Further
// files are stored in temporary files. Fields that are not files have 10 MiB
// more. Package multipart refuses a form with more of these, with more than 1000
// parts, or with more than 10,000 fields in the heads of its parts.
const MaxFormMemory = 4 << 20

// errEmptyBoundary is the reason why a form cannot be written.
var errEmptyBoundary = errors.New("sluice: the boundary of a multipart form is empty")

// ReadForm reads a form and discards the epilogue after it, which is part of the
// body, too (RFC 2046 section 5.1.1).
func ReadForm(source io.Reader, boundary string) (*multipart.Form, error) {
	r := &errorKeeper{r: source}
	form, err := multipart.NewReader(r, boundary).ReadForm(MaxFormMemory)
	if r.err != nil {
		err = r.err
	}
	if err != nil {
		if form != nil {
			_ = form.RemoveAll() // the first error counts
		}
		return nil, err
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

// FormFiles are the temporary files of a form. They are removed when Remove is
// called, or when nothing refers to the headers that open them any more. The
// latter is needed because the server does not call Remove for a RequestCtx that
// it has given up.
type FormFiles struct {
	copies     multipart.Form // copies of the headers, which do not keep the headers alive
	users      atomic.Int64   // headers that may still be used
	areRemoved atomic.Bool
}

// FilesOf returns the temporary files of form, nil if all of it is in memory.
func FilesOf(form *multipart.Form) *FormFiles {
	size := int64(0)
	for _, headers := range form.File {
		for _, header := range headers {
			size += header.Size
		}
	}
	if size <= MaxFormMemory {
		return nil
	}
	f := &FormFiles{copies: multipart.Form{File: make(map[string][]*multipart.FileHeader)}}
	for name, headers := range form.File {
		for _, header := range headers {
			copied := *header
			f.copies.File[name] = append(f.copies.File[name], &copied)
			f.users.Add(1)
			runtime.AddCleanup(header, (*FormFiles).leave, f)
		}
	}
	return f
}

// leave is called once for each header that nothing refers to any more. The last
// call removes the files.
func (f *FormFiles) leave() {
	if f.users.Add(-1) == 0 {
		f.Remove()
	}
}

// Remove removes the files.
func (f *FormFiles) Remove() {
	if f.areRemoved.CompareAndSwap(false, true) {
		_ = f.copies.RemoveAll() // no caller could act on the error
	}
}

// WriteForm writes f to w; see sluice.WriteMultipartForm.
func WriteForm(w io.Writer, f *multipart.Form, boundary string) error {
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

// SaveFormFile copies an uploaded file to path; see sluice.SaveMultipartFile.
func SaveFormFile(fh *multipart.FileHeader, path string) (err error) {
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
