package sluice

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// fieldsOf lists fields as "Name=value" words.
func fieldsOf(all iter.Seq2[[]byte, []byte]) string {
	var words []string
	for key, value := range all {
		words = append(words, fmt.Sprintf("%s=%s", key, value))
	}
	return strings.Join(words, " ")
}

func reader(s string) *bufio.Reader { return bufio.NewReaderSize(strings.NewReader(s), 1<<16) }

func readRequest(t testing.TB, s string) *RequestHeader {
	t.Helper()
	h := new(RequestHeader)
	if err := h.Read(reader(s)); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return h
}

func readResponse(t testing.TB, s string) *ResponseHeader {
	t.Helper()
	h := new(ResponseHeader)
	if err := h.Read(reader(s)); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return h
}

// undated is the head of h without the date.
func undated(h *ResponseHeader) string {
	f := h.m.Framing()
	f.Date = 0
	return string(h.m.AppendHead(nil, f))
}

// checkWire fails if head is not what one head looks like: a line for each
// field, each with a token for a name and without control characters.
func checkWire(t *testing.T, head string, isRequest bool) {
	t.Helper()
	lines := strings.Split(head, "\r\n")
	if n := len(lines); n < 3 || lines[n-1] != "" || lines[n-2] != "" {
		t.Fatalf("head does not end in one empty line: %q", head)
	}
	for i, line := range lines[:len(lines)-2] {
		if !ascii.AllString(line, ascii.Value) {
			t.Fatalf("control characters in %q", head)
		}
		name, _, found := strings.Cut(line, ":")
		switch {
		case i > 0 && (!found || !h1.IsToken([]byte(name))):
			t.Fatalf("%q is no field, in %q", line, head)
		case i == 0 && isRequest && strings.Count(line, " ") != 2:
			t.Fatalf("malformed request line %q", line)
		}
	}
}

func TestHeaderZeroValues(t *testing.T) {
	var q RequestHeader
	if got := q.String(); got != "GET / HTTP/1.1\r\n\r\n" {
		t.Errorf("request: %q", got)
	}
	var r ResponseHeader
	if got := undated(&r); got != "HTTP/1.1 200 OK\r\n\r\n" {
		t.Errorf("response: %q", got)
	}
	if !strings.Contains(r.String(), "\r\nDate: ") {
		t.Errorf("response without a Date: %q", r.String())
	}
	if q.Len() != 0 || r.Len() != 1 || q.ContentLength() != 0 || r.ContentLength() != 0 {
		t.Error("zero headers are not empty")
	}
}

func TestHeaderConnection(t *testing.T) {
	for _, c := range []struct {
		value   string
		close   bool
		upgrade bool
	}{
		{"close", true, false}, {"CLOSE", true, false}, {"keep-alive, close", true, false},
		{"keep-alive", false, false}, {"Upgrade", false, true}, {"upgrade,close", true, false}, {"closed", false, false},
	} {
		var h ResponseHeader
		h.Set("connection", c.value)
		if h.ConnectionClose() != c.close || h.ConnectionUpgrade() != c.upgrade || string(h.Peek("Connection")) != c.value {
			t.Errorf("%q: close %v, upgrade %v, Peek %q", c.value, h.ConnectionClose(), h.ConnectionUpgrade(), h.Peek("Connection"))
		}
		if got := strings.Count(undated(&h), "Connection: "+c.value+"\r\n"); got != 1 {
			t.Errorf("%q is written %d times: %q", c.value, got, undated(&h))
		}
	}
	var h ResponseHeader
	h.Set("Connection", "keep-alive")
	h.SetConnectionClose()
	if got := undated(&h); got != "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" {
		t.Errorf("got %q", got)
	}
	h.ResetConnectionClose()
	if h.ConnectionClose() || string(h.Peek("Connection")) != "keep-alive" {
		t.Errorf("ResetConnectionClose left %q", h.Peek("Connection"))
	}
}

// TestConnectionMembersOutliveClose: a connection that is to be closed is not
// upgraded, and what else Connection fields list is written.
func TestConnectionMembersOutliveClose(t *testing.T) {
	for _, c := range []struct{ version, in, want string }{
		{"1.0", "Connection: upgrade, x\r\n", "Connection=upgrade, x Connection=close"},
		{"1.1", "Connection: upgrade\r\nConnection: close, x\r\nConnection: keep-alive\r\n", "Connection=upgrade Connection=close, x"},
		{"1.1", "Connection: close, upgrade\r\n", "Connection=close, upgrade"},
		{"1.0", "", "Connection=close"},
	} {
		start := "GET / HTTP/" + c.version + "\r\nHost: h\r\n"
		h := readRequest(t, start+c.in+"\r\n")
		if got := fieldsOf(h.All()); got != "Host=h "+c.want || h.ConnectionUpgrade() {
			t.Errorf("%q: %s, upgrade %v, want %s", c.in, got, h.ConnectionUpgrade(), c.want)
		}
		lines := strings.NewReplacer(" Connection=", "\r\nConnection: ", "=", ": ").Replace(c.want)
		if got, want := h.String(), start+lines+"\r\n\r\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	var h ResponseHeader
	h.Set("Connection", "x")
	if got, want := string(h.m.AppendHead(nil, message.Framing{Length: 0, CloseConnection: true})), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x\r\nConnection: close\r\n\r\n"; got != want {
		t.Errorf("closed by the writer: %q, want %q", got, want)
	}
}

func TestHeaderProtocol(t *testing.T) {
	for _, c := range []struct {
		set, want, wire string
		is11            bool
	}{
		{"HTTP/1.1", "HTTP/1.1", "HTTP/1.1", true}, {"HTTP/1.0", "HTTP/1.0", "HTTP/1.0", false},
		{"HTTP/2.0", "HTTP/2.0", "HTTP/1.1", true}, {"a\r\nb", "a  b", "HTTP/1.1", false}, {"", "HTTP/1.1", "HTTP/1.1", true},
	} {
		var q RequestHeader
		var r ResponseHeader
		q.SetProtocol(c.set)
		r.SetProtocol([]byte(c.set))
		if string(q.Protocol()) != c.want || q.IsHTTP11() != c.is11 || r.IsHTTP11() != c.is11 {
			t.Errorf("%q: %q, IsHTTP11 %v", c.set, q.Protocol(), q.IsHTTP11())
		}
		if q.String() != "GET / "+c.wire+"\r\n\r\n" || undated(&r) != c.wire+" 200 OK\r\n\r\n" {
			t.Errorf("%q: %q, %q", c.set, q.String(), undated(&r))
		}
	}
}

func TestHeaderCopyTo(t *testing.T) {
	q := readRequest(t, "PUT /a HTTP/1.0\r\nHost: h\r\nX-A: 1\r\nContent-Length: 5\r\nTrailer: T\r\n\r\n")
	q.Set("t", "v")
	q.SetCookie("a", "b")
	var q2 RequestHeader
	q2.Set("old", "x")
	q2.AddTrailer("Old-Trailer")
	q.CopyTo(&q2)
	if q.String() != q2.String() || string(q2.TrailerHeader()) != "T: v\r\n\r\n" || string(q2.RawHeaders()) != string(q.RawHeaders()) {
		t.Errorf("copy is %q, want %q", q2.String(), q.String())
	}
	q.Reset()
	if q.String() != "GET / HTTP/1.1\r\n\r\n" || q.RawHeaders() != nil || !strings.HasPrefix(q2.String(), "PUT /a HTTP/1.0\r\n") {
		t.Error("copies share memory, or Reset left something")
	}
	new(RequestHeader).CopyTo(&q2)
	if q2.String() != "GET / HTTP/1.1\r\n\r\n" || string(q2.TrailerHeader()) != "\r\n" {
		t.Errorf("copy of the zero value: %q", q2.String())
	}
	r := readResponse(t, "HTTP/1.1 404 Gone Fishing\r\nX: y\r\nSet-Cookie: a=b\r\nContent-Length: 3\r\n\r\n")
	var r2 ResponseHeader
	r2.m.DefaultServer = []byte("own")
	r.CopyTo(&r2)
	if got, want := undated(&r2), "HTTP/1.1 404 Gone Fishing\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\nX: y\r\nSet-Cookie: a=b\r\n\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := string(r2.m.AppendHead(nil, message.Framing{NamesServer: true})); !strings.Contains(got, "\r\nServer: own\r\n") {
		t.Errorf("%q", got)
	}
}

// TestIsSet: defaults do not count.
func TestIsSet(t *testing.T) {
	var h ResponseHeader
	h.m.DefaultServer, h.m.ShowsServer = []byte("sluice"), true
	for _, name := range []string{"Server", "content-type", "Date", "X-Own", "Content-Length"} {
		if h.IsSet(name) {
			t.Errorf("%s is set", name)
		}
	}
	h.SetServer("x")
	h.SetContentType("a/b")
	h.SetDate("now")
	h.Set("X-Own", "")
	h.SetContentLength(1)
	for _, name := range []string{"Server", "content-type", "Date", "X-Own", "Content-Length"} {
		if !h.IsSet(name) {
			t.Errorf("%s is not set", name)
		}
	}
}

func TestRequestParseAllocatesNothing(t *testing.T) {
	var h RequestHeader
	p := h1.HeadParser{Role: h1.Requests, Limits: h1.DefaultLimits}
	in := []byte(benchHead)
	n := testing.AllocsPerRun(100, func() {
		h.Reset()
		p.Reset()
		if _, done, err := p.Parse(&h.m.Table, in); !done || err != nil {
			t.Fatal(err)
		}
		h.m.SetParsed(&p.Head)
		if !h.IsGet() || len(h.RequestURI()) == 0 || len(h.Host()) == 0 || h.Peek("X-Request-Id") == nil || h.Cookie("a") != nil {
			t.Fatal("wrong")
		}
		_ = h.Len()
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestResponseReusedForReading(t *testing.T) {
	h := readResponse(t, "HTTP/1.0 404 Nope\r\nX: y\r\nTrailer: T\r\nContent-Length: 3\r\n\r\n")
	h.SetStatusMessage([]byte("own"))
	if err := h.Read(reader("HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if got, want := undated(h), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestResponseReadErrors(t *testing.T) {
	for in, want := range map[string]error{
		"":                             io.EOF,
		"HTTP/1.1 200 OK\r\n":          io.ErrUnexpectedEOF,
		"\r\n":                         io.EOF,
		"\r\n\r\n\r\n\r\n\r\n":         h1.ErrStatusLine,
		"HTTP/1.1  200OK\r\n\r\n":      ErrUnexpectedStatusCodeChar,
		"HTTP/1.1 099\r\n\r\n":         h1.ErrStatusLine,
		"HTTP/1.1\r\n\r\n":             ErrResponseFirstLineMissingSpace,
		"HTTP/1.1 200OK\r\n\r\n":       ErrUnexpectedStatusCodeChar,
		"HTTP/1.1 200x\r\n\r\n":        ErrUnexpectedStatusCodeChar,
		"HTTP/1.1 2x0 OK\r\n\r\n":      h1.ErrStatusLine,
		"HTTP/1.1 20 OK\r\n\r\n":       h1.ErrStatusLine,
		"XTTP/1.1 200 OK\r\n\r\n":      h1.ErrVersion,
		"HTTP/1.1 200 OK\r\nX\r\n\r\n": ErrReadingResponseHeaders,
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n": ErrDuplicateContentLength,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n":            ErrUnsupportedTransferEncoding,
	} {
		h := new(ResponseHeader)
		h.SetServer("old")
		h.SetStatusCode(404)
		if err := h.Read(reader(in)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", in, err, want)
		}
		if undated(h) != "HTTP/1.1 200 OK\r\n\r\n" {
			t.Errorf("%q: left %q", in, undated(h))
		}
	}
}

// FuzzResponseHeaderRoundTrip is the same for responses.
func FuzzResponseHeaderRoundTrip(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nServer: s\r\nx: a\r\n b\r\nSet-Cookie: a=b\r\nSet-Cookie:\r\nContent-Length: 3\r\nDate: d\r\n\r\n"))
	f.Add([]byte("HTTP/1.0 404\r\nTrailer: x\r\nConnection: keep-alive, close\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 999 \r\nTransfer-Encoding: chunked\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var first, second ResponseHeader
		if first.Read(bufio.NewReaderSize(bytes.NewReader(in), 1<<16)) != nil || first.Len() > 190 {
			return
		}
		wire := undated(&first)
		checkWire(t, wire, false)
		if err := second.Read(reader(wire)); err != nil {
			t.Fatalf("%q was written as %q: %v", in, wire, err)
		}
		if got := undated(&second); got != wire {
			t.Fatalf("%q was written as %q and then as %q", in, wire, got)
		}
		if message.BodyForbidden(first.StatusCode()) && !strings.Contains(wire, "\r\nContent-Length:") {
			// A length that was received is kept, and must not be sent on
			// (RFC 9110 section 8.6).
			first.m.ContentLength, first.m.HasLength = second.m.ContentLength, false
		}
		if a, b := fieldsOf(first.All()), fieldsOf(second.All()); a != b {
			t.Fatalf("%q became %q", a, b)
		}
	})
}

// TestMoreFieldsFitLargerBuffers: what Read reads has one field for eight bytes of the
// buffer, and what a client reads one for 64, but 200 at least.
func TestMoreFieldsFitLargerBuffers(t *testing.T) {
	for _, c := range []struct{ size, fields, ofClient int }{{2 << 10, 256, 200}, {4 << 10, 512, 200}, {64 << 10, 8 << 10, 1 << 10}} {
		for _, more := range []int{0, 1} {
			fields := strings.Repeat("X: y\r\n", c.fields-1+more) + "Host: h\r\n\r\n"
			var q RequestHeader
			if err := q.Read(bufio.NewReaderSize(strings.NewReader("GET / HTTP/1.1\r\n"+fields), c.size)); errors.Is(err, h1.ErrTooManyFields) != (more > 0) || more == 0 && err != nil {
				t.Errorf("request, %d fields in %d bytes: %v", c.fields+more, c.size, err)
			}
			var r Response
			if err := r.Read(bufio.NewReaderSize(strings.NewReader("HTTP/1.1 204 No\r\n"+fields), c.size)); errors.Is(err, h1.ErrTooManyFields) != (more > 0) || more == 0 && err != nil {
				t.Errorf("response, %d fields in %d bytes: %v", c.fields+more, c.size, err)
			}
		}
		if got := (&HostClient{ReadBufferSize: c.size}).headLimits().MaxFields; got != c.ofClient {
			t.Errorf("client with a buffer of %d bytes: %d fields", c.size, got)
		}
	}
}

// assigned returns a copy by assignment, which go vet would refuse.
func assigned[T any](v *T) *T {
	dup := new(T)
	reflect.ValueOf(dup).Elem().Set(reflect.ValueOf(v).Elem())
	return dup
}

func TestMovedHeadersKeepTheirMemory(t *testing.T) {
	from := &RequestHeader{}
	from.Set("X-A", "1")
	var to RequestHeader
	if n := testing.AllocsPerRun(100, func() {
		to.m = from.m
		to.m.Moved()
		to.Set("X-A", "2")
		from.m = to.m
		from.m.Moved()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestCopiesByAssignmentShareBodies: a change of a copy's body does not reach the original;
// a copy sees the body that the original has, in its whole length, as with fasthttp.
func TestCopiesByAssignmentShareBodies(t *testing.T) {
	const first = "the first body"
	for name, change := range map[string]func(b *messageBody){
		"SetBody short": func(b *messageBody) { b.SetBodyString("2nd") },
		"SetBody long":  func(b *messageBody) { b.SetBodyString(strings.Repeat("2", 5000)) },
		"AppendBody":    func(b *messageBody) { b.AppendBodyString("+") },
		"BodyWriter": func(b *messageBody) {
			b.clear(false, &bodyPoolLimits.request)
			_, _ = b.BodyWriter().Write([]byte("w"))
		},
		"ResetBody":  func(b *messageBody) { b.clear(true, &bodyPoolLimits.request) },
		"SetBodyRaw": func(b *messageBody) { b.SetBodyRaw([]byte("raw")) },
		"SwapBody":   func(b *messageBody) { clear(b.SwapBody([]byte("swapped"))) },
		"a stream":   func(b *messageBody) { b.setStream(strings.NewReader("stream"), -1); b.Body() },
	} {
		t.Run(name, func(t *testing.T) {
			original := &Response{}
			original.SetBodyString(first)
			dup := assigned(original)
			change(&dup.messageBody)
			changed := string(dup.Body())
			if got := string(original.Body()); got != first || changed == first {
				t.Fatalf("the original has %q, the copy %q", got, changed)
			}
			original.SetBodyString("of the original")
			if got := string(dup.Body()); got != changed {
				t.Errorf("a change of the original made the copy %q", got)
			}

			original.SetBodyString(first)
			dup = assigned(original)
			change(&original.messageBody)
			if got := string(dup.Body()); got != first && got != string(original.buffered()) {
				t.Errorf("the original has %q, its copy %q", original.Body(), got)
			}
		})
	}
	saved := Response{}
	ctx := &RequestCtx{}
	ctx.SetBodyString(first)
	reflect.ValueOf(&saved).Elem().Set(reflect.ValueOf(&ctx.Response).Elem())
	reflect.ValueOf(&ctx.Response).Elem().Set(reflect.ValueOf(&Response{}).Elem())
	ctx.SetBodyString("of another handler")
	reflect.ValueOf(&ctx.Response).Elem().Set(reflect.ValueOf(&saved).Elem())
	if got := string(ctx.Response.Body()); got != first {
		t.Errorf("restored: %q", got)
	}
	released := AcquireRequest()
	released.SetBodyString(first)
	kept := assigned(released)
	ReleaseRequest(kept)
	if got := string(released.Body()); got != first {
		t.Errorf("after the release of its copy: %q", got)
	}
}

func TestResponsePeek(t *testing.T) {
	var h ResponseHeader
	h.m.DefaultServer, h.m.ShowsServer = []byte("default"), true
	if got := fmt.Sprintf("%q %q", h.Peek("server"), h.PeekAll("Server")); got != `"default" ["default"]` {
		t.Errorf("defaults: %s", got)
	}
	if got := fmt.Sprintf("%q %q", h.Peek("content-type"), h.PeekAll("Content-Type")); got != `"text/plain; charset=utf-8" ["text/plain; charset=utf-8"]` {
		t.Errorf("defaults: %s", got)
	}
	h.SetServer("mine")
	h.Add("Set-Cookie", "a=b; path=/")
	h.Add("Set-Cookie", "c=d")
	h.SetContentLength(5)
	h.SetConnectionClose()
	if got, want := fieldsOf(h.All()), "Content-Length=5 Content-Type=text/plain; charset=utf-8 Server=mine Set-Cookie=a=b; path=/ Set-Cookie=c=d Connection=close"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := string(h.Peek("set-cookie")); got != "a=b; path=/; c=d" {
		t.Errorf("Set-Cookie: %q", got)
	}
	h.SetNoDefaultContentType(true)
	if h.Peek("Content-Type") != nil || h.ContentType() != nil {
		t.Error("there is a default type")
	}
	h.SetServer("")
	if got := string(h.Server()); got != "" {
		t.Errorf("Server = %q", got)
	}
}

// TestGettersShareNothing writes into all that getters return: no other message
// may see it.
func TestGettersShareNothing(t *testing.T) {
	newRequest := func() *RequestHeader {
		h := &RequestHeader{}
		h.SetConnectionClose()
		h.SetContentLength(-1)
		h.SetReferer("r")
		h.SetCookie("a", "b")
		_ = h.SetTrailer("Foo, User-Agent")
		return h
	}
	newResponse := func() *ResponseHeader {
		h := &ResponseHeader{}
		h.SetConnectionClose()
		h.SetContentLength(-1)
		h.SetProtocol([]byte("HTTP/1.0"))
		_ = h.SetTrailer("Foo, Last-Modified")
		return h
	}
	name := []byte("shared")
	shared := string(name)
	for _, c := range []struct {
		of    string
		fresh func() headerGetters
	}{
		{"zero request", func() headerGetters { return &RequestHeader{} }},
		{"request", func() headerGetters { return newRequest() }},
		{"zero response", func() headerGetters { h := &ResponseHeader{}; h.m.DefaultServer = name; return h }},
		{"response", func() headerGetters { return newResponse() }},
	} {
		describe := func() string {
			h := c.fresh()
			wire := ""
			switch h := h.(type) {
			case *RequestHeader:
				wire = h.String()
			case *ResponseHeader:
				wire = undated(h)
			}
			return fmt.Sprintf("%q %s %s %s", wire, h.Protocol(), h.PeekKeys(), h.TrailerHeader())
		}
		want := describe()
		for method, result := range getterResults(c.fresh()) {
			for _, b := range result {
				for i := range b {
					b[i] ^= 0x20
				}
			}
			if describe() != want || string(name) != shared {
				t.Fatalf("%s: what %s returned is shared", c.of, method)
			}
		}
	}
}

// headerGetters is what TestGettersShareNothing looks at itself.
type headerGetters interface {
	Protocol() []byte
	TrailerHeader() []byte
	PeekKeys() [][]byte
}

// getterResults calls every method of h that returns bytes, with the names of
// fields that are state or have defaults where it takes one.
func getterResults(h any) map[string][][]byte {
	results := map[string][][]byte{}
	v := reflect.ValueOf(h)
	for i := range v.NumMethod() {
		method, name := v.Method(i), v.Type().Method(i).Name
		keys := []string{""}
		arguments := func(string) []reflect.Value { return nil }
		if method.Type().NumIn() == 1 && method.Type().In(0).Kind() == reflect.String {
			keys = []string{"Connection", "Transfer-Encoding", "Content-Type", "Server", "Trailer", "Content-Length", "Host"}
			arguments = func(key string) []reflect.Value { return []reflect.Value{reflect.ValueOf(key)} }
		} else if method.Type().NumIn() != 0 {
			continue
		}
		if method.Type().NumOut() != 1 {
			continue
		}
		switch method.Type().Out(0) {
		case reflect.TypeFor[[]byte]():
			for _, key := range keys {
				results[name+"("+key+")"] = [][]byte{method.Call(arguments(key))[0].Bytes()}
			}
		case reflect.TypeFor[[][]byte]():
			for _, key := range keys {
				results[name+"("+key+")"] = method.Call(arguments(key))[0].Interface().([][]byte)
			}
		}
	}
	return results
}

// nasty texts each try to leave the place they are put in.
var nasty = []string{
	"", "a\r\nInjected: yes", "a\nInjected: yes", "a\rInjected: yes", "\x00", "a\x7f\x01b", "a b", "a:b", "\r\n\r\nGET /evil HTTP/1.1",
	" HTTP/1.1\r\nX: y", "é\xff", "\t x \t", "; a=b", "#f", "?q r", "\"", "a,b", "\u2028",
}

// TestNothingSmuggled gives nasty texts to every setter that takes text.
func TestNothingSmuggled(t *testing.T) {
	for _, s := range nasty {
		for name, set := range requestSetters {
			var h RequestHeader
			set(&h, s)
			checkRequestWire(t, name, &h)
			h.Reset()
			h.DisableSpecialHeader()
			set(&h, s)
			checkRequestWire(t, name+", raw", &h)
			h.Reset()
			h.DisableNormalizing()
			set(&h, s)
			checkRequestWire(t, name+", names kept", &h)
		}
		for name, set := range responseSetters {
			var h ResponseHeader
			set(&h, s)
			t.Run(name, func(t *testing.T) {
				checkWire(t, h.String(), false)
				checkWire(t, "x\r\n"+string(h.TrailerHeader()), false)
				if h.Peek("Injected") != nil || strings.Contains(undated(&h), "\r\nInjected") {
					t.Errorf("%q was injected: %q", s, undated(&h))
				}
			})
		}
	}
}

func checkRequestWire(t *testing.T, name string, h *RequestHeader) {
	t.Run(name, func(t *testing.T) {
		checkWire(t, h.String(), true)
		checkWire(t, "x\r\n"+string(h.TrailerHeader()), false)
		if h.Peek("Injected") != nil || strings.Contains(h.String(), "\r\nInjected") {
			t.Errorf("injected: %q", h.String())
		}
	})
}

var requestSetters = map[string]func(h *RequestHeader, s string){
	"key":        func(h *RequestHeader, s string) { h.Set(s, "v"); h.Add("X"+s, "v"); h.SetCanonical([]byte(s), nil) },
	"value":      func(h *RequestHeader, s string) { h.Set("X", s); h.Add("X", s); h.SetCanonical([]byte("x"), []byte(s)) },
	"method":     func(h *RequestHeader, s string) { h.SetMethod(s); h.SetMethod("X" + s) },
	"uri":        func(h *RequestHeader, s string) { h.SetRequestURI(s) },
	"path":       func(h *RequestHeader, s string) { h.SetRequestURI("/" + s) },
	"protocol":   func(h *RequestHeader, s string) { h.SetProtocol(s) },
	"host":       func(h *RequestHeader, s string) { h.SetHost(s) },
	"user agent": func(h *RequestHeader, s string) { h.SetUserAgent(s) },
	"referer":    func(h *RequestHeader, s string) { h.SetReferer(s) },
	"type":       func(h *RequestHeader, s string) { h.SetContentType(s) },
	"coding":     func(h *RequestHeader, s string) { h.SetContentEncoding(s) },
	"boundary":   func(h *RequestHeader, s string) { h.SetMultipartFormBoundary(s) },
	"cookie":     func(h *RequestHeader, s string) { h.SetCookie(s, s); h.SetCookie("a", s); h.SetCookie(s, "b") },
	"Cookie":     func(h *RequestHeader, s string) { h.Set("Cookie", s); h.Add("Cookie", s) },
	"connection": func(h *RequestHeader, s string) { h.Set("Connection", s); h.Set("Connection", "close, "+s) },
	"length":     func(h *RequestHeader, s string) { h.Set("Content-Length", s); h.Set("Transfer-Encoding", s) },
	"trailer": func(h *RequestHeader, s string) {
		h.SetTrailer(s)
		h.AddTrailer("X, " + s)
		h.Set("X", s)
		h.Set(s, "v")
	},
	"known, plain": func(h *RequestHeader, s string) { h.Set("Accept", s); h.Set("Date", s); h.Set("Server", s) },
}

var responseSetters = map[string]func(h *ResponseHeader, s string){
	"key":      func(h *ResponseHeader, s string) { h.Set(s, "v"); h.Add("X"+s, "v") },
	"value":    func(h *ResponseHeader, s string) { h.Set("X", s); h.Add("X", s) },
	"message":  func(h *ResponseHeader, s string) { h.SetStatusMessage([]byte(s)) },
	"protocol": func(h *ResponseHeader, s string) { h.SetProtocol([]byte(s)) },
	"server":   func(h *ResponseHeader, s string) { h.SetServer(s) },
	"type":     func(h *ResponseHeader, s string) { h.SetContentType(s) },
	"coding":   func(h *ResponseHeader, s string) { h.SetContentEncoding(s) },
	"delete":   func(h *ResponseHeader, s string) { h.DelClientCookie(s) },
	"cookie": func(h *ResponseHeader, s string) {
		var c Cookie
		c.SetKey(s)
		c.SetValue(s)
		c.SetPath(s)
		c.SetDomain(s)
		h.SetCookie(&c)
		h.Set("Set-Cookie", s)
		h.Add("Set-Cookie", s)
	},
	"trailer": func(h *ResponseHeader, s string) {
		h.SetTrailer(s)
		h.AddTrailer("X, " + s)
		h.Set("X", s)
		h.Set(s, "v")
	},
}
