package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/sse"
)

// TestExample: a client gets what others publish, and after a break what it has missed.
func TestExample(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hub, err := sse.New(sse.Options{Retry: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, ln, newServer(hub)) }()
	url := "http://" + ln.Addr().String()
	client := &http.Client{Timeout: 20 * time.Second}
	listen := func(lastID string) (*sse.Reader, io.Closer) {
		req, err := http.NewRequest("GET", url+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Last-Event-ID", lastID)
		resp, err := client.Do(req)
		if err != nil || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatal(resp, err)
		}
		return sse.NewReader(resp.Body), resp.Body
	}
	publish := func(text string) {
		resp, err := client.Post(url+"/publish?event=chat", "text/plain", strings.NewReader(text))
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		resp.Body.Close()
	}
	want := func(r *sse.Reader, text string) {
		t.Helper()
		if e, err := r.Next(); err != nil || e.Name != "chat" || string(e.Data) != text {
			t.Fatalf("%+v, %v, want %q", e, err, text)
		}
	}
	r, body := listen("")
	for hub.Len("all") == 0 {
		time.Sleep(time.Millisecond)
	}
	publish("one")
	want(r, "one")
	body.Close()
	publish("two")
	r, body = listen(r.LastID())
	defer body.Close()
	want(r, "two")
	publish("three")
	want(r, "three")
	stop()
	if e, err := r.Next(); err != io.EOF {
		t.Errorf("%+v, %v, want the end", e, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if page == nil {
		t.Error("there is no page")
	}
}
