package prefork

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// An http2Client is a client of HTTP/2 by prior knowledge, with one connection at a time.
type http2Client struct {
	http.Client
	url   string
	dials atomic.Int64
}

func (f *fleet) http2Client() *http2Client {
	c := &http2Client{url: "http://" + f.addr(0)}
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, MaxConnsPerHost: 1}
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c.dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	c.Client = http.Client{Transport: transport, Timeout: patience}
	f.t.Cleanup(transport.CloseIdleConnections)
	return c
}

// get makes a request, and checks the protocol.
func (c *http2Client) get(path string) (string, error) {
	resp, err := c.Client.Get(c.url + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && (resp.ProtoMajor != 2 || resp.StatusCode != 200) {
		err = fmt.Errorf("%s %s: %q", resp.Proto, resp.Status, body)
	}
	return string(body), err
}

// call makes one request after the other until l stops.
func (c *http2Client) call(l *load, body int) {
	defer l.done.Done()
	padding := strings.Repeat("x", body)
	for n := 0; !l.stop.Load(); n++ {
		got, err := c.post(fmt.Sprintf("/echo?n=%d", n), padding)
		if want := fmt.Sprintf("%d:%s", n, padding); err == nil && got != want {
			err = fmt.Errorf("%.20q, want %.20q", got, want)
		}
		if err != nil {
			l.fail(fmt.Errorf("request %d: %w", n, err))
			return
		}
		l.answered.Add(1)
	}
}

func (c *http2Client) post(path, body string) (string, error) {
	resp, err := c.Client.Post(c.url+path, "text/plain", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return string(got), err
}

// overlap makes requests of which many are open at any time.
func (c *http2Client) overlap(l *load) {
	defer l.done.Done()
	for !l.stop.Load() {
		if _, err := c.get(fmt.Sprint("/slow?ms=", 100+rand.IntN(100))); err != nil {
			l.fail(fmt.Errorf("overlapping: %w", err))
			return
		}
		l.answered.Add(1)
	}
}

var (
	http2Restarts = flag.Int("http2.restarts", 4, "how often TestRestartsOfHTTP2 replaces the workers")
	http2Clients  = flag.Int("http2.clients", 8, "how many clients make requests meanwhile")
)

// Clients of HTTP/2 lose no request in rolling restarts. Connections move between two
// requests, and idle ones are never closed. Those that always have a request open get
// GOAWAY.
func TestRestartsOfHTTP2(t *testing.T) {
	restarts := *http2Restarts
	if testing.Short() {
		restarts = 2
	}
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, setup{Workers: 2, Engine: engine, HTTP2: true, Linger: 3 * time.Second, Drain: patience}, true)
			idle := make([]*http2Client, 200)
			for i := range idle {
				idle[i] = f.http2Client()
				if _, err := idle[i].get("/"); err != nil {
					t.Fatal(err)
				}
			}
			var l load
			for i := range *http2Clients {
				c := f.http2Client()
				for range 1 + i%2*3 { // alone, or four at the same time
					l.done.Add(1)
					go c.call(&l, i%8*1000)
				}
			}
			overlapping := f.http2Client()
			for range 20 {
				l.done.Add(1)
				go overlapping.overlap(&l)
			}
			began := time.Now()
			for range restarts {
				goal := l.answered.Load() + 100
				until(t, "requests are answered", func() bool { return l.answered.Load() >= goal || t.Failed() })
				f.replace(2)
			}
			took := time.Since(began)
			l.end(t)
			living := f.living()
			for i, c := range idle {
				body, err := c.get("/")
				if err != nil || !living[strings.Fields(body)[0]] {
					t.Errorf("connection %d: %q, %v", i, body, err)
				}
				if n := c.dials.Load(); n != 1 {
					t.Errorf("connection %d was closed: %d dials", i, n)
				}
			}
			t.Logf("%d restarts in %v, %.0f requests/s, %d connections of the client with overlapping requests", restarts, took,
				float64(l.answered.Load())/took.Seconds(), overlapping.dials.Load())
		})
	}
}
