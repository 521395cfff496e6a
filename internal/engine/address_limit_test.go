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
	limit := AddressLimit{Conns: 2}
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
		{addressed{remote: &net.UnixAddr{}}, true},
		{addressed{remote: &net.UnixAddr{}}, true},
		{addressed{}, true},
		{addressed{}, true},
		{addressed{}, true},
	} {
		if ok := n.Add(step.c, limit); ok != step.ok {
			t.Errorf("%v: %v, want %v", step.c.RemoteAddr(), ok, step.ok)
		}
	}
	n.Remove(from("192.0.2.1", 9, ""), limit)
	if !n.Add(from("192.0.2.1", 9, ""), limit) {
		t.Error("one that went still counts")
	}
	for range 2 {
		n.Remove(from("192.0.2.1", 9, ""), limit)
	}
	n.Remove(addressed{}, limit)
	if len(n.counts) != 2 {
		t.Errorf("%d addresses are remembered, want 2", len(n.counts))
	}
}

// TestAddressLimitPrefix: whoever has a network of IPv6 addresses is one client.
func TestAddressLimitPrefix(t *testing.T) {
	from := func(ip string) net.Conn { return addressed{remote: &net.TCPAddr{IP: net.ParseIP(ip), Port: 1}} }
	for _, c := range []struct {
		prefix int
		a, b   string
		isSame bool
	}{
		{0, "2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", true},
		{0, "2001:db8:1:2::1", "2001:db8:1:3::1", false},
		{-1, "2001:db8:1:2::1", "2001:db8:1:2::2", true},
		{56, "2001:db8:1:200::1", "2001:db8:1:2ff::1", true},
		{56, "2001:db8:1:200::1", "2001:db8:1:300::1", false},
		{128, "2001:db8:1:2::1", "2001:db8:1:2::2", false},
		{1000, "2001:db8:1:2::1", "2001:db8:1:2::2", false},
		{1000, "2001:db8:1:2::1", "2001:db8:1:2::1", true},
		{0, "::ffff:192.0.2.1", "192.0.2.1", true},
		{0, "::ffff:192.0.2.1", "::ffff:192.0.2.2", false},
		{8, "192.0.2.1", "192.0.2.2", false},
	} {
		var n AddressCounter
		limit := AddressLimit{Conns: 1, PrefixIPv6: c.prefix}
		if !n.Add(from(c.a), limit) {
			t.Fatal("the first one is refused")
		}
		if isSame := !n.Add(from(c.b), limit); isSame != c.isSame {
			t.Errorf("/%d: %s and %s are one client: %v, want %v", c.prefix, c.a, c.b, isSame, c.isSame)
		}
		n.Remove(from(c.a), limit)
		if !c.isSame {
			n.Remove(from(c.b), limit)
		}
		if len(n.counts) != 0 {
			t.Errorf("/%d: %d clients are remembered", c.prefix, len(n.counts))
		}
	}
}
