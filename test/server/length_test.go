package server_test

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// longLengths are lengths of bodies that an int cannot tell from each other: the
// second to fourth are different ones where it has 32 bits only.
func longLengths() []uint64 {
	return []uint64{math.MaxInt64, math.MaxInt, math.MaxInt + 1, 2 * math.MaxInt}
}

// TestServerRefusesLongLengths: a handler never sees a request whose length it
// cannot be told.
func TestServerRefusesLongLengths(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		for _, streams := range []bool{false, true} {
			r := harness.Serve(t, n, &sluice.Server{
				Handler:            func(ctx *sluice.RequestCtx) { t.Errorf("called for %q", ctx.Request.Header.String()) },
				MaxRequestBodySize: math.MaxInt,
				StreamRequestBody:  streams,
			})
			for _, length := range longLengths() {
				if length > math.MaxInt64 {
					continue // refused as no number
				}
				p := r.Dial()
				p.Send(harness.Request("POST / HTTP/1.1", fmt.Sprint("Content-Length: ", length)))
				if a := p.Answer("POST"); a.StatusCode != sluice.StatusRequestEntityTooLarge {
					t.Errorf("length %d, streaming %v: status %d", length, streams, a.StatusCode)
				}
				p.ExpectEnd()
			}
		}
	})
}

// TestReadLongLengths: messages whose body is too long for an int are errors,
// never cut.
func TestReadLongLengths(t *testing.T) {
	for _, length := range longLengths() {
		if length > math.MaxInt64 {
			continue
		}
		field := fmt.Sprintf("Content-Length: %d\r\n\r\nbody", length)
		input := func(start string) *bufio.Reader {
			return bufio.NewReader(strings.NewReader(start + field))
		}
		const post, ok = "POST / HTTP/1.1\r\nHost: h\r\n", "HTTP/1.1 200 OK\r\n"
		for name, read := range map[string]func() error{
			"request": func() error { return new(sluice.Request).Read(input(post)) },
			"request as a stream": func() error {
				var r sluice.Request
				br := input(post)
				return errors.Join(r.Header.Read(br), r.ContinueReadBodyStream(br, 0))
			},
			"response":             func() error { return new(sluice.Response).Read(input(ok)) },
			"response as a stream": func() error { return (&sluice.Response{StreamBody: true}).Read(input(ok)) },
		} {
			if err := read(); !errors.Is(err, sluice.ErrBodyTooLarge) {
				t.Errorf("%s of %d bytes: %v", name, length, err)
			}
		}
		head := &sluice.Response{SkipBody: true} // of an answer to HEAD
		if err := head.Read(input(ok)); err != nil || head.Header.ContentLength() != math.MaxInt {
			t.Errorf("answer to HEAD: %v, length %d", err, head.Header.ContentLength())
		}
	}
}

// TestServerSendsTheLengthOfTheHeader: a Content-Length that the handler sets after a body stream
// of unknown length is its length; a body that is too short ends the connection.
func TestServerSendsTheLengthOfTheHeader(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/writer" {
				ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
					_, _ = w.WriteString("12")
					_ = w.Flush()
					_, _ = w.WriteString("34567")
				})
			} else {
				ctx.SetBodyStream(strings.NewReader("1234567"), -1)
			}
			ctx.Response.Header.SetContentLength(ctx.QueryArgs().GetUintOrZero("n"))
		}})
		head := func(n int, lines ...string) string {
			return strings.Replace(harness.TextAnswer(200, "x", lines...), "Content-Length: 1\r\n", fmt.Sprintf("Content-Length: %d\r\n", n), 1)
		}
		for _, path := range []string{"/writer", "/reader"} {
			for _, test := range []struct{ request, want string }{
				{harness.Get(path + "?n=7"), strings.TrimSuffix(head(7), "x") + "1234567"},
				{harness.Get(path + "?n=5"), strings.TrimSuffix(head(5), "x") + "12345"},
				{harness.Request("HEAD " + path + "?n=7 HTTP/1.1"), strings.TrimSuffix(head(7), "x")},
				{"GET " + path + "?n=7 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", strings.TrimSuffix(head(7, "Connection: keep-alive"), "x") + "1234567"},
			} {
				want := test.want + strings.TrimSuffix(head(7, "Connection: close"), "x") + "1234567"
				if got := r.Exchange(test.request + harness.Closing(path+"?n=7")); got != want {
					t.Errorf("%q: %q, want %q", test.request, got, want)
				}
			}
			if got, want := r.Exchange(harness.Get(path+"?n=9")+harness.Get("/")), strings.TrimSuffix(head(9), "x")+"1234567"; got != want {
				t.Errorf("%s, too short: %q, want %q", path, got, want)
			}
		}
	})
}
