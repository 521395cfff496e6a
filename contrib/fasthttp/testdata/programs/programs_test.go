// Package programs has programs on modules that require fasthttp. Its go.mod has
// the line by which they run on Sluice. .ci/release runs the tests.
package programs

import (
	"bytes"
	"context"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// A request is sent over TCP by the client of net/http.
type request struct {
	line   string // method and target
	fields string // "Name: value", one a line
	body   string
	status int
	want   string // body
}

// do sends the requests in order, over one connection where the server keeps it.
func do(t *testing.T, addr string, requests []request) {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	for _, r := range requests {
		method, target, _ := strings.Cut(r.line, " ")
		sent, err := http.NewRequestWithContext(context.Background(), method, "http://"+addr+target, strings.NewReader(r.body))
		if err != nil {
			t.Fatal(err)
		}
		for field := range strings.SplitSeq(r.fields, "\n") {
			if name, value, ok := strings.Cut(field, ": "); ok {
				sent.Header.Set(name, value)
			}
		}
		response, err := transport.RoundTrip(sent)
		if err != nil {
			t.Errorf("%s: %v", r.line, err)
			continue
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != r.status || string(body) != r.want {
			t.Errorf("%s: %d %q, %v, want %d %q", r.line, response.StatusCode, body, err, r.status, r.want)
		}
	}
}

// serve runs a server until the test ends, which must then return nil.
func serve(t *testing.T, run func(net.Listener) error, shutdown func() error) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- run(listener) }()
	t.Cleanup(func() {
		if err := shutdown(); err != nil {
			t.Errorf("the shutdown failed: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return listener.Addr().String()
}

// packageOf returns the path of the package that has declared the type.
func packageOf(pointer any) string { return reflect.TypeOf(pointer).Elem().PkgPath() }

const sluice = "github.com/sluicehttp/sluice"

// form returns the body and the Content-Type of a form with a file.
func form(t *testing.T) (body, contentType string) {
	t.Helper()
	var text bytes.Buffer
	writer := multipart.NewWriter(&text)
	part, err := writer.CreateFormFile("file", "a.txt")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := part.Write([]byte("content")); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return text.String(), writer.FormDataContentType()
}
