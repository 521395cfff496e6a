package h3

import (
	"strings"
	"testing"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// messageRules are about the fields and the length of requests.
// long: a table
func messageRules() []rule {
	with := func(fields ...string) func(w *wire) *quic.Stream {
		return on(request("GET", "/hello", fields...))
	}
	only := func(fields ...string) func(w *wire) *quic.Stream { return on(headers(fields...)) }
	post := func(length string, pieces ...[]byte) func(w *wire) *quic.Stream {
		return on(request("POST", "/echo", "content-length", length), join(pieces...))
	}
	const a, host = ":authority", "localhost"
	rules := []rule{
		// Lengths: what smuggling uses.
		{"9114 4.1.2", "content-length", false, ok, post("3", data("ab"), data("c"))},
		{"9114 4.1.2", "content-length of nothing", false, ok, post("0")},
		{"9114 4.1.2", "content that is too short", false, malformed, post("4", data("abc"))},
		{"9114 4.1.2", "content that is too long", false, malformed, post("2", data("abc"))},
		{"9114 4.1.2", "no content", false, malformed, post("3")},
		{"9114 4.1.2", "content where none may be", false, malformed, post("0", data("abc"))},
		{"9114 4.1.2", "content that is too short, and trailer fields", false, malformed, post("4", data("abc"), headers("x-a", "1"))},
		{"9110 8.6", "a length that is no number", false, malformed, post("3x", data("abc"))},
		{"9110 8.6", "a negative length", false, malformed, post("-3", data("abc"))},
		{"9110 8.6", "a length with a sign", false, malformed, post("+3", data("abc"))},
		{"9110 8.6", "an empty length", false, malformed, post("", data("abc"))},
		{"9110 8.6", "a length beyond 64 bits", false, malformed.or(answered(413)), post("18446744073709551619", data("abc"))},
		{"9110 8.6", "a list of two lengths", false, malformed, post("3, 4", data("abc"))},
		{"9110 8.6", "two lengths that differ", false, malformed, on(request("POST", "/echo", "content-length", "3", "content-length", "4"), data("abc"))},

		// Fields.
		{"9114 4.2", "capitals in a name", false, malformed, with("X-A", "1")},
		{"9114 4.2", "connection", false, malformed, with("connection", "close")},
		{"9114 4.2", "keep-alive", false, malformed, with("keep-alive", "timeout=5")},
		{"9114 4.2", "proxy-connection", false, malformed, with("proxy-connection", "close")},
		{"9114 4.2", "transfer-encoding", false, malformed, on(request("POST", "/echo", "transfer-encoding", "chunked"), data("0\r\n\r\n"))},
		{"9114 4.2", "upgrade", false, malformed, with("upgrade", "websocket")},
		{"9114 4.2", "te: trailers", false, ok, with("te", "trailers")},
		{"9114 4.2", "another te", false, malformed, with("te", "gzip")},
		{"9114 10.3", "no name", false, malformed, with("", "1")},
		{"9114 10.3", "a space in a name", false, malformed, with("x a", "1")},
		{"9114 10.3", "a colon in a name", false, malformed, with("x:a", "1")},
		{"9114 10.3", "a line feed in a name", false, malformed, with("x\na", "1")},
		{"9114 10.3", "a name that is not ASCII", false, malformed, with("x-\xc3\xa9", "1")},
		{"9114 10.3", "CR in a value", false, malformed, with("x-a", "1\rx-b: 2")},
		{"9114 10.3", "LF in a value", false, malformed, with("x-a", "1\nx-b: 2")},
		{"9114 10.3", "CRLF in a value", false, malformed, with("x-a", "1\r\nx-b: 2")},
		{"9114 10.3", "NUL in a value", false, malformed, with("x-a", "1\x002")},
		{"9114 10.3", "a space before a value", false, malformed.or(ok), with("x-a", " 1")},
		{"9114 10.3", "a space after a value", false, malformed.or(ok), with("x-a", "1 ")},
		{"9114 10.3", "an empty value", false, ok, with("x-a", "")},
		{"9114 10.3", "a value that is not ASCII", false, ok, with("x-a", "\xc3\xa9")},
		{"9114 4.2.1", "cookies in pieces", false, ok, with("cookie", "a=1", "cookie", "b=2", "x-a", "1", "cookie", "c=3")},
		{"9114 4.2.2", "a head that is too large", false, answered(431), with("x-a", strings.Repeat("a", 200<<10))},
		{"9114 4.2.2", "too many fields", false, answered(431), with(strings.Split(strings.Repeat("x-a,1,", 1000)+"x-a,1", ",")...)},
		{"9110 4.1", "a path that is too long", false, answered(414, 431), on(request("GET", "/"+strings.Repeat("a", 100<<10)))},

		// Pseudo-fields.
		{"9114 4.3", "a pseudo-field after another field", false, malformed, only(":method", "GET", ":scheme", "https", a, host, "x-a", "1", ":path", "/hello")},
		{"9114 4.3", "an unknown pseudo-field", false, malformed, only(":method", "GET", ":scheme", "https", a, host, ":path", "/hello", ":x", "1")},
		{"9114 4.3", "a pseudo-field of answers", false, malformed, only(":method", "GET", ":scheme", "https", a, host, ":path", "/hello", ":status", "200")},
		{"9114 4.3", "pseudo-fields in capitals", false, malformed, only(":Method", "GET", ":scheme", "https", a, host, ":path", "/hello")},
		{"9114 4.3", "a pseudo-field in the trailer fields", false, malformed, on(request("POST", "/echo"), data("a"), headers(":path", "/x"))},
		{"9114 4.3", ":status in the trailer fields", false, malformed, on(request("POST", "/echo"), data("a"), headers(":status", "200"))},
		{"9114 4.3", "an order of one's own", false, ok, only(":path", "/hello", a, host, ":method", "GET", ":scheme", "https")},
		{"9114 4.3.1", "no :method", false, malformed, only(":scheme", "https", a, host, ":path", "/hello")},
		{"9114 4.3.1", "no :scheme", false, malformed, only(":method", "GET", a, host, ":path", "/hello")},
		{"9114 4.3.1", "no :path", false, malformed, only(":method", "GET", ":scheme", "https", a, host)},
		{"9114 4.3.1", "no authority", false, malformed, only(":method", "GET", ":scheme", "https", ":path", "/hello")},
		{"9114 4.3.1", "an empty :authority", false, malformed, only(":method", "GET", ":scheme", "https", a, "", ":path", "/hello")},
		{"9114 4.3.1", "an empty :path", false, malformed, only(":method", "GET", ":scheme", "https", a, host, ":path", "")},
		{"9114 4.3.1", "a :path without a slash", false, malformed, only(":method", "GET", ":scheme", "https", a, host, ":path", "hello")},
		{"9114 4.3.1", "a :path with a space", false, malformed, only(":method", "GET", ":scheme", "https", a, host, ":path", "/hello HTTP/1.1")},
		{"9114 4.3.1", "a :path with CRLF", false, malformed, only(":method", "GET", ":scheme", "https", a, host, ":path", "/hello\r\nx-a: 1")},
		{"9114 4.3.1", "a :method with a space", false, malformed, only(":method", "GET /x", ":scheme", "https", a, host, ":path", "/hello")},
		{"9114 4.3.1", "an empty :method", false, malformed, only(":method", "", ":scheme", "https", a, host, ":path", "/hello")},
		{"9114 4.3.1", "OPTIONS of the server", false, ok, only(":method", "OPTIONS", ":scheme", "https", a, host, ":path", "*")},
		{"9114 4.3.1", "host instead of :authority", false, ok, only(":method", "GET", ":scheme", "https", ":path", "/hello", "host", host)},
		{"9114 4.3.1", "host as :authority", false, ok, with("host", host)},
		{"9114 4.3.1", "host other than :authority", false, malformed, with("host", "other")},
		{"9114 4.3.1", "two hosts", false, malformed, with("host", host, "host", "other")},
		{"9114 4.3.1", "user information in :authority", false, malformed, only(":method", "GET", ":scheme", "https", a, "user@localhost", ":path", "/hello")},
		{"9114 4.3.1", "an :authority that is none", false, malformed, only(":method", "GET", ":scheme", "https", a, "a b", ":path", "/hello")},

		// CONNECT.
		{"9114 4.4", "CONNECT with :scheme and :path", false, malformed, only(":method", "CONNECT", ":scheme", "https", a, "localhost:1", ":path", "/hello")},
		{"9114 4.4", "CONNECT with :path", false, malformed, only(":method", "CONNECT", a, "localhost:1", ":path", "/hello")},
		{"9114 4.4", "CONNECT without :authority", false, malformed, only(":method", "CONNECT")},
	}
	for _, name := range []string{":method", ":scheme", ":authority", ":path"} {
		fields := []string{":method", "GET", ":scheme", "https", a, host, ":path", "/hello"}
		for i := 0; i < len(fields); i += 2 {
			if fields[i] == name {
				fields = append(fields, name, fields[i+1])
				break
			}
		}
		rules = append(rules, rule{"9114 4.3", name + " twice", false, malformed, only(fields...)})
	}
	return rules
}

// qpackRules are those of RFC 9204, for a server whose table has no capacity.
func qpackRules() []rule {
	get := section(":method", "GET", ":scheme", "https", ":authority", "localhost", ":path", "/hello")
	failed, encoder, decoder := ended(h3.DecompressionFailed), ended(h3.EncoderStreamError), ended(h3.DecoderStreamError)
	with := func(line ...byte) func(w *wire) *quic.Stream { return keep(frame(h3.FrameHeaders, get, line)) }
	whole := func(bytes ...byte) func(w *wire) *quic.Stream { return keep(frame(h3.FrameHeaders, bytes)) }
	return []rule{
		{"9204 4.5.2", "indexed fields of the static table", false, ok, on(frame(h3.FrameHeaders, []byte{0, 0, 0xd1, 0xd7, 0xc1, 0x50, 1, 'a'}), nil)},
		{"9204 2.2.3", "a reference to the dynamic table", false, failed, with(0x80)},
		{"9204 2.2.3", "a name of the dynamic table", false, failed, with(0x40, 1, 'a')},
		{"9204 4.5.1.1", "a section that needs insertions", false, failed, whole(2, 0, 0x80)},
		{"9204 4.5.1.2", "a negative base", false, failed, whole(0, 0x80, 0xd1)},
		{"9204 4.5.3", "a reference after the base", false, failed, with(0x10)},
		{"9204 4.5.5", "a name after the base", false, failed, with(0x00, 1, 'a')},
		{"9204 3.1", "an index beyond the static table", false, failed, with(0xff, 0x24)},
		{"9204 3.1", "a name beyond the static table", false, failed, with(0x5f, 0x54, 0)},
		{"9204 4.1.1", "an integer that is too large", false, failed, with(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01)},
		{"9204 4.1.2", "Huffman codes with the end's symbol", false, failed, with(0x2c, 0xff, 0xff, 0xff, 0xff, 0)},
		{"9204 4.1.2", "Huffman codes with padding of zeros", false, failed, with(0x22, 'x', 'y', 0x81, 0x18)},
		{"9204 4.5", "no section", false, failed, whole()},
		{"9204 4.5", "a value that the section's end cuts", false, failed, with(0x22, 'x', 'y', 5, 'a')},
		{"9204 3.2.3", "a capacity above the limit", false, encoder, onUni(encoderStream, []byte{0x3f, 0x81, 0x1f})},
		{"9204 3.2.2", "an insertion", false, encoder, onUni(encoderStream, []byte{0xc0, 1, 'a'})},
		{"9204 3.2.2", "an insertion with a name", false, encoder, onUni(encoderStream, []byte{0x41, 'a', 1, 'a'})},
		{"9204 4.3.4", "a copy of nothing", false, encoder, onUni(encoderStream, []byte{0x00})},
		{"9204 4.4.1", "an acknowledgement of no section", false, decoder, onUni(decoderStream, []byte{0x80})},
		{"9204 4.4.3", "an increment by nothing", false, decoder, onUni(decoderStream, []byte{0x00})},
		{"9204 4.4.3", "an increment beyond what was sent", false, decoder, onUni(decoderStream, []byte{0x05})},
		{"9204 4.4.2", "a stream is cancelled", false, ok, onUni(decoderStream, []byte{0x44, 0x7f, 0x10})},
		{"9204 5", "settings of QPACK", true, ok, onUni(controlStream, frame(h3.FrameSettings, varint(1), varint(4096), varint(7), varint(100)))},
	}
}

// awaitHead waits until the server has sent something on a stream. It stays to be read.
func awaitHead(t testing.TB, s *quic.Stream) {
	t.Helper()
	if _, err := s.Peek(make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

// TestSettings: what a server must say, and what it must not.
func TestSettings(t *testing.T) {
	w := dial(t, startTarget(t))
	ids, values := w.settings()
	said := make(map[uint64]uint64)
	for i, id := range ids {
		if _, isAgain := said[id]; isAgain || id >= 2 && id <= 5 {
			t.Errorf("setting %d", id)
		}
		said[id] = values[i]
	}
	if said[8] != 1 {
		t.Errorf("SETTINGS_ENABLE_CONNECT_PROTOCOL is %d (RFC 9220 section 3)", said[8])
	}
	if said[1] != 0 || said[7] != 0 {
		t.Errorf("a dynamic table of %d, %d blocked streams", said[1], said[7])
	}
	if said[6] == 0 {
		t.Error("no limit of field sections (RFC 9114 section 4.2.2)")
	}
}

// TestAnswers: what comes for requests that are right.
func TestAnswers(t *testing.T) {
	w := dial(t, startTarget(t))
	t.Run("cookies are joined", func(t *testing.T) {
		a := read(w.ask(request("GET", "/fields", "cookie", "a=1", "cookie", "b=2", "x-a", "1", "cookie", "c=3")))
		if !strings.Contains(string(a.body), "Cookie: a=1; b=2; c=3\n") {
			t.Errorf("%q", a.body)
		}
	})
	t.Run("HEAD", func(t *testing.T) {
		a := read(w.ask(request("HEAD", "/hello")))
		if a.status != 200 || len(a.body) != 0 || get(a.fields, "content-length") != "13" || a.err != nil {
			t.Errorf("%+v", a)
		}
	})
	t.Run("no content", func(t *testing.T) {
		if a := read(w.ask(request("GET", "/204"))); a.status != 204 || len(a.body) != 0 || get(a.fields, "content-length") != "" || a.err != nil {
			t.Errorf("%+v", a)
		}
	})
	t.Run("trailer fields", func(t *testing.T) {
		a := read(w.ask(request("POST", "/trailers"), data("abc"), headers("x-sum", "7")))
		if a.status != 200 || get(a.trailer, "x-sum") != "7" || a.err != nil {
			t.Errorf("%+v", a)
		}
	})
	t.Run("interim answers", func(t *testing.T) {
		if a := read(w.ask(request("GET", "/hints"))); a.status != 200 || len(a.interim) != 1 || a.interim[0] != 103 {
			t.Errorf("%+v", a)
		}
	})
	t.Run("Expect", func(t *testing.T) {
		s := w.open(request("POST", "/echo", "expect", "100-continue"))
		awaitHead(t, s)
		_, _ = s.Write(data("abc"))
		_ = s.Close()
		if a := read(s); a.status != 200 || len(a.interim) != 1 || a.interim[0] != 100 || string(a.body) != sumOf([]byte("abc")) {
			t.Errorf("%+v", a)
		}
	})
	t.Run("fields of connections are not sent", func(t *testing.T) {
		a := read(w.ask(request("GET", "/connection")))
		for _, name := range []string{"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"} {
			if v := get(a.fields, name); v != "" || a.status != 200 {
				t.Errorf("%s: %q, status %d", name, v, a.status)
			}
		}
		for _, f := range a.fields {
			if f.Name != strings.ToLower(f.Name) {
				t.Errorf("%s has capitals (RFC 9114 section 4.2)", f.Name)
			}
		}
	})
	t.Run("the rest of a request is not wanted", func(t *testing.T) {
		s := w.open(request("POST", "/early"), data("a"))
		if a := read(s); a.status != 200 || a.err != nil {
			t.Errorf("%+v", a)
		}
		for {
			_, err := s.Write(data(strings.Repeat("a", 1000)))
			if err == nil {
				continue
			}
			var e *quic.StreamError
			if !asError(err, &e) || !e.Remote || h3.Code(e.ErrorCode) != h3.NoError {
				t.Errorf("%v (RFC 9114 section 4.1)", err)
			}
			return
		}
	})
}
