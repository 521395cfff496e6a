package server_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

func TestErrTimeoutIsANetworkTimeout(t *testing.T) {
	var err error = fmt.Errorf("wrapped: %w", sluice.ErrTimeout)
	var timeout interface{ Timeout() bool }
	if !errors.As(err, &timeout) || !timeout.Timeout() || !errors.Is(err, sluice.ErrTimeout) {
		t.Errorf("%v", err)
	}
	if net.Error(nil) != nil || sluice.ErrTimeout.Error() == "" {
		t.Error("no text")
	}
}

func TestErrorsQuoteWhatTheyShow(t *testing.T) {
	for _, err := range []error{sluice.EscapeError("%\r\n"), sluice.InvalidHostError("a\r\nb")} {
		if text := err.Error(); !strings.HasPrefix(text, "sluice: ") || strings.ContainsAny(text, "\r\n") {
			t.Errorf("%q", text)
		}
	}
}

// madCloser is a user value whose Close panics.
type madCloser struct{}

func (madCloser) Close() error { panic("it went mad") }

// TestLogOfFailures: what fails in a program's code and is not an error of a call is in the log.
func TestLogOfFailures(t *testing.T) {
	over := make(chan struct{})
	mad := func(*sluice.RequestCtx) { panic("it went mad") }
	quiet := func(*sluice.RequestCtx) {}
	get := harness.Closing("/")
	for want, test := range map[string]struct {
		server  *sluice.Server
		request string
	}{
		"panic in handler serving":       {&sluice.Server{Handler: mad}, get},
		"panic in a callback for":        {&sluice.Server{Handler: quiet, HeaderReceived: func(*sluice.RequestHeader) sluice.RequestConfig { panic("it went mad") }}, get},
		"panic in ErrorHandler":          {&sluice.Server{Handler: quiet, ErrorHandler: func(*sluice.RequestCtx, error) { panic("it went mad") }}, "GET\r\n\r\n"},
		"panic in Close of a user value": {&sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.SetUserValue("k", madCloser{}) }}, get},
		"panic in handler after its time-out": {&sluice.Server{Handler: sluice.TimeoutHandler(func(*sluice.RequestCtx) {
			<-over
			panic("it went mad")
		}, 1, "late")}, get},
		"panic in hijack handler": {&sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.Hijack(func(net.Conn) { panic("it went mad") }) }}, harness.Get("/")},
		"has not written 2 bytes": {&sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			ctx.Response.Header.SetContentLength(len("it went mad") + 2)
			_ = ctx.Flush()
			ctx.WriteString("it went mad")
		}}, get},
		"cannot write the body stream for": {&sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			ctx.SetBodyStream(iotest.ErrReader(errors.New("it went mad")), -1)
		}}, get},
	} {
		t.Run(want, func(t *testing.T) {
			s := test.server
			r := harness.Serve(t, harness.InMemory(), s)
			r.Exchange(test.request)
			if strings.Contains(want, "time-out") {
				close(over)
			}
			harness.Eventually(t, "it is in the log", func() bool { return strings.Contains(r.Log.String(), want) })
			if log := r.Log.String(); !strings.Contains(log, "it went mad") && !strings.Contains(want, "bytes") {
				t.Errorf("%q", log)
			}
		})
	}
}
