package middleware

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// long: a table
func TestRealIP(t *testing.T) {
	const proxy, client = "10.0.0.1:99", "203.0.113.9:0"
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("::ffff:172.16.0.0/108")}
	forwardedFor := RealIPOptions{Trusted: trusted}
	forwarded := RealIPOptions{Trusted: trusted, Header: "forwarded"}
	for _, c := range []struct {
		options RealIPOptions
		peer    string
		fields  []string
		want    string
	}{
		// X-Forwarded-For.
		{forwardedFor, proxy, nil, proxy},
		{forwardedFor, proxy, []string{"X-Forwarded-For: 203.0.113.9"}, client},
		{forwardedFor, proxy, []string{"X-Forwarded-For: 203.0.113.9, 10.1.1.1"}, client},
		{forwardedFor, proxy, []string{"X-Forwarded-For: 203.0.113.9,172.16.0.1 , fd00::1,, "}, client},
		{forwardedFor, proxy, []string{"X-Forwarded-For: 203.0.113.9:1234"}, "203.0.113.9:1234"},
		{forwardedFor, proxy, []string{"X-Forwarded-For: 2001:db8::1"}, "[2001:db8::1]:0"},
		{forwardedFor, proxy, []string{"X-Forwarded-For: [2001:db8::1]:443"}, "[2001:db8::1]:443"},
		{forwardedFor, proxy, []string{"X-Forwarded-For: 10.2.2.2, 10.1.1.1"}, "10.2.2.2:0"}, // a client of the own network
		{forwardedFor, "@", []string{"X-Forwarded-For: 203.0.113.9"}, client},                // a unix socket
		{forwardedFor, "[::ffff:10.0.0.1]:99", []string{"X-Forwarded-For: ::ffff:203.0.113.9"}, client},
		{forwardedFor, "[fe80::1%eth0]:99", []string{"X-Forwarded-For: 203.0.113.9, fe80::2%eth0"}, client},
		{RealIPOptions{Trusted: trusted, Header: "X-Real-Ip"}, proxy, []string{"X-Real-Ip: 203.0.113.9"}, client},

		// Attacks: what the client has sent stands on the left.
		{forwardedFor, proxy, []string{"X-Forwarded-For: 1.1.1.1, 203.0.113.9"}, client},
		{forwardedFor, proxy, []string{"X-Forwarded-For: 10.3.3.3, 203.0.113.9, 10.1.1.1"}, client},
		{forwardedFor, proxy, []string{"X-Forwarded-For: 1.1.1.1", "X-Forwarded-For: 203.0.113.9"}, client},
		{forwardedFor, proxy, []string{"x-forwarded-for: 203.0.113.9", "X-FORWARDED-FOR: 10.1.1.1"}, client},
		{forwardedFor, "203.0.113.9:7", []string{"X-Forwarded-For: 1.1.1.1", "Forwarded: for=1.1.1.1", "X-Real-Ip: 1.1.1.1"}, "203.0.113.9:7"},
		{RealIPOptions{}, proxy, []string{"X-Forwarded-For: 1.1.1.1"}, proxy},
		{forwardedFor, proxy, []string{"Forwarded: for=1.1.1.1", "X-Real-Ip: 1.1.1.1"}, proxy}, // no proxy of ours sets them
		{forwarded, proxy, []string{"X-Forwarded-For: 1.1.1.1"}, proxy},
		{forwardedFor, proxy, []string{"X-Forwarded-For: 1.1.1.1, nonsense"}, proxy},
		{forwardedFor, proxy, []string{"X-Forwarded-For: 1.1.1.1, unknown, 10.1.1.1"}, "10.1.1.1:0"},
		{forwardedFor, proxy, []string{"X-Forwarded-For: [1.1.1.1"}, proxy},
		{forwardedFor, proxy, []string{"X-Forwarded-For: [1.1.1.1]x"}, proxy},
		{forwardedFor, proxy, []string{"X-Forwarded-For: 1.1.1.1.1"}, proxy},
		{forwardedFor, proxy, []string{"X-Forwarded-For: fd00::1%eth0"}, "[fd00::1]:0"},

		// Forwarded.
		{forwarded, proxy, []string{"Forwarded: for=203.0.113.9"}, client},
		{forwarded, proxy, []string{`Forwarded: for="203.0.113.9:80";proto=https;by=10.0.0.1`}, "203.0.113.9:80"},
		{forwarded, proxy, []string{`Forwarded: proto=http; For="[2001:db8::1]:_x"`}, "[2001:db8::1]:0"},
		{forwarded, proxy, []string{`Forwarded: for=1.1.1.1, for=203.0.113.9;host=a.example, for=10.1.1.1`}, client},
		{forwarded, proxy, []string{`Forwarded: for=_hidden`}, proxy},
		{forwarded, proxy, []string{`Forwarded: for=1.1.1.1, proto=https`}, proxy},
		{forwarded, proxy, []string{`Forwarded: for=1.1.1.1;for=203.0.113.9`}, proxy},
		// The client opens a quoted string; the proxy's element follows.
		{forwarded, proxy, []string{`Forwarded: for="1.1.1.1, for=203.0.113.9`}, client},
		// The client's Host is quoted by the proxy.
		{forwarded, proxy, []string{`Forwarded: for=203.0.113.9;host="a, for=1.1.1.1"`}, proxy},
		{forwarded, proxy, []string{`Forwarded: for=203.0.113.9;host="a, for=1.1.1.1;x="`}, proxy},
		{forwarded, proxy, []string{`Forwarded: for=203.0.113.9;host="a\", for=1.1.1.1;x=\""`}, proxy},
		{forwarded, proxy, []string{`Forwarded: for=1.1.1.1 x`}, proxy},
		{forwarded, proxy, []string{`Forwarded: for`}, proxy},
		{forwarded, proxy, []string{`Forwarded: for=`}, proxy},
		{forwarded, proxy, []string{`Forwarded: for=""`}, proxy},
	} {
		peers := []net.Addr{&net.UnixAddr{Name: "@", Net: "unix"}}
		if c.peer != "@" {
			at := netip.MustParseAddrPort(c.peer)
			peers = []net.Addr{net.TCPAddrFromAddrPort(at), net.UDPAddrFromAddrPort(at)} // UDP: HTTP/3
		}
		for _, peer := range peers {
			ctx := request(t, append([]string{"GET / HTTP/1.1"}, c.fields...)...)
			ctx.SetRemoteAddr(peer)
			var seen string
			RealIP(c.options)(func(ctx *sluice.RequestCtx) { seen = ctx.RemoteAddr().String() })(ctx)
			if seen != c.want {
				t.Errorf("%s %s %q: %s, want %s", peer.Network(), peer, c.fields, seen, c.want)
			}
		}
	}
}

func FuzzForwarded(f *testing.F) {
	f.Add(`for="[2001:db8::1]:80";proto=https, for=10.0.0.1`)
	f.Add(`for=1.1.1.1;host="a, for=`)
	f.Fuzz(func(t *testing.T, line string) {
		r := &realIP{trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, node: parseForwarded}
		for _, safe := range []string{", for=203.0.113.9", `,for="203.0.113.9:0";proto=x, for=10.0.0.1`} {
			if at := r.find([][]byte{[]byte(line + safe)}); at.String() != "203.0.113.9:0" {
				t.Errorf("%q: %v", line+safe, at)
			}
		}
		r.node = parseNode
		if at := r.find([][]byte{[]byte(line), []byte("203.0.113.9 ,10.0.0.7")}); at.String() != "203.0.113.9:0" {
			t.Errorf("%q: %v", line, at)
		}
		if at, ok := parseNode(strings.TrimSpace(line)); ok && !at.IsValid() {
			t.Errorf("%q: %v", line, at)
		}
	})
}
