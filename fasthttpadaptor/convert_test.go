package fasthttpadaptor_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

func TestConvertRequest(t *testing.T) {
	for _, test := range []struct {
		name, method, target, host string
		forServer                  bool
		wantURL, wantURI, wantHost string
		fails                      bool
	}{
		{name: "server", method: "GET", target: "/a%20b?c", host: "h:1", forServer: true, wantURL: "/a%20b?c", wantURI: "/a%20b?c", wantHost: "h:1"},
		{name: "client", method: "GET", target: "/a?c", host: "h:1", wantURL: "/a?c", wantHost: "h:1"},
		{name: "client, absolute", method: "GET", target: "http://other/x", host: "h", wantURL: "http://other/x", wantHost: "other"},
		{name: "raw path", method: "GET", target: "/é\"<|", host: "h", forServer: true, wantURL: "/%C3%A9%22%3C%7C", wantURI: "/é\"<|", wantHost: "h"},
		{name: "raw query", method: "GET", target: "/?q=50%&\xff\"", host: "h", forServer: true, wantURL: "/?q=50%&\xff\"", wantURI: "/?q=50%&\xff\"", wantHost: "h"},
		{name: "absolute", method: "GET", target: "http://other/x", host: "h", forServer: true, wantURL: "http://other/x", wantURI: "http://other/x", wantHost: "other"},
		{name: "asterisk", method: "OPTIONS", target: "*", host: "h", forServer: true, wantURL: "*", wantURI: "*", wantHost: "h"},
		{name: "authority", method: "CONNECT", target: "h:443", host: "h:443", forServer: true, wantURL: "//h:443", wantURI: "h:443", wantHost: "h:443"},
		{name: "malformed", method: "GET", target: "/%zz", host: "h", forServer: true, fails: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var ctx sluice.RequestCtx
			ctx.Init(&sluice.Request{}, nil, nil)
			ctx.Request.Header.SetMethod(test.method)
			ctx.Request.Header.SetRequestURI(test.target)
			ctx.Request.Header.SetHost(test.host)
			ctx.Request.SetBodyString("body")
			ctx.SetUserValue("k", "v")
			r := http.Request{Method: "OLD"}
			err := fasthttpadaptor.ConvertRequest(&ctx, &r, test.forServer)
			if test.fails {
				if err == nil || r.Method != "OLD" {
					t.Errorf("no error, or changed: %+v", &r)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(r.Body)
			if r.Method != test.method || r.URL.String() != test.wantURL || r.RequestURI != test.wantURI || r.Host != test.wantHost ||
				string(body) != "body" || r.ContentLength != 4 || r.Context().Value("k") != "v" {
				t.Errorf("got %s %s %q %s %q %d %v", r.Method, r.URL, r.RequestURI, r.Host, body, r.ContentLength, r.Context().Value("k"))
			}
			_ = r.Body.Close()
			if _, err := r.Body.Read(make([]byte, 1)); err != http.ErrBodyReadAfterClose {
				t.Errorf("read after Close: %v", err)
			}
		})
	}
}

// A form that was parsed from the body stream is converted as the body.
func TestConvertRequestAfterMultipartForm(t *testing.T) {
	const body = "--B \r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--B--\r\nepilogue"
	var ctx sluice.RequestCtx
	ctx.Init(&sluice.Request{}, nil, nil)
	ctx.Request.Header.SetMethod("POST")
	ctx.Request.Header.SetHost("h")
	ctx.Request.Header.SetMultipartFormBoundary("B")
	ctx.Request.Header.SetContentLength(len(body))
	ctx.Request.SetBodyStream(strings.NewReader(body), len(body))
	if _, err := ctx.MultipartForm(); err != nil {
		t.Fatal(err)
	}
	var r http.Request
	if err := fasthttpadaptor.ConvertRequest(&ctx, &r, true); err != nil {
		t.Fatal(err)
	}
	length := r.ContentLength
	form, err := io.ReadAll(r.Body)
	if err != nil || length != int64(len(form)) || !strings.Contains(string(form), "name=\"a\"\r\n\r\n1\r\n--B--") {
		t.Errorf("length %d, body %q, %v", length, form, err)
	}
}

func TestConvertNetHTTPRequest(t *testing.T) {
	withTrailer := httptest.NewRequest("POST", "/up", io.MultiReader(strings.NewReader("data")))
	withTrailer.Trailer = http.Header{"X-Sum": {"7"}}
	withTrailer.Header.Add("X-Many", "1")
	withTrailer.Header.Add("X-Many", "2")
	otherHost := httptest.NewRequest("PUT", "http://a/x//../%41?y#z", strings.NewReader("abc"))
	otherHost.Host = "b"
	ofLength := func(n int64) *http.Request {
		return &http.Request{Method: "PUT", URL: &url.URL{Path: "/"}, Host: "h", ContentLength: n, Body: io.NopCloser(strings.NewReader("x"))}
	}
	const chunked = "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
	closing := httptest.NewRequest("GET", "/", nil)
	closing.Close = true
	closing.Header["Connection"] = []string{"a", "b"}
	closing.Header.Set("Host", "other")
	closing.Header.Set("Trailer", "X-Sum")
	upgrading := httptest.NewRequest("GET", "/", nil)
	upgrading.Header["Connection"] = []string{"x-a", "x-b"}
	for _, test := range []struct {
		name string
		r    *http.Request
		want string
	}{
		{"connection options", upgrading, "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: x-a, x-b\r\n\r\n"},
		{"unknown length", ofLength(0), chunked},
		{"negative length", ofLength(-1), chunked},
		{"length", ofLength(1), "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx"},
		{"close", closing, "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: a, b\r\nConnection: close\r\n\r\n"},
		{"zero", &http.Request{URL: &url.URL{Scheme: "http", Host: "h", Path: "/"}}, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"},
		{"no path", &http.Request{URL: &url.URL{Scheme: "http", Host: "h", RawQuery: "q"}}, "GET /?q HTTP/1.1\r\nHost: h\r\n\r\n"},
		{"trailer", withTrailer, "POST /up HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\nX-Many: 1\r\nX-Many: 2\r\nTrailer: X-Sum\r\n\r\n4\r\ndata\r\n0\r\nX-Sum: 7\r\n\r\n"},
		{"other host", otherHost, "PUT /x//../%41?y HTTP/1.1\r\nHost: b\r\nContent-Length: 3\r\n\r\nabc"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r sluice.Request
			r.Header.Set("X-Old", "gone")
			fasthttpadaptor.ConvertNetHTTPRequestToFastHTTPRequest(test.r, &r)
			if got := r.String(); got != test.want {
				t.Errorf("got %q\nwant %q", got, test.want)
			}
		})
	}
}

// A fragment is not a part of the target.
func TestFragmentIsLeftOut(t *testing.T) {
	httpReq, err := http.NewRequest("GET", "http://a/x#z", nil)
	if err != nil {
		t.Fatal(err)
	}
	var r sluice.Request
	fasthttpadaptor.ConvertNetHTTPRequestToFastHTTPRequest(httpReq, &r)
	if got := string(r.URI().Hash()); got != "" {
		t.Errorf("fragment %q", got)
	}
}

// The converted body is closed with the request, and yields its trailer fields once.
func TestConvertedBody(t *testing.T) {
	body := &closedBody{Reader: strings.NewReader("x")}
	var r sluice.Request
	fasthttpadaptor.ConvertNetHTTPRequestToFastHTTPRequest(&http.Request{
		Method: "PUT", URL: &url.URL{Path: "/"}, ContentLength: -1, Body: body, Trailer: http.Header{"X-Sum": {"1", "2"}},
	}, &r)
	for range 2 {
		if _, err := io.ReadAll(r.BodyStream()); err != nil {
			t.Error(err)
		}
	}
	if got := r.Header.PeekAll("X-Sum"); len(got) != 2 || string(got[0])+string(got[1]) != "12" {
		t.Errorf("trailer fields %q", got)
	}
	r.Reset()
	if !body.isClosed {
		t.Error("the body is not closed")
	}
}

type closedBody struct {
	io.Reader
	isClosed bool
}

func (b *closedBody) Close() error {
	b.isClosed = true
	return nil
}

func BenchmarkHandler(b *testing.B) {
	text := []byte("hello")
	handler := fasthttpadaptor.NewFastHTTPHandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write(text)
	})
	var ctx sluice.RequestCtx
	ctx.Init(&sluice.Request{}, nil, nil)
	ctx.Request.SetRequestURI("http://h/path?a=b")
	ctx.Request.Header.Set("Accept", "*/*")
	ctx.Request.Header.SetUserAgent("bench")
	b.ReportAllocs()
	for b.Loop() {
		ctx.Response.Reset()
		handler(&ctx)
	}
}
