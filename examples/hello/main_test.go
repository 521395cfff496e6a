package main

import (
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/sluicehttp/sluice"
)

func TestHello(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go sluice.Serve(ln, hello)

	for query, want := range map[string]string{
		"":              "Hello, world!\n",
		"?name=Ada":     "Hello, Ada!\n",
		"?name=J%C3%B8": "Hello, Jø!\n",
	} {
		resp, err := http.Get("http://" + ln.Addr().String() + "/" + query)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(got) != want {
			t.Errorf("%q: got %q, %v, want %q", query, got, err, want)
		}
	}
}
