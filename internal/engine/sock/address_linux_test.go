//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package sock

import (
	"net/netip"
	"syscall"
	"testing"
)

// What names of unix sockets the kernel writes, and what package net makes of
// them.
func TestUnixNames(t *testing.T) {
	for _, c := range []struct {
		path   string
		length int
		want   string
	}{
		{"", 2, ""}, {"", 0, ""}, {"/tmp/s\x00", 2 + 7, "/tmp/s"}, {"/tmp/s", 2 + 6, "/tmp/s"},
		{"/tmp/s\x00junk", 2 + 11, "/tmp/s"}, {"\x00name", 2 + 5, "@name"}, {"\x00na\x00me", 2 + 6, "@na\x00me"},
		{"\x00", 2 + 1, "@"}, {"/tmp/s", 2 + 500, "/tmp/s"},
	} {
		a := Address{length: uint32(c.length)}
		for i := range len(c.path) {
			a.unix().Path[i] = int8(c.path[i])
		}
		if got := a.UnixName(); got != c.want {
			t.Errorf("%q of %d bytes is %q, want %q", c.path, c.length, got, c.want)
		}
	}
}

// IP addresses come back in the form of 16 bytes; what is no IP address has no
// parts.
func TestIP(t *testing.T) {
	for _, text := range []string{"127.0.0.1:80", "203.0.113.9:65535", "[::1]:8080", "[2001:db8::1]:1"} {
		want := netip.MustParseAddrPort(text)
		var a Address
		if ip := want.Addr(); ip.Is4() {
			a.length = syscall.SizeofSockaddrInet4
			*a.inet4() = syscall.RawSockaddrInet4{Family: syscall.AF_INET, Port: swapped(want.Port()), Addr: ip.As4()}
		} else {
			a.length = syscall.SizeofSockaddrInet6
			*a.inet6() = syscall.RawSockaddrInet6{Family: syscall.AF_INET6, Port: swapped(want.Port()), Addr: ip.As16(), Scope_id: 3}
		}
		ip, port, scope := a.IP()
		if got := netip.AddrPortFrom(netip.AddrFrom16(ip).Unmap(), port); got != want || (scope == 3) != want.Addr().Is6() {
			t.Errorf("%v came back as %v, scope %d", want, got, scope)
		}
	}
	for _, length := range []uint32{0, 2} {
		a := Address{length: length}
		if ip, port, scope := a.IP(); ip != [16]byte{} || port != 0 || scope != 0 || a.Family() != syscall.AF_UNSPEC {
			t.Errorf("no address has the parts %v, %d, %d", ip, port, scope)
		}
	}
}
