package engine

import (
	"net"
	"testing"
)

type addressed struct {
	net.Conn
	remote net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.remote }

func TestAddressCounter(t *testing.T) {
	from := func(ip string, port int, zone string) net.Conn {
		return addressed{remote: &net.TCPAddr{IP: net.ParseIP(ip), Port: port, Zone: zone}}
	}
	var n AddressCounter
	for _, step := range []struct {
		c  net.Conn
		ok bool
	}{
		{from("192.0.2.1", 1, ""), true},
		{from("192.0.2.1", 2, ""), true},
		{from("::ffff:192.0.2.1", 3, ""), false},
		{from("192.0.2.2", 1, ""), true},
		{from("fe80::1", 1, "a"), true},
		{from("fe80::1", 1, "b"), true},
		{from("fe80::1", 1, "c"), false},
		{addressed{remote: &net.UnixAddr{}}, true},
		{addressed{}, true},
		{addressed{}, false},
	} {
		if ok := n.Add(step.c, 2); ok != step.ok {
			t.Errorf("%v: %v, want %v", step.c.RemoteAddr(), ok, step.ok)
		}
	}
	n.Remove(from("192.0.2.1", 9, ""))
	if !n.Add(from("192.0.2.1", 9, ""), 2) {
		t.Error("one that went still counts")
	}
	for range 2 {
		n.Remove(from("192.0.2.1", 9, ""))
	}
	if len(n.counts) != 3 {
		t.Errorf("%d addresses are remembered, want 3", len(n.counts))
	}
}
