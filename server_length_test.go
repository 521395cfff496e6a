package sluice_test

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// longLengths are lengths of bodies that an int cannot tell from each other: the
// second to fourth are different ones where it has 32 bits only.
func longLengths() []uint64 {
	return []uint64{math.MaxInt64, math.MaxInt, math.MaxInt + 1, 2 * math.MaxInt}
}

// TestServerRefusesLongLengths: a handler never sees a request whose length it
// cannot be told.
func TestServerRefusesLongLengths(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, n network) {
		for _, streams := range []bool{false, true} {
			r := serve(t, n, &sluice.Server{
				Handler:            func(ctx *sluice.RequestCtx) { t.Errorf("called for %q", ctx.Request.Header.String()) },
				MaxRequestBodySize: math.MaxInt,
				StreamRequestBody:  streams,
			})
			for _, length := range longLengths() {
				if length > math.MaxInt64 {
					continue // refused as no number
				}
				p := r.dial()
				p.send(request("POST / HTTP/1.1", fmt.Sprint("Content-Length: ", length)))
				if a := p.answer("POST"); a.StatusCode != sluice.StatusRequestEntityTooLarge {
					t.Errorf("length %d, streaming %v: status %d", length, streams, a.StatusCode)
				}
				p.expectEnd()
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
