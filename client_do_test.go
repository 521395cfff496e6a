package sluice

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// Nothing was sent: any request goes to another connection. That must be a
// fresh one, as all that idle may be dead for the same reason.
func TestDoRepeatsWhatWasNotSent(t *testing.T) {
	p := newClientPeer(t, answering(okAnswer))
	c := p.host()
	dials := 0
	c.Dial = func(addr string) (net.Conn, error) {
		nc, err := net.Dial("tcp", addr)
		if dials++; dials > 3 || err != nil {
			return nc, err
		}
		return &hookedConn{Conn: nc, onWrite: func(*hookedConn, []byte) (int, error, bool) { return 0, syscall.EPIPE, true }}, nil
	}
	held(t, c, 3)()
	req, resp := newCall("POST", p.url("/"))
	req.SetBodyString("body")
	if err := c.Do(req, resp); err != nil || dials != 4 {
		t.Errorf("%v, %d dials", err, dials)
	}
	if got := p.requests(); len(got) != 1 || got[0] != "POST / body" {
		t.Errorf("%q", got)
	}
	checkPool(t, c, 3, 3) // two that were not tried, and the new one
}

// The bounds of a call are those of all attempts together, and don't stay.
func TestDoBoundsNestAndEnd(t *testing.T) {
	var inner []time.Duration
	c := &HostClient{Addr: "h:80", Transport: roundTripFunc(func(_ *HostClient, req *Request, _ *Response) (bool, error) {
		inner = append(inner, req.call.Left(0))
		return false, nil
	})}
	req, resp := newCall("GET", "http://h/")
	near := func(i int, want time.Duration) {
		t.Helper()
		if got := inner[i]; got > want || got < want-time.Minute {
			t.Errorf("call %d had %v, want %v", i, got, want)
		}
	}
	req.SetTimeout(2 * time.Hour)
	calls := []func() error{
		func() error { return c.Do(req, resp) },
		func() error { return c.DoTimeout(req, resp, time.Hour) },
		func() error { return c.DoTimeout(req, resp, 3*time.Hour) },
		func() error { return c.DoDeadline(req, resp, time.Now().Add(time.Hour)) },
		func() error { return c.DoContext(t.Context(), req, resp) },
	}
	for i, want := range []time.Duration{2, 1, 2, 1, 2} {
		if err := calls[i](); err != nil {
			t.Fatal(err)
		}
		near(i, want*time.Hour)
		if req.call != nil {
			t.Errorf("call %d left %+v", i, req.call)
		}
	}
	if req.GetTimeOut() != 2*time.Hour {
		t.Errorf("the request's own time-out is %v", req.GetTimeOut())
	}
	for _, none := range []time.Duration{0, -1} {
		if err := c.DoTimeout(req, resp, none); err != ErrTimeout || len(inner) != 5 {
			t.Errorf("%v: %v", none, err)
		}
	}
}
