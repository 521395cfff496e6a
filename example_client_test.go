package sluice_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/sluicehttp/sluice"
)

// A client keeps connections, and may be used by all goroutines. Make one, and keep it.
func ExampleClient() {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", r.Method, r.URL.Path)
	}))
	defer origin.Close()
	client := &sluice.Client{
		Name:                "my-program",
		ReadTimeout:         5 * time.Second,
		MaxResponseBodySize: 1 << 20,
	}
	defer client.CloseIdleConnections()

	req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
	defer sluice.ReleaseRequest(req)
	defer sluice.ReleaseResponse(resp)
	req.Header.SetMethod("PUT")
	req.SetRequestURI(origin.URL + "/things/7")
	req.SetBodyString("a body")
	if err := client.DoTimeout(req, resp, 2*time.Second); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d %s\n", resp.StatusCode(), resp.Body()) // the body is valid until resp is released
	// Output: 200 PUT /things/7
}

// A request ends with its context.
func ExampleClient_DoContext() {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	if err != nil {
		log.Fatal(err)
	}
	defer silent.Close()
	client := &sluice.Client{}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
	defer sluice.ReleaseRequest(req)
	defer sluice.ReleaseResponse(resp)
	req.SetRequestURI("http://" + silent.Addr().String() + "/")
	err = client.DoContext(ctx, req, resp)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

// A folder is served with ETags, ranges and compressed copies.
func ExampleFS() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "hello.txt"), []byte("Hello, World!"), 0o644); err != nil {
		log.Fatal(err)
	}
	files := &sluice.FS{
		Root:               dir,
		IndexNames:         []string{"index.html"},
		GenerateIndexPages: true,
		GenerateETag:       true,
		AcceptByteRange:    true,
		PathRewrite:        sluice.NewPathSlashesStripper(1),
	}
	handler := files.NewRequestHandler()
	server := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		if len(ctx.Path()) > len("/static/") && string(ctx.Path()[:8]) == "/static/" {
			handler(ctx)
			return
		}
		ctx.NotFound()
	}}
	printAnswer(server, "GET", "http://example.com/static/hello.txt", "")
	// Output: 200 Hello, World!
}
