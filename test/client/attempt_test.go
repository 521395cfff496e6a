package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestRetryIfErrUpstream: it gets the address of the last dial, or of the connection, and
// "" if the attempt went to none. Trace.Retry tells each attempt that another one follows.
func TestRetryIfErrUpstream(t *testing.T) {
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) { c.Request() })
	var got, retried []string
	errOdd := errors.New("odd")
	c := &sluice.HostClient{
		Addr: "a:1,b:2", MaxIdemponentCallAttempts: 3,
		Dial: func(addr string) (net.Conn, error) {
			if addr == "a:1" {
				return nil, errStub
			}
			return net.Dial("tcp", p.Addr())
		},
		RetryIfErrUpstream: func(_ *sluice.Request, attempt int, err error, upstream string) (bool, bool) {
			got = append(got, fmt.Sprint(attempt, upstream))
			return false, true
		},
		Trace: &sluice.ClientTrace{Retry: func(attempt int, err error) { retried = append(retried, fmt.Sprint(attempt, err)) }},
	}
	req, resp := harness.NewCall("GET", "http://h/")
	if err := c.Do(req, resp); err != sluice.ErrConnectionClosed {
		t.Errorf("error %v", err)
	}
	if want := []string{"1b:2", "2b:2"}; !slices.Equal(got, want) {
		t.Errorf("upstreams %q, want %q", got, want)
	}
	if want := []string{"1 EOF", "2 EOF"}; !slices.Equal(retried, want) {
		t.Errorf("retries %q, want %q", retried, want)
	}
	// All fail: the last is told.
	got = nil
	c.Dial = func(string) (net.Conn, error) { return nil, errStub }
	if err := c.Do(req, resp); !errors.Is(err, errStub) || len(got) != 2 || !strings.HasSuffix(got[0], ":1") && !strings.HasSuffix(got[0], ":2") {
		t.Errorf("%v, %q", err, got)
	}
	// None is dialed, although an earlier call has dialed.
	got = nil
	c.Transport = roundTripFunc(func(*sluice.HostClient, *sluice.Request, *sluice.Response) (bool, error) { return true, errOdd })
	if err := c.Do(req, resp); err != errOdd || !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("%v, %q", err, got)
	}
}

// TestTLSHandshakeAlone: a handshake without WriteTimeout is bounded, too. The connection
// is closed, and hooks are called once, whichever there are.
func TestTLSHandshakeAlone(t *testing.T) {
	for name, hooks := range map[string]string{"none": "", "start": "start", "done": "done", "both": "start done"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				trace := &sluice.ClientTrace{}
				if strings.Contains(hooks, "start") {
					trace.TLSStart = func() { told = append(told, "start") }
				}
				if strings.Contains(hooks, "done") {
					trace.TLSDone = func(_ tls.ConnectionState, err error) {
						told = append(told, "done")
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("TLSDone of %v", err)
						}
					}
				}
				mine, other := net.Pipe()
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					_, _ = io.Copy(io.Discard, other)
				}()
				c := &sluice.HostClient{Addr: "h:443", IsTLS: true, Trace: trace, Dial: func(string) (net.Conn, error) { return mine, nil }}
				req, resp := harness.NewCall("GET", "https://h/")
				began := time.Now()
				if err := c.Do(req, resp); err != sluice.ErrTLSHandshakeTimeout || time.Since(began) != 30*time.Second {
					t.Errorf("%v after %v", err, time.Since(began))
				}
				<-gone
				other.Close()
				if got := strings.Join(told, " "); got != hooks {
					t.Errorf("told %q, want %q", got, hooks)
				}
				checkPool(t, c, 0, 0)
			})
		})
	}
}

// TestConnectionsWithoutDeadlines: a connection whose deadlines cannot be set is not used.
// The request is sent again on another one if nothing of it was sent.
func TestConnectionsWithoutDeadlines(t *testing.T) {
	big := make([]byte, uploadSize)
	for _, tc := range []struct {
		failing string // which deadline
		body    []byte
		dials   int
	}{
		{"write", nil, sluice.DefaultMaxIdemponentCallAttempts}, {"read", nil, 1},
		{"write", big, sluice.DefaultMaxIdemponentCallAttempts}, {"read", big, sluice.DefaultMaxIdemponentCallAttempts},
	} {
		var conns []*stubConn
		c := &sluice.HostClient{Addr: "h:80", Dial: func(string) (net.Conn, error) {
			conns = append(conns, &stubConn{limitErr: errStub, failing: tc.failing})
			return conns[len(conns)-1], nil
		}}
		req, resp := harness.NewCall("POST", "http://h/")
		req.SetBody(tc.body)
		if err := c.DoTimeout(req, resp, time.Hour); !errors.Is(err, errStub) || len(conns) != tc.dials {
			t.Errorf("%s, %d bytes: %v, %d dials, want %d", tc.failing, len(tc.body), err, len(conns), tc.dials)
		}
		for _, conn := range conns {
			if last := conn.told[len(conn.told)-1]; last != "close" {
				t.Errorf("%s: the last was %s", tc.failing, last)
			}
		}
		checkPool(t, c, 0, 0)
	}
}

// A connection whose old deadline cannot be cleared is not used again.
func TestDeadlineThatStays(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	c := p.Host()
	c.Dial = func(addr string) (net.Conn, error) {
		nc, err := net.Dial("tcp", addr)
		return stickyConn{nc}, err
	}
	for i := range 3 {
		req, resp := harness.NewCall("POST", p.URL("/"))
		if err := c.DoTimeout(req, resp, time.Hour); err != nil || string(resp.Body()) != "ok" || p.Accepted() != i+1 {
			t.Errorf("%v, %q, %d connections, want %d", err, resp.Body(), p.Accepted(), i+1)
		}
		checkPool(t, c, 1, 1)
	}
}

// stickyConn cannot clear its deadlines.
type stickyConn struct{ net.Conn }

func (c stickyConn) SetDeadline(at time.Time) error {
	if at.IsZero() {
		return errStub
	}
	return c.Conn.SetDeadline(at)
}

// TestGetOfAStream: what a Transport leaves as a stream is read; if it breaks off, what
// came is returned.
func TestGetOfAStream(t *testing.T) {
	for _, tc := range []struct {
		rest   error
		status int
	}{{nil, 202}, {errStub, 0}} {
		c := &sluice.HostClient{Addr: "h:80", Transport: roundTripFunc(func(_ *sluice.HostClient, _ *sluice.Request, resp *sluice.Response) (bool, error) {
			resp.SetStatusCode(202)
			var r io.Reader = strings.NewReader("half")
			if tc.rest != nil {
				r = io.MultiReader(r, iotest.ErrReader(tc.rest))
			}
			resp.SetBodyStream(r, -1)
			return false, nil
		})}
		if status, body, err := c.Get([]byte("old"), "http://h/"); status != tc.status || !errors.Is(err, tc.rest) || tc.rest == nil && string(body) != "half" {
			t.Errorf("%d, %q, %v", status, body, err)
		}
	}
}

// countdownConn fails to set a deadline for reading after a number of times.
type countdownConn struct {
	net.Conn
	left int
}

func (c *countdownConn) SetReadDeadline(at time.Time) error {
	if c.left--; c.left < 0 {
		return errStub
	}
	return c.Conn.SetReadDeadline(at)
}

// TestStreamsWithoutDeadlines: a streamed body whose deadlines cannot be set or cleared is
// not read.
func TestStreamsWithoutDeadlines(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	c := p.Host()
	c.Dial = func(addr string) (net.Conn, error) {
		nc, err := net.Dial("tcp", addr)
		return stickyConn{nc}, err
	}
	req, resp := harness.NewCall("POST", p.URL("/"))
	resp.StreamBody = true
	if err := c.DoTimeout(req, resp, time.Hour); !errors.Is(err, errStub) {
		t.Errorf("clearing: %v", err)
	}
	checkPool(t, c, 0, 0)
	c = p.Host()
	c.ReadTimeout = time.Hour
	c.Dial = func(addr string) (net.Conn, error) {
		nc, err := net.Dial("tcp", addr)
		return &countdownConn{nc, 1}, err
	}
	if err := c.Do(req, resp); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n, err := resp.BodyStream().Read(make([]byte, 1)); n != 0 || !errors.Is(err, errStub) {
			t.Errorf("setting: %d, %v", n, err)
		}
	}
	checkPool(t, c, 0, 0)
}
