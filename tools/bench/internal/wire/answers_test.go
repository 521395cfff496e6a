package wire

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
)

// Requests are what the table of cases says, and the floor's responses pass the
// check that servers' responses must pass.
func TestRequestsAndAnswers(t *testing.T) {
	for _, c := range allCases() {
		t.Run(c.name, func(t *testing.T) {
			request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(c.request())))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(request.Body)
			if err != nil || len(body) != c.peer.BodySize || request.Close != c.load.Close {
				t.Errorf("a body of %d bytes, close %v, %v", len(body), request.Close, err)
			}
			if bytes.Contains(body, []byte("\r\n\r\n")) {
				t.Error("the floor would take the body for a head")
			}
			response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(floorResponse(c))), nil)
			if err != nil {
				t.Fatal(err)
			}
			if body, err = io.ReadAll(response.Body); err != nil {
				t.Fatal(err)
			}
			if err := c.check(response, body); err != nil {
				t.Error(err)
			}
			if err := c.check(response, append(body, '!')); err == nil && c.fields == "" {
				t.Error("another body passes")
			}
			response.StatusCode = http.StatusNotFound
			if err := c.check(response, body); err == nil {
				t.Error("status 404 passes")
			}
		})
	}
}

// A head has two fields or a browser's twelve, and besides them only what the load needs.
func TestHeads(t *testing.T) {
	var o options
	var err error
	if o.heads, err = load.ParseHeads("both"); err != nil {
		t.Fatal(err)
	}
	if err := o.choose(".", true); err != nil {
		t.Fatal(err)
	}
	needed := map[string]int{"connection per request": 1, "connection per request, half load": 1, "POST 1 KiB": 1, "gzip of 10 KiB": 1}
	labels := make(map[string]bool)
	for _, c := range o.cases {
		want := 2 + needed[c.name]
		if c.head == load.Browser {
			want = 12 + needed[c.name]
			if c.peer.Answer == peers.AnswerGzip {
				want-- // in place of the browser's own field
			}
		}
		head, _, _ := bytes.Cut(c.request(), []byte("\r\n\r\n"))
		if fields := bytes.Count(head, []byte("\r\n")); fields != want || c.head == load.Browser && (len(head) < 600 || len(head) > 720) {
			t.Errorf("%s: %d fields, %d bytes, want %d fields", c.label(), fields, len(head), want)
		}
		if n := bytes.Count(head, []byte("Accept-Encoding:")); n > 1 {
			t.Errorf("%s: Accept-Encoding %d times", c.label(), n)
		}
		labels[c.label()] = true
	}
	if len(labels) != len(o.cases) || len(o.cases) != 2*len(offeredCases(true)) {
		t.Errorf("%d cases, %d names, of %d", len(o.cases), len(labels), len(offeredCases(true)))
	}
}
