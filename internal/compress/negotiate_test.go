package compress

import (
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// addFields adds the lines of a head to h.
func addFields(h *message.Header, lines ...string) {
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Put(name, []byte(value), message.Adds)
	}
}

// strongTag is the ETag of every response of TestNegotiate.
const strongTag = `"tag"`

// A negotiation is a request and a response, and what Negotiate makes of them.
type negotiation struct {
	name    string
	accept  string
	status  int
	kind    string
	fields  []string
	content Content
	coding  string // empty: not encoded
	vary    string
	etag    string
}

// TestNegotiate: what is encoded, and which fields say so.
func TestNegotiate(t *testing.T) {
	const (
		html, png = "text/html", "image/png"
		onlyGz    = "gzip, identity;q=0"
		varies    = "Accept-Encoding"
		strong    = strongTag
		weak      = "W/" + strongTag
	)
	long, short := Content{Size: Smallest}, Content{Size: Smallest - 1}
	for _, test := range []negotiation{
		{name: "long", accept: "gzip", kind: html, content: long, coding: "gzip", vary: varies, etag: weak},
		{name: "server's choice", accept: "gzip, br", kind: html, content: long, coding: "br", vary: varies, etag: weak},
		{name: "short", accept: "gzip", kind: html, content: short, etag: strong},
		{name: "empty", accept: onlyGz, kind: html, etag: strong},
		{name: "size unknown", accept: "gzip", kind: html, content: Content{Size: -1}, etag: strong},
		{name: "short stream", accept: "gzip", kind: html, content: Content{Size: 1, IsStream: true}, coding: "gzip", vary: varies, etag: weak},
		{name: "endless stream", accept: "gzip", kind: html, content: Content{Size: -1, IsStream: true}, coding: "gzip", vary: varies, etag: weak},
		{name: "empty stream", accept: "gzip", kind: html, content: Content{IsStream: true}, etag: strong},
		{name: "skipped", accept: onlyGz, kind: html, content: Content{Size: Smallest, IsSkipped: true}, etag: strong},
		{name: "incompressible", accept: "gzip", kind: png, content: long, etag: strong},
		{name: "short, identity refused", accept: onlyGz, kind: html, content: short, coding: "gzip", vary: varies, etag: weak},
		{name: "incompressible, identity refused", accept: onlyGz, kind: png, content: long, coding: "gzip", vary: varies, etag: weak},
		{name: "all refused", accept: "identity;q=0", kind: html, content: long, vary: varies, etag: strong},
		{name: "all refused, short", accept: "identity;q=0", kind: html, content: short, etag: strong},
		{name: "no wish", kind: html, content: long, vary: varies, etag: strong},
		{name: "encoded", accept: "gzip", kind: html, fields: []string{"Content-Encoding: br"}, content: long, etag: strong},
		{name: "digest", accept: "gzip", kind: html, fields: []string{"content-digest: sha-256=:AA==:"}, content: long, etag: strong},
		{name: "digest, identity refused", accept: onlyGz, kind: html, fields: []string{"Repr-Digest: sha-256=:AA==:"}, content: long, etag: strong},
		{name: "old digest", accept: "gzip", kind: html, fields: []string{"Digest: sha-256=AA=="}, content: long, etag: strong},
		{name: "MD5", accept: "gzip", kind: html, fields: []string{"Content-MD5: AA=="}, content: long, etag: strong},
		{name: "304, digest", accept: "gzip", status: 304, kind: html, fields: []string{"Repr-Digest: sha-256=:AA==:"}, etag: strong},
		{name: "no-transform", accept: "gzip", kind: html, fields: []string{"Cache-Control: no-transform"}, content: long, etag: strong},
		{name: "no-transform in a list", accept: "gzip", kind: html, fields: []string{"Cache-Control: private", "Cache-Control: max-age=1, No-Transform"}, content: long, etag: strong},
		{name: "transforms allowed", accept: "gzip", kind: html, fields: []string{"Cache-Control: private"}, content: long, coding: "gzip", vary: varies, etag: weak},
		{name: "varies already", accept: "gzip", kind: html, fields: []string{"Vary: Cookie"}, content: long, coding: "gzip", vary: "Cookie,Accept-Encoding", etag: weak},
		{name: "204", accept: "gzip", status: 204, kind: html, content: long, etag: strong},
		{name: "205", accept: "gzip", status: 205, kind: html, content: long, etag: strong},
		{name: "206", accept: "gzip", status: 206, kind: html, content: long, vary: varies, etag: strong},
		{name: "206, incompressible", accept: "gzip", status: 206, kind: png, content: long, etag: strong},
		{name: "304", accept: "gzip", status: 304, kind: html, vary: varies, etag: weak},
		{name: "304, no wish", status: 304, kind: html, vary: varies, etag: strong},
		{name: "304, incompressible", accept: "gzip", status: 304, kind: png, etag: strong},
		{name: "304, identity refused", accept: onlyGz, status: 304, kind: png, vary: varies, etag: weak},
		{name: "304, no-transform", accept: "gzip", status: 304, kind: html, fields: []string{"Cache-Control: no-transform"}, etag: strong},
		{name: "304, encoded", accept: "gzip", status: 304, kind: html, fields: []string{"Content-Encoding: br"}, etag: strong},
		{name: "206, encoded", accept: "gzip", status: 206, kind: html, fields: []string{"Content-Encoding: br"}, content: long, etag: strong},
		{name: "206, no-transform", accept: "gzip", status: 206, kind: html, fields: []string{"Cache-Control: no-transform"}, content: long, etag: strong},
		{name: "206, identity refused", accept: onlyGz, status: 206, kind: png, content: long, vary: varies, etag: strong},
		{name: "404", accept: "gzip", status: 404, kind: html, content: long, coding: "gzip", vary: varies, etag: weak},
	} {
		t.Run(test.name, test.check)
	}
}

// check compares what is encoded, and the fields that depend on it.
func (test *negotiation) check(t *testing.T) {
	var request message.RequestHeader
	var response message.ResponseHeader
	if test.accept != "" {
		addFields(&request.Header, "Accept-Encoding: "+test.accept)
	}
	response.SetStatus(test.status)
	response.SetContentType([]byte(test.kind))
	addFields(&response.Header, append(test.fields, "ETag: "+strongTag, "Accept-Ranges: bytes")...)
	offers := []Offer{{Brotli, 4}, {Gzip, 6}}
	offer, encodes := Negotiate(&request, &response, test.content, offers)
	if encodes != (test.coding != "") || encodes && offer.Coding.Name() != test.coding {
		t.Errorf("encodes: %v, %s; want %q", encodes, offer.Coding.Name(), test.coding)
	}
	if encodes && offer != offers[0] && offer != offers[1] {
		t.Errorf("%v is no offer", offer)
	}
	if vary := response.Get(field.Vary); string(vary) != test.vary {
		t.Errorf("Vary: %q, want %q", vary, test.vary)
	}
	if etag := response.Get(field.ETag); string(etag) != test.etag {
		t.Errorf("ETag: %q, want %q", etag, test.etag)
	}
	// Ranges and a strong tag are of the same bytes.
	if hasRanges := len(response.Get(field.AcceptRanges)) > 0; hasRanges != (test.etag == strongTag) {
		t.Errorf("Accept-Ranges is present: %v", hasRanges)
	}
}

// TestNegotiateETag: only a strong tag changes, however long it is.
func TestNegotiateETag(t *testing.T) {
	long := `"` + strings.Repeat("t", 200) + `"`
	for tag, want := range map[string]string{"": "", `"a"`: `W/"a"`, `W/"a"`: `W/"a"`, "bare": "bare", long: "W/" + long} {
		var request message.RequestHeader
		var response message.ResponseHeader
		addFields(&request.Header, "Accept-Encoding: gzip")
		response.SetContentType([]byte("text/plain"))
		if tag != "" {
			addFields(&response.Header, "ETag: "+tag)
		}
		if _, encodes := Negotiate(&request, &response, Content{Size: Smallest}, []Offer{{Gzip, 6}}); !encodes {
			t.Errorf("%s: not encoded", tag)
		}
		if got := response.Get(field.ETag); string(got) != want {
			t.Errorf("%s: %s, want %s", tag, got, want)
		}
	}
}

// TestReadAccept: all lines count, and no others.
func TestReadAccept(t *testing.T) {
	offers := []Offer{{Brotli, 4}, {Gzip, 6}, {Deflate, 6}}
	for _, test := range []struct {
		lines           []string
		want            string
		refusesIdentity bool
	}{
		{nil, "", false},
		{[]string{"Accept: gzip"}, "", false},
		{[]string{"Accept-Encoding: gzip"}, "gzip", false},
		{[]string{"accept-encoding: gzip;q=0.5", "ACCEPT-ENCODING: deflate"}, "deflate", false},
		{[]string{"Accept-Encoding: gzip", "Accept-Encoding: identity;q=0"}, "gzip", true},
		{[]string{"Accept-Encoding: a", "Accept-Encoding: b", "Accept-Encoding: c", "Accept-Encoding: d", "Accept-Encoding: br"}, "br", false},
	} {
		var h message.RequestHeader
		h.SetKeepNames(true)
		addFields(&h.Header, test.lines...)
		accept := ReadAccept(&h)
		got := ""
		if offer, found := accept.Choose(offers); found {
			got = offer.Coding.Name()
		}
		if got != test.want || accept.RefusesIdentity() != test.refusesIdentity {
			t.Errorf("%q: %q, refuses identity: %v; want %q, %v", test.lines, got, accept.RefusesIdentity(), test.want, test.refusesIdentity)
		}
	}
}
