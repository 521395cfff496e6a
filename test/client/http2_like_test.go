package client_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// tellRequest answers with all that it has received, and with a response of the kind
// that the query asks for.
var tellRequest = harness.HTTP2Handler{
	Sluice: func(ctx *sluice.RequestCtx) {
		var body []byte
		if s := ctx.RequestBodyStream(); s != nil {
			body, _ = io.ReadAll(s)
		} else {
			body = ctx.PostBody()
		}
		fields := http.Header{}
		for name, value := range ctx.Request.Header.All() {
			fields.Add(string(name), string(value))
		}
		for name := range ctx.Request.Header.Trailers() {
			fields.Add("Trailer-"+string(name), string(ctx.Request.Header.PeekBytes(name)))
		}
		args := ctx.QueryArgs()
		ctx.Response.Header.Add("Set-Cookie", "a=1")
		ctx.Response.Header.Add("Set-Cookie", "b=2")
		ctx.Response.Header.Set("X-Answer", "some")
		if args.Has("trailer") {
			_ = ctx.Response.Header.SetTrailer("X-Trailer")
			ctx.Response.Header.Set("X-Trailer", "value")
		}
		if to := args.Peek("to"); len(to) > 0 {
			ctx.Response.Header.SetBytesV("Location", to)
		}
		if status := args.GetUintOrZero("status"); status > 0 {
			ctx.SetStatusCode(status)
			if status == sluice.StatusNoContent || status == sluice.StatusNotModified {
				return
			}
		}
		ctx.SetContentType("text/x")
		text := describeRequest(string(ctx.Method()), string(ctx.Host()), string(ctx.RequestURI()), fields, body) + strings.Repeat("x", args.GetUintOrZero("size"))
		if args.Has("stream") {
			ctx.SetBodyStreamWriter(func(w *bufio.Writer) { _, _ = w.WriteString(text) })
			return
		}
		ctx.SetBodyString(text)
	},
	NetHTTP: func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fields := r.Header.Clone()
		for name, values := range r.Trailer {
			fields["Trailer-"+name] = values
		}
		query := r.URL.Query()
		h := w.Header()
		h["Set-Cookie"] = []string{"a=1", "b=2"}
		h.Set("X-Answer", "some")
		if query.Has("trailer") {
			h.Set(http.TrailerPrefix+"X-Trailer", "value")
		}
		if query.Has("to") {
			h.Set("Location", query.Get("to"))
		}
		status, _ := strconv.Atoi(query.Get("status"))
		if status == sluice.StatusNoContent || status == sluice.StatusNotModified {
			w.WriteHeader(status)
			return
		}
		h.Set("Content-Type", "text/x")
		size, _ := strconv.Atoi(query.Get("size"))
		text := describeRequest(r.Method, r.Host, r.RequestURI, fields, body) + strings.Repeat("x", size)
		if !query.Has("stream") && !query.Has("trailer") {
			h.Set("Content-Length", strconv.Itoa(len(text)))
		}
		w.WriteHeader(max(status, 200))
		_, _ = io.WriteString(w, text)
	},
}

// describeRequest leaves out what belongs to a protocol or a connection.
func describeRequest(method, host, target string, fields http.Header, body []byte) string {
	for _, name := range []string{"Connection", "Transfer-Encoding", "Trailer", "Te", "Keep-Alive", "Host", "Content-Length", "Expect"} {
		fields.Del(name)
	}
	var lines []string
	for name, values := range fields {
		lines = append(lines, name+": "+strings.Join(values, "|"))
	}
	sort.Strings(lines)
	return fmt.Sprintf("%s %s %s\n%s\n\n%s\n", method, host, target, strings.Join(lines, "\n"), body)
}

// describeAnswer is what a caller sees of a response.
func describeAnswer(resp *sluice.Response, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	kind := "body"
	var body []byte
	if s := resp.BodyStream(); s != nil {
		kind = "stream"
		if body, err = io.ReadAll(s); err != nil {
			return "stream error: " + err.Error()
		}
	} else {
		body = resp.Body()
	}
	fields := http.Header{}
	for name, value := range resp.Header.All() {
		fields.Add(string(name), string(value))
	}
	fields.Del("Date")
	for name := range resp.Header.Trailers() {
		fields.Add("Trailer-"+string(name), string(resp.Header.PeekBytes(name)))
	}
	return fmt.Sprintf("%d %s %s", resp.StatusCode(), kind, describeRequest("", "", "", fields, body))
}

// A likeCase is a request, and how its response is wanted.
type likeCase struct {
	name, method, target string
	set                  func(req *sluice.Request, resp *sluice.Response)
}

// likeSize is more bytes than a stream's window ever is; in short tests, than it is first.
func likeSize() int {
	if testing.Short() {
		return 1_500_000
	}
	return 5_000_000
}

// likeRequests returns requests of all kinds.
func likeRequests() []likeCase {
	large := bytes.Repeat([]byte("0123456789"), likeSize()/10)
	return []likeCase{
		{name: "GET"},
		{name: "path and query", target: "/a//b/../c%2fd?x=1&y=%20"},
		{name: "HEAD", method: "HEAD", target: "/?size=9"},
		{name: "OPTIONS", method: "OPTIONS"},
		{name: "own method", method: "PROPFIND"},
		{name: "204", target: "/?status=204"},
		{name: "304", target: "/?status=304"},
		{name: "404", target: "/?status=404"},
		{name: "empty POST", method: "POST"},
		{name: "fields", set: func(req *sluice.Request, _ *sluice.Response) {
			h := &req.Header
			h.Set("X-A", "1")
			h.Add("X-A", "2")
			h.SetCookie("a", "1")
			h.SetCookie("b", "2")
			h.SetUserAgent("me")
			h.Set("Referer", "http://x/")
			h.Set("Authorization", "Bearer secret")
			h.Set("X-Empty", "")
		}},
		{name: "credentials", set: func(req *sluice.Request, _ *sluice.Response) {
			req.URI().SetUsername("me")
			req.URI().SetPassword("you")
		}},
		{name: "other host", set: func(req *sluice.Request, _ *sluice.Response) {
			req.UseHostHeader = true
			req.Header.SetHost("example.com")
		}},
		{name: "body", method: "POST", set: func(req *sluice.Request, _ *sluice.Response) { req.SetBodyString("some") }},
		{name: "form", method: "POST", set: func(req *sluice.Request, _ *sluice.Response) { req.PostArgs().Set("a", "1") }},
		{name: "large body", method: "PUT", set: func(req *sluice.Request, _ *sluice.Response) { req.SetBodyRaw(large) }},
		{name: "stream of known length", method: "POST", set: func(req *sluice.Request, _ *sluice.Response) {
			req.SetBodyStream(bytes.NewReader(large), len(large))
		}},
		{name: "stream of unknown length", method: "POST", set: func(req *sluice.Request, _ *sluice.Response) {
			req.SetBodyStream(io.MultiReader(strings.NewReader("a"), bytes.NewReader(large)), -1)
		}},
		{name: "stream with more than its length", method: "POST", set: func(req *sluice.Request, _ *sluice.Response) {
			req.SetBodyStream(strings.NewReader("abcdef"), 3)
		}},
		{name: "stream writer", method: "POST", set: func(req *sluice.Request, _ *sluice.Response) {
			req.SetBodyStreamWriter(func(w *bufio.Writer) { fmt.Fprint(w, "one"); _ = w.Flush(); fmt.Fprint(w, "two") })
		}},
		{name: "trailers of the request", method: "POST", set: func(req *sluice.Request, _ *sluice.Response) {
			_ = req.Header.SetTrailer("X-Sum")
			req.Header.Set("X-Sum", "7")
			req.SetBodyString("body")
		}},
		{name: "trailers after a stream", method: "POST", set: func(req *sluice.Request, _ *sluice.Response) {
			req.SetBodyStream(strings.NewReader("body"), -1)
			_ = req.Header.SetTrailer("X-Sum")
			req.Header.Set("X-Sum", "7")
		}},
		{name: "expect", method: "POST", set: func(req *sluice.Request, _ *sluice.Response) {
			req.Header.Set("Expect", "100-continue")
			req.SetBodyString("body")
		}},
		{name: "no normalizing", target: "/a//../b", set: func(req *sluice.Request, _ *sluice.Response) { req.URI().DisablePathNormalizing = true }},
		{name: "not sent: a stream that is too short", method: "POST", set: func(req *sluice.Request, _ *sluice.Response) {
			req.SetBodyStream(strings.NewReader("abc"), 5)
		}},
	}
}

// likeAnswers returns requests for answers of all kinds.
func likeAnswers() []likeCase {
	large := fmt.Sprint("/?size=", likeSize())
	return []likeCase{
		{name: "large answer", target: large},
		{name: "large answer of unknown length", target: large + "&stream=1"},
		{name: "trailers", target: "/?trailer=1&stream=1"},
		{name: "streamed", target: large, set: func(_ *sluice.Request, resp *sluice.Response) { resp.StreamBody = true }},
		{name: "streamed, unknown length, trailers", target: "/?size=100000&stream=1&trailer=1", set: func(_ *sluice.Request, resp *sluice.Response) { resp.StreamBody = true }},
		{name: "streamed, with a body", method: "POST", set: func(req *sluice.Request, resp *sluice.Response) {
			req.SetBodyRaw(bytes.Repeat([]byte("x"), 1_000_000))
			resp.StreamBody = true
		}},
		{name: "streamed, trailers of the request", method: "POST", set: func(req *sluice.Request, resp *sluice.Response) {
			req.SetBodyStream(strings.NewReader("body"), -1)
			_ = req.Header.SetTrailer("X-Sum")
			req.Header.Set("X-Sum", "7")
			resp.StreamBody = true
		}},
		{name: "streamed 204", target: "/?status=204", set: func(_ *sluice.Request, resp *sluice.Response) { resp.StreamBody = true }},
		{name: "streamed HEAD", method: "HEAD", target: "/?size=5", set: func(_ *sluice.Request, resp *sluice.Response) { resp.StreamBody = true }},
		{name: "skipped body", target: "/?size=100000", set: func(_ *sluice.Request, resp *sluice.Response) { resp.SkipBody = true }},
	}
}

// TestClientHTTP2LikeHTTP1: a request and its response are the same over both protocols,
// apart from what belongs to HTTP/1.1.
func TestClientHTTP2LikeHTTP1(t *testing.T) {
	onEachHTTP2Server(t, tellRequest, func(t *testing.T, r *harness.HTTP2Rig) {
		for _, tc := range append(likeRequests(), likeAnswers()...) {
			var answers [2]string
			for i, mode := range []sluice.HTTP2Mode{sluice.HTTP2Off, sluice.HTTP2Only} {
				c := r.Host(mode)
				req, resp := harness.NewCall(tc.method, r.URL(tc.target))
				if tc.set != nil {
					tc.set(req, resp)
				}
				answers[i] = describeAnswer(resp, c.Do(req, resp))
				if n := r.Dials.Swap(0); n != 1 {
					t.Errorf("%s: %d dials", tc.name, n)
				}
				if req.IsBodyStream() {
					t.Errorf("%s: the body stream is still there", tc.name)
				}
				c.CloseIdleConnections()
			}
			if answers[0] != answers[1] {
				t.Errorf("%s: HTTP/1.1:\n%.2000s\nHTTP/2:\n%.2000s", tc.name, answers[0], answers[1])
			}
		}
	})
}
