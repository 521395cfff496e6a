package prefork

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"golang.org/x/net/http2"
)

var tlsRestarts = flag.Int("tls.restarts", 1, "how often TestRestartsOfTLSByDefault replaces the workers")

// tlsIdler is a client that makes one request on a TLS connection, and then waits for its
// end. Then it makes another connection.
type tlsIdler struct {
	addr    string
	isHTTP2 bool
	config  *tls.Config

	mu     sync.Mutex
	conn   *tls.Conn
	isOver bool
	ends   atomic.Int64
}

// idle makes connections until stop. The error is that of an end without the goodbye of the
// protocol.
func (c *tlsIdler) idle(opened chan<- struct{}) error {
	for n := 0; ; n++ {
		raw, err := net.Dial("tcp", c.addr)
		if err != nil {
			return err
		}
		wire := &nettest.AlertConn{Conn: raw}
		conn := tls.Client(wire, c.config)
		c.mu.Lock()
		c.conn = conn
		isOver := c.isOver
		c.mu.Unlock()
		if isOver {
			conn.Close()
			return nil
		}
		if n == 0 {
			opened <- struct{}{}
		}
		err = c.wait(conn)
		if err == nil && !wire.EndedWithAlert() {
			err = errors.New("no close_notify")
		}
		conn.Close()
		c.mu.Lock()
		isOver = c.isOver
		c.mu.Unlock()
		if isOver {
			return nil
		}
		if err != nil {
			return fmt.Errorf("HTTP/2 %v: idle connection %d: %w", c.isHTTP2, n, err)
		}
		c.ends.Add(1)
	}
}

// wait returns nil if the connection ends with io.EOF, which crypto/tls also returns without
// close_notify, and with HTTP/2 after GOAWAY.
func (c *tlsIdler) wait(conn *tls.Conn) error {
	if !c.isHTTP2 {
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, conn) // nil after io.EOF
		return err
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return err
	}
	framer := http2.NewFramer(conn, conn)
	framer.WriteSettings()
	hasSaidGoodbye := false
	for {
		frame, err := framer.ReadFrame()
		switch {
		case err == io.EOF && hasSaidGoodbye:
			return nil
		case err != nil:
			return fmt.Errorf("GOAWAY %v: %w", hasSaidGoodbye, err)
		}
		switch f := frame.(type) {
		case *http2.GoAwayFrame:
			hasSaidGoodbye = true
		case *http2.PingFrame:
			if !f.IsAck() {
				framer.WritePing(true, f.Data)
			}
		case *http2.SettingsFrame:
			if !f.IsAck() {
				framer.WriteSettingsAck()
			}
		}
	}
}

// stop ends idle.
func (c *tlsIdler) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isOver = true; c.conn != nil {
		c.conn.NetConn().Close()
	}
}

// busyTLS makes requests with an ordinary client until l stops. Every third one is a POST,
// which clients do not repeat.
func busyTLS(l *load, do func(method, body string) (string, error), pause time.Duration) {
	defer l.done.Done()
	for n := 0; !l.stop.Load(); n++ {
		method, body := "GET", ""
		if n%3 == 0 {
			method, body = "POST", "body"
		}
		got, err := do(method, body)
		if want := "7:" + body; err == nil && got != want {
			err = fmt.Errorf("%.20q, want %q", got, want)
		}
		if err != nil {
			l.fail(fmt.Errorf("%s, pause %v, request %d: %w", method, pause, n, err))
			return
		}
		l.answered.Add(1)
		time.Sleep(rand.N(pause))
	}
}

// tlsClients starts n ordinary clients with one connection each: net/http's and Sluice's,
// of HTTP/1.1 and HTTP/2.
func (f *fleet) tlsClients(l *load, n int, config *tls.Config) {
	url := "https://" + f.addr(0) + "/echo?n=7"
	for i := range n {
		do := netHTTPClient(f.t, url, config.Clone(), i%4 < 2)
		if i%2 == 1 {
			do = sluiceClient(url, config.Clone(), i%4 < 2)
		}
		l.done.Add(1)
		go busyTLS(l, do, []time.Duration{10, 50, 300, 2000}[i/4%4]*time.Millisecond+1)
	}
}

func netHTTPClient(t *testing.T, url string, config *tls.Config, isHTTP2 bool) func(method, body string) (string, error) {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(!isHTTP2)
	protocols.SetHTTP2(isHTTP2)
	transport := &http.Transport{Protocols: protocols, TLSClientConfig: config, MaxConnsPerHost: 1}
	t.Cleanup(transport.CloseIdleConnections)
	client := http.Client{Transport: transport, Timeout: patience}
	return func(method, body string) (string, error) {
		req, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
		if err != nil {
			return "", err
		}
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		return string(got), err
	}
}

func sluiceClient(url string, config *tls.Config, isHTTP2 bool) func(method, body string) (string, error) {
	client := &sluice.Client{TLSConfig: config, MaxConnsPerHost: 1, MaxConnWaitTimeout: patience, ReadTimeout: patience}
	if !isHTTP2 {
		client.HTTP2 = sluice.HTTP2Off
	}
	return func(method, body string) (string, error) {
		req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
		defer sluice.ReleaseRequest(req)
		defer sluice.ReleaseResponse(resp)
		req.SetRequestURI(url)
		req.Header.SetMethod(method)
		req.SetBodyString(body)
		err := client.Do(req, resp)
		return string(resp.Body()), err
	}
}

// With the default times, rolling restarts fail no request over TLS, and every idle connection
// gets the goodbye of its protocol.
func TestRestartsOfTLSByDefault(t *testing.T) {
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			restarts, idle, busy := *tlsRestarts, 200, 50
			if testing.Short() {
				idle, busy = 20, 16
			}
			f := start(t, setup{Workers: 2, Engine: engine, TLS: true, HTTP2: true}, true)
			config := &tls.Config{InsecureSkipVerify: true, ServerName: "localhost", ClientSessionCache: tls.NewLRUClientSessionCache(64)}
			opened, ended := make(chan struct{}, idle), make(chan error, idle)
			idlers := make([]*tlsIdler, idle)
			for i := range idlers {
				c := &tlsIdler{addr: f.addr(0), isHTTP2: i%2 == 1, config: config.Clone()}
				c.config.NextProtos = []string{[]string{"http/1.1", "h2"}[i%2]}
				idlers[i] = c
				go func() { ended <- c.idle(opened) }()
			}
			for range idlers {
				<-opened
			}
			var l load
			f.tlsClients(&l, busy, config)
			for range restarts {
				goal := l.answered.Load() + 100
				until(t, "requests are answered", func() bool { return l.answered.Load() >= goal || t.Failed() })
				f.replace(2)
			}
			l.end(t)
			ends := int64(0)
			for _, c := range idlers {
				ends += c.ends.Load()
				c.stop()
			}
			for range idlers {
				if err := <-ended; err != nil && !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
			}
			if ends < int64(restarts*idle) {
				t.Errorf("%d idle connections have ended, want at least %d", ends, restarts*idle)
			}
			if cut := f.count(`"Cut":`) - f.count(`"Cut":0`); cut > 0 || f.count("engine is shut down") > 0 {
				t.Errorf("%d workers have cut connections", cut)
			}
			t.Logf("%d restarts, %d requests, %d idle connections ended", restarts, l.answered.Load(), ends)
		})
	}
}
