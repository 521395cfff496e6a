package message_test

import (
	"bufio"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestAcceptEncodingWeights: only a weight of 0 refuses a coding.
func TestAcceptEncodingWeights(t *testing.T) {
	for value, want := range map[string]bool{
		"gzip": true, "gzip;a=0": true, "gzip;a=1;q=0": false, "gzip;q=0": false, "gzip; q = 0.000": false, "gzip;q=0.001": true,
		"gzip;q=": true, "gzip;q=1": true, "br;q=1, gzip;q=0": false, "br;q=0,gzip": true, "gzip;q=0;q=1": false, "gzip;Q=0": false, "gzipx": false, "": false,
	} {
		for place, head := range []string{"Accept-Encoding: %s\r\nHost: h\r\n", "Host: h\r\nAccept-Encoding: x\r\nAccept-Encoding: %s\r\n"} {
			h := harness.ReadRequest(t, "GET / HTTP/1.1\r\n"+fmt.Sprintf(head, value)+"\r\n")
			if got := h.HasAcceptEncoding("gzip"); got != want {
				t.Errorf("%q at %d: %v", value, place, got)
			}
		}
	}
	h := harness.ReadRequest(t, "GET / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: ,\r\n\r\n")
	if h.HasAcceptEncoding("") {
		t.Error("accepts no coding")
	}
}

// TestFormBoundaries reads the boundary at each end of its parameter.
func TestFormBoundaries(t *testing.T) {
	for parameters, want := range map[string]string{
		"": "", "; boundary": "", "; boundary=": "", "; boundary=b": "b", ";boundary=\"b\"": "b", "; boundary=\"\"": "", "; boundary=\"\"; boundary=x": "",
		"; a; boundary=b": "b", "; a=\"\"; boundary=b": "b", "; a=\";\"; boundary=b": "b", "; a=\"x\" y; boundary=b": "b", "; =; boundary=b": "b", ";;boundary=b": "b",
		"; boundary=\"b": "\"b", "; boundary=b; boundary=c": "b", "; boundary=\"a\\\"b\"": "a\\\"b", "; boundary=b ;c=d": "b", ";=\"; boundary=x\";boundary=b": "b", "; boundary=b=c": "b=c", "; boundary=\"": "\"",
	} {
		h := new(sluice.RequestHeader)
		h.SetContentType("Multipart/form-data " + parameters)
		if got := string(h.MultipartFormBoundary()); got != want {
			t.Errorf("%q: %q, want %q", parameters, got, want)
		}
	}
}

// TestTrailerKeysOf: PeekTrailerKeys begins anew, and keeps names as they are if
// it must.
func TestTrailerKeysOf(t *testing.T) {
	h := new(sluice.ResponseHeader)
	if err := h.AddTrailer("a-b"); err != nil {
		t.Fatal(err)
	}
	h.DisableNormalizing()
	if err := h.AddTrailer("c-d"); err != nil {
		t.Fatal(err)
	}
	h.Set("c-d", "1")
	for range 2 {
		if got := fmt.Sprintf("%s", h.PeekTrailerKeys()); got != "[A-B c-d]" {
			t.Error(got)
		}
	}
	if got := string(h.TrailerHeader()); got != "c-d: 1\r\n\r\n" {
		t.Errorf("%q", got)
	}
	h.EnableNormalizing()
	if err := h.AddTrailer("e-f"); err != nil || string(h.Peek("Trailer")) != "A-B, c-d, E-F" {
		t.Errorf("%q, %v", h.Peek("Trailer"), err)
	}
}

// TestMoreTrailersThanAnnounced: beyond 64 names, fields are received and listed
// once each, but not announced.
func TestMoreTrailersThanAnnounced(t *testing.T) {
	var section strings.Builder
	for i := range 66 {
		fmt.Fprintf(&section, "T-%d: %d\r\n", i, i)
	}
	section.WriteString("T-64: again\r\n\r\n")
	h := harness.ReadResponse(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
	if err := h.ReadTrailer(bufio.NewReaderSize(strings.NewReader(section.String()), 1<<16)); err != nil {
		t.Fatal(err)
	}
	keys := h.PeekTrailerKeys()
	if len(keys) != 66 || string(keys[63]) != "T-63" || string(keys[64]) != "T-64" || string(keys[65]) != "T-65" {
		t.Errorf("%d: %s", len(keys), keys)
	}
	if got := strings.Count(string(h.Peek("Trailer")), ","); got != 63 {
		t.Errorf("%d names announced", got+1)
	}
	if err := h.AddTrailer("T-66"); err != sluice.ErrBadTrailer {
		t.Error("announced a 65th name: ", err)
	}
	n := 0
	for range h.Trailers() {
		if n++; n == 65 {
			break
		}
	}
	if n != 65 {
		t.Errorf("yielded %d names", n)
	}
}

// TestContentLengthOfHeads: which Content-Length a head is written with.
func TestContentLengthOfHeads(t *testing.T) {
	for _, test := range []struct{ status, set, want int }{
		{200, 0, 0}, {200, 1, 1}, {304, 0, -1}, {304, 1, 1}, {204, 1, -1}, {200, -1, -1}, {200, -2, -1}, {200, -3, -1}, {100, 1, -1}, {101, 1, -1}, {199, 1, -1},
	} {
		h := new(sluice.ResponseHeader)
		h.SetContentLength(test.set) // before the status, which would forbid it
		h.SetStatusCode(test.status)
		got, wanted := h.String(), ""
		if test.want >= 0 {
			wanted = fmt.Sprintf("Content-Length: %d\r\n", test.want)
		}
		if (test.want >= 0) != strings.Contains(got, "Content-Length") || !strings.Contains(got, wanted) {
			t.Errorf("%+v: %q", test, got)
		}
		if closes := test.set < -1; h.ConnectionClose() != closes || h.ContentLength() != max(test.set, -2) {
			t.Errorf("%+v: close %v, length %d", test, h.ConnectionClose(), h.ContentLength())
		}
		h.Del("Content-Length")
		if strings.Contains(h.String(), "Content-Length") || h.Peek("Content-Length") != nil {
			t.Errorf("%+v: after Del %q", test, h.String())
		}
	}
	h := harness.ReadRequest(t, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n")
	h.DisableSpecialHeader()
	h.Del("Content-Length")
	if got := h.String(); got != "POST / HTTP/1.1\r\nHost: h\r\n\r\n" {
		t.Errorf("%q", got)
	}
}

// TestRawFields: without special treatment, the fields that frame a message are
// written once, and only as they apply.
func TestRawFields(t *testing.T) {
	for fields, want := range map[string]string{
		"Content-Length=3 Content-Length=4":                       "Content-Length: 4\r\n",
		"A=b Content-Length=3 C=d":                                "A: b\r\nContent-Length: 3\r\nC: d\r\n",
		"Transfer-Encoding=chunked Transfer-Encoding=chunked A=b": "Transfer-Encoding: chunked\r\nA: b\r\n",
		"Transfer-Encoding=chunked Content-Length=1":              "Content-Length: 1\r\n",
		"Trailer=X-T A=b Trailer=Y-T":                             "A: b\r\nTrailer: X-T, Y-T\r\n",
		"A=b Connection=close":                                    "A: b\r\nConnection: close\r\n",
		"Connection=x A=b":                                        "Connection: x\r\nA: b\r\n",
		"A=b A=c":                                                 "A: b\r\nA: c\r\n",
	} {
		h := new(sluice.RequestHeader)
		h.DisableSpecialHeader()
		for pair := range strings.SplitSeq(fields, " ") {
			key, value, _ := strings.Cut(pair, "=")
			h.Add(key, value)
		}
		if got := h.String(); got != "GET / HTTP/1.1\r\n"+want+"\r\n" {
			t.Errorf("%s: %q", fields, got)
		}
	}
	h := new(sluice.RequestHeader)
	h.DisableSpecialHeader()
	if err := h.Read(harness.Reader("GET / HTTP/1.1\r\nTrailer: X-T\r\nHost: h\r\nTrailer: Y-T\r\nA: b\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if got := h.String(); got != "GET / HTTP/1.1\r\nTrailer: X-T, Y-T\r\nHost: h\r\nA: b\r\n\r\n" {
		t.Errorf("%q", got)
	}
}
