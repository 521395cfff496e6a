package message_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/compress"
	"github.com/sluicehttp/sluice/test/harness"
)

// compressed writes r with WriteGzip or WriteDeflate and reads the result.
func compressed(t *testing.T, r *sluice.Response, write func(r *sluice.Response, w *bufio.Writer) error) *sluice.Response {
	t.Helper()
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	if err := write(r, w); err != nil {
		t.Fatal(err)
	}
	w.Flush()
	got := &sluice.Response{SkipBody: r.SkipBody}
	if err := got.Read(harness.Reader(out.String())); err != nil {
		t.Fatalf("%q: %v", out.String(), err)
	}
	return got
}

func TestWriteGzipAndDeflate(t *testing.T) {
	long := strings.Repeat("abc", 200)
	for encoding, write := range map[string]func(r *sluice.Response, w *bufio.Writer) error{
		"gzip":    (*sluice.Response).WriteGzip,
		"deflate": (*sluice.Response).WriteDeflate,
	} {
		for name, test := range map[string]struct {
			set          func(r *sluice.Response)
			isCompressed bool
		}{
			"buffered":  {func(r *sluice.Response) { r.SetBodyString(long) }, true},
			"raw":       {func(r *sluice.Response) { r.SetBodyRaw([]byte(long)) }, true},
			"199":       {func(r *sluice.Response) { r.SetBodyString(long[:199]) }, false},
			"200":       {func(r *sluice.Response) { r.SetBodyString(long[:200]) }, true},
			"sized":     {func(r *sluice.Response) { r.SetBodyStream(harness.PlainReader(long), len(long)) }, true},
			"chunked":   {func(r *sluice.Response) { r.SetBodyStream(iotest.HalfReader(strings.NewReader(long)), -1) }, true},
			"by writer": {func(r *sluice.Response) { r.SetBodyStreamWriter(func(w *bufio.Writer) { w.WriteString(long) }) }, true},
			"html":      {func(r *sluice.Response) { r.Header.SetContentType("TEXT/html"); r.SetBodyString(long) }, true},
			"svg":       {func(r *sluice.Response) { r.Header.SetContentType("image/svg+xml"); r.SetBodyString(long) }, true},
			"png":       {func(r *sluice.Response) { r.Header.SetContentType("image/png"); r.SetBodyString(long) }, false},
			"video": {func(r *sluice.Response) {
				r.Header.SetContentType("video/mp4")
				r.SetBodyStream(harness.PlainReader(long), -1)
			}, false},
			"no type":    {func(r *sluice.Response) { r.Header.SetNoDefaultContentType(true); r.SetBodyString(long) }, false},
			"partial":    {func(r *sluice.Response) { r.SetStatusCode(206); r.SetBodyString(long) }, false},
			"encoded":    {func(r *sluice.Response) { r.Header.SetContentEncoding("x-own"); r.SetBodyString(long) }, false},
			"somehow":    {func(r *sluice.Response) { r.Header.SetContentEncoding("x"); r.SetBodyString(long) }, false},
			"other vary": {func(r *sluice.Response) { r.Header.Set("Vary", "Origin"); r.SetBodyString(long) }, true},
		} {
			var r sluice.Response
			test.set(&r)
			got := compressed(t, &r, write)
			if is := string(got.Header.ContentEncoding()) == encoding; is != test.isCompressed {
				t.Errorf("%s, %s: compressed %v", encoding, name, is)
				continue
			}
			if vary := string(got.Header.Peek("Vary")); strings.HasSuffix(vary, "Accept-Encoding") != test.isCompressed {
				t.Errorf("%s, %s: Vary %q", encoding, name, vary)
			}
			if !test.isCompressed {
				continue
			}
			plain, err := got.BodyUncompressed()
			if err != nil || !strings.HasPrefix(long, string(plain)) || len(plain) < compress.Smallest {
				t.Errorf("%s, %s: %d bytes, %v", encoding, name, len(plain), err)
			}
		}
	}
	r := sluice.Response{SkipBody: true}
	r.SetBodyString(long)
	got := compressed(t, &r, (*sluice.Response).WriteGzip)
	if n := got.Header.ContentLength(); n <= 0 || n >= len(long) || string(got.Header.ContentEncoding()) != "gzip" {
		t.Errorf("the head for HEAD differs from that for GET: %s", got.Header.String())
	}
}

func TestEncodingStreamPassesOnWhatItHas(t *testing.T) {
	var got []byte
	reads := 0
	source := harness.ReaderFunc(func(p []byte) (int, error) {
		if reads++; reads == 1 {
			return copy(p, "first"), nil
		}
		// The consumer must be able to decode the first part before the second is
		// asked for.
		d := compress.NewReader(bytes.NewReader(got), compress.Gzip, 0)
		defer d.Close()
		part := make([]byte, 5)
		if _, err := io.ReadFull(d, part); err != nil || string(part) != "first" {
			t.Errorf("%q, %v", part, err)
		}
		return 0, io.EOF
	})
	e := body.NewEncoding(source, compress.Gzip, 1, true)
	p := make([]byte, 7)
	for {
		n, err := e.Read(p)
		got = append(got, p[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if plain, err := sluice.AppendGunzipBytes(nil, got); err != nil || string(plain) != "first" {
		t.Errorf("%q, %v", plain, err)
	}
}

func TestEncodingStreamErrors(t *testing.T) {
	boom := errors.New("boom")
	e := body.NewEncoding(iotest.ErrReader(boom), compress.Gzip, 1, true)
	if _, err := io.ReadAll(e); err != boom {
		t.Errorf("err = %v", err)
	}
	s := &toldStream{Reader: strings.NewReader("x")}
	e = body.NewEncoding(s, compress.Gzip, 1, true)
	if err := e.CloseWithError(boom); err == nil || len(s.told) != 1 || s.told[0] != boom {
		t.Errorf("err = %v, told %v", err, s.told)
	}
	c := &harness.TrackedStream{Reader: strings.NewReader("x"), Err: boom}
	e = body.NewEncoding(c, compress.Gzip, 1, true)
	if err := e.CloseWithError(nil); err != boom || c.Closed != 1 {
		t.Errorf("err = %v, closed %d times", err, c.Closed)
	}
}
