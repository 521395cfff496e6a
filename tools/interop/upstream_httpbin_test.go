package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mccutchen/go-httpbin/v2/httpbin"
	"github.com/sluicehttp/sluice"
)

// The client against go-httpbin on net/http, and what that does not offer.

// An httpbinServer is one origin.
type httpbinServer struct{ base string }

// startHttpbin starts a server that ends with the test. Beside httpbin's it has
// /location, which redirects with the status and to exactly the text that it is
// given, and /br, which is compressed by brotli.
func startHttpbin(t *testing.T) httpbinServer {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/", httpbin.New(httpbin.WithMaxBodySize(64<<20), httpbin.WithMaxDuration(time.Minute)).Handler())
	mux.HandleFunc("/location", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if to, ok := r.URL.Query()["to"]; ok {
			w.Header()["Location"] = to
		}
		var status int
		_, _ = fmt.Sscan(r.URL.Query().Get("status"), &status)
		w.WriteHeader(status)
	})
	mux.HandleFunc("/br", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		_, _ = w.Write(sluice.AppendBrotliBytes(nil, []byte(`{"brotli": true}`)))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return httpbinServer{base: s.URL}
}

// location is the URL of a redirect.
func (s httpbinServer) location(status int, to string) string {
	return fmt.Sprintf("%s/location?status=%d&to=%s", s.base, status, url.QueryEscape(to))
}

// An echo is what httpbin says that it has received.
type echo struct {
	Method, URL, Data    string
	Args, Headers        map[string][]string
	Form, Files          map[string][]string
	Cookies              map[string]string
	Authorized           bool
	Gzipped, Deflated    bool
	Brotli               bool
	BytesReceived        int64  `json:"bytes_received"`
	UserAgent            string `json:"user-agent"`
	Authenticated, Chunk bool
}

// echoOf reads a reply.
func echoOf(t *testing.T, r *reply) (e echo) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), &e); err != nil {
		t.Fatalf("status %d, %.200q: %v", r.status, r.body, err)
	}
	return e
}

func TestHttpbinVerbs(t *testing.T) {
	s := startHttpbin(t)
	var client sluice.Client
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		body := ""
		if method != "GET" {
			body = "the " + method
		}
		e := echoOf(t, inquiry{method: method, url: s.base + "/" + strings.ToLower(method) + "?a=b%20c&a=%C3%A9&d", body: body,
			fields: []string{"X-A", "b", "X-A", "c", "Content-Type", "text/plain"}}.must(t, &client, 200))
		if e.Method != method || e.Data != body && method != "GET" {
			t.Errorf("%s: received %q with %q", method, e.Method, e.Data)
		}
		if fmt.Sprint(e.Args) != "map[a:[b c é] d:[]]" || fmt.Sprint(e.Headers["X-A"]) != "[b c]" {
			t.Errorf("%s: received %v and %v", method, e.Args, e.Headers)
		}
	}
	r := inquiry{method: "HEAD", url: s.base + "/head"}.must(t, &client, 200)
	if r.body != "" || !strings.HasPrefix(r.header("Content-Type"), "application/json") {
		t.Errorf("HEAD: %q, %q", r.body, r.header("Content-Type"))
	}
	if r := (inquiry{method: "OPTIONS", url: s.base + "/get"}).must(t, &client, 200); !strings.Contains(r.header("Access-Control-Allow-Methods"), "PUT") {
		t.Errorf("OPTIONS: %q", r.header("Access-Control-Allow-Methods"))
	}
	named := sluice.Client{Name: "me"}
	if e := echoOf(t, inquiry{url: s.base + "/user-agent"}.must(t, &named, 200)); e.UserAgent != "me" {
		t.Errorf("User-Agent: %q", e.UserAgent)
	}
	const want = "GET /dump/request HTTP/1.1\r\nHost: h\r\nUser-Agent: sluice\r\n\r\n"
	r = inquiry{url: s.base + "/dump/request", prep: func(req *sluice.Request) { req.UseHostHeader = true; req.Header.SetHost("h") }}.must(t, &client, 200)
	if r.body != want {
		t.Errorf("received %q, want %q", r.body, want)
	}
}

func TestHttpbinStatuses(t *testing.T) {
	s := startHttpbin(t)
	var client sluice.Client
	made := counted(&client)
	for _, status := range []int{
		200, 201, 202, 203, 204, 205, 206, 300, 301, 302, 303, 304, 305, 307, 308,
		400, 401, 402, 403, 404, 405, 406, 408, 409, 410, 413, 418, 421, 429, 431, 451, 500, 501, 502, 503, 504, 511, 599,
	} {
		inquiry{url: fmt.Sprintf("%s/status/%d", s.base, status)}.must(t, &client, status)
		inquiry{method: "POST", body: "data", url: fmt.Sprintf("%s/status/%d", s.base, status)}.must(t, &client, status)
	}
	if got := made(); got != 1 {
		t.Errorf("%d connections", got)
	}
}

// TestHttpbinRedirectMethods: RFC 9110 section 15.4.
func TestHttpbinRedirectMethods(t *testing.T) {
	s := startHttpbin(t)
	var client sluice.Client
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
			want, body := method, ""
			if method != "GET" && method != "HEAD" {
				body = "data"
			}
			if status == 303 && method != "HEAD" || status < 303 && method == "POST" {
				want = "GET"
			}
			r, err := inquiry{method: method, url: s.location(status, "/anything"), body: body,
				fields: []string{"Content-Type", "text/plain", "X-A", "b"}}.send(&client, 3)
			if err != nil || r.status != 200 {
				t.Errorf("%d %s: %+v (%v)", status, method, r, err)
				continue
			}
			if method == "HEAD" {
				if r.body != "" {
					t.Errorf("%d HEAD: a body, %q", status, r.body)
				}
				continue
			}
			e := echoOf(t, r)
			if e.Method != want || want == method && e.Data != body || fmt.Sprint(e.Headers["X-A"]) != "[b]" {
				t.Errorf("%d %s: received %s %q, %v", status, method, e.Method, e.Data, e.Headers)
			}
			if want != method && (e.Data != "" || e.Headers["Content-Type"] != nil || e.Headers["Content-Length"] != nil) {
				t.Errorf("%d %s: content is left: %q, %v", status, method, e.Data, e.Headers)
			}
		}
	}
}

func TestHttpbinRedirectTargets(t *testing.T) {
	s, other := startHttpbin(t), startHttpbin(t)
	host := strings.TrimPrefix(s.base, "http://")
	var client sluice.Client
	// A Location without an authority is for the caller.
	if r, err := (inquiry{url: s.location(302, "javascript:alert(1)")}).send(&client, 3); err != nil || r.status != 302 {
		t.Errorf("another scheme: status %d, %v", r.status, err)
	}
	for _, c := range []struct{ to, want string }{ // want: the URL, without the origin; "": an error
		{"/anything/a?b=c", "/anything/a?b=c"},
		{"anything/a", "/anything/a"},
		{"./anything/a", "/anything/a"},
		{"../../anything/a", "/anything/a"},
		{"//" + host + "/anything/a", "/anything/a"},
		{s.base + "/anything/a", "/anything/a"},
		{"HTTP://" + host + "/anything/a", "/anything/a"},
		{s.base + "/anything/a#b", "/anything/a"},
		{"/anything/a%2Fb", "/anything/a/b"}, // see TestHttpbinRedirectPathsAsTheyAre
		{"/anything/a b", "/anything/a%20b"},
		{"/anything/é", "/anything/%C3%A9"},
		{"ftp://" + host + "/", ""},
		{"file:///etc/passwd", ""},
		{"http://", ""},
		{"http://[::1", ""},
		{"", ""},
	} {
		r, err := inquiry{url: s.location(302, c.to)}.send(&client, 3)
		if c.want == "" {
			if err == nil {
				t.Errorf("%q: status %d %.100q, want an error", c.to, r.status, r.body)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.to, err)
			continue
		}
		if e := echoOf(t, r); e.URL != s.base+c.want {
			t.Errorf("%q leads to %q, want %q", c.to, e.URL, s.base+c.want)
		}
	}
	if _, err := (inquiry{url: s.base + "/location?status=302"}).send(&client, 3); !errors.Is(err, sluice.ErrMissingLocation) {
		t.Errorf("without a Location: %v", err)
	}
	for path, want := range map[string]error{
		"/redirect/16": nil, "/absolute-redirect/16": nil, "/relative-redirect/16": nil, "/redirect/17": sluice.ErrTooManyRedirects, "/location?status=302&to=" + url.QueryEscape(other.base+"/get"): nil,
	} {
		status, body, err := client.GetTimeout(nil, s.base+path, upstreamPatience)
		if !errors.Is(err, want) || want == nil && (status != 200 || !strings.Contains(string(body), "/get")) {
			t.Errorf("%s: %d %.100q (%v), want %v", path, status, body, err, want)
		}
	}
	stream := inquiry{method: "POST", url: s.location(307, "/anything"), prep: func(req *sluice.Request) { req.SetBodyStream(strings.NewReader("data"), -1) }}
	if _, err := stream.send(&client, 3); !errors.Is(err, sluice.ErrRedirectBodyStream) {
		t.Errorf("307 of a stream: %v", err)
	}
}

// TestHttpbinRedirectPathsAsTheyAre: DisableRedirectPathNormalizing keeps what
// Location says.
func TestHttpbinRedirectPathsAsTheyAre(t *testing.T) {
	s := startHttpbin(t)
	var client sluice.Client
	for _, path := range []string{"/anything/a%2Fb", "/anything/a%20b?c=d%2F", "/anything/%41"} {
		r, err := inquiry{url: s.location(302, path), prep: func(req *sluice.Request) { req.DisableRedirectPathNormalizing = true }}.send(&client, 3)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if e := echoOf(t, r); e.URL != s.base+path {
			t.Errorf("%s leads to %s", path, e.URL)
		}
	}
}

// TestHttpbinRedirectKeepsUser: who is named in a URL still is behind a relative
// redirect, which resolves to the same authority (RFC 3986 section 5.2.2).
func TestHttpbinRedirectKeepsUser(t *testing.T) {
	s := startHttpbin(t)
	var client sluice.Client
	r, err := inquiry{url: strings.Replace(s.location(302, "/basic-auth/u/p"), "http://", "http://u:p@", 1)}.send(&client, 3)
	if err != nil || r.status != 200 {
		t.Errorf("%+v (%v)", r, err)
	}
}

// TestHttpbinRedirectDropsUser: the user of the one origin's URL is not told to
// the other one.
func TestHttpbinRedirectDropsUser(t *testing.T) {
	s, other := startHttpbin(t), startHttpbin(t)
	var client sluice.Client
	r, err := inquiry{url: strings.Replace(s.location(302, other.base+"/headers"), "http://", "http://u:p@", 1)}.send(&client, 3)
	if err != nil {
		t.Fatal(err)
	}
	if e := echoOf(t, r); e.Headers["Authorization"] != nil {
		t.Errorf("Authorization: %v", e.Headers["Authorization"])
	}
}

// TestHttpbinRedirectCredentials: what was meant for one origin is not sent to
// another one.
func TestHttpbinRedirectCredentials(t *testing.T) {
	s, other := startHttpbin(t), startHttpbin(t)
	for name, c := range map[string]struct {
		to    string
		keeps bool
	}{
		"same origin":     {"/headers", true},
		"absolute":        {s.base + "/headers", true},
		"other port":      {other.base + "/headers", false},
		"other host":      {strings.Replace(s.base, "127.0.0.1", "localhost", 1) + "/headers", false},
		"there and back":  {other.location(302, s.base+"/headers"), false},
		"without scheme":  {strings.TrimPrefix(other.base, "http:") + "/headers", false},
		"by 308 to other": {other.location(308, "/headers"), false},
	} {
		t.Run(name, func(t *testing.T) {
			var client sluice.Client
			r, err := inquiry{url: s.location(307, c.to), fields: []string{"Authorization", "Bearer x", "Proxy-Authorization", "y", "X-A", "b"},
				prep: func(req *sluice.Request) { req.Header.SetCookie("session", "z") }}.send(&client, 5)
			if err != nil {
				t.Fatal(err)
			}
			e := echoOf(t, r)
			for _, key := range []string{"Authorization", "Cookie"} {
				if got := e.Headers[key] != nil; got != c.keeps {
					t.Errorf("%s is there: %v, want %v", key, got, c.keeps)
				}
			}
			if e.Headers["Proxy-Authorization"] != nil && !c.keeps {
				t.Error("Proxy-Authorization is there")
			}
			if fmt.Sprint(e.Headers["X-A"]) != "[b]" {
				t.Errorf("X-A: %v", e.Headers["X-A"])
			}
			if want := strings.TrimPrefix(c.to, "http://"); strings.HasSuffix(c.to, "/headers") && strings.HasPrefix(c.to, "http") &&
				fmt.Sprint(e.Headers["Host"]) != "["+strings.TrimSuffix(want, "/headers")+"]" {
				t.Errorf("Host: %v", e.Headers["Host"])
			}
		})
	}
}

func TestHttpbinCookiesAndAuth(t *testing.T) {
	s := startHttpbin(t)
	var client sluice.Client
	var resp sluice.Response
	var req sluice.Request
	req.SetRequestURI(s.base + "/cookies/set?a=b&c=d")
	if err := client.DoTimeout(&req, &resp, upstreamPatience); err != nil || resp.StatusCode() != 302 {
		t.Fatalf("%d (%v)", resp.StatusCode(), err)
	}
	q := inquiry{url: s.base + "/cookies", prep: func(req *sluice.Request) {
		for key, value := range resp.Header.Cookies() {
			var cookie sluice.Cookie
			if err := cookie.ParseBytes(value); err != nil || !cookie.HTTPOnly() {
				t.Errorf("%s: %q (%v)", key, value, err)
			}
			req.Header.SetCookieBytesKV(key, cookie.Value())
		}
	}}
	if e := echoOf(t, q.must(t, &client, 200)); fmt.Sprint(e.Cookies) != "map[a:b c:d]" {
		t.Errorf("cookies: %v", e.Cookies)
	}
	inquiry{url: s.base + "/basic-auth/u/p"}.must(t, &client, 401)
	inquiry{url: s.base + "/basic-auth/u/p", fields: []string{"Authorization", "Basic dTp4"}}.must(t, &client, 401)
	if e := echoOf(t, inquiry{url: s.base + "/basic-auth/u/p", fields: []string{"Authorization", "Basic dTpw"}}.must(t, &client, 200)); !e.Authorized {
		t.Error("not authorized")
	}
	withUser := strings.Replace(s.base, "http://", "http://u:p@", 1)
	if e := echoOf(t, inquiry{url: withUser + "/basic-auth/u/p"}.must(t, &client, 200)); !e.Authorized {
		t.Error("not authorized by the URL")
	}
	inquiry{url: s.base + "/bearer", fields: []string{"Authorization", "Bearer x"}}.must(t, &client, 200)
}

func TestHttpbinCompression(t *testing.T) {
	s := startHttpbin(t)
	var client sluice.Client
	for path, field := range map[string]func(e echo) bool{
		"/gzip":    func(e echo) bool { return e.Gzipped },
		"/deflate": func(e echo) bool { return e.Deflated },
		"/br":      func(e echo) bool { return e.Brotli },
	} {
		r := inquiry{url: s.base + path, fields: []string{"Accept-Encoding", "gzip, deflate, br"}}.must(t, &client, 200)
		if !field(echoOf(t, r)) || r.header("Content-Encoding") == "" {
			t.Errorf("%s: %q, Content-Encoding %q", path, r.body, r.header("Content-Encoding"))
		}
	}
}

func TestHttpbinForms(t *testing.T) {
	s := startHttpbin(t)
	var client sluice.Client
	args := &sluice.Args{}
	args.Add("a", "b c&=")
	args.Add("a", "é")
	_, body, err := client.Post(nil, s.base+"/post", args)
	if e := echoOf(t, &reply{body: string(body)}); err != nil || fmt.Sprint(e.Form) != "map[a:[b c&= é]]" {
		t.Errorf("%v (%v)", e.Form, err)
	}
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("file", "name.txt")
	if err != nil {
		t.Fatal(err)
	}
	file := strings.Repeat("content ", 50_000)
	_, _ = io.WriteString(part, file) // into memory, as the rest
	_ = w.WriteField("x", "y")
	_ = w.Close()
	for name, prepare := range map[string]func(req *sluice.Request){
		"memory": func(req *sluice.Request) { req.SetBody(form.Bytes()) },
		"stream": func(req *sluice.Request) { req.SetBodyStream(bytes.NewReader(form.Bytes()), -1) },
	} {
		r := inquiry{method: "POST", url: s.base + "/post", fields: []string{"Content-Type", w.FormDataContentType()}, prep: prepare}.must(t, &client, 200)
		if e := echoOf(t, r); len(e.Files["file"]) != 1 || e.Files["file"][0] != file {
			t.Errorf("%s: %d files", name, len(e.Files["file"]))
		}
	}
}

func TestHttpbinStreams(t *testing.T) {
	s := startHttpbin(t)
	client := sluice.Client{StreamResponseBody: true}
	made := counted(&client)
	for _, c := range []struct {
		path  string
		size  int // 0: unknown
		lines int
	}{
		{"/stream/20", 0, 20},
		{"/stream-bytes/100000?chunk_size=777&seed=1", 100_000, 0},
		{"/bytes/100000?seed=1", 100_000, 0},
		{"/drip?duration=0.2s&numbytes=20&delay=0s", 20, 0},
		{"/sse?count=5&duration=50ms", 0, 15},
		{"/range/5000", 5000, 0},
		{"/trailers?x-t=behind", 0, 0},
	} {
		var req sluice.Request
		var resp sluice.Response
		req.SetRequestURI(s.base + c.path)
		if err := client.DoTimeout(&req, &resp, upstreamPatience); err != nil || resp.StatusCode() != 200 {
			t.Errorf("%s: %d (%v)", c.path, resp.StatusCode(), err)
			continue
		}
		body, err := io.ReadAll(resp.BodyStream())
		if err != nil || c.size > 0 && len(body) != c.size || c.lines > 0 && bytes.Count(body, []byte("\n")) != c.lines {
			t.Errorf("%s: %d bytes (%v)", c.path, len(body), err)
		}
		if got := string(resp.Header.Peek("X-T")); strings.HasPrefix(c.path, "/trailers") && got != "behind" {
			t.Errorf("%s: the trailer is %q", c.path, got)
		}
		if err := resp.CloseBodyStream(); err != nil {
			t.Errorf("%s: %v", c.path, err)
		}
	}
	if got := made(); got != 1 {
		t.Errorf("%d connections for streams that were read to their ends", got)
	}
}

func TestHttpbinLargeBodies(t *testing.T) {
	s := startHttpbin(t)
	big := strings.Repeat("0123456789abcdef", 1<<20)
	var client sluice.Client
	for name, prepare := range map[string]func(req *sluice.Request){
		"memory":           func(req *sluice.Request) { req.SetBodyString(big) },
		"stream":           func(req *sluice.Request) { req.SetBodyStream(strings.NewReader(big), len(big)) },
		"stream in chunks": func(req *sluice.Request) { req.SetBodyStream(strings.NewReader(big), -1) },
		"with Expect": func(req *sluice.Request) {
			req.SetBodyString(big)
			req.Header.Set("Expect", "100-continue")
		},
	} {
		r := inquiry{method: "POST", url: s.base + "/upload", prep: prepare}.must(t, &client, 200)
		if e := echoOf(t, r); e.BytesReceived != int64(len(big)) {
			t.Errorf("%s: %d bytes were received", name, e.BytesReceived)
		}
	}
	for _, isStream := range []bool{false, true} {
		small := sluice.Client{MaxResponseBodySize: 1000, StreamResponseBody: isStream}
		for path, isGood := range map[string]bool{"/bytes/1000": true, "/bytes/1001": false, "/stream-bytes/1000": true, "/stream-bytes/1001": false} {
			var req sluice.Request
			var resp sluice.Response
			req.SetRequestURI(s.base + path)
			err := small.DoTimeout(&req, &resp, upstreamPatience)
			if err == nil && isStream {
				_, err = io.ReadAll(resp.BodyStream())
			}
			if isGood && err != nil || !isGood && !errors.Is(err, sluice.ErrBodyTooLarge) {
				t.Errorf("%s, a stream: %v: %v", path, isStream, err)
			}
			_ = resp.CloseBodyStream() // what was wrong was told
		}
	}
}

func TestHttpbinTimeouts(t *testing.T) {
	s := startHttpbin(t)
	const short, path = 50 * time.Millisecond, "/delay/30"
	var client sluice.Client
	hasty := sluice.Client{ReadTimeout: short}
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	cancelled, stop := context.WithCancel(t.Context())
	time.AfterFunc(short, stop)
	for name, c := range map[string]struct {
		client *sluice.Client
		do     func(c *sluice.Client, req *sluice.Request) error
		want   error
	}{
		"DoTimeout":   {&client, func(c *sluice.Client, req *sluice.Request) error { return c.DoTimeout(req, nil, short) }, sluice.ErrTimeout},
		"SetTimeout":  {&client, func(c *sluice.Client, req *sluice.Request) error { req.SetTimeout(short); return c.Do(req, nil) }, sluice.ErrTimeout},
		"ReadTimeout": {&hasty, func(c *sluice.Client, req *sluice.Request) error { return c.Do(req, nil) }, sluice.ErrTimeout},
		"DoDeadline": {&client, func(c *sluice.Client, req *sluice.Request) error {
			return c.DoDeadline(req, nil, time.Now().Add(short))
		}, sluice.ErrTimeout},
		"deadline of a context": {&client, func(c *sluice.Client, req *sluice.Request) error { return c.DoContext(ctx, req, nil) }, context.DeadlineExceeded},
		"cancellation":          {&client, func(c *sluice.Client, req *sluice.Request) error { return c.DoContext(cancelled, req, nil) }, context.Canceled},
	} {
		var req sluice.Request
		req.SetRequestURI(s.base + path)
		if err := c.do(c.client, &req); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if open := client.ConnsCount() - client.IdleConnsCount(); open != 0 {
		t.Errorf("%d connections are in use", open)
	}
	inquiry{url: s.base + "/delay/0.1"}.must(t, &client, 200)
}
