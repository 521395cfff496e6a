//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package sock

import (
	"strings"
	"syscall"
	"unsafe"
)

// An Address is a socket address as the kernel writes it. The zero value is no
// address.
type Address struct {
	any    syscall.RawSockaddrAny
	length uint32
}

// Family returns the address family, AF_UNSPEC for none.
func (a *Address) Family() uint16 {
	if a.length < 2 {
		return syscall.AF_UNSPEC
	}
	return a.any.Addr.Family
}

// IP returns the parts of an IP address. An IPv4 address is mapped to IPv6
// (RFC 4291 section 2.5.5.2). For addresses of other families all parts are 0.
func (a *Address) IP() (ip [16]byte, port uint16, scope uint32) {
	switch a.Family() {
	case syscall.AF_INET:
		v4 := a.inet4()
		ip[10], ip[11] = 0xff, 0xff
		copy(ip[12:], v4.Addr[:])
		return ip, swapped(v4.Port), 0
	case syscall.AF_INET6:
		v6 := a.inet6()
		return v6.Addr, swapped(v6.Port), v6.Scope_id
	}
	return ip, 0, 0
}

// UnixName returns the name of a unix socket as package net writes it.
func (a *Address) UnixName() string {
	const familySize, longest = 2, 108
	path := make([]byte, 0, longest)
	for _, b := range a.unix().Path[:min(max(int(a.length), familySize)-familySize, longest)] {
		path = append(path, byte(b))
	}
	if len(path) > 0 && path[0] == 0 { // an abstract name, which may contain zero bytes
		return "@" + string(path[1:])
	}
	name, _, _ := strings.Cut(string(path), "\x00")
	return name
}

func (a *Address) inet4() *syscall.RawSockaddrInet4 {
	return (*syscall.RawSockaddrInet4)(unsafe.Pointer(&a.any))
}

func (a *Address) inet6() *syscall.RawSockaddrInet6 {
	return (*syscall.RawSockaddrInet6)(unsafe.Pointer(&a.any))
}

func (a *Address) unix() *syscall.RawSockaddrUnix {
	return (*syscall.RawSockaddrUnix)(unsafe.Pointer(&a.any))
}

func swapped(port uint16) uint16 { return port<<8 | port>>8 }

// PeerName writes the address of fd's peer to a.
func PeerName(fd int, a *Address) syscall.Errno {
	return a.ask(syscall.SYS_GETPEERNAME, fd)
}

// LocalName writes the address of fd itself to a.
func LocalName(fd int, a *Address) syscall.Errno {
	return a.ask(syscall.SYS_GETSOCKNAME, fd)
}

func (a *Address) ask(call uintptr, fd int) syscall.Errno {
	a.length = syscall.SizeofSockaddrAny
	_, _, errno := syscall.RawSyscall(call, uintptr(fd),
		uintptr(unsafe.Pointer(&a.any)), uintptr(unsafe.Pointer(&a.length)))
	return errno
}
