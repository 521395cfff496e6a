package sluice

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
)

func tlsListener(ln net.Listener, config *tls.Config) net.Listener {
	return tls.NewListener(ln, config)
}

// A custom RoundTripper gets settings and errors through.
func TestTransportOfOthers(t *testing.T) {
	mine := errors.New("mine")
	calls := 0
	c := &Client{Transport: roundTripFunc(func(hc *HostClient, req *Request, resp *Response) (bool, error) {
		if calls++; calls == 1 {
			return false, mine
		}
		resp.SetStatusCode(StatusTeapot)
		resp.SetBodyString(hc.Addr)
		return false, nil
	})}
	for _, want := range []error{mine, nil} {
		status, body, err := c.Get(nil, "http://h/")
		if err != want || err == nil && (status != StatusTeapot || string(body) != "h:80") {
			t.Errorf("%d, %q, %v", status, body, err)
		}
	}
	c = &Client{Transport: roundTripFunc(func(*HostClient, *Request, *Response) (bool, error) { return false, io.EOF })}
	if _, _, err := c.Get(nil, "http://h/"); err != ErrConnectionClosed {
		t.Error(err)
	}
}

// A server that closes what it has just accepted has closed the connection, and
// sent nothing.
func TestClosedAtOnce(t *testing.T) {
	closed := make(chan bool)
	p := newClientPeer(t, func(c *peerConn) { c.Close(); closed <- true })
	c := p.host()
	c.Dial = func(addr string) (net.Conn, error) {
		nc, err := net.Dial("tcp", addr)
		<-closed
		if err == nil {
			cc := newClientConn(nc, addr)
			eventually(t, "the end has come", func() bool { return !cc.wire.IsQuiet() })
		}
		return nc, err
	}
	for _, method := range []string{"GET", "POST"} {
		req, resp := newCall(method, p.url("/"))
		if err := c.Do(req, resp); !errors.Is(err, ErrConnectionClosed) {
			t.Errorf("%s: %v", method, err)
		}
	}
	checkPool(t, c, 0, 0)
}

const (
	sizedHello   = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	chunkedHello = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nX-End: yes\r\n\r\n"
	closedHello  = "HTTP/1.1 200 OK\r\n\r\nhello"
)

// Streams that are read, closed and cancelled by many at the same time.
func TestStreamsUnderChurn(t *testing.T) {
	p := newClientPeer(t, answering(chunkedHello))
	c := p.host()
	c.MaxConns, c.MaxConnWaitTimeout, c.StreamResponseBody = 3, clientPatience, true
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for j := range 60 {
				ctx, cancel := context.WithCancel(t.Context())
				req, resp := newCall("GET", p.url("/"))
				if err := c.DoContext(ctx, req, resp); err != nil {
					t.Error(err)
					cancel()
					continue
				}
				var two sync.WaitGroup
				s := resp.BodyStream()
				two.Go(func() { _, _ = io.Copy(io.Discard, s) })
				switch (i + j) % 3 {
				case 0:
					two.Go(cancel)
				case 1:
					two.Go(func() { _ = s.(io.Closer).Close() })
				}
				two.Wait()
				resp.Reset()
				cancel()
			}
		})
	}
	within(t, "the churn", all.Wait)
	eventually(t, "none in use", func() bool { return c.ConnsCount() == c.IdleConnsCount() })
	if body := fmt.Sprint(c.waiters()); body != "0" {
		t.Error(body, "wait")
	}
}
