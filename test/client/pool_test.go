package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/test/harness"
)

// Of a connection that RoundTrippers acquire, they see what they need. What they set
// on it ends when they give it back.
func TestAcquiredConn(t *testing.T) {
	near := func(at time.Time, want bool) {
		t.Helper()
		if got := time.Since(at).Abs() < time.Hour; got != want || !want && !at.IsZero() {
			t.Errorf("the time is %v", at)
		}
	}
	serverTLS, clientTLS := harness.TLSConfigs(t, "127.0.0.1")
	for name, config := range map[string]*tls.Config{"plain": nil, "TLS": serverTLS} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			url := "http://" + ln.Addr().String() + "/"
			if config != nil {
				ln, url = tls.NewListener(ln, config), "https://"+ln.Addr().String()+"/"
			}
			p := harness.NewPeerOn(t, ln, answering(harness.OKAnswer))
			c := p.Host()
			c.IsTLS, c.TLSConfig = config != nil, clientTLS
			for i := range 3 {
				cc, err := c.AcquireConn(0, false)
				if err != nil {
					t.Fatal(err)
				}
				near(cc.CreatedTime(), true)
				near(cc.LastUseTime(), i > 0)
				set := []func(time.Time) error{cc.Conn().SetDeadline, cc.Conn().SetReadDeadline, cc.Conn().SetWriteDeadline}[i]
				if err := set(clock.Past()); err != nil {
					t.Fatal(err)
				}
				c.ReleaseConn(cc)
				if status, _, err := c.Get(nil, url); err != nil || status != 200 || p.Accepted() != 1 {
					t.Errorf("%d, %v, %d connections", status, err, p.Accepted())
				}
			}
		})
	}
}

func TestPoolCountsAfterFailures(t *testing.T) {
	never := func(c *harness.PeerConn) { c.Request(); c.Gone() }
	sends := func(raw string) func(c *harness.PeerConn) {
		return func(c *harness.PeerConn) { c.Request(); c.Send(raw) }
	}
	for name, test := range map[string]struct {
		script func(c *harness.PeerConn)
		set    func(c *sluice.HostClient)
		call   func(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) error
	}{
		"dial":       {set: func(c *sluice.HostClient) { c.Dial = func(string) (net.Conn, error) { return nil, errors.New("no") } }},
		"no address": {set: func(c *sluice.HostClient) { c.Addr = " , " }},
		"tls": {script: sends("garbage"), set: func(c *sluice.HostClient) { c.IsTLS = true }, call: func(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) error {
			req.URI().SetScheme("https")
			return c.Do(req, resp)
		}},
		"closed":    {script: sends("")},
		"reset":     {script: func(c *harness.PeerConn) { c.Request(); c.Reset() }},
		"garbage":   {script: sends("garbage\r\n\r\n")},
		"cut head":  {script: sends("HTTP/1.1 200 OK\r\nContent-")},
		"cut body":  {script: sends("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")},
		"bad chunk": {script: sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n")},
		"too large": {script: sends(harness.OKAnswer), set: func(c *sluice.HostClient) { c.MaxResponseBodySize = 1 }},
		"read":      {script: never, set: func(c *sluice.HostClient) { c.ReadTimeout = time.Millisecond }},
		"deadline": {script: never, call: func(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) error {
			return c.DoTimeout(req, resp, 5*time.Millisecond)
		}},
		"context": {script: never, call: func(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) error {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			return c.DoContext(ctx, req, resp)
		}},
		"write": {script: never, set: func(c *sluice.HostClient) {
			hooked(c, func(h *hookedConn) {
				h.onWrite = func(*hookedConn, []byte) (int, error, bool) { return 0, errors.New("no"), true }
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := harness.NewClientPeer(t, test.script)
			c := p.Host()
			if test.set != nil {
				test.set(c)
			}
			if test.call == nil {
				test.call = (*sluice.HostClient).Do
			}
			req, resp := harness.NewCall("GET", p.URL("/"))
			if err := test.call(c, req, resp); err == nil {
				t.Error("no error")
			}
			if open, idle := c.ConnsCount(), c.IdleConnsCount(); open != 0 || idle != 0 || c.PendingRequests() != 0 {
				t.Errorf("%d open, %d idle, %d pending", open, idle, c.PendingRequests())
			}
		})
	}
}

func doHour(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) error {
	return c.DoTimeout(req, resp, time.Hour)
}

func doContextMillisecond(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	return c.DoContext(ctx, req, resp)
}

// A connection that the server has closed, or sent something on, is not used.
func TestPoolTestsConnections(t *testing.T) {
	for name, spoil := range map[string]func(c *harness.PeerConn){
		"closed": func(c *harness.PeerConn) { c.Close() },
		"reset":  (*harness.PeerConn).Reset,
		"late":   func(c *harness.PeerConn) { c.Send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL") },
		"a byte": func(c *harness.PeerConn) { c.Send("\n") },
	} {
		t.Run(name, func(t *testing.T) {
			spoilt := make(chan bool)
			p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
				c.Request()
				c.Send(harness.OKAnswer)
				if c.Number == 1 {
					<-spoilt
					spoil(c)
					spoilt <- true
				}
				answering(harness.OKAnswer)(c)
			})
			c := p.Host()
			req, resp := harness.NewCall("POST", p.URL("/")) // never repeated
			for i := range 2 {
				if err := c.Do(req, resp); err != nil || string(resp.Body()) != "ok" {
					t.Fatal(err, string(resp.Body()))
				}
				if i == 0 {
					spoilt <- true
					<-spoilt
				}
			}
			if n := p.Accepted(); n != 2 {
				t.Errorf("%d connections", n)
			}
			checkPool(t, c, 1, 1)
		})
	}
}

// TestUnknownStrategy: an unknown ConnPoolStrategy is an error as soon as an idle connection
// is to be chosen, as in fasthttp.
func TestUnknownStrategy(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	c := p.Host()
	c.ConnPoolStrategy = 7
	for i, want := range []error{nil, sluice.ErrConnPoolStrategyNotImpl, sluice.ErrConnPoolStrategyNotImpl} {
		if _, _, err := c.Get(nil, p.URL("/")); !errors.Is(err, want) {
			t.Errorf("request %d: %v, want %v", i, err, want)
		}
		checkPool(t, c, 1, 1)
	}
	c.CloseIdleConnections()
	if _, _, err := c.Get(nil, p.URL("/")); err != nil {
		t.Errorf("on a new connection: %v", err)
	}
}

// Bytes that no request asked for, on connections that are no sockets: those of
// fasthttputil could tell, and those that wrap a socket and have a NetConn do.
func TestLateBytesWithoutSocket(t *testing.T) {
	const evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL"
	late := make(chan struct{})
	script := func(c *harness.PeerConn) {
		c.Request()
		c.Send(harness.OKAnswer)
		if c.Number == 1 {
			<-late // the answer has been taken
			c.Send(evil)
			late <- struct{}{}
		}
		answering(harness.OKAnswer)(c)
	}
	run := func(name string, c *sluice.HostClient) {
		t.Run(name, func(t *testing.T) {
			for i := range 2 {
				req, resp := harness.NewCall("GET", "http://h/")
				if err := c.Do(req, resp); err != nil || string(resp.Body()) != "ok" {
					t.Errorf("request %d: %v, %q", i+1, err, resp.Body())
				}
				if i == 0 {
					late <- struct{}{}
					<-late
				}
			}
		})
	}
	ln := fasthttputil.NewInmemoryListener()
	harness.NewPeerOn(t, ln, script)
	run("memory", &sluice.HostClient{Addr: "h:80", Dial: func(string) (net.Conn, error) { return ln.Dial() }})
	p := harness.NewClientPeer(t, script)
	wrapped := p.Host()
	wrapped.Dial = func(addr string) (net.Conn, error) {
		nc, err := net.Dial("tcp", addr)
		return wrappedConn{nc}, err
	}
	run("a wrapped TCP connection", wrapped)
}

// MaxConnDuration's Connection: close takes the request's own field with it.
func TestMaxConnDurationKeepsConnectionField(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	c := p.Host()
	c.MaxConnDuration = 1
	req, resp := harness.NewCall("GET", p.URL("/"))
	req.Header.Set("Connection", "x-hop")
	if err := c.Do(req, resp); err != nil {
		t.Fatal(err)
	}
	if got := req.Header.Peek("Connection"); string(got) != "x-hop" {
		t.Errorf("Connection is %q afterwards", got)
	}
}

// held makes n requests that the peer answers when release is called. It
// returns when all have a connection.
func held(t *testing.T, c *sluice.HostClient, n int) (release func()) {
	t.Helper()
	var gives []func()
	for range n {
		cc, err := c.AcquireConn(0, false)
		if err != nil {
			t.Fatal(err)
		}
		gives = append(gives, func() { c.ReleaseConn(cc) })
	}
	return func() {
		for _, give := range gives {
			give()
		}
	}
}

func TestPoolStrategies(t *testing.T) {
	for _, test := range []struct {
		strategy sluice.ConnPoolStrategyType
		want     []int // connections of the later requests
	}{
		{sluice.FIFO, []int{1, 2, 3, 1}},
		{sluice.LIFO, []int{3, 3, 3, 3}},
	} {
		used := make(chan int, 8)
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
			for c.Request() != nil {
				used <- c.Number
				c.Send(harness.OKAnswer)
			}
		})
		c := p.Host()
		c.ConnPoolStrategy = test.strategy
		var gives []func()
		for i := range 3 {
			gives = append(gives, held(t, c, 1))
			eventually(t, "accepted", func() bool { return p.Accepted() == i+1 })
		}
		for _, give := range gives {
			give()
		}
		for i, want := range test.want {
			if _, _, err := c.Get(nil, p.URL("/")); err != nil {
				t.Fatal(err)
			}
			if got := <-used; got != want {
				t.Errorf("strategy %d, request %d: connection %d, want %d", test.strategy, i, got, want)
			}
		}
	}
}

func TestPoolClosesIdleConnections(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	c := p.Host()
	c.MaxIdleConnDuration = 20 * time.Millisecond
	held(t, c, 3)()
	checkPool(t, c, 0, 0)
	c.MaxIdleConnDuration = time.Hour
	// The timer of the janitor begins anew.
	held(t, c, 2)()
	checkPool(t, c, 2, 2)
	c.CloseIdleConnections()
	checkPool(t, c, 0, 0)
	if _, _, err := c.Get(nil, p.URL("/")); err != nil {
		t.Error(err)
	}
}

func TestPoolMaxConnDuration(t *testing.T) {
	var closes []bool
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		for r := c.Request(); r != nil; r = c.Request() {
			closes = append(closes, r.ConnectionClose())
			c.Send(harness.OKAnswer)
		}
	})
	c := p.Host()
	c.MaxConnDuration = time.Hour
	req, resp := harness.NewCall("GET", p.URL("/"))
	for i := range 2 {
		if i == 1 {
			c.MaxConnDuration = 1
		}
		if err := c.Do(req, resp); err != nil {
			t.Fatal(err)
		}
	}
	checkPool(t, c, 0, 0)
	if p.Accepted() != 1 || len(closes) != 2 || closes[0] || !closes[1] || req.ConnectionClose() {
		t.Errorf("%d connections, told %v, later %v", p.Accepted(), closes, req.ConnectionClose())
	}
}

func TestPoolSetMaxConnsDown(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	c := p.Host()
	release := held(t, c, 3)
	held(t, c, 2)()
	checkPool(t, c, 5, 2)
	c.SetMaxConns(2)
	checkPool(t, c, 3, 0) // those in use remain
	if _, _, err := c.Get(nil, p.URL("/")); !errors.Is(err, sluice.ErrNoFreeConns) {
		t.Error(err)
	}
	release()
	checkPool(t, c, 2, 2)
	c.SetMaxConns(0)
	held(t, c, 4)()
	checkPool(t, c, 4, 4)
}
