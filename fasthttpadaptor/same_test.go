package fasthttpadaptor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

// A field is set before the handler runs, by a handler of sluice or one of net/http.
type presetField struct{ key, value string }

// sameCase is a handler of net/http, and the fields that a layer before it sets.
type sameCase struct {
	before []presetField
	h      http.HandlerFunc
	only   int // the version of HTTP, 0: both
}

// fieldCases are about what the handler sees of fields that were set before, and what it
// makes of them.
//
// long: a table of handlers
func fieldCases() map[string]sameCase {
	before := []presetField{{"Vary", "Origin"}, {"X-Own", "1"}, {"X-Own", "2"}, {"Set-Cookie", "a=1"}, {"Content-Type", "text/css"}, {"Cache-Control", "no-store"}}
	change := func(f func(h http.Header)) sameCase {
		return sameCase{before: before, h: func(w http.ResponseWriter, _ *http.Request) { f(w.Header()); _, _ = io.WriteString(w, "<html>") }}
	}
	return map[string]sameCase{
		"untouched":         {before: before, h: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }},
		"looked at":         change(func(h http.Header) { _ = h.Get("X") }),
		"Add":               change(func(h http.Header) { h.Add("Vary", "Accept"); h.Add("X-Own", "3"); h.Add("Set-Cookie", "b=2") }),
		"Set":               change(func(h http.Header) { h.Set("Vary", "Accept"); h.Set("X-Own", "3"); h.Set("Set-Cookie", "b=2") }),
		"Del":               change(func(h http.Header) { h.Del("Vary"); h.Del("X-Own"); h.Del("Set-Cookie"); h.Del("Content-Type") }),
		"clear":             change(func(h http.Header) { clear(h) }),
		"nil":               change(func(h http.Header) { h["Vary"] = nil; h["Content-Type"] = nil }),
		"part":              change(func(h http.Header) { h["X-Own"] = h["X-Own"][:1] }),
		"other":             change(func(h http.Header) { h["X-Own"][1] = "4" }),
		"a field more":      change(func(h http.Header) { h.Set("X-New", "1") }),
		"another type":      change(func(h http.Header) { h.Set("Content-Type", "a/b") }),
		"shown":             {before: before, h: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, w.Header()) }},
		"nothing before":    {h: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, w.Header()) }},
		"after Write":       {before: before, h: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x"); w.Header().Del("Vary") }},
		"after WriteHeader": {before: before, h: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202); w.Header().Add("Vary", "b") }},
		"flushed": {before: before, h: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Add("Vary", "Accept")
			flush(w)
			w.Header().Add("Vary", "late")
			_, _ = io.WriteString(w, "x")
		}},
		"error":          {before: before, h: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 404) }},
		"redirect":       {before: before, h: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/else", http.StatusFound) }},
		"redirect alone": {h: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/else", http.StatusFound) }},
		"content": {before: before, h: func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "a.css", time.Unix(1e9, 0), strings.NewReader("body{}"))
		}},
		"timeout handler": {before: before, h: http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Add("Vary", "Accept")
			_, _ = io.WriteString(w, "in time")
		}), patience, "late").ServeHTTP},
		"own Date":   {h: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Date", "Tue, 15 Nov 1994 08:12:31 GMT") }},
		"no Date":    {h: func(w http.ResponseWriter, _ *http.Request) { w.Header()["Date"] = nil }},
		"own Server": {h: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Server", "theirs") }},
		"Server":     {before: []presetField{{"Server", "before"}}, h: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, w.Header()) }},
		"no Server":  {before: []presetField{{"Server", "before"}}, h: func(w http.ResponseWriter, _ *http.Request) { w.Header().Del("Server") }},
		"codings": {h: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Add("Content-Encoding", "a")
			w.Header().Add("Content-Encoding", "b")
			_, _ = io.WriteString(w, "x")
		}},
		"no token": {h: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["a b"] = []string{"1"}
		}},
	}
}

// trailerCases are about trailer fields and the length.
//
// long: a table of handlers
func trailerCases() map[string]sameCase {
	const prefix = http.TrailerPrefix
	sets := func(body string, fields map[string]string, then map[string]string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for key, value := range fields {
				w.Header().Set(key, value)
			}
			if r.URL.Query().Get("x") != "" && body != "" {
				_, _ = io.WriteString(w, body)
			}
			if len(then) > 0 { // else net/http does not see the prefix, and sends no chunks
				flush(w)
			}
			for key, value := range then {
				w.Header().Set(key, value)
			}
		}
	}
	return map[string]sameCase{
		"prefix":             {h: sets("body", nil, map[string]string{prefix + "X-Sum": "1"})},
		"prefix, no body":    {h: sets("", nil, map[string]string{prefix + "X-Sum": "1"})},
		"prefix, set first":  {h: sets("body", map[string]string{prefix + "X-Sum": "1"}, nil)},
		"announced":          {h: sets("body", map[string]string{"Trailer": "X-Sum"}, map[string]string{"X-Sum": "1"})},
		"announced, no body": {h: sets("", map[string]string{"Trailer": "X-Sum"}, map[string]string{"X-Sum": "1"})},
		"announced, not set": {h: sets("body", map[string]string{"Trailer": "X-Sum"}, nil)},
		"both":               {h: sets("body", map[string]string{"Trailer": "X-Sum"}, map[string]string{"X-Sum": "1", prefix + "X-Other": "2"})},
		"length":             {h: sets("body", map[string]string{"Content-Length": "4"}, nil)},
		"length and chunked": {h: sets("body", map[string]string{"Content-Length": "4", "Transfer-Encoding": "chunked"}, nil)},
		"length, chunked, announced": {h: sets("body", map[string]string{"Content-Length": "4", "Transfer-Encoding": "chunked", "Trailer": "X-Sum"},
			map[string]string{"X-Sum": "1"})},
		"length, chunked, prefix": {h: sets("body", map[string]string{"Content-Length": "4", "Transfer-Encoding": "chunked"}, map[string]string{prefix + "X-Sum": "1"})},
		"length, announced":       {only: 2, h: sets("body", map[string]string{"Content-Length": "4", "Trailer": "X-Sum"}, map[string]string{"X-Sum": "1"})},
		"length, prefix":          {h: sets("body", map[string]string{"Content-Length": "4"}, map[string]string{prefix + "X-Sum": "1"})},
		"chunked":                 {h: sets("body", map[string]string{"Transfer-Encoding": "chunked"}, nil)},
		"identity":                {h: sets("body", map[string]string{"Transfer-Encoding": "identity"}, nil)},
		"short and chunked":       {h: sets("bod", map[string]string{"Content-Length": "4", "Transfer-Encoding": "chunked"}, nil)},
		"long and chunked":        {only: 1, h: sets("bodys", map[string]string{"Content-Length": "4", "Transfer-Encoding": "chunked"}, nil)},
		"comma":                   {h: sets("body", map[string]string{"Trailer": ","}, nil)},
		"flushed": {h: func(w http.ResponseWriter, _ *http.Request) {
			flush(w)
			_, _ = io.WriteString(w, "x")
			w.Header().Set(prefix+"X-Sum", "1")
		}},
		"flushed, length, chunked, announced": {h: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			w.Header().Set("Content-Length", "4")
			w.Header().Set("Transfer-Encoding", "chunked")
			_, _ = io.WriteString(w, "bo")
			flush(w)
			_, _ = io.WriteString(w, "dy")
			w.Header().Set("X-Sum", "1")
		}},
	}
}

// libraryCases are handlers of net/http itself, and methods of the ResponseWriter.
//
// long: a table of handlers
func libraryCases() map[string]sameCase {
	files := fstest.MapFS{"a.txt": {Data: []byte("a text"), ModTime: time.Unix(1e9, 0)}, "d/index.html": {Data: []byte("<p>")}, "e/f": {Data: []byte("f")}}
	serve := func(path string, h http.Handler, fields ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			r2 := r.Clone(r.Context())
			r2.URL = &url.URL{Path: path}
			for i := 0; i+1 < len(fields); i += 2 {
				r2.Header.Set(fields[i], fields[i+1])
			}
			h.ServeHTTP(w, r2)
		}
	}
	server := http.FileServerFS(files)
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			if _, err := io.WriteString(w, body); (err == http.ErrBodyNotAllowed) != (code == 204 || code == 304) {
				panic(err)
			}
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /a/{rest...}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.PathValue("rest"), r.Pattern) })
	cases := map[string]http.HandlerFunc{
		"file":             serve("/a.txt", server),
		"a part of a file": serve("/a.txt", server, "Range", "bytes=2-4"),
		"two parts":        serve("/a.txt", server, "Range", "bytes=9-"),
		"not modified":     serve("/a.txt", server, "If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 GMT"),
		"a missing file":   serve("/b.txt", server),
		"a folder":         serve("/d", server),
		"a list":           serve("/e/", server),
		"an index":         serve("/d/", server),
		"index.html":       serve("/d/index.html", server),
		"StripPrefix":      serve("/x/a.txt", http.StripPrefix("/x", server)),
		"mux":              mux.ServeHTTP,
		"NotFound":         http.NotFound,
		"RedirectHandler":  http.RedirectHandler("../b?c#d", http.StatusPermanentRedirect).ServeHTTP,
		"MaxBytesHandler":  http.MaxBytesHandler(http.HandlerFunc(describe), 3).ServeHTTP,
		"AllowQuerySem":    http.AllowQuerySemicolons(http.HandlerFunc(describe)).ServeHTTP,
		"timed out":        http.TimeoutHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), time.Millisecond, "late").ServeHTTP,
		"204 with body":    status(204, "lost"),
		"304 with body":    status(304, "lost"),
		"299":              status(299, "body"),
		"500":              status(500, "body"),
		"999":              status(999, "body"),
		"no body":          status(200, ""),
		"304 with fields": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "a/b")
			w.Header().Set("ETag", `"x"`)
			w.WriteHeader(304)
		},
		"an empty Write": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(nil); w.Header().Set("X-Late", "1") },
		"WriteHeader twice": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(201)
			w.Header().Set("X", "1")
			w.WriteHeader(404)
		},
		"Write, WriteHeader": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "x")
			w.WriteHeader(404)
		},
		"hints": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</a>")
			w.WriteHeader(103)
			w.Header().Set("X", "1")
			w.WriteHeader(404)
			_, _ = io.WriteString(w, "gone")
		},
		"length of HEAD": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "7")
			w.WriteHeader(200)
		},
		"Close": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			_, _ = io.WriteString(w, "x")
		},
		"form": func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.ParseForm(), r.Form, r.FormValue("x"), r.PostForm, r.Referer(), r.UserAgent() != "", r.Cookies())
		},
		"closed body": func(w http.ResponseWriter, r *http.Request) {
			_ = r.Body.Close()
			_, err := r.Body.Read(make([]byte, 1))
			fmt.Fprint(w, err != nil)
		},
		"read to the end, twice": func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			c, err2 := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %v %s %v %v %d", b, err, c, err2, r.Trailer, r.ContentLength)
		},
		"MaxBytesReader": func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 2))
			var tooLarge *http.MaxBytesError
			fmt.Fprint(w, errors.As(err, &tooLarge))
		},
		"abort": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"abort after Write": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "x")
			panic(http.ErrAbortHandler)
		},
		"abort after Flush": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "x")
			flush(w)
			panic(http.ErrAbortHandler)
		},
		"short": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(w, "x")
		},
		"long": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "2")
			n, err := io.WriteString(w, "xy")
			m, err2 := io.WriteString(w, "z")
			if n != 2 || err != nil || m != 0 || err2 == nil {
				panic(fmt.Sprint(n, err, m, err2))
			}
		},
		"controller": func(w http.ResponseWriter, _ *http.Request) {
			rc := http.NewResponseController(w)
			fmt.Fprint(w, rc.SetReadDeadline(time.Time{}), rc.SetWriteDeadline(time.Time{}), rc.EnableFullDuplex(), rc.Flush())
		},
		"interfaces": func(w http.ResponseWriter, r *http.Request) {
			_, isFlusher := w.(http.Flusher)
			_, isStringWriter := w.(io.StringWriter)
			_, isFlushError := w.(interface{ FlushError() error })
			fmt.Fprint(w, isFlusher, isStringWriter, isFlushError)
		},
	}
	all := make(map[string]sameCase)
	for name, h := range cases {
		all[name] = sameCase{h: h}
	}
	for _, name := range []string{"long", "304 with fields"} { // with HTTP/2, net/http differs from itself
		all[name] = sameCase{only: 1, h: cases[name]}
	}
	for _, status := range []int{204, 304} { // with HTTP/2, net/http announces what never comes
		all[fmt.Sprintf("%d with a length", status)] = sameCase{only: 1, h: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			w.WriteHeader(status)
		}}
	}
	return all
}

// serveBoth runs c on net/http and on sluice, each with HTTP/1.1 and HTTP/2, and returns
// the addresses.
func (c sameCase) serveBoth(t *testing.T, s *sluice.Server) (reference, ours string) {
	theirs := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, f := range c.before {
			w.Header().Add(f.key, f.value)
		}
		c.h(w, r)
	}))
	theirs.Config.ErrorLog = log.New(io.Discard, "", 0)
	theirs.Config.Protocols = &http.Protocols{}
	theirs.Config.Protocols.SetHTTP1(true)
	theirs.Config.Protocols.SetUnencryptedHTTP2(true)
	theirs.Start()
	t.Cleanup(theirs.Close)
	h := fasthttpadaptor.NewFastHTTPHandlerFunc(c.h)
	s.Handler = func(ctx *sluice.RequestCtx) {
		for _, f := range c.before {
			ctx.Response.Header.Add(f.key, f.value)
		}
		h(ctx)
	}
	return theirs.Listener.Addr().String(), serve(t, s)
}

// askIn sends a request in HTTP/1.1 or HTTP/2.
func askIn(t *testing.T, isHTTP2 bool, addr, method, body string) string {
	t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
		if strings.HasPrefix(body, "chunked") {
			content = io.MultiReader(content)
		}
	}
	req, err := http.NewRequest(method, "http://example.com/a/b%2Fc?x=1&x=2", content)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(body, "chunked") {
		req.Trailer = http.Header{"X-Sum": {"7"}}
	}
	req.Header.Set("Cookie", "a=b; c=d")
	protocols := &http.Protocols{}
	protocols.SetHTTP1(!isHTTP2)
	protocols.SetUnencryptedHTTP2(isHTTP2)
	transport := &http.Transport{Protocols: protocols, DisableCompression: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("tcp", addr)
	}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp, err := transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return "no answer"
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	h := maps.Clone(resp.Header)
	if sent, err := http.ParseTime(h.Get("Date")); err == nil && time.Since(sent).Abs() < time.Hour {
		h.Set("Date", "now")
	}
	if h.Get("Server") == "sluice" {
		h.Del("Server")
	}
	if len(h["Content-Encoding"]) > 0 { // a list may be one field or several
		h.Set("Content-Encoding", strings.Join(h["Content-Encoding"], ", "))
	}
	if method == "HEAD" { // its head may have fewer fields
		h.Del("Content-Length")
		h.Del("Trailer")
		resp.Trailer, resp.Close = nil, false
	}
	if n := h.Get("Content-Length"); n == fmt.Sprint(len(text)) { // without Flush, it is always known
		h.Del("Content-Length")
	}
	text = bytes.ReplaceAll(text, []byte(addr), []byte("ADDR"))
	if err != nil {
		text = nil // how much of it arrives is not defined
	}
	return fmt.Sprintf("%d %q %q %q broken: %v", resp.StatusCode, fmt.Sprint(h), text, fmt.Sprint(resp.Trailer), err != nil)
}

// TestAnswersAreThoseOfNetHTTP: clients see the same of a handler that runs with net/http.
func TestAnswersAreThoseOfNetHTTP(t *testing.T) {
	requests := []struct{ method, body string }{{"GET", ""}, {"HEAD", ""}, {"POST", "a body"}, {"PUT", "chunked body"}}
	for kind, cases := range map[string]map[string]sameCase{"fields": fieldCases(), "trailers": trailerCases(), "library": libraryCases()} {
		for name, c := range cases {
			for _, e := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
				t.Run(fmt.Sprintf("%s/%s/%v", kind, name, e), func(t *testing.T) {
					reference, ours := c.serveBoth(t, &sluice.Server{Engine: e, StreamRequestBody: true})
					for _, isHTTP2 := range []bool{false, true} {
						if c.only == 1 && isHTTP2 || c.only == 2 && !isHTTP2 {
							continue
						}
						for _, r := range requests {
							want := askIn(t, isHTTP2, reference, r.method, r.body)
							if got := askIn(t, isHTTP2, ours, r.method, r.body); got != want {
								t.Fatalf("%s, HTTP/2 %v:\n got %.800s\nwant %.800s", r.method, isHTTP2, got, want)
							}
						}
					}
				})
			}
		}
	}
}

// TestSpellingOfFieldsBefore: fields that the handler leaves alone stay as they are spelt.
func TestSpellingOfFieldsBefore(t *testing.T) {
	h := fasthttpadaptor.NewFastHTTPHandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if got := fmt.Sprint(w.Header()); got != "map[X-Changed:[1] X-Deleted:[1] X-Kept:[1 2]]" {
			t.Error(got)
		}
		w.Header().Del("X-Deleted")
		w.Header().Add("X-Changed", "2")
	})
	addr := serve(t, &sluice.Server{DisableHeaderNamesNormalizing: true, Handler: func(ctx *sluice.RequestCtx) {
		for _, name := range []string{"x-kept", "x-deleted", "x-changed"} {
			ctx.Response.Header.Set(name, "1")
		}
		ctx.Response.Header.Add("x-kept", "2")
		h(ctx)
	}})
	got := exchange(t, addr, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	for text, want := range map[string]bool{"\r\nx-kept: 1\r\nx-kept: 2\r\n": true, "\r\nX-Changed: 1\r\nX-Changed: 2\r\n": true, "x-changed": false, "deleted": false} {
		if strings.Contains(got, text) != want {
			t.Errorf("%q in %q", text, got)
		}
	}
}

// TestHeaderWithoutFieldsBefore: Header costs its map only, if nothing was set before.
func TestHeaderWithoutFieldsBefore(t *testing.T) {
	var ctx sluice.RequestCtx
	ctx.Init(&sluice.Request{}, nil, nil)
	cost := func(f http.HandlerFunc) float64 {
		h := fasthttpadaptor.NewFastHTTPHandler(f)
		return testing.AllocsPerRun(100, func() {
			ctx.Response.Reset()
			h(&ctx)
		})
	}
	var kept http.Header
	without := cost(func(http.ResponseWriter, *http.Request) { kept = make(http.Header) })
	with := cost(func(w http.ResponseWriter, _ *http.Request) { kept = w.Header() })
	if with > without+0.5 { // the race detector counts more, now and then
		t.Errorf("%v allocations, %v without Header", with, without)
	}
	_ = kept
}

// TestDateOfABackend: httputil.ReverseProxy passes on the Date and the trailer fields of
// the response.
func TestDateOfABackend(t *testing.T) {
	const date = "Tue, 15 Nov 1994 08:12:31 GMT"
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", date)
		w.Header().Set("Server", "backend")
		flush(w)
		w.Header().Set(http.TrailerPrefix+"X-Sum", "1")
	}))
	defer backend.Close()
	to, err := url.Parse(backend.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := sameCase{h: httputil.NewSingleHostReverseProxy(to).ServeHTTP}
	reference, ours := c.serveBoth(t, &sluice.Server{StreamRequestBody: true})
	for _, isHTTP2 := range []bool{false, true} {
		got, want := askIn(t, isHTTP2, ours, "GET", ""), askIn(t, isHTTP2, reference, "GET", "")
		if got != want || !strings.Contains(got, date) || !strings.Contains(got, "X-Sum:[1]") {
			t.Errorf("HTTP/2 %v:\n got %s\nwant %s", isHTTP2, got, want)
		}
	}
}
