package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// server is a running serve, and what happens to it.
type server struct {
	url    string
	begun  chan struct{} // receives a value when a request has begun
	stop   context.CancelFunc
	served chan error
}

func start(t *testing.T, drain time.Duration, work func()) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	s := &server{"http://" + ln.Addr().String(), make(chan struct{}), stop, make(chan error, 1)}
	handler := newHandler(work)
	go func() {
		s.served <- serve(ctx, ln, drain, func(ctx *sluice.RequestCtx) {
			s.begun <- struct{}{}
			handler(ctx)
		})
	}()
	return s
}

// get sends a request and waits until it has begun.
func (s *server) get(path string) (answer chan string) {
	answer = make(chan string, 1)
	go func() {
		resp, err := http.Get(s.url + path)
		if err != nil {
			answer <- "error"
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		answer <- fmt.Sprint(resp.StatusCode, " ", string(body), " ", err, " close=", resp.Close)
	}()
	<-s.begun
	return answer
}

func TestRequestsAreAnswered(t *testing.T) {
	release := make(chan struct{})
	s := start(t, time.Minute, func() { <-release })
	working, waiting := s.get("/"), s.get("/wait")
	s.stop()
	if got := <-waiting; got != "503 the server is going down <nil> close=true" {
		t.Errorf("waiting request: %s", got)
	}
	close(release)
	if got := <-working; got != "200 done\n <nil> close=true" {
		t.Errorf("working request: %s", got)
	}
	if err := <-s.served; err != nil {
		t.Error(err)
	}
	if _, err := http.Get(s.url); err == nil {
		t.Error("a request after the end was answered")
	}
}

func TestDrainIsBounded(t *testing.T) {
	release := make(chan struct{})
	s := start(t, time.Millisecond, func() { <-release })
	working := s.get("/")
	s.stop()
	if err := <-s.served; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("serve returned %v", err)
	}
	close(release)
	if got := <-working; got != "error" {
		t.Errorf("request that was cut off: %s", got)
	}
}
