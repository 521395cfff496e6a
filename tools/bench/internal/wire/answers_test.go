package wire

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
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

func TestBrowserHead(t *testing.T) {
	var o options
	if err := o.choose("^browser", true); err != nil {
		t.Fatal(err)
	}
	head := string(o.cases[0].request())
	if fields := strings.Count(head, "\r\n") - 2; fields != 12 || len(head) < 600 || len(head) > 720 {
		t.Errorf("%d fields, %d bytes", fields, len(head))
	}
}
