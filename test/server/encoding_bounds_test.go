package server_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// encodings are the ways to encode the body of a response while it is written.
func encodings(text string) map[string]func(w io.Writer) error {
	write := func(set func(r *sluice.Response), write func(r *sluice.Response, w *bufio.Writer) error) func(w io.Writer) error {
		return func(w io.Writer) error {
			var r sluice.Response
			set(&r)
			bw := bufio.NewWriterSize(w, 16)
			return errors.Join(write(&r, bw), bw.Flush())
		}
	}
	buffered := func(r *sluice.Response) { r.SetBodyString(text) }
	stream := func(r *sluice.Response) { r.SetBodyStream(iotest.HalfReader(strings.NewReader(text)), -1) }
	sized := func(r *sluice.Response) { r.SetBodyStream(harness.PlainReader(text), len(text)) }
	writer := func(r *sluice.Response) { r.SetBodyStream(&harness.WriterTo{Text: text, Supports: true}, -1) }
	sizedWriter := func(r *sluice.Response) { r.SetBodyStream(&harness.WriterTo{Text: text, Supports: true}, len(text)) }
	return map[string]func(w io.Writer) error{
		"gzip, buffered":       write(buffered, (*sluice.Response).WriteGzip),
		"gzip, stream":         write(stream, (*sluice.Response).WriteGzip),
		"gzip, sized stream":   write(sized, (*sluice.Response).WriteGzip),
		"gzip, writer":         write(writer, (*sluice.Response).WriteGzip),
		"deflate, stream":      write(stream, (*sluice.Response).WriteDeflate),
		"deflate, writer":      write(sizedWriter, (*sluice.Response).WriteDeflate),
		"deflate 9, writer":    write(writer, func(r *sluice.Response, w *bufio.Writer) error { return r.WriteDeflateLevel(w, 9) }),
		"gzip 1, sized writer": write(sizedWriter, func(r *sluice.Response, w *bufio.Writer) error { return r.WriteGzipLevel(w, 1) }),
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
			var back sluice.Response
			if err := back.Read(bufio.NewReader(&out)); err != nil {
				t.Fatal(name, err)
			}
			if got, err := back.BodyUncompressed(); string(got) != text || err != nil {
				t.Errorf("%s: %d of %d bytes, %v", name, len(got), len(text), err)
			}
			for cut := 0; cut < whole; cut += 1 + whole/steps {
				if err := encode(&harness.CutWriter{Left: cut}); !errors.Is(err, harness.ErrWire) {
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
			var r sluice.Response
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
			var ctx sluice.RequestCtx
			ctx.Request.Header.Set("Accept-Encoding", accept)
			sluice.CompressHandler(func(ctx *sluice.RequestCtx) { ctx.SetBodyString(body) })(&ctx)
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
		var ctx sluice.RequestCtx
		ctx.Request.Header.Set("Accept-Encoding", "gzip")
		sluice.CompressHandler(func(ctx *sluice.RequestCtx) {
			ctx.SetContentType(contentType)
			ctx.SetStatusCode(sluice.StatusNotModified)
		})(&ctx)
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
	out *harness.FlushRecorder
}

func (steppedStream) SupportsBodyWriteTo() bool { return true }

func (s steppedStream) WriteTo(w io.Writer) (int64, error) {
	for i := range 3 {
		before := len(s.out.Writes)
		if _, err := io.WriteString(w, "some text"); err != nil || len(s.out.Writes) == before {
			s.t.Errorf("write %d: nothing was sent, %v", i, err)
		}
	}
	return 27, nil
}

// TestEncodedStreamsFlowOn: what a stream of unknown length writes is encoded
// and sent before it writes more.
func TestEncodedStreamsFlowOn(t *testing.T) {
	for name, write := range map[string]func(r *sluice.Response, w *bufio.Writer) error{"gzip": (*sluice.Response).WriteGzip, "deflate": (*sluice.Response).WriteDeflate} {
		var out harness.FlushRecorder
		var r sluice.Response
		r.SetBodyStream(steppedStream{t: t, out: &out}, -1)
		if err := write(&r, bufio.NewWriterSize(&out, 16)); err != nil {
			t.Error(name, err)
		}
	}
}
