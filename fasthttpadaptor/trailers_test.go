package fasthttpadaptor_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

// withTrailers sets fields of all kinds. framing runs before the body and before
// WriteHeader.
func withTrailers(flushes bool, framing func(h http.Header)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Trailer", "X-Set, X-Late, Server")
		h.Set("X-Set", "then")
		h.Set("X-Both", "head")
		h.Set("X-After", "head")
		framing(h)
		_, _ = io.WriteString(w, "body")
		if flushes {
			flush(w)
		}
		h.Add("Trailer", "X-After")
		h.Set("X-After", "later")
		h.Set("X-Set", "later")
		h["X-Late"] = []string{"1", "2\r\nX-Injected: 1"}
		h.Set("Server", "theirs")
		h.Set("X-Both", "later")
		h.Add(http.TrailerPrefix+"X-Both", "prefixed")
		h.Add(http.TrailerPrefix+"X-Set", "prefixed")
		h.Add(http.TrailerPrefix+"Content-Length", "1")
		h.Add(http.TrailerPrefix+"no token", "1")
	}
}

// Whether there is a trailer section is decided when the body begins. If there is
// none, announced fields become fields of the head, with their values at that time.
func TestTrailersOfTheResponse(t *testing.T) {
	const (
		get     = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
		sent    = "X-Set: [] / [prefixed later]; X-Late: [] / [1 2  X-Injected: 1]; Server: [sluice] / [theirs]; X-Both: [head] / [prefixed]; X-After: [head] / []; X-Injected: [] / []"
		dropped = "X-Set: [then] / []; X-Late: [] / []; Server: [sluice] / []; X-Both: [head] / []; X-After: [head] / []; X-Injected: [] / []"
	)
	set := func(key, value string) func(http.Header) {
		return func(h http.Header) {
			if key != "" {
				h.Set(key, value)
			}
		}
	}
	for _, c := range []struct{ name, request, key, value, want string }{
		{"chunked", get, "", "", sent},
		{"malformed length", get, "Content-Length", "four", sent},
		{"length", get, "Content-Length", "4", dropped},
		{"identity", get, "Transfer-Encoding", "identity", dropped},
		{"HEAD", strings.Replace(get, "GET", "HEAD", 1), "", "", dropped},
		{"HTTP/1.0", strings.Replace(get, "1.1", "1.0", 1), "", "", dropped},
	} {
		for _, flushes := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, flushes), func(t *testing.T) {
				onEachEngine(t, withTrailers(flushes, set(c.key, c.value)), func(t *testing.T, addr string) {
					head, section, _ := strings.Cut(exchange(t, addr, c.request), "\r\n\r\n")
					if got := seenOf(head, section); got != c.want {
						t.Errorf("got  %s\nwant %s\nin %q", got, c.want, head+"\r\n\r\n"+section)
					}
				})
			})
		}
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Set")
		w.Header().Set("X-Set", "then")
		w.WriteHeader(204)
		w.Header().Set("X-Set", "later")
	})
	onEachEngine(t, h, func(t *testing.T, addr string) {
		if got := exchange(t, addr, get); !strings.Contains(got, "\r\nX-Set: then\r\n") || strings.Contains(got, "Trailer") {
			t.Errorf("204: %q", got)
		}
	})
}

// seenOf returns the values that fields have in a head, and after it.
func seenOf(head, section string) string {
	var all []string
	for _, name := range []string{"X-Set", "X-Late", "Server", "X-Both", "X-After", "X-Injected"} {
		all = append(all, fmt.Sprintf("%s: %v / %v", name, valuesOf(head, name), valuesOf(section, name)))
	}
	return strings.Join(all, "; ")
}

func valuesOf(text, name string) []string {
	var values []string
	for line := range strings.SplitSeq(text, "\r\n") {
		if value, found := strings.CutPrefix(line, name+": "); found {
			values = append(values, value)
		}
	}
	return values
}

// A request whose body was read has all its trailer fields from the start.
func TestConvertedTrailers(t *testing.T) {
	const text = "POST / HTTP/1.1\r\nHost: h\r\nX-Both: head\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, Missing, User-Agent\r\n\r\n" +
		"4\r\nbody\r\n0\r\nX-Sum: 1\r\nx-other: 2\r\nX-Sum: 3\r\nUser-Agent: u\r\nX-Both: trailer\r\n\r\n"
	for _, forServer := range []bool{true, false} {
		seen := make(chan string, 1)
		addr := serve(t, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			r := http.Request{Trailer: http.Header{"Old": {"1"}}}
			err := fasthttpadaptor.ConvertRequest(ctx, &r, forServer)
			seen <- fmt.Sprint(r.Trailer, r.Header, r.ContentLength, r.TransferEncoding, err)
		}})
		exchange(t, addr, strings.Replace(text, "Host: h", "Host: h\r\nConnection: close", 1))
		const want = "map[Missing:[] User-Agent:[u] X-Both:[trailer] X-Other:[2] X-Sum:[1 3]] map[Connection:[close] X-Both:[head]] -1 [chunked] <nil>"
		if got := <-seen; got != want {
			t.Errorf("forServer %v:\ngot  %s\nwant %s", forServer, got, want)
		}
	}
	var ctx sluice.RequestCtx
	ctx.Init(&sluice.Request{}, nil, nil)
	ctx.Request.Header.SetMethod("POST")
	ctx.Request.SetRequestURI("/")
	ctx.Request.SetBodyString("body")
	r := http.Request{Trailer: http.Header{"Old": {"1"}}}
	if err := fasthttpadaptor.ConvertRequest(&ctx, &r, false); err != nil || r.Trailer != nil || r.ContentLength != 4 {
		t.Errorf("without trailer fields: %v, %v, length %d", err, r.Trailer, r.ContentLength)
	}
	if err := ctx.Request.Header.SetTrailer("X-Sum"); err != nil {
		t.Fatal(err)
	}
	ctx.Request.Header.Set("X-Sum", "1")
	if err := fasthttpadaptor.ConvertRequest(&ctx, &r, false); err != nil || r.Trailer.Get("X-Sum") != "1" || r.ContentLength != -1 || r.Header.Get("X-Sum") != "" {
		t.Errorf("with one: %v, %v, %v, length %d", err, r.Trailer, r.Header, r.ContentLength)
	}
}

// An unannounced trailer field does not become a field of the head when the body of a
// converted request is read before the head is written.
func TestTrailersOfAConvertedRequest(t *testing.T) {
	body := &lateTrailer{Reader: strings.NewReader("body")}
	body.request = &http.Request{Method: "POST", Host: "h", Body: io.NopCloser(body), ContentLength: -1, Header: http.Header{"X-Both": {"head"}}}
	var r sluice.Request
	fasthttpadaptor.ConvertNetHTTPRequestToFastHTTPRequest(body.request, &r)
	r.Header.SetMethod("POST")
	r.SetRequestURI("/")
	if got := string(r.Body()); got != "body" {
		t.Errorf("body %q", got)
	}
	for key, value := range r.Header.All() {
		if string(key) == "X-Admin" || string(key) == "X-Both" && string(value) != "head" {
			t.Errorf("%s: %s is in the head", key, value)
		}
	}
	if got := string(r.Header.TrailerHeader()); !strings.Contains(got, "X-Admin: 1\r\n") || !strings.Contains(got, "X-Both: trailer\r\n") {
		t.Errorf("section %q", got)
	}
}

// lateTrailer is a body with unannounced trailer fields.
type lateTrailer struct {
	io.Reader
	request *http.Request
}

func (b *lateTrailer) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		b.request.Trailer = http.Header{"X-Admin": {"1"}, "X-Both": {"trailer"}}
	}
	return n, err
}

func TestConvertedProtocol(t *testing.T) {
	for protocol, want := range map[string]string{
		"HTTP/1.1": "HTTP/1.1 1.1", "HTTP/1.0": "HTTP/1.0 1.0", "HTTP/2": "HTTP/2.0 2.0", "HTTP/2.0": "HTTP/2.0 2.0", "HTTP/3.7": "HTTP/3.7 3.7",
		"HTTP/3": "HTTP/3.0 3.0", "HTTP/3.0": "HTTP/3.0 3.0", "HTTP/3.0 application/grpc": "HTTP/2.0 2.0", "HTTP/3.0 application/GRPC+proto": "HTTP/2.0 2.0",
		"HTTP/3.0 application/grpc-web": "HTTP/3.0 3.0", "HTTP/3.0 application/json": "HTTP/3.0 3.0", "HTTP/1.1 application/grpc": "HTTP/1.1 1.1",
		"HTTP/1.2": "HTTP/1.2 1.2", "HTTP/x": "HTTP/x 1.1", "foo": "foo 1.1", "HTTP/10.2": "HTTP/10.2 1.1",
	} {
		var ctx sluice.RequestCtx
		ctx.Init(&sluice.Request{}, nil, nil)
		ctx.Request.SetRequestURI("/")
		version, contentType, _ := strings.Cut(protocol, " ")
		ctx.Request.Header.SetProtocol(version)
		ctx.Request.Header.SetContentType(contentType)
		var r http.Request
		err := fasthttpadaptor.ConvertRequest(&ctx, &r, true)
		if got := fmt.Sprintf("%s %d.%d", r.Proto, r.ProtoMajor, r.ProtoMinor); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", protocol, got, err, want)
		}
	}
}
