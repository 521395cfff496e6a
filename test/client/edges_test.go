package client_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"math"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// noEnd is the longest time-out. Programs say with it that they want none.
const noEnd = time.Duration(math.MaxInt64)

// TestTimeoutsWithoutEnd: a time-out or a deadline that is too far away to be counted from now does not end a call at
// once.
func TestTimeoutsWithoutEnd(t *testing.T) {
	far := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	for name, do := range map[string]func(req *sluice.Request, resp *sluice.Response) error{
		"DoTimeout": func(req *sluice.Request, resp *sluice.Response) error { return p.Host().DoTimeout(req, resp, noEnd) },
		"DoDeadline": func(req *sluice.Request, resp *sluice.Response) error {
			return new(sluice.Client).DoDeadline(req, resp, far)
		},
		"SetTimeout": func(req *sluice.Request, resp *sluice.Response) error {
			req.SetTimeout(noEnd)
			return p.Host().Do(req, resp)
		},
		"HostClient": func(req *sluice.Request, resp *sluice.Response) error { return withoutEnd(p.Host()).Do(req, resp) },
		"Pipeline": func(req *sluice.Request, resp *sluice.Response) error {
			return pipelineWithoutEnd(p.Addr()).Do(req, resp)
		},
		"Pipeline, 2": func(req *sluice.Request, resp *sluice.Response) error {
			return pipelineWithoutEnd(p.Addr()).DoDeadline(req, resp, far)
		},
		"LBClient": func(req *sluice.Request, resp *sluice.Response) error {
			return (&sluice.LBClient{Clients: []sluice.BalancingClient{p.Host()}, Timeout: noEnd}).Do(req, resp)
		},
		"AcquireConn": func(req *sluice.Request, resp *sluice.Response) error {
			c := p.Host()
			cc, err := c.AcquireConn(noEnd, false)
			if err == nil {
				c.CloseConn(cc)
				resp.SetBodyString("ok")
			}
			return err
		},
		"GetTimeout": func(_ *sluice.Request, resp *sluice.Response) error {
			_, body, err := p.Host().GetTimeout(nil, p.URL("/"), noEnd)
			resp.SetBody(body)
			return err
		},
		"stream": func(req *sluice.Request, resp *sluice.Response) error {
			resp.StreamBody = true
			return withoutEnd(p.Host()).DoTimeout(req, resp, noEnd)
		},
		"upload": func(req *sluice.Request, resp *sluice.Response) error {
			req.Header.SetMethod("PUT")
			req.SetBody(make([]byte, 2*uploadSize))
			return withoutEnd(p.Host()).DoTimeout(req, resp, noEnd)
		},
	} {
		t.Run(name, func(t *testing.T) {
			req, resp := harness.NewCall("GET", p.URL("/"))
			if err := do(req, resp); err != nil || string(resp.Body()) != "ok" {
				t.Errorf("%v, %q", err, resp.Body())
			}
		})
	}
}

// withoutEnd sets all time-outs of c to the longest one.
func withoutEnd(c *sluice.HostClient) *sluice.HostClient {
	c.ReadTimeout, c.WriteTimeout, c.MaxConnWaitTimeout = noEnd, noEnd, noEnd
	c.MaxIdleConnDuration, c.MaxConnDuration = noEnd, noEnd
	return c
}

func pipelineWithoutEnd(addr string) *sluice.PipelineClient {
	return &sluice.PipelineClient{Addr: addr, ReadTimeout: noEnd, WriteTimeout: noEnd}
}

// The same over HTTP/2, with TLS, whose dialing WriteTimeout limits, and without.
func TestTimeoutsWithoutEndHTTP2(t *testing.T) {
	onEachHTTP2Server(t, tellRequest, func(t *testing.T, r *harness.HTTP2Rig) {
		c := withoutEnd(r.Host(sluice.HTTP2Only))
		defer c.CloseIdleConnections()
		for _, streams := range []bool{false, true} {
			req, resp := harness.NewCall("POST", r.URL("/?size=100000"))
			req.SetBodyString("body")
			resp.StreamBody = streams
			if err := c.DoTimeout(req, resp, noEnd); err != nil || len(resp.Body()) < 100_000 {
				t.Errorf("stream %v: %v, %d bytes", streams, err, len(resp.Body()))
			}
		}
	})
}

// TestTransportRetries: a RoundTripper of one's own that reports that another attempt may
// succeed gets it, by the rules for requests that the server may have processed.
func TestTransportRetries(t *testing.T) {
	for _, test := range []struct {
		method string
		retry  bool
		want   int
	}{{"GET", true, 3}, {"GET", false, 1}, {"POST", true, 1}} {
		attempts := 0
		c := &sluice.HostClient{Addr: "h", MaxIdemponentCallAttempts: 3, Transport: roundTripFunc(func(*sluice.HostClient, *sluice.Request, *sluice.Response) (bool, error) {
			attempts++
			return test.retry, io.ErrUnexpectedEOF
		})}
		req, resp := harness.NewCall(test.method, "http://h/")
		if err := c.Do(req, resp); err != io.ErrUnexpectedEOF || attempts != test.want {
			t.Errorf("%+v: %v after %d attempts", test, err, attempts)
		}
	}
}

// TestHostHasNoZone: the zone of an IPv6 address is a name of this machine (RFC 6874
// section 4): it leads to the server, which does not get it.
func TestHostHasNoZone(t *testing.T) {
	for url, want := range map[string]string{
		"http://[::1%25lo]/":            "[::1]",
		"http://[::1%25lo]:8080/":       "[::1]:8080",
		"http://[::1]:8080/":            "[::1]:8080",
		"http://user:pass@[::1%25a-b]/": "[::1]",
	} {
		host := make(chan string, 1)
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
			if r := c.Request(); r != nil {
				host <- string(r.Header.Host())
				c.Send(harness.OKAnswer)
			} else {
				host <- "what no server takes"
			}
		})
		var dialed string
		c := &sluice.Client{MaxIdemponentCallAttempts: 1, Dial: func(addr string) (net.Conn, error) {
			dialed = addr
			return net.Dial("tcp", p.Addr())
		}}
		req, resp := harness.NewCall("GET", url)
		err := c.Do(req, resp)
		if got := <-host; err != nil || got != want {
			t.Errorf("%s: Host %q, dialed %q, %v", url, got, dialed, err)
		}
	}
}

// TestHTTP2SmallPieces: a response that comes in many small pieces is a response, over HTTP/2 as over HTTP/1.1.
func TestHTTP2SmallPieces(t *testing.T) {
	const rows = 10_000
	onEachHTTP2Server(t, harness.HTTP2Handler{
		Sluice: func(ctx *sluice.RequestCtx) {
			ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
				for range rows {
					_, _ = w.WriteString("a row\n")
					_ = w.Flush()
				}
			})
		},
		NetHTTP: func(w http.ResponseWriter, _ *http.Request) {
			for range rows {
				_, _ = io.WriteString(w, "a row\n")
				_ = http.NewResponseController(w).Flush()
			}
		},
	}, func(t *testing.T, r *harness.HTTP2Rig) {
		c := r.Host(sluice.HTTP2Only)
		c.MaxIdemponentCallAttempts = 1
		defer c.CloseIdleConnections()
		req, resp := harness.NewCall("GET", r.URL("/"))
		if err := c.Do(req, resp); err != nil || len(resp.Body()) != rows*len("a row\n") {
			t.Errorf("%v, %d bytes", err, len(resp.Body()))
		}
	})
}

// The certificate is for the address without the zone.
func TestCertificateHasNoZone(t *testing.T) {
	server, client := harness.TLSConfigs(t, "::1")
	ln, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	p := harness.NewPeerOn(t, ln, answering(harness.OKAnswer))
	c := &sluice.Client{TLSConfig: client, Dial: func(string) (net.Conn, error) { return net.Dial("tcp", p.Addr()) }}
	defer c.CloseIdleConnections()
	if err := c.Do(harness.NewCall("GET", "https://[::1%25lo]/")); err != nil {
		t.Error(err)
	}
}

// TestServerTimeoutsWithoutEnd: as TestTimeoutsWithoutEnd, for servers and both protocols.
func TestServerTimeoutsWithoutEnd(t *testing.T) {
	for _, kind := range []sluice.Engine{sluice.EngineAuto, sluice.EnginePerConn} {
		for _, mode := range []sluice.HTTP2Mode{sluice.HTTP2Off, sluice.HTTP2Only} {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			harness.ServeUntilEnd(t, &sluice.Server{
				Handler: func(ctx *sluice.RequestCtx) { _, _ = ctx.WriteString("ok") }, Engine: kind, Logger: harness.QuietLogger{},
				ReadTimeout: noEnd, WriteTimeout: noEnd, IdleTimeout: noEnd,
			}, ln)
			c := &sluice.HostClient{Addr: ln.Addr().String(), MaxIdemponentCallAttempts: 1, HTTP2: mode}
			for range 2 {
				req, resp := harness.NewCall("POST", "http://"+c.Addr+"/")
				req.SetBody(make([]byte, 100_000))
				if err := c.Do(req, resp); err != nil || string(resp.Body()) != "ok" {
					t.Errorf("%v, HTTP/2 %v: %v, %q", kind, mode, err, resp.Body())
				}
			}
			c.CloseIdleConnections()
		}
	}
}
