package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
)

// A side is one of the two servers, in memory, with a client.
type side struct {
	name   string
	ln     *fasthttputil.InmemoryListener
	client *http.Client
	scheme string
}

// startBoth serves all rows with net/http and with sluice.
func startBoth(t *testing.T, useTLS bool) (nethttp, own *side) {
	t.Helper()
	cert, key, err := sluice.GenerateTestCertificate("example.com")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	handler, requestHandler := mux(rows())
	nethttp, own = newSide("net/http", useTLS), newSide("sluice", useTLS)
	standard := &http.Server{Handler: handler, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}}
	server := newServer(requestHandler)
	if useTLS {
		go standard.ServeTLS(nethttp.ln, "", "")
		go server.ServeTLSEmbed(own.ln, cert, key)
	} else {
		go standard.Serve(nethttp.ln)
		go server.Serve(own.ln)
	}
	t.Cleanup(func() {
		nethttp.client.CloseIdleConnections()
		own.client.CloseIdleConnections()
		standard.Close()
		if err := server.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	return nethttp, own
}

func newSide(name string, useTLS bool) *side {
	ln := fasthttputil.NewInmemoryListener()
	scheme := "http"
	if useTLS {
		scheme = "https"
	}
	return &side{name, ln, &http.Client{
		Transport: &http.Transport{
			DialContext:     func(context.Context, string, string) (net.Conn, error) { return ln.Dial() },
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, scheme}
}

// A call is a request to both sides.
type call struct {
	row, method, path, contentType string
	body                           []byte
	header                         http.Header
}

// ask returns the response and its body.
func (s *side) ask(t *testing.T, c call) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(c.method, s.scheme+"://example.com/"+c.row+c.path, bytes.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = c.header.Clone()
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	if c.contentType != "" {
		req.Header.Set("Content-Type", c.contentType)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	return resp, string(body)
}

// bodyDiffers lists the rows whose bodies differ, and why.
func bodyDiffers(row string) bool {
	switch row {
	case "http.Redirect": // net/http adds a page with a link
		return true
	case "http.NotFound": // another text
		return true
	}
	return false
}

func TestRowsAnswerTheSame(t *testing.T) {
	nethttp, own := startBoth(t, false)
	tested := make(map[string]bool)
	for _, c := range calls(t) {
		t.Run(c.row, func(t *testing.T) {
			want, wantBody := nethttp.ask(t, c)
			got, gotBody := own.ask(t, c)
			if got.StatusCode != want.StatusCode {
				t.Errorf("status %d, net/http %d", got.StatusCode, want.StatusCode)
			}
			if want.StatusCode >= 400 {
				wantBody = strings.TrimSuffix(wantBody, "\n") // http.Error adds it
			}
			if gotBody != wantBody && !bodyDiffers(c.row) {
				t.Errorf("body %q, net/http %q", gotBody, wantBody)
			}
			if c.row != "http.NotFound" && got.StatusCode == http.StatusNotFound {
				t.Error("no such row")
			}
			compareHeaders(t, got, want)
		})
		tested[c.row] = true
	}
	for _, r := range rows() {
		if !tested[r.name] && r.name != "http.Hijacker" { // TestHijacker
			t.Errorf("no call for row %s", r.name)
		}
	}
}

// compareHeaders compares the fields that rows set.
func compareHeaders(t *testing.T, got, want *http.Response) {
	t.Helper()
	if g, w := got.Header.Values("X-Answer"), want.Header.Values("X-Answer"); !slices.Equal(g, w) {
		t.Errorf("X-Answer %q, net/http %q", g, w)
	}
	if want.ContentLength != 0 && want.StatusCode != http.StatusSeeOther {
		if g, w := got.Header.Get("Content-Type"), want.Header.Get("Content-Type"); g != w {
			t.Errorf("Content-Type %q, net/http %q", g, w)
		}
	}
	if w := want.Header.Get("Server"); w != "" && got.Header.Get("Server") != w {
		t.Errorf("Server %q, net/http %q", got.Header.Get("Server"), w)
	}
	if g, w := cookies(got), cookies(want); g != w {
		t.Errorf("cookies %q, net/http %q", g, w)
	}
	if g, w := location(got), location(want); g != w {
		t.Errorf("location %q, net/http %q", g, w)
	}
}

// cookies describes the cookies that resp sets, with attributes in any order.
func cookies(resp *http.Response) string {
	var all strings.Builder
	for _, c := range resp.Cookies() {
		fmt.Fprintln(&all, c.Name, c.Value, c.Path, c.MaxAge, c.HttpOnly)
	}
	return all.String()
}

func location(resp *http.Response) string {
	if u, err := resp.Location(); err == nil {
		return u.String()
	}
	return ""
}

// calls returns at least one call for every row.
func calls(t *testing.T) []call {
	const form = "application/x-www-form-urlencoded"
	values := []byte(url.Values{"tag": {"a b", "ü"}}.Encode())
	multipartType, multipartBody := multipartForm(t)
	return []call{
		{row: "r.Body", method: "POST", body: []byte("some bytes")},
		{row: "r.Body", method: "POST", body: bytes.Repeat([]byte("x"), 100<<10)},
		{row: "r.Body", method: "GET"},
		{row: "r.Method", method: "PROPFIND"},
		{row: "r.URL.Path", method: "GET", path: "/a%20b/c%C3%BC?x=/y"},
		{row: "r.URL", method: "GET", path: "/p?q=1%202&r"},
		{row: "r.RequestURI", method: "GET", path: "/a%20b?x=%31"},
		{row: "r.Host", method: "GET"},
		{row: "r.Header", method: "GET", header: http.Header{"X-B": {"1", "2"}, "X-A": {"3"}}},
		{row: "r.Header.Get", method: "GET", header: http.Header{"X-One": {"1", "2"}}},
		{row: "r.Cookie", method: "GET", header: http.Header{"Cookie": {"a=b; session=s%20t; c=d"}}},
		{row: "r.Cookie", method: "GET"},
		{row: "r.Referer", method: "GET", header: http.Header{"Referer": {"http://here/"}}},
		{row: "r.UserAgent", method: "GET", header: http.Header{"User-Agent": {"test/1"}}},
		{row: "r.Form", method: "POST", path: "?tag=query", contentType: form, body: values},
		{row: "r.PostForm", method: "POST", path: "?tag=query", contentType: form, body: values},
		{row: "r.FormValue", method: "POST", path: "?tag=query", contentType: form, body: values},
		{row: "r.FormValue", method: "GET", path: "?tag=query"},
		{row: "r.FormFile", method: "POST", contentType: multipartType, body: multipartBody},
		{row: "r.FormFile", method: "POST", contentType: form, body: values},
		{row: "r.MultipartForm", method: "POST", contentType: multipartType, body: multipartBody},
		{row: "w.Header", method: "GET"},
		{row: "w.Header.Set", method: "GET"},
		{row: "Content-Type", method: "GET"},
		{row: "Server", method: "GET"},
		{row: "http.SetCookie", method: "GET"},
		{row: "w.WriteHeader", method: "GET"},
		{row: "w.Write", method: "GET"},
		{row: "w.Write", method: "HEAD"},
		{row: "w.Write.SetBody", method: "GET"},
		{row: "w.Write.SetBodyStream", method: "GET"},
		{row: "w.Write.SetBodyStreamWriter", method: "GET"},
		{row: "http.Error", method: "GET"},
		{row: "http.NotFound", method: "GET"},
		{row: "http.Redirect", method: "GET"},
		{row: "r.RemoteAddr", method: "GET"},
		{row: "r.TLS", method: "GET"},
		{row: "r.Context", method: "GET"},
		{row: "http.Flusher", method: "GET"},
		{row: "http.TimeoutHandler", method: "GET"},
	}
}

// multipartForm returns a form with a file and a value.
func multipartForm(t *testing.T) (contentType string, body []byte) {
	t.Helper()
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	part, err := w.CreateFormFile("upload", "notes.txt")
	if err == nil {
		_, err = part.Write([]byte("the file"))
	}
	if err == nil {
		err = w.WriteField("comment", "no comment")
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), buf.Bytes()
}

func TestTLSRow(t *testing.T) {
	nethttp, own := startBoth(t, true)
	for _, s := range []*side{nethttp, own} {
		if _, body := s.ask(t, call{row: "r.TLS", method: "GET"}); body != "true" {
			t.Errorf("%s: %q, want true", s.name, body)
		}
	}
}

func TestHijacker(t *testing.T) {
	nethttp, own := startBoth(t, false)
	for _, s := range []*side{nethttp, own} {
		req, err := http.NewRequest("GET", "http://example.com/http.Hijacker", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		resp, err := s.client.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Upgrade") != "echo" {
			t.Fatalf("%s: status %d, header %v", s.name, resp.StatusCode, resp.Header)
		}
		conn := resp.Body.(io.ReadWriteCloser)
		if _, err := io.WriteString(conn, "ping"); err != nil {
			t.Fatal(err)
		}
		echo := make([]byte, 4)
		if _, err := io.ReadFull(conn, echo); err != nil || string(echo) != "ping" {
			t.Errorf("%s: echo %q, %v", s.name, echo, err)
		}
		conn.Close()
	}
}
