package message_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// A wireMessage is written by both kinds of messages.
type wireMessage interface {
	Write(w *bufio.Writer) error
	String() string
}

// writtenMessages makes a message of each way of writing one.
func writtenMessages() map[string]func() wireMessage {
	response := func(change func(r *sluice.Response)) func() wireMessage {
		return func() wireMessage {
			r := new(sluice.Response)
			change(r)
			return r
		}
	}
	request := func(change func(r *sluice.Request)) func() wireMessage {
		return func() wireMessage {
			r := new(sluice.Request)
			r.SetRequestURI("http://user:word@host/path")
			r.Header.SetMethod(sluice.MethodPost)
			change(r)
			return r
		}
	}
	text := strings.Repeat("0123456789", 5)
	stream := func() io.Reader { return iotest.OneByteReader(strings.NewReader(text)) }
	writer := func() io.Reader { return &harness.WriterTo{Text: strings.Repeat("some,", 9), Supports: true} }
	return map[string]func() wireMessage{
		"response":                response(func(r *sluice.Response) { r.SetBodyString(text) }),
		"response, trailers":      response(func(r *sluice.Response) { r.SetBodyString(text); r.Header.AddTrailer("X"); r.Header.Set("X", "y") }),
		"response, sized stream":  response(func(r *sluice.Response) { r.SetBodyStream(stream(), 50) }),
		"response, stream":        response(func(r *sluice.Response) { r.SetBodyStream(stream(), -1) }),
		"response, stream to EOF": response(func(r *sluice.Response) { r.SetBodyStream(stream(), -2) }),
		"response, memory":        response(func(r *sluice.Response) { r.SetBodyStream(bytes.NewReader([]byte(text)), -1) }),
		"response, writer":        response(func(r *sluice.Response) { r.SetBodyStream(writer(), -1) }),
		"response, sized writer":  response(func(r *sluice.Response) { r.SetBodyStream(writer(), 45) }),
		"response, at once":       response(func(r *sluice.Response) { r.ImmediateHeaderFlush = true; r.SetBodyStream(stream(), 50) }),
		"response, stream, trailers": response(func(r *sluice.Response) {
			r.Header.AddTrailer("X")
			r.Header.Set("X", "y")
			r.SetBodyStream(stream(), 50)
		}),
		"request":               request(func(r *sluice.Request) { r.SetBodyString(text) }),
		"request, trailers":     request(func(r *sluice.Request) { r.SetBodyString(text); r.Header.AddTrailer("X"); r.Header.Set("X", "y") }),
		"request, sized stream": request(func(r *sluice.Request) { r.SetBodyStream(stream(), 50) }),
		"request, stream":       request(func(r *sluice.Request) { r.SetBodyStream(stream(), -1) }),
		"request, writer":       request(func(r *sluice.Request) { r.SetBodyStream(writer(), -1) }),
		"request, stream, trailers": request(func(r *sluice.Request) {
			r.Header.AddTrailer("X")
			r.Header.Set("X", "y")
			r.SetBodyStream(stream(), 50)
		}),
	}
}

// TestWriteErrorsAreReported: wherever the connection fails while a message is
// written, Write returns that error.
func TestWriteErrorsAreReported(t *testing.T) {
	for name, message := range writtenMessages() {
		whole := message().String()
		for cut := range len(whole) {
			w := harness.CutWriter{Left: cut}
			if err := message().Write(bufio.NewWriterSize(&w, 16)); (err != nil) != w.Failed || err != nil && !errors.Is(err, harness.ErrWire) {
				t.Errorf("%s, cut at %d of %d: failed %v, error %v", name, cut, len(whole), w.Failed, err)
			}
			if n, err := message().(io.WriterTo).WriteTo(&harness.CutWriter{Left: cut}); err == nil || n != int64(cut) {
				t.Errorf("%s, WriteTo cut at %d: %d, %v", name, cut, n, err)
			}
		}
		if n, err := message().(io.WriterTo).WriteTo(io.Discard); err != nil || n != int64(len(whole)) {
			t.Errorf("%s: WriteTo returns %d of %d, %v", name, n, len(whole), err)
		}
	}
}

// failing is a stream that fails after text, and notes why it was closed.
type failing struct {
	io.Reader
	told error
}

func (f *failing) CloseWithError(err error) error {
	f.told = err
	return nil
}

func (f *failing) Close() error { return nil }

// TestStreamErrorsAreReported: the error of a stream is that of Write, and of
// what else reads the stream.
func TestStreamErrorsAreReported(t *testing.T) {
	for name, use := range map[string]func(s io.Reader) error{
		"sized response": func(s io.Reader) error {
			r := new(sluice.Response)
			r.SetBodyStream(s, 9)
			return r.Write(bufio.NewWriter(io.Discard))
		},
		"response": func(s io.Reader) error {
			r := new(sluice.Response)
			r.SetBodyStream(s, -1)
			return r.Write(bufio.NewWriter(io.Discard))
		},
		"to EOF": func(s io.Reader) error {
			r := new(sluice.Response)
			r.SetBodyStream(s, -2)
			return r.Write(bufio.NewWriter(io.Discard))
		},
		"sized request": func(s io.Reader) error {
			r := new(sluice.Request)
			r.SetRequestURI("http://host/")
			r.SetBodyStream(s, 9)
			return r.Write(bufio.NewWriter(io.Discard))
		},
		"HTTP/1.0 request": func(s io.Reader) error {
			r := new(sluice.Request)
			r.SetRequestURI("http://host/")
			r.Header.SetProtocol("HTTP/1.0")
			r.SetBodyStream(s, -1)
			return r.Write(bufio.NewWriter(io.Discard))
		},
		"gzip": func(s io.Reader) error {
			r := new(sluice.Response)
			r.SetBodyStream(s, -1)
			return r.WriteGzip(bufio.NewWriter(io.Discard))
		},
		"BodyWriteTo": func(s io.Reader) error {
			r := new(sluice.Response)
			r.SetBodyStream(s, -1)
			return r.BodyWriteTo(io.Discard)
		},
		"BodyGunzip": func(s io.Reader) error {
			r := new(sluice.Response)
			r.SetBodyStream(s, -1)
			_, err := r.BodyGunzip()
			return err
		},
		"BodyUncompressed": func(s io.Reader) error {
			r := new(sluice.Response)
			r.SetBodyStream(s, -1)
			_, err := r.BodyUncompressed()
			return err
		},
		"BodyUncompressed2": func(s io.Reader) error {
			r := new(sluice.Request)
			r.SetBodyStream(s, -1)
			_, err := r.BodyUncompressed()
			return err
		},
	} {
		s := &failing{Reader: io.MultiReader(strings.NewReader("text"), iotest.ErrReader(harness.ErrWire))}
		if err := use(s); !errors.Is(err, harness.ErrWire) || !errors.Is(s.told, harness.ErrWire) {
			t.Errorf("%s: error %v, stream was told %v", name, err, s.told)
		}
	}
}

// TestReadErrorsAreReported: a message that ends early, or whose reading fails,
// is an error, also if it comes together with the last bytes.
func TestReadErrorsAreReported(t *testing.T) {
	const chunked = "Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n5\r\nhello\r\n6;a=b\r\n world\r\n0\r\nX: y\r\n\r\n"
	for name, whole := range map[string]string{
		"sized response":   "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world",
		"chunked response": "HTTP/1.1 200 OK\r\n" + chunked,
		"sized request":    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\nhello world",
		"chunked request":  "POST / HTTP/1.1\r\nHost: h\r\n" + chunked,
	} {
		for _, streams := range []bool{false, true} {
			read := func(in io.Reader) (string, error) {
				if strings.HasSuffix(name, "request") {
					return readWholeRequest(bufio.NewReader(in), streams)
				}
				r := &sluice.Response{StreamBody: streams}
				err := r.Read(bufio.NewReader(in))
				return finish(r.BodyStream(), r.Body, err)
			}
			for _, kind := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.DataErrReader, iotest.OneByteReader} {
				if got, err := read(kind(strings.NewReader(whole))); got != "hello world" || err != nil {
					t.Errorf("%s, stream %v: %q, %v", name, streams, got, err)
				}
			}
			for cut := 1; cut < len(whole); cut++ {
				if got, err := read(strings.NewReader(whole[:cut])); !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("%s, stream %v, cut at %d: %q, %v", name, streams, cut, got, err)
				}
				if got, err := read(io.MultiReader(strings.NewReader(whole[:cut]), iotest.ErrReader(harness.ErrWire))); !errors.Is(err, harness.ErrWire) {
					t.Errorf("%s, stream %v, failed at %d: %q, %v", name, streams, cut, got, err)
				}
			}
		}
	}
}

func readWholeRequest(br *bufio.Reader, streams bool) (string, error) {
	r := new(sluice.Request)
	if !streams {
		err := r.Read(br)
		return string(r.Body()), err
	}
	err := r.Header.Read(br)
	if err == nil {
		err = r.ContinueReadBodyStream(br, 0)
	}
	return finish(r.BodyStream(), r.Body, err)
}

// finish reads the stream of a message, if it has one.
func finish(stream io.Reader, body func() []byte, err error) (string, error) {
	if err != nil || stream == nil {
		return string(body()), err
	}
	all, err := io.ReadAll(stream)
	return string(all), err
}

// TestLargeReadsOfStreams: a body that a Read takes past the buffer, together
// with the end of the connection, is whole.
func TestLargeReadsOfStreams(t *testing.T) {
	text := strings.Repeat("0123456789", 2000)
	for name, head := range map[string]string{"sized": "Content-Length: 20000\r\n\r\n", "to EOF": "\r\n"} {
		for _, streams := range []bool{false, true} {
			r := &sluice.Response{StreamBody: streams}
			in := io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\n"+head), iotest.DataErrReader(strings.NewReader(text)))
			if err := r.Read(bufio.NewReader(in)); err != nil {
				t.Fatalf("%s, stream %v: %v", name, streams, err)
			}
			got, err := finish(r.BodyStream(), r.Body, nil)
			if got != text || err != nil {
				t.Errorf("%s, stream %v: %d bytes, %v", name, streams, len(got), err)
			}
		}
	}
}

// TestFormErrorsAreReported: the same for forms.
func TestFormErrorsAreReported(t *testing.T) {
	form := &multipart.Form{Value: map[string][]string{"a": {"1", "2"}, "b": {"3"}}, File: map[string][]*multipart.FileHeader{}}
	r := new(sluice.Request)
	r.Header.SetContentType("multipart/form-data; boundary=b")
	r.SetBodyString("--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"n\"\r\n\r\ncontent\r\n--b--\r\n")
	parsed, err := r.MultipartForm()
	if err != nil {
		t.Fatal(err)
	}
	form.File = parsed.File
	var whole bytes.Buffer
	if err := sluice.WriteMultipartForm(&whole, form, "b"); err != nil {
		t.Fatal(err)
	}
	for cut := range whole.Len() {
		if err := sluice.WriteMultipartForm(&harness.CutWriter{Left: cut}, form, "b"); !errors.Is(err, harness.ErrWire) {
			t.Errorf("cut at %d: %v", cut, err)
		}
		r.SetBodyStream(io.MultiReader(bytes.NewReader(whole.Bytes()[:cut]), iotest.ErrReader(harness.ErrWire)), -1)
		if _, err := r.MultipartForm(); !errors.Is(err, harness.ErrWire) {
			t.Errorf("fails at %d: %v", cut, err)
		}
	}
	r.SetBodyStream(&closed{Reader: bytes.NewReader(whole.Bytes())}, -1)
	if _, err := r.MultipartForm(); !errors.Is(err, harness.ErrWire) {
		t.Errorf("closing fails: %v", err)
	}
	for limit, want := range map[int]error{whole.Len(): nil, whole.Len() - 1: sluice.ErrBodyTooLarge, 1: sluice.ErrBodyTooLarge} {
		for _, isStream := range []bool{false, true} {
			if r.SetBodyRaw(whole.Bytes()); isStream {
				r.SetBodyStream(bytes.NewReader(whole.Bytes()), -1)
			}
			if _, err := r.MultipartFormWithLimit(limit); !errors.Is(err, want) {
				t.Errorf("limit %d, stream %v: %v, want %v", limit, isStream, err, want)
			}
		}
	}
}

// closed is a stream that cannot be closed.
type closed struct{ io.Reader }

func (closed) Close() error { return harness.ErrWire }
