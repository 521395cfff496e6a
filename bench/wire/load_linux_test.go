package main

import (
	"net"
	"strings"
	"testing"
	"time"
)

// answerWith serves connections that get a response for whatever they send.
func answerWith(t *testing.T, response string, closes bool) (addr string) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for buf := make([]byte, 4096); ; {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					for range strings.Count(string(buf[:n]), "\r\n\r\n") {
						c.Write([]byte(response))
					}
					if closes {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

const goodResponse = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

func TestPlainClient(t *testing.T) {
	for _, c := range []struct {
		name     string
		load     load
		response string
		closes   bool
		fails    bool // at once
		failures bool // in the run
	}{
		{name: "one at a time", load: load{Conns: 3}, response: goodResponse},
		{name: "pipelined", load: load{Conns: 2, Depth: 4}, response: goodResponse},
		{name: "closed", load: load{Conns: 2, Close: true}, response: goodResponse, closes: true},
		{name: "another status", load: load{Conns: 1}, response: strings.Replace(goodResponse, "200", "500", 1), fails: true},
		{name: "closed without being asked", load: load{Conns: 1}, response: goodResponse, closes: true, fails: true},
		{name: "no answers", load: load{Conns: 1, Close: true}, response: "", closes: true, failures: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.load.Addr = answerWith(t, c.response, c.closes)
			c.load.Request = []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			c.load.Size, c.load.Duration = len(goodResponse), 20*time.Millisecond
			d, err := newPlainClient(c.load)
			if c.fails {
				if err == nil {
					t.Error("no error")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer d.close()
			r, err := d.run()
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Failures > 0; got != c.failures || !c.failures && (r.Requests == 0 || r.P99 == 0 || r.Elapsed < c.load.Duration) {
				t.Errorf("result %+v", r)
			}
		})
	}
}
