package sluice

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
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
	c.Transport = roundTripFunc(func(*HostClient, *Request, *Response) (bool, error) { return false, io.EOF })
	c.hosts = nil
	if _, _, err := c.Get(nil, "http://h/"); err != ErrConnectionClosed {
		t.Error(err)
	}
}
