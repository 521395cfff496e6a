package prefork

import (
	"encoding/binary"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Constants of inet_diag(7).
const (
	netlinkSockDiag  = 4
	sockDiagByFamily = 20
	diagRequestSize  = 56
	diagAnswerSize   = 72
	tcpEstablished   = 1
	tcpCloseWait     = 8
)

// A tcpSocket is one end of a connection, on this machine.
type tcpSocket struct {
	local, remote int // ports
	inode         uint32
}

// tcpSockets lists the connections over IPv4 that both ends have open, or that only
// the client has closed. /proc/net/tcp has the same, but is slow after thousands of
// connections have ended.
func tcpSockets(t *testing.T) (all []tcpSocket) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, netlinkSockDiag)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	request := make([]byte, syscall.NLMSG_HDRLEN+diagRequestSize)
	binary.NativeEndian.PutUint32(request, uint32(len(request)))
	binary.NativeEndian.PutUint16(request[4:], sockDiagByFamily)
	binary.NativeEndian.PutUint16(request[6:], syscall.NLM_F_REQUEST|syscall.NLM_F_DUMP)
	request[16], request[17] = syscall.AF_INET, syscall.IPPROTO_TCP
	binary.NativeEndian.PutUint32(request[20:], 1<<tcpEstablished|1<<tcpCloseWait)
	if err := syscall.Sendto(fd, request, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		t.Fatal(err)
	}
	for buffer := make([]byte, 64<<10); ; {
		n, _, err := syscall.Recvfrom(fd, buffer, 0)
		if err != nil {
			t.Fatal(err)
		}
		messages, err := syscall.ParseNetlinkMessage(buffer[:n])
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			switch {
			case m.Header.Type == syscall.NLMSG_DONE:
				return all
			case m.Header.Type == syscall.NLMSG_ERROR || len(m.Data) < diagAnswerSize:
				t.Fatalf("sock_diag: message %d: %x", m.Header.Type, m.Data)
			}
			all = append(all, tcpSocket{
				local:  int(binary.BigEndian.Uint16(m.Data[4:])),
				remote: int(binary.BigEndian.Uint16(m.Data[6:])),
				inode:  binary.NativeEndian.Uint32(m.Data[68:]),
			})
		}
	}
}

// clientsOf returns the ports of a process's clients.
func clientsOf(t *testing.T, pid int) (ports []int) {
	t.Helper()
	held := make(map[string]bool)
	for _, d := range descriptors(pid) {
		if _, inode, isSocket := strings.Cut(d, "socket:["); isSocket {
			held[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for _, s := range tcpSockets(t) {
		if held[strconv.Itoa(int(s.inode))] {
			ports = append(ports, s.remote)
		}
	}
	return ports
}

// waitingAt counts connections to a port that no process has accepted.
func waitingAt(t *testing.T, port int) (n int) {
	t.Helper()
	for _, s := range tcpSockets(t) {
		if s.local == port && s.inode == 0 {
			n++
		}
	}
	return n
}

// portOf returns an address's port.
func portOf(addr string) int {
	_, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port)
	return n
}
