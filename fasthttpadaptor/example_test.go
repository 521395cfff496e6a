package fasthttpadaptor_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

func ExampleNewFastHTTPHandler() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello/{name}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "Hello, %s!", r.PathValue("name"))
	})
	server := &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandler(mux)}

	// server.ListenAndServe(":8080") would serve it. Here it is called directly.
	var ctx sluice.RequestCtx
	ctx.Init(&sluice.Request{}, nil, nil)
	ctx.Request.Header.SetRequestURI("/hello/Ann")
	server.Handler(&ctx)
	fmt.Println(ctx.Response.StatusCode(), string(ctx.Response.Body()))
	// Output: 200 Hello, Ann!
}

// authorized is a wrapper as libraries have it: it adds a field to each request.
type authorized struct {
	next  http.RoundTripper
	token string
}

func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+a.token)
	return a.next.RoundTrip(r)
}

func ExampleTransport() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("Authorization"))
	}))
	defer server.Close()

	// Wrappers such as those of otelhttp and oauth2 stand around it in the same way.
	transport := &fasthttpadaptor.Transport{Client: &sluice.Client{HTTP2: sluice.HTTP2Auto}}
	client := &http.Client{Transport: authorized{transport, "secret"}}
	defer client.CloseIdleConnections()
	resp, err := client.Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(resp.Status, string(body), err)
	// Output: 200 OK Bearer secret <nil>
}
