package server_test

import (
	"bufio"
	"io"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// Answers that are made of the request's body while it arrives.

// TestEchoOfABodyThatIsAskedFor: the interim answer comes before the head of
// the final one, for behind it there is no time.
func TestEchoOfABodyThatIsAskedFor(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			r := harness.Serve(t, n, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
				ctx.SetBodyStream(ctx.RequestBodyStream(), -1)
			}})
			p := r.Dial()
			p.Send(harness.Request("POST / HTTP/1.1", "Expect: 100-continue", "Content-Length: 4"))
			p.Expect("HTTP/1.1 100 Continue\r\n\r\n")
			p.Send("body")
			if got := p.Answer("POST"); got.StatusCode != 200 || got.Body != "body" {
				t.Errorf("got %d, %q", got.StatusCode, got.Body)
			}
		})
	}
}

// TestEndOfABodyThatBreaksOff: a body whose end cannot be found, as shows while
// the answer is written, ends the connection behind the answer, and with it the
// request.
func TestEndOfABodyThatBreaksOff(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			words := newMeter()
			broke := make(chan error, 1)
			r := harness.Serve(t, n, metered(&words.meter, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
				body := ctx.RequestBodyStream()
				ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
					text, err := io.ReadAll(body)
					_, _ = w.Write(text)
					broke <- err
				})
			}}))
			p := r.Dial()
			p.Send(harness.Request("POST / HTTP/1.1", "Transfer-Encoding: chunked") + "2\r\nok\r\nno chunk\r\n" + harness.Get("/"))
			if got := p.Answer("POST"); got.StatusCode != 200 || got.Body != "ok" {
				t.Errorf("got %d, %q", got.StatusCode, got.Body)
			}
			if err := <-broke; err == nil {
				t.Error("the body has an end")
			}
			if got := p.Rest(); got != "" {
				t.Errorf("behind the answer: %q", got)
			}
			harness.Eventually(t, "over", func() bool { return words.meter.InFlight() == 0 })
		})
	}
}
