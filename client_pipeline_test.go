package sluice

import (
	"errors"
	"net"
	"strings"
	"testing"
)

func TestPipelineAnswers(t *testing.T) {
	for _, tc := range []struct {
		name, method, answer string
		set                  func(*Request, *Response)
		status               int
		body                 string
		err                  error
		retires              bool // the connection ends with it
	}{
		{name: "length", answer: answerOK("hi"), status: 200, body: "hi"},
		{name: "chunked with trailer", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nhi\r\n0\r\nX-T: v\r\n\r\n", status: 200, body: "hi"},
		{name: "HEAD", method: "HEAD", answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", status: 200},
		{name: "HEAD without length", method: "HEAD", answer: "HTTP/1.1 200 OK\r\n\r\n", status: 200},
		{name: "204", answer: "HTTP/1.1 204 No Content\r\n\r\n", status: 204},
		{name: "304 with length", answer: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", status: 304},
		{name: "interim", answer: strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", 3) + answerOK("hi"), status: 200, body: "hi"},
		{name: "too many interim", answer: strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 200), err: errTooManyInformational, retires: true},
		{name: "long enough", answer: answerOK(strings.Repeat("x", 100)), status: 200, body: strings.Repeat("x", 100)},
		{name: "too long", answer: answerOK(strings.Repeat("x", 101)), err: ErrBodyTooLarge, retires: true},
		{name: "too long, chunked", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" + strings.Repeat("x", 101) + "\r\n0\r\n\r\n", err: ErrBodyTooLarge, retires: true},
		{name: "close", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", status: 200, body: "hi", retires: true},
		{name: "late bytes", answer: answerOK("hi") + answerOK("late"), status: 200, body: "hi", retires: true},
		{name: "switching", answer: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", status: 101, retires: true},
		{name: "no head", answer: "nonsense\r\n\r\n", err: ErrReadingResponseHeaders, retires: true},
		{name: "skipped body", answer: answerOK("hi"), status: 200, set: func(_ *Request, resp *Response) { resp.SkipBody = true }},
		{name: "request asks for the end", answer: answerOK("hi"), status: 200, body: "hi", set: func(req *Request, _ *Response) { req.SetConnectionClose() }, retires: true},
		{name: "streams", method: "POST", answer: answerOK("hi"), status: 200, body: "hi", set: func(req *Request, resp *Response) {
			req.SetBodyStream(strings.NewReader("question"), -1)
			resp.StreamBody = true
		}},
	} {
		inBubble(t, tc.name, func(t *testing.T) {
			c, peer := newPipelinePeer(t)
			c.MaxResponseBodySize = 100
			set := tc.set
			if set == nil {
				set = func(*Request, *Response) {}
			}
			method := tc.method
			if method == "" {
				method = "GET"
			}
			call := beginPipelined(t, c, method, "/1", set)
			conn := peer.accept()
			conn.expect("/1")
			conn.say(tc.answer)
			if err := call.end(); !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			body := call.resp.Body()
			if tc.err == nil && (call.resp.StatusCode() != tc.status || string(body) != tc.body) {
				t.Errorf("%d %q, want %d %q", call.resp.StatusCode(), body, tc.status, tc.body)
			}
			if tc.retires {
				conn.expectEnd()
			}
			call = beginPipelined(t, c, "GET", "/2")
			if tc.retires {
				conn = peer.accept()
			}
			conn.expect("/2")
			conn.say(answerOK("next"))
			call.want("next")
		})
	}
}

func TestPipelineRefusesToSendHTTPSInTheClear(t *testing.T) {
	c := &PipelineClient{Addr: "x:80", Dial: func(string) (net.Conn, error) { panic("dialed") }}
	req := AcquireRequest()
	defer ReleaseRequest(req)
	req.SetRequestURI("https://x/")
	if err := c.Do(req, nil); err != errPlainHTTPS {
		t.Errorf("error %v", err)
	}
}
