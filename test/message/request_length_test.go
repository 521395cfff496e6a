package message_test

import (
	"bufio"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// lengthOf describes the length that a request tells: by its method, as a field,
// and among all fields.
func lengthOf(r *sluice.Request) string {
	visited := ""
	for key, value := range r.Header.All() {
		if string(key) == sluice.HeaderContentLength {
			visited += string(value)
		}
	}
	return fmt.Sprintf("%d %q %q", r.Header.ContentLength(), r.Header.Peek(sluice.HeaderContentLength), visited)
}

// lengthCases are heads without a length: a request that has no use for a body
// tells none, any other has an empty one (RFC 9112 section 6.3).
var lengthCases = []struct{ method, want string }{
	{"GET", `-2 "" ""`}, {"HEAD", `-2 "" ""`},
	{"POST", `0 "0" "0"`}, {"PUT", `0 "0" "0"`}, {"PATCH", `0 "0" "0"`}, {"DELETE", `0 "0" "0"`},
	{"OPTIONS", `0 "0" "0"`}, {"TRACE", `0 "0" "0"`}, {"CUSTOM", `0 "0" "0"`},
}

func TestRequestReadWithoutLength(t *testing.T) {
	for _, test := range lengthCases {
		in := test.method + " / HTTP/1.1\r\nHost: h\r\n\r\n"
		var whole sluice.Request
		if err := whole.Read(bufio.NewReader(strings.NewReader(in))); err != nil {
			t.Fatal(err)
		}
		var streamed sluice.Request
		br := bufio.NewReader(strings.NewReader(in))
		if err := streamed.Header.Read(br); err != nil {
			t.Fatal(err)
		}
		if got := streamed.Header.ContentLength(); got != -2 {
			t.Errorf("%s: the length of the head alone is %d", test.method, got)
		}
		if err := streamed.ContinueReadBodyStream(br, 0); err != nil {
			t.Fatal(err)
		}
		if got := lengthOf(&whole); got != test.want {
			t.Errorf("%s: %s, want %s", test.method, got, test.want)
		}
		if got := lengthOf(&streamed); got != test.want || streamed.IsBodyStream() {
			t.Errorf("%s as a stream: %s, want %s", test.method, got, test.want)
		}
	}
}

func TestServerRequestWithoutLength(t *testing.T) {
	for _, streams := range []bool{false, true} {
		got := ""
		r := harness.Serve(t, harness.InMemory(), &sluice.Server{StreamRequestBody: streams, Handler: func(ctx *sluice.RequestCtx) {
			got = lengthOf(&ctx.Request)
		}})
		for _, version := range []string{"HTTP/1.1", "HTTP/1.0"} {
			for _, test := range lengthCases {
				answers := r.Exchange(test.method + " / " + version + "\r\nHost: h\r\nConnection: close\r\n\r\n")
				if !strings.Contains(answers, " 200 OK\r\n") || got != test.want {
					t.Errorf("%s %s, streams %v: %s, want %s; %.40q", test.method, version, streams, got, test.want, answers)
				}
			}
		}
	}
}

// TestWrittenTrailersTellTheLength: a buffered body that was written with
// trailers was chunked, and the header says so, as that of a response does.
func TestWrittenTrailersTellTheLength(t *testing.T) {
	for _, test := range []struct {
		protocol string
		want     int
	}{{"HTTP/1.1", -1}, {"HTTP/1.0", 4}} {
		var r sluice.Request
		r.SetRequestURI("http://h/")
		r.Header.SetMethod("POST")
		r.Header.SetProtocol(test.protocol)
		if err := r.Header.SetTrailer("X-T"); err != nil {
			t.Fatal(err)
		}
		r.SetBodyString("body")
		first := r.String()
		if got := r.Header.ContentLength(); got != test.want {
			t.Errorf("%s: the length is %d, want %d", test.protocol, got, test.want)
		}
		if again := r.String(); again != first {
			t.Errorf("%s: written again: %q, want %q", test.protocol, again, first)
		}
	}
}
