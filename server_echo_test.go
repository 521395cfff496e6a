package sluice_test

import (
	"bufio"
	"io"
	"testing"

	"github.com/sluicehttp/sluice"
)

// Answers that are made of the request's body while it arrives.

// TestEchoOfABodyThatIsAskedFor: the interim answer comes before the head of
// the final one, for behind it there is no time.
func TestEchoOfABodyThatIsAskedFor(t *testing.T) {
	for _, n := range overTCPByEach() {
		t.Run(n.name, func(t *testing.T) {
			r := serve(t, n, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
				ctx.SetBodyStream(ctx.RequestBodyStream(), -1)
			}})
			p := r.dial()
			p.send(request("POST / HTTP/1.1", "Expect: 100-continue", "Content-Length: 4"))
			p.expect("HTTP/1.1 100 Continue\r\n\r\n")
			p.send("body")
			if got := p.answer("POST"); got.StatusCode != 200 || got.body != "body" {
				t.Errorf("got %d, %q", got.StatusCode, got.body)
			}
		})
	}
}

// TestEndOfABodyThatBreaksOff: a body whose end cannot be found, as shows while
// the answer is written, ends the connection behind the answer, and with it the
// request.
func TestEndOfABodyThatBreaksOff(t *testing.T) {
	for _, n := range overTCPByEach() {
		t.Run(n.name, func(t *testing.T) {
			words := newMeter()
			broke := make(chan error, 1)
			r := serve(t, n, metered(&words.meter, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
				body := ctx.RequestBodyStream()
				ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
					text, err := io.ReadAll(body)
					_, _ = w.Write(text)
					broke <- err
				})
			}}))
			p := r.dial()
			p.send(request("POST / HTTP/1.1", "Transfer-Encoding: chunked") + "2\r\nok\r\nno chunk\r\n" + get("/"))
			if got := p.answer("POST"); got.StatusCode != 200 || got.body != "ok" {
				t.Errorf("got %d, %q", got.StatusCode, got.body)
			}
			if err := <-broke; err == nil {
				t.Error("the body has an end")
			}
			if got := p.rest(); got != "" {
				t.Errorf("behind the answer: %q", got)
			}
			eventually(t, "over", func() bool { return words.meter.InFlight() == 0 })
		})
	}
}
