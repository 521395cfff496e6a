package message_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/compress"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/test/harness"
)

const (
	formText = "--B\r\nContent-Disposition: form-data; name=\"z\"\r\n\r\n1\r\n" +
		"--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n2\r\n" +
		"--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n3\r\n" +
		"--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"n.txt\"\r\nContent-Type: text/plain\r\n\r\nfile\r\n--B--\r\n"
	// formWritten is formText as WriteMultipartForm sorts it.
	formWritten = "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n2\r\n" +
		"--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n3\r\n" +
		"--B\r\nContent-Disposition: form-data; name=\"z\"\r\n\r\n1\r\n" +
		"--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"n.txt\"\r\nContent-Type: text/plain\r\n\r\nfile\r\n--B--\r\n"
)

// formRequest has a body that is text, encoded, given by set.
func formRequest(encoding string, set func(r *sluice.Request)) *sluice.Request {
	r := new(sluice.Request)
	post(r)
	r.Header.SetMultipartFormBoundary("B")
	if encoding != "" {
		r.Header.SetContentEncoding(encoding)
	}
	set(r)
	return r
}

func checkForm(t *testing.T, name string, form *multipart.Form, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if got := fmt.Sprint(form.Value); got != "map[a:[2 3] z:[1]]" {
		t.Errorf("%s: values %s", name, got)
	}
	if len(form.File["f"]) != 1 || form.File["f"][0].Filename != "n.txt" || form.File["f"][0].Size != 4 {
		t.Errorf("%s: files %v", name, form.File)
	}
}

func TestMultipartForm(t *testing.T) {
	text := []byte(formText)
	for name, r := range map[string]*sluice.Request{
		"buffered": formRequest("", func(r *sluice.Request) { r.SetBody(text) }),
		"raw":      formRequest("", func(r *sluice.Request) { r.SetBodyRaw(text) }),
		"stream":   formRequest("", func(r *sluice.Request) { r.SetBodyStream(iotest.HalfReader(bytes.NewReader(text)), len(text)) }),
		"epilogue": formRequest("", func(r *sluice.Request) { r.SetBodyString(formText + "epilogue") }),
		"gzip":     formRequest("gzip", func(r *sluice.Request) { r.SetBody(sluice.AppendGzipBytes(nil, text)) }),
		"deflate":  formRequest("deflate", func(r *sluice.Request) { r.SetBody(sluice.AppendDeflateBytes(nil, text)) }),
		"br":       formRequest("br", func(r *sluice.Request) { r.SetBody(sluice.AppendBrotliBytes(nil, text)) }),
		"zstd":     formRequest("zstd", func(r *sluice.Request) { r.SetBodyStream(bytes.NewReader(sluice.AppendZstdBytes(nil, text)), -1) }),
	} {
		form, err := r.MultipartForm()
		checkForm(t, name, form, err)
		if again, _ := r.MultipartForm(); again != form {
			t.Errorf("%s: parsed twice", name)
		}
		r.Reset()
	}
}

func TestMultipartFormLimit(t *testing.T) {
	n := len(formText)
	for _, encoding := range []string{"", "gzip", "zstd"} {
		for limit, ok := range map[int]bool{0: true, n: true, n - 1: false, 10: false} {
			for _, isStream := range []bool{false, true} {
				content := []byte(formText)
				if coding, has := compress.ByName([]byte(encoding)); has {
					content = map[bool]func(dst, src []byte) []byte{true: sluice.AppendGzipBytes, false: sluice.AppendZstdBytes}[coding.Name() == "gzip"](nil, content)
				}
				r := formRequest(encoding, func(r *sluice.Request) {
					if isStream {
						r.SetBodyStream(bytes.NewReader(content), len(content))
					} else {
						r.SetBody(content)
					}
				})
				_, err := r.MultipartFormWithLimit(limit)
				if ok && err != nil || !ok && !errors.Is(err, sluice.ErrBodyTooLarge) {
					t.Errorf("%q, limit %d, stream %v: err = %v", encoding, limit, isStream, err)
				}
				r.Reset()
			}
		}
	}
}

func TestMultipartFormErrors(t *testing.T) {
	var r sluice.Request
	for _, contentType := range []string{"", "text/plain", "multipart/form-data", "multipart/mixed; boundary=B"} {
		r.Header.SetContentType(contentType)
		if _, err := r.MultipartForm(); err != sluice.ErrNoMultipartForm {
			t.Errorf("%q: err = %v", contentType, err)
		}
	}
	for name, r := range map[string]*sluice.Request{
		"other boundary":  formRequest("", func(r *sluice.Request) { r.SetBodyString(strings.ReplaceAll(formText, "--B", "--C")) }),
		"cut off":         formRequest("", func(r *sluice.Request) { r.SetBodyString(formText[:100]) }),
		"stream, cut off": formRequest("", func(r *sluice.Request) { r.SetBodyStream(strings.NewReader(formText[:100]), -1) }),
		"not gzip":        formRequest("gzip", func(r *sluice.Request) { r.SetBodyString(formText) }),
		"unknown coding":  formRequest("compress", func(r *sluice.Request) { r.SetBodyString(formText) }),
		"epilogue, broken": formRequest("", func(r *sluice.Request) {
			r.SetBodyStream(io.MultiReader(strings.NewReader(formText), iotest.ErrReader(errors.New("boom"))), -1)
		}),
	} {
		if form, err := r.MultipartForm(); err == nil || form != nil {
			t.Errorf("%s: %v, %v", name, form, err)
		}
		r.Reset()
	}
}

func TestAFormFromAStreamIsTheBody(t *testing.T) {
	parsed := func() *sluice.Request {
		r := formRequest("", func(r *sluice.Request) { r.SetBodyStream(strings.NewReader(formText), -1) })
		if _, err := r.MultipartForm(); err != nil {
			t.Fatal(err)
		}
		return r
	}
	if got := string(parsed().Body()); got != formWritten {
		t.Errorf("Body: %q", got)
	}
	twice := parsed()
	twice.Body()
	if got := string(twice.Body()); got != formWritten {
		t.Errorf("Body, again: %q", got)
	}
	var out bytes.Buffer
	if err := parsed().BodyWriteTo(&out); err != nil || out.String() != formWritten {
		t.Errorf("BodyWriteTo: %q, %v", out.String(), err)
	}
	if got := parsed().String(); !strings.HasSuffix(got, fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(formWritten), formWritten)) {
		t.Errorf("String: %q", got)
	}
	var dst sluice.Request
	parsed().CopyTo(&dst)
	if got := string(dst.Body()); got != formWritten {
		t.Errorf("CopyTo: %q", got)
	}
	r := parsed()
	form, _ := r.MultipartForm()
	form.Value["new"] = []string{"x"}
	if got := string(r.Body()); !strings.Contains(got, "name=\"new\"\r\n\r\nx\r\n") {
		t.Errorf("changed form: %q", got)
	}
	r = parsed()
	for range 2 { // one reader: it does not begin again
		if !r.IsBodyStream() {
			t.Error("the body is no stream any more")
		}
		out.Reset()
		if _, err := out.ReadFrom(r.BodyStream()); err != nil || out.String() != formWritten && out.Len() > 0 {
			t.Errorf("BodyStream: %q, %v", out.String(), err)
		}
	}
	if out.Len() > 0 {
		t.Errorf("BodyStream, read again: %q", out.String())
	}
	if again, err := r.MultipartForm(); err != nil || len(again.File["f"]) != 1 {
		t.Errorf("after BodyStream: %v, %v", again, err)
	}
	if r.SetBodyString("other"); r.IsBodyStream() || r.BodyStream() != nil {
		t.Error("a stream after SetBody")
	}
	r = parsed()
	r.AppendBodyString("more")
	if got := string(r.Body()); got != formWritten+"more" {
		t.Errorf("AppendBody: %q", got)
	}
}

func TestMultipartFormOfAReadRequest(t *testing.T) {
	in := fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nContent-Type: multipart/form-data; boundary=B\r\nContent-Length: %d\r\n\r\n%srest", len(formText), formText)
	br := harness.Reader(in)
	var r sluice.Request
	if err := r.Read(br); err != nil {
		t.Fatal(err)
	}
	form, err := r.MultipartForm()
	checkForm(t, "read", form, err)
	if got := string(r.Body()); got != formText {
		t.Errorf("the body became %q", got)
	}
	if rest, _ := io.ReadAll(br); string(rest) != "rest" {
		t.Errorf("rest %q", rest)
	}
	r.Reset()
}

func TestWriteMultipartForm(t *testing.T) {
	r := formRequest("", func(r *sluice.Request) { r.SetBodyString(formText) })
	form, err := r.MultipartForm()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := sluice.WriteMultipartForm(&out, form, "B"); err != nil || out.String() != formWritten {
		t.Errorf("%q, %v", out.String(), err)
	}
	for _, boundary := range []string{"", "a\r\nb", strings.Repeat("x", 71)} {
		if err := sluice.WriteMultipartForm(io.Discard, form, boundary); err == nil {
			t.Errorf("boundary %q was accepted", boundary)
		}
	}
	boom := errors.New("boom")
	for n := range 5 {
		left := n
		err := sluice.WriteMultipartForm(harness.WriterFunc(func(p []byte) (int, error) {
			if left--; left < 0 {
				return 0, boom
			}
			return len(p), nil
		}), form, "B")
		if err != boom {
			t.Errorf("failing after %d writes: %v", n, err)
		}
	}
}

func TestSaveMultipartFile(t *testing.T) {
	for _, size := range []int{4, message.MaxFormMemory + 1} {
		content := strings.Repeat("x", size)
		r := formRequest("", func(r *sluice.Request) {
			r.SetBodyString(strings.Replace(formText, "\r\nfile\r\n", "\r\n"+content+"\r\n", 1))
		})
		form, err := r.MultipartForm()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "saved")
		for range 2 {
			if err := sluice.SaveMultipartFile(form.File["f"][0], path); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if err := sluice.SaveMultipartFile(form.File["f"][0], filepath.Join(path, "below a file")); err == nil {
			t.Error("no error")
		}
		r.Reset()
	}
}
