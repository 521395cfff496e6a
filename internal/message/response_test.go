package message

import (
	"bytes"
	"mime/multipart"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// TestSettleHead: a response without a length closes the connection, unless it answers HEAD.
func TestSettleHead(t *testing.T) {
	for name, c := range map[string]struct {
		head                 h1.Head
		closes, closesOnHead bool
	}{
		"no length":        {h1.Head{Minor: 1, StatusCode: 200}, true, false},
		"length":           {h1.Head{Minor: 1, StatusCode: 200, Flags: h1.HasLength}, false, false},
		"chunked":          {h1.Head{Minor: 1, StatusCode: 200, Flags: h1.ChunkedBody}, false, false},
		"no content":       {h1.Head{Minor: 1, StatusCode: 204}, false, false},
		"close":            {h1.Head{Minor: 1, StatusCode: 200, Flags: h1.ConnectionClose}, true, true},
		"close, length":    {h1.Head{Minor: 1, StatusCode: 200, Flags: h1.ConnectionClose | h1.HasLength}, true, true},
		"HTTP/1.0":         {h1.Head{StatusCode: 200}, true, true},
		"HTTP/1.0, length": {h1.Head{StatusCode: 200, Flags: h1.HasLength}, true, true},
	} {
		var h, other ResponseHeader
		h.SetParsed(&c.head)
		if h.ConnectionClose != c.closes {
			t.Errorf("%s: closes: %v", name, h.ConnectionClose)
		}
		h.SetReason([]byte("why"))
		other.SetStatus(404)
		other.Exchange(&h)
		if other.Status() != c.head.StatusCode || h.Status() != 404 || string(other.Reason()) != "why" || h.Reason() != nil {
			t.Errorf("%s: exchanged: %d %q, %d %q", name, other.Status(), other.Reason(), h.Status(), h.Reason())
		}
		if other.SettleHead(); other.ConnectionClose != c.closesOnHead {
			t.Errorf("%s: closes after HEAD: %v", name, other.ConnectionClose)
		}
	}
}

// TestServerIsTheHeaders: who writes to the server's name that a header returns changes no other message.
func TestServerIsTheHeaders(t *testing.T) {
	var h ResponseHeader
	h.ShowsServer = true
	for _, name := range []string{"o", "ours"} {
		h.DefaultServer = []byte(name)
		for range 2 {
			got := h.Server()
			if string(got) != name {
				t.Errorf("the server is %q", got)
			}
			copy(got, "XXXX")
		}
	}
	h.SetKnown(field.Server, []byte("another"))
	if got := h.Server(); string(got) != "another" || string(h.DefaultServer) != "ours" {
		t.Errorf("the server is %q, the default %q", got, h.DefaultServer)
	}
	for _, own := range []string{"another", "x"} {
		h.SetKnown(field.Server, []byte(own))
		if got := h.Server(); len(got) == len(own) {
			got[0] = 'Y'
		}
		if got := h.Server(); string(got) != "Y"+own[1:] {
			t.Errorf("after a write the server is %q, whose field was %q", got, own)
		}
	}
}

// TestSetContentRange: negative positions, and a range that ends before it begins, are none.
func TestSetContentRange(t *testing.T) {
	for want, c := range map[string][3]int{
		"bytes 0-0/1": {0, 0, 1}, "bytes 0-9/*": {0, 9, -1}, "bytes 5-5/0": {5, 5, 0}, "bytes */10": {-1, 9, 10}, "bytes */11": {5, 4, 11}, "bytes */*": {1, 0, -1},
	} {
		var h ResponseHeader
		h.SetContentRange(c[0], c[1], c[2])
		if got := string(h.Get(field.ContentRange)); got != want {
			t.Errorf("%v: %q, want %q", c, got, want)
		}
	}
}

// TestFormFilesLeave: the files are there until the last header has gone.
func TestFormFilesLeave(t *testing.T) {
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	const count = 3
	for range count {
		part, err := w.CreateFormFile("file", "name")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = part.Write(make([]byte, MaxFormMemory/2))
	}
	_ = w.Close()
	form, err := ReadForm(&body, w.Boundary())
	if err != nil {
		t.Fatal(err)
	}
	last := form.File["file"][count-1]
	f := FilesOf(form)
	for left := count - 1; left >= 0; left-- {
		f.leave()
		file, err := last.Open()
		if (err == nil) != (left > 0) {
			t.Errorf("while %d headers are used: %v", left, err)
		}
		if err == nil {
			_ = file.Close()
		}
	}
	runtime.KeepAlive(form)
}

// TestResponseHeads: exact heads (RFC 9112 section 4), in the order that AppendHead promises.
func TestResponseHeads(t *testing.T) {
	for _, test := range []struct {
		name, want string
		set        func(h *ResponseHeader)
		f          Framing
	}{
		{"nothing", "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n", func(*ResponseHeader) {}, Framing{Length: -2}},
		{"empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", func(*ResponseHeader) {}, Framing{}},
		{"chunked", "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n", func(*ResponseHeader) {}, Framing{Length: -1}},
		{"no type", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n", func(h *ResponseHeader) { h.NoDefaultContentType = true }, Framing{Length: 1}},
		{"type omitted", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n", func(*ResponseHeader) {}, Framing{Length: 1, OmitDefaultType: true}},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", func(h *ResponseHeader) { h.SetStatus(204) }, Framing{Length: -2}},
		{"reason", "HTTP/1.1 404 not  here\r\nContent-Length: 0\r\n\r\n", func(h *ResponseHeader) { h.SetStatus(404); h.SetReason([]byte("not\r\nhere")) }, Framing{}},
		{"unusual", "HTTP/1.0 299 Unknown Status Code\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", func(h *ResponseHeader) { h.SetStatus(299); h.IsHTTP10 = true; h.SetReason([]byte("")) }, Framing{KeepAlive: true}},
		{"server", "HTTP/1.1 200 OK\r\nServer: ours\r\nContent-Length: 0\r\n\r\n", func(h *ResponseHeader) { h.DefaultServer = []byte("ours") }, Framing{NamesServer: true}},
		{"another server", "HTTP/1.1 200 OK\r\nServer: mine\r\nContent-Length: 0\r\n\r\n", func(h *ResponseHeader) { h.DefaultServer = []byte("ours"); h.Put("Server", []byte("mine"), Sets) }, Framing{NamesServer: true}},
		{"close", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", func(*ResponseHeader) {}, Framing{CloseConnection: true}},
		{"connection", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: upgrade\r\n\r\n", func(h *ResponseHeader) { h.Put("Connection", []byte("upgrade"), Sets) }, Framing{KeepAlive: true}},
		{"lines in the type", "HTTP/1.1 200 OK\r\nContent-Type: a  X: b\r\nContent-Length: 1\r\n\r\n", func(h *ResponseHeader) { h.SetContentType([]byte("a\r\nX: b")) }, Framing{Length: 1}},
		{"close with others", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: 1\r\nConnection: a, close\r\n\r\n", func(h *ResponseHeader) {
			h.Put("Connection", []byte("a, close"), Sets)
			h.Put("X", []byte("1"), Sets)
		}, Framing{KeepAlive: true}},
		{"all", "HTTP/1.1 200 OK\r\nServer: s\r\nContent-Type: t\r\nContent-Encoding: br\r\nContent-Length: 9\r\nX: 1\r\nDate: d\r\nTrailer: T\r\nSet-Cookie: a=1\r\n\r\n", func(h *ResponseHeader) {
			for _, f := range []string{"Set-Cookie: a=1", "Trailer: T", "X: 1", "Content-Encoding: br", "Server: s", "Content-Type: t"} {
				name, value, _ := strings.Cut(f, ": ")
				h.Put(name, []byte(value), Adds)
			}
			h.SetDate([]byte("d"))
		}, Framing{Length: 9}},
	} {
		var h, copied ResponseHeader
		test.set(&h)
		copied.SetStatus(500)
		copied.SetReason([]byte("earlier"))
		copied.Put("Earlier", []byte("1"), Sets)
		h.CopyTo(&copied)
		copied.DefaultServer = h.DefaultServer
		for name, h := range map[string]*ResponseHeader{"original": &h, "copy": &copied} {
			if got := string(h.AppendHead([]byte("x"), test.f)); got != "x"+test.want {
				t.Errorf("%s, %s: %q, want %q", test.name, name, got, "x"+test.want)
			}
		}
	}
}

// TestResponseCopyShowsServer: the copy has the server's name as a field.
func TestResponseCopyShowsServer(t *testing.T) {
	var h, copied ResponseHeader
	h.DefaultServer, h.ShowsServer = []byte("ours"), true
	if h.IsSet([]byte("Server")) {
		t.Error("the default counts as a field")
	}
	copied.ShowsServer = true
	h.CopyTo(&copied)
	if copied.ShowsServer || string(copied.Server()) != "ours" || !copied.IsSet([]byte("Server")) {
		t.Errorf("%v, %q", copied.ShowsServer, copied.Server())
	}
	h.DefaultServer = []byte("o")
	if h.CopyTo(&copied); string(copied.Server()) != "o" {
		t.Errorf("%q", copied.Server())
	}
	if new(ResponseHeader).CopyTo(&copied); copied.IsSet([]byte("Server")) {
		t.Error("the copy of a header without a server has one")
	}
}

// TestResponseFraming: what a head says that is written without a body. RFC 9110 section 8.6: of the
// statuses without content, only 304 may have a Content-Length.
func TestResponseFraming(t *testing.T) {
	for _, test := range []struct {
		name          string
		status        int
		set           func(h *ResponseHeader)
		length        int64
		closes, omits bool
	}{
		{"nothing", 200, func(*ResponseHeader) {}, -2, false, true},
		{"length", 200, func(h *ResponseHeader) { h.SetContentLength(5) }, 5, false, false},
		{"length 0", 200, func(h *ResponseHeader) { h.SetContentLength(0) }, 0, false, false},
		{"chunked", 200, func(h *ResponseHeader) { h.SetContentLength(-1) }, -1, false, false},
		{"chunked, HTTP/1.0", 200, func(h *ResponseHeader) { h.SetContentLength(-1); h.IsHTTP10 = true }, -2, true, false},
		{"until the end", 200, func(h *ResponseHeader) { h.SetContentLength(-5) }, -2, true, false},
		{"close", 200, func(h *ResponseHeader) { h.ConnectionClose = true; h.SetContentLength(1) }, 1, true, false},
		{"204", 204, func(h *ResponseHeader) { h.SetContentLength(5) }, -2, false, false},
		{"100", 100, func(h *ResponseHeader) { h.SetContentLength(-1) }, -2, false, false},
		{"304", 304, func(h *ResponseHeader) { h.SetContentLength(5) }, -2, false, false},
		{"304 with a length", 304, func(h *ResponseHeader) { h.setLength(5) }, 5, false, true},
	} {
		var h ResponseHeader
		h.SetStatus(test.status)
		test.set(&h)
		f := h.Framing()
		if f.Length != test.length || f.CloseConnection != test.closes || f.OmitDefaultType != test.omits || f.Date == 0 {
			t.Errorf("%s: %+v", test.name, f)
		}
		h.SetDate(nil)
		if f := h.Framing(); f.Date != 0 {
			t.Errorf("%s: with a date of its own: %+v", test.name, f)
		}
		if strings.Contains(string(h.Head()), "\r\nDate: ") {
			t.Errorf("%s: an empty date is sent as %q", test.name, h.Head())
		}
	}
	for form, want := range map[ResponseForm]Framing{
		{Length: 5, Date: 7, HasContent: true}:             {Length: 5, Date: 7, NamesServer: true},
		{Length: 5, HasTrailers: true}:                     {Length: -1, NamesServer: true},
		{Length: -2, OmitDefaultType: true, Next: UseNone}: {Length: -2, OmitDefaultType: true, NamesServer: true},
	} {
		if got := form.Framing(); got != want {
			t.Errorf("%+v: %+v, want %+v", form, got, want)
		}
	}
}

// TestShow: getters return what was written.
func TestShow(t *testing.T) {
	for _, test := range []struct {
		f                  Framing
		length, connection string
	}{
		{Framing{Length: 5, NamesServer: true}, "5", ""},
		{Framing{Length: -1, NamesServer: true, CloseConnection: true}, "", "close"},
		{Framing{Length: -2, NamesServer: true, KeepAlive: true}, "3", "keep-alive"},
	} {
		var h ResponseHeader
		h.DefaultServer = []byte("ours")
		h.SetContentLength(3)
		h.Show(test.f)
		if got := string(h.Peek([]byte("Content-Length"))); got != test.length {
			t.Errorf("%+v: Content-Length %q", test.f, got)
		}
		if got := string(h.Peek([]byte("Connection"))); got != test.connection {
			t.Errorf("%+v: Connection %q", test.f, got)
		}
		if got := string(h.Peek([]byte("Transfer-Encoding"))); (got == "chunked") != (test.f.Length == -1) {
			t.Errorf("%+v: Transfer-Encoding %q", test.f, got)
		}
		if got := string(h.Peek([]byte("Server"))); got != "ours" {
			t.Errorf("%+v: Server %q", test.f, got)
		}
	}
	var h ResponseHeader
	h.Put("Connection", []byte("upgrade"), Sets)
	if h.Show(Framing{KeepAlive: true}); string(h.Peek([]byte("Connection"))) != "upgrade" {
		t.Errorf("a Connection field that was set is now %q", h.Peek([]byte("Connection")))
	}
}

// TestSum: the number changes with each part of the head that counts, and with no other.
func TestSum(t *testing.T) {
	make := func(change func(h *ResponseHeader)) uint32 {
		var h ResponseHeader
		h.Put("X", []byte("1"), Sets)
		_ = h.Announce([]byte("T"))
		change(&h)
		return h.Sum()
	}
	sum := make(func(*ResponseHeader) {})
	for name, change := range map[string]func(h *ResponseHeader){
		"status": func(h *ResponseHeader) { h.SetStatus(201) },
		"reason": func(h *ResponseHeader) { h.SetReason([]byte("x")) },
		"name":   func(h *ResponseHeader) { h.Del([]byte("X")); h.Put("Y", []byte("1"), Sets) },
		"value":  func(h *ResponseHeader) { h.Put("X", []byte("2"), Sets) },
		"field":  func(h *ResponseHeader) { h.Put("X", []byte("1"), Adds) },
	} {
		if make(change) == sum {
			t.Errorf("another %s has the same sum", name)
		}
	}
	for name, change := range map[string]func(h *ResponseHeader){
		"length":  func(h *ResponseHeader) { h.SetContentLength(5) },
		"trailer": func(h *ResponseHeader) { h.Put("T", []byte("1"), Sets) },
		"close":   func(h *ResponseHeader) { h.ConnectionClose = true },
		"status":  func(h *ResponseHeader) { h.SetStatus(200) },
	} {
		if make(change) != sum {
			t.Errorf("another %s has another sum", name)
		}
	}
}

// TestResponseFields: what is set, and the defaults, are found in all ways.
func TestResponseFields(t *testing.T) {
	var h ResponseHeader
	checkVisit(t, "nothing", "Content-Type: text/plain; charset=utf-8", h.Visit, h.PeekKeys, h.Len)
	for _, f := range []string{"X: 1", "Set-Cookie: a=1", "x: 2", "Set-Cookie: b=2", "Trailer: T", "Connection: close", "Server: s", "Content-Encoding: br", "T: t"} {
		name, value, _ := strings.Cut(f, ": ")
		h.Put(name, []byte(value), Adds)
	}
	h.SetContentLength(3)
	const want = "Content-Length: 3|Content-Type: text/plain; charset=utf-8|Content-Encoding: br|Server: s|Set-Cookie: a=1|Set-Cookie: b=2|Trailer: T|X: 1|X: 2|Connection: close"
	checkVisit(t, "all", want, h.Visit, h.PeekKeys, h.Len)
	for key, want := range map[string]string{
		"X": "1|2", "set-cookie": "a=1; b=2", "Content-Type": "text/plain; charset=utf-8", "Server": "s", "Connection": "close", "Content-Length": "3",
		"Transfer-Encoding": "", "Trailer": "T", "T": "t", "Y": "", "Date": "", "Content-Encoding": "br", "Cookie": "",
	} {
		if got := string(bytes.Join(h.PeekAll([]byte(key)), []byte("|"))); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
		if isSet := h.IsSet([]byte(key)); isSet != (want != "" && key != "Content-Type") {
			t.Errorf("%s is set: %v", key, isSet)
		}
	}
	for key, want := range map[string]string{"Set-Cookie": "a=1; b=2", "set-cookie": "", "Server": "s", "server": "", "X": "1", "x": "", "Content-Type": "text/plain; charset=utf-8"} {
		if got := string(h.PeekCanonical([]byte(key))); got != want {
			t.Errorf("%s by its canonical name: %q, want %q", key, got, want)
		}
	}
	copy(h.ContentType(), "XXXX")
	var other ResponseHeader
	if got := string(other.ContentType()); got != "text/plain; charset=utf-8" {
		t.Errorf("the default of another message is %q", got)
	}
	h.SetContentLength(-1)
	if got := string(h.Peek([]byte("Transfer-Encoding"))); got != "chunked" {
		t.Errorf("chunked: %q", got)
	}
	h.NoDefaultContentType = true
	if got := h.ContentType(); got != nil {
		t.Errorf("without a default: %q", got)
	}
	h.SetLastModified(time.Date(1994, time.November, 6, 8, 49, 37, 0, time.UTC))
	if got := string(h.Peek([]byte("Last-Modified"))); got != "Sun, 06 Nov 1994 08:49:37 GMT" {
		t.Errorf("Last-Modified: %q", got)
	}
}

// TestExchangeMovesTrailers: each header changes those that it has then.
func TestExchangeMovesTrailers(t *testing.T) {
	var h, other ResponseHeader
	for _, one := range []*ResponseHeader{&h, &other} {
		_ = one.Announce([]byte("A"))
	}
	h.Exchange(&other)
	if h.trailer.header != &h.Header || other.trailer.header != &other.Header {
		t.Error("a section belongs to the other header")
	}
}
