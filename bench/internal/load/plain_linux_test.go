package load

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
		load     Load
		response string
		closes   bool
		fails    bool // at once
		failures bool // in the run
	}{
		{name: "one at a time", load: Load{Conns: 3}, response: goodResponse},
		{name: "pipelined", load: Load{Conns: 2, Depth: 4}, response: goodResponse},
		{name: "paced", load: Load{Conns: 3, Rate: 1000}, response: goodResponse},
		{name: "closed", load: Load{Conns: 2, Close: true}, response: goodResponse, closes: true},
		{name: "another status", load: Load{Conns: 1}, response: strings.Replace(goodResponse, "200", "500", 1), fails: true},
		{name: "closed without being asked", load: Load{Conns: 1}, response: goodResponse, closes: true, fails: true},
		{name: "no answers", load: Load{Conns: 1, Close: true}, response: "", closes: true, failures: true},
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
			if most := 1 + c.load.Rate*int(r.Elapsed)/int(time.Second); c.load.Rate > 0 && r.Requests > most {
				t.Errorf("%d requests in %v, want no more than %d per second", r.Requests, r.Elapsed, c.load.Rate)
			}
		})
	}
}

// A connection that the server closes is replaced, whether or not it has a
// request under way, and the load goes on.
func TestPacedReplacesConnections(t *testing.T) {
	const conns, answers = 2, 4 // of which two are those before the load
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 4096)
				for range answers {
					if _, err := c.Read(buf); err != nil {
						return
					}
					c.Write([]byte(goodResponse))
				}
			}()
		}
	}()
	d, err := newPlainClient(Load{
		Conns: conns, Rate: 1000, Addr: ln.Addr().String(), Request: []byte("GET / HTTP/1.1\r\n\r\n"), Size: len(goodResponse), Duration: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	r, err := d.run()
	if err != nil || r.Failures < conns || r.Requests <= conns*(answers-2) {
		t.Errorf("result %+v, %v", r, err)
	}
}
