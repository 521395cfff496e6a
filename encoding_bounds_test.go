package sluice

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// encodings are the ways to encode the body of a response while it is written.
func encodings(text string) map[string]func(w io.Writer) error {
	write := func(set func(r *Response), write func(r *Response, w *bufio.Writer) error) func(w io.Writer) error {
		return func(w io.Writer) error {
			var r Response
			set(&r)
			bw := bufio.NewWriterSize(w, 16)
			return errors.Join(write(&r, bw), bw.Flush())
		}
	}
	buffered := func(r *Response) { r.SetBodyString(text) }
	stream := func(r *Response) { r.SetBodyStream(iotest.HalfReader(strings.NewReader(text)), -1) }
	sized := func(r *Response) { r.SetBodyStream(plainReader(text), len(text)) }
	writer := func(r *Response) { r.SetBodyStream(&writerTo{text: text, supports: true}, -1) }
	sizedWriter := func(r *Response) { r.SetBodyStream(&writerTo{text: text, supports: true}, len(text)) }
	return map[string]func(w io.Writer) error{
		"gzip, buffered":       write(buffered, (*Response).WriteGzip),
		"gzip, stream":         write(stream, (*Response).WriteGzip),
		"gzip, sized stream":   write(sized, (*Response).WriteGzip),
		"gzip, writer":         write(writer, (*Response).WriteGzip),
		"deflate, stream":      write(stream, (*Response).WriteDeflate),
		"deflate, writer":      write(sizedWriter, (*Response).WriteDeflate),
		"deflate 9, writer":    write(writer, func(r *Response, w *bufio.Writer) error { return r.WriteDeflateLevel(w, 9) }),
		"gzip 1, sized writer": write(sizedWriter, func(r *Response, w *bufio.Writer) error { return r.WriteGzipLevel(w, 1) }),
	}
}

// TestEncodedWritesAreWhole, whether they need one step or many, and report
// where the connection failed.
func TestEncodedWritesAreWhole(t *testing.T) {
	var incompressible strings.Builder
	for i := range uint32(9_000) {
		fmt.Fprintf(&incompressible, "%x,", (i*2654435761)>>7)
	}
	steps := 8
	if testing.Short() { // each cut encodes again, with encoders that take long to make
		steps = 2
	}
	for _, text := range []string{strings.Repeat("some text,", 30), incompressible.String()} {
		for name, encode := range encodings(text) {
			var out bytes.Buffer
			if err := encode(&out); err != nil {
				t.Fatal(name, err)
			}
			whole := out.Len()
			var back Response
			if err := back.Read(bufio.NewReader(&out)); err != nil {
				t.Fatal(name, err)
			}
			if got, err := back.BodyUncompressed(); string(got) != text || err != nil {
				t.Errorf("%s: %d of %d bytes, %v", name, len(got), len(text), err)
			}
			for cut := 0; cut < whole; cut += 1 + whole/steps {
				if err := encode(&cutWriter{left: cut}); !errors.Is(err, errWire) {
					t.Errorf("%s, cut at %d of %d: %v", name, cut, whole, err)
				}
			}
		}
	}
}

// TestStreamWritersReadInAnySteps: what a StreamWriter wrote is read whole,
// whatever the sizes of its writes and of the reads.
func TestStreamWritersReadInAnySteps(t *testing.T) {
	for _, writes := range [][]int{{1, 1, 1}, {4096}, {4095, 2, 5000}, {100_000, 1}, {10, 70_000, 3, 9000}} {
		for _, size := range []int{1, 3000, 1 << 20} {
			var want, got bytes.Buffer
			var r Response
			for i, n := range writes {
				want.WriteString(strings.Repeat(string(rune('a'+i)), n))
			}
			r.SetBodyStreamWriter(func(w *bufio.Writer) {
				rest := want.Bytes()
				for _, n := range writes {
					_, _ = w.Write(rest[:n])
					_ = w.Flush()
					rest = rest[n:]
				}
			})
			s := r.BodyStream()
			if n, err := s.Read(nil); n != 0 || err != nil {
				t.Error(n, err)
			}
			if _, err := io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{s}, make([]byte, size)); err != nil || got.String() != want.String() {
				t.Errorf("writes %v, reads %d: %d bytes, %v", writes, size, got.Len(), err)
			}
			if err := r.CloseBodyStream(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestAcceptEncodingOfHandlers: which weights CompressHandler takes, and when it
// encodes what is too small to gain.
func TestAcceptEncodingOfHandlers(t *testing.T) {
	large := strings.Repeat("some text ", 100)
	for accept, want := range map[string]string{
		"gzip": "gzip ", "gzip;q=1": "gzip ", "gzip;q=0.001": "gzip ", "gzip;q=1.000": "gzip ", "gzip;Q=1": "gzip ", "gzip; q=0.5 ": "gzip ",
		"gzip;q=1.001": " ", "gzip;q=0": " ", "gzip;q=0.000": " ", "gzip;q=0.0000": " ", "gzip;q=": " ", "gzip;q=x": " ", "gzip;q=0,5": " ", "gzip;p=1": " ", "gzip;q:1": " ",
		"gzip;q=2": " ", "gzip;q=1x": " ", "gzip;q=0.:": " ", "gzip;q=0./": " ", "*": " ", "*;q=0": " ", "": " ", "identity": " ",
		"gzip;q=0.5, identity;q=0": "gzip gzip", "gzip, *;q=0": "gzip gzip", "gzip, *;q=0, identity;q=0.1": "gzip ", "deflate;q=0.9, gzip;q=0.8": "deflate ", "deflate, gzip": "gzip ",
	} {
		got := ""
		for _, body := range []string{large, "small"} {
			var ctx RequestCtx
			ctx.Request.Header.Set("Accept-Encoding", accept)
			CompressHandler(func(ctx *RequestCtx) { ctx.SetBodyString(body) })(&ctx)
			if got += string(ctx.Response.Header.ContentEncoding()); body == large {
				got += " "
			}
			if decoded, err := ctx.Response.BodyUncompressed(); string(decoded) != body || err != nil {
				t.Errorf("%q: %.20q, %v", accept, decoded, err)
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", accept, got, want)
		}
	}
	for contentType, want := range map[string]string{"text/html": "Accept-Encoding", "image/png": ""} {
		var ctx RequestCtx
		ctx.Request.Header.Set("Accept-Encoding", "gzip")
		CompressHandler(func(ctx *RequestCtx) { ctx.SetContentType(contentType); ctx.SetStatusCode(StatusNotModified) })(&ctx)
		if got := string(ctx.Response.Header.Peek("Vary")); got != want {
			t.Errorf("304 of %s: Vary %q", contentType, got)
		}
	}
}

// steppedStream writes three times, and each time looks whether something
// arrived before it goes on.
type steppedStream struct {
	io.Reader
	t   *testing.T
	out *flushRecorder
}

func (steppedStream) SupportsBodyWriteTo() bool { return true }

func (s steppedStream) WriteTo(w io.Writer) (int64, error) {
	for i := range 3 {
		before := len(s.out.writes)
		if _, err := io.WriteString(w, "some text"); err != nil || len(s.out.writes) == before {
			s.t.Errorf("write %d: nothing was sent, %v", i, err)
		}
	}
	return 27, nil
}

// TestEncodedStreamsFlowOn: what a stream of unknown length writes is encoded
// and sent before it writes more.
func TestEncodedStreamsFlowOn(t *testing.T) {
	for name, write := range map[string]func(r *Response, w *bufio.Writer) error{"gzip": (*Response).WriteGzip, "deflate": (*Response).WriteDeflate} {
		var out flushRecorder
		var r Response
		r.SetBodyStream(steppedStream{t: t, out: &out}, -1)
		if err := write(&r, bufio.NewWriterSize(&out, 16)); err != nil {
			t.Error(name, err)
		}
	}
}
