package message_test

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// codedBody is text that is encoded twice: with gzip, then with br.
var codedBody = sluice.AppendBrotliBytes(nil, sluice.AppendGzipBytes(nil, []byte("text")))

// TestContentEncodingIsOneList: several Content-Encoding fields are one list (RFC 9110
// section 5.3), in whatever way they get into a header. A body with two codings is not
// decoded as if it had one.
func TestContentEncodingIsOneList(t *testing.T) {
	const fields = "Content-Encoding: gzip\r\ncontent-encoding: br\r\nContent-Length: 1\r\n\r\n"
	read := func(r interface{ Read(*bufio.Reader) error }, head string) {
		t.Helper()
		if err := r.Read(bufio.NewReader(strings.NewReader(head + fields + "x"))); err != nil {
			t.Fatal(err)
		}
	}
	var added, received, raw, verbatim, copied sluice.Request
	added.Header.Add("Content-Encoding", "gzip")
	added.Header.AddBytesKV([]byte("content-encoding"), []byte("br"))
	raw.Header.DisableSpecialHeader()
	verbatim.Header.DisableNormalizing()
	for _, r := range []*sluice.Request{&received, &raw, &verbatim} {
		read(r, "POST / HTTP/1.1\r\nHost: h\r\n")
	}
	for key, value := range received.Header.All() {
		copied.Header.AddBytesKV(key, value)
	}
	for name, r := range map[string]*sluice.Request{"added": &added, "received": &received, "raw": &raw, "not normalised": &verbatim, "copied": &copied} {
		r.SetBody(codedBody)
		checkTwoCodings(t, "request, "+name, r.Header.ContentEncoding(), r)
		r.Header.SetContentType("multipart/form-data; boundary=b")
		if _, err := r.MultipartForm(); !errors.Is(err, sluice.ErrContentEncodingUnsupported) {
			t.Errorf("request, %s: MultipartForm: %v, want ErrContentEncodingUnsupported", name, err)
		}
	}
	var addedTo, receivedBy, copiedTo sluice.Response
	addedTo.Header.Add("Content-Encoding", "gzip")
	addedTo.Header.AddBytesV("Content-Encoding", []byte("br"))
	read(&receivedBy, "HTTP/1.1 200 OK\r\n")
	for key, value := range receivedBy.Header.All() {
		copiedTo.Header.AddBytesKV(key, value)
	}
	for name, r := range map[string]*sluice.Response{"added": &addedTo, "received": &receivedBy, "copied": &copiedTo} {
		r.SetBody(codedBody)
		checkTwoCodings(t, "response, "+name, r.Header.ContentEncoding(), r)
		if got := r.Header.String(); !strings.Contains(got, "Content-Encoding: gzip, br\r\n") {
			t.Errorf("response, %s: written as %q", name, got)
		}
	}
}

func checkTwoCodings(t *testing.T, what string, encoding []byte, r interface {
	BodyUncompressed() ([]byte, error)
	BodyUncompressedWithLimit(int) ([]byte, error)
}) {
	t.Helper()
	if string(encoding) != "gzip, br" {
		t.Errorf("%s: Content-Encoding %q, want %q", what, encoding, "gzip, br")
	}
	for _, decode := range []func() ([]byte, error){r.BodyUncompressed, func() ([]byte, error) { return r.BodyUncompressedWithLimit(100) }} {
		if body, err := decode(); !errors.Is(err, sluice.ErrContentEncodingUnsupported) {
			t.Errorf("%s: decoded to %q, %v, want ErrContentEncodingUnsupported", what, body, err)
		}
	}
}

// TestEmptyCodingsDoNotCount: empty members of the list are ignored, so that a field
// without a value before the real one does not hide it.
func TestEmptyCodingsDoNotCount(t *testing.T) {
	gzipped := sluice.AppendGzipBytes(nil, []byte("text"))
	for _, fields := range [][]string{{"", "gzip"}, {"gzip", ""}, {",gzip"}, {"gzip ,"}} {
		var r sluice.Request
		head := "POST / HTTP/1.1\r\nHost: h\r\n"
		for _, value := range fields {
			head += "Content-Encoding: " + value + "\r\n"
		}
		if err := r.Read(bufio.NewReader(strings.NewReader(head + "Content-Length: 0\r\n\r\n"))); err != nil {
			t.Fatal(err)
		}
		r.SetBody(gzipped)
		if body, err := r.BodyUncompressed(); string(body) != "text" || err != nil {
			t.Errorf("%q: %q, %v", fields, body, err)
		}
	}
}

// TestConnectionIsOneList: adding an option to Connection keeps those that are there.
func TestConnectionIsOneList(t *testing.T) {
	for _, c := range []struct {
		add    []string
		want   string
		closes bool
	}{
		{[]string{"close", "x-hop"}, "close, x-hop", true},
		{[]string{"x-hop", "upgrade"}, "x-hop, upgrade", false},
		{[]string{"close", "close"}, "close", true},
		{[]string{"", "x-hop"}, "x-hop", false},
	} {
		var request sluice.RequestHeader
		var response sluice.ResponseHeader
		for _, value := range c.add {
			request.Add("Connection", value)
			response.Add("Connection", value)
		}
		for name, h := range map[string]interface {
			Peek(string) []byte
			ConnectionClose() bool
		}{"request": &request, "response": &response} {
			if got := h.Peek("Connection"); string(got) != c.want || h.ConnectionClose() != c.closes {
				t.Errorf("%s: %q added: %q, closes %v, want %q, %v", name, c.add, got, h.ConnectionClose(), c.want, c.closes)
			}
		}
	}
}

// TestTwoCodingsOverTheWire: a response with two Content-Encoding fields, from a server
// that is not ours, in both protocols.
func TestTwoCodingsOverTheWire(t *testing.T) {
	handler := harness.HTTP2Handler{NetHTTP: func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Encoding"] = []string{"gzip", "br"}
		_, _ = w.Write(codedBody)
	}}
	for _, kind := range harness.HTTP2Servers {
		if !strings.HasPrefix(kind.Name, "net/http") {
			continue
		}
		t.Run(kind.Name, func(t *testing.T) {
			rig := kind.Start(t, handler)
			mode := sluice.HTTP2Auto
			if kind.IsHTTP2 && !kind.IsTLS {
				mode = sluice.HTTP2Only
			}
			var req sluice.Request
			var resp sluice.Response
			req.SetRequestURI(rig.URL("/"))
			if err := rig.Host(mode).Do(&req, &resp); err != nil {
				t.Fatal(err)
			}
			checkTwoCodings(t, kind.Name, resp.Header.ContentEncoding(), &resp)
			if !bytes.Equal(resp.Body(), codedBody) {
				t.Errorf("body %q", resp.Body())
			}
		})
	}
}
