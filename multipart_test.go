package sluice

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice/internal/message"
)

const (
	formText = "--B\r\nContent-Disposition: form-data; name=\"z\"\r\n\r\n1\r\n" +
		"--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n2\r\n" +
		"--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n3\r\n" +
		"--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"n.txt\"\r\nContent-Type: text/plain\r\n\r\nfile\r\n--B--\r\n"
)

// formRequest has a body that is text, encoded, given by set.
func formRequest(encoding string, set func(r *Request)) *Request {
	r := new(Request)
	post(r)
	r.Header.SetMultipartFormBoundary("B")
	if encoding != "" {
		r.Header.SetContentEncoding(encoding)
	}
	set(r)
	return r
}

// TestMultipartFormsWithinTheLimit of the request: an unencoded stream may exceed it,
// because the client has to send every byte.
func TestMultipartFormsWithinTheLimit(t *testing.T) {
	for _, encoding := range []string{"", "gzip"} {
		for _, isStream := range []bool{false, true} {
			for _, short := range []int{0, 1} {
				content := []byte(formText)
				if encoding != "" {
					content = AppendGzipBytes(nil, content)
				}
				r := formRequest(encoding, func(r *Request) { r.SetBody(content) })
				if isStream {
					r.SetBodyStream(bytes.NewReader(content), len(content))
				}
				r.limit = len(formText) - short
				_, err := r.MultipartForm()
				isRefused := short > 0 && (encoding != "" || !isStream)
				if errors.Is(err, ErrBodyTooLarge) != isRefused || !isRefused && err != nil {
					t.Errorf("%q, stream %v, %d bytes short: %v", encoding, isStream, short, err)
				}
				r.Reset()
			}
		}
	}
}

// tempFiles returns how many files are in the folder for temporary files, which
// is the test's own.
func tempFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestMultipartFilesAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	large := strings.Replace(formText, "\r\nfile\r\n", "\r\n"+strings.Repeat("x", message.MaxFormMemory+1)+"\r\n", 1)
	for name, remove := range map[string]func(r *Request){
		"RemoveMultipartFormFiles": func(r *Request) { r.RemoveMultipartFormFiles() },
		"Reset":                    func(r *Request) { r.Reset() },
		"ResetBody":                func(r *Request) { r.ResetBody() },
		"SetBody":                  func(r *Request) { r.SetBodyString("x") },
		"resetForServer":           func(r *Request) { r.resetForServer() },
		"Release":                  func(r *Request) { ReleaseRequest(r) },
	} {
		r := formRequest("", func(r *Request) { r.SetBodyString(large) })
		if _, err := r.MultipartForm(); err != nil {
			t.Fatal(err)
		}
		if tempFiles(t) == 0 {
			t.Fatal("the file is in memory")
		}
		remove(r)
		if n := tempFiles(t); n != 0 {
			t.Errorf("%s leaves %d files", name, n)
		}
	}
	r := formRequest("", func(r *Request) {
		r.SetBodyStream(io.MultiReader(strings.NewReader(large), iotest.ErrReader(errors.New("boom"))), -1)
	})
	if _, err := r.MultipartForm(); err == nil || tempFiles(t) != 0 {
		t.Errorf("after an error: %v, %d files", err, tempFiles(t))
	}
	// A file that has gone is an error of the body that it belongs to.
	r = formRequest("", func(r *Request) { r.SetBodyStream(strings.NewReader(large), len(large)) })
	form, err := r.MultipartForm()
	if err != nil || form.RemoveAll() != nil {
		t.Fatal(err)
	}
	err = WriteMultipartForm(io.Discard, form, "B")
	if got := string(r.Body()); err == nil || got != err.Error() {
		t.Errorf("a file has gone: %v, body %.80q", err, got)
	}
	// A stream that cannot be closed is one that may be incomplete.
	boom := errors.New("boom")
	r = formRequest("", func(r *Request) { r.SetBodyStream(&trackedStream{Reader: strings.NewReader(large), err: boom}, -1) })
	if _, err := r.MultipartForm(); err != boom || tempFiles(t) != 0 || r.IsBodyStream() {
		t.Errorf("after an error of Close: %v, %d files, body %.80q", err, tempFiles(t), r.Body())
	}
}
