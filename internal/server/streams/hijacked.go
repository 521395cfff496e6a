package streams

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"sync"

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
)

// A Tunnel is the net.Conn over the stream of an extended CONNECT (RFC 8441 section 4, RFC 9220).
type Tunnel interface {
	net.Conn
	// SendHead sends an interim head, or the final one, with which the stream ends if isLast.
	SendHead(f Fields, isInterim, isLast bool) bool
	// CloseWrite ends the direction to the peer after what was written.
	CloseWrite() error
	// Outlive makes the Tunnel go on after its request, without deadlines, until Close. It is
	// false if it is closed.
	Outlive() bool
	// Revoke ends the use of the Tunnel, and leaves the stream to the request.
	Revoke()
	// Abort is Close with a reset at once.
	Abort()
}

// A HijackedConn is the connection that RequestCtx.Conn and HijackHandlers get of an extended
// CONNECT. Before the response was sent, Write expects a response of HTTP/1.1: that is
// what handlers write that answer on the connection.
type HijackedConn struct {
	net.Conn // Tunnel
	Tunnel   Tunnel
	netConn  net.Conn // of the connection
	isKeyed  bool

	mu    sync.Mutex // Write and the answer
	phase tunnelPhase
	head  []byte // the beginning of a response of HTTP/1.1
}

// A tunnelPhase is how far the answer to an extended CONNECT is.
type tunnelPhase uint8

const (
	tunnelAsked    tunnelPhase = iota // there is none
	tunnelAccepted                    // the stream is a tunnel
	tunnelRefused                     // the request has another answer
)

// NewHijackedConn returns the HijackedConn over t, on the connection netConn. isKeyed: the
// client has sent Sec-WebSocket-Key.
func NewHijackedConn(t Tunnel, netConn net.Conn, isKeyed bool) *HijackedConn {
	return &HijackedConn{Conn: t, Tunnel: t, netConn: netConn, isKeyed: isKeyed}
}

// Serve runs a hijack handler by run, which is RunHijacked of the server.
func (t *HijackedConn) Serve(handler func(net.Conn), run func(c net.Conn, handler func(net.Conn)) (hasReturned bool)) {
	hasReturned := false
	defer func() {
		if !hasReturned { // it has panicked, or called Goexit
			t.Tunnel.Abort()
		}
	}()
	hasReturned = run(t, handler)
}

// Answer sends the final head, once.
func (t *HijackedConn) Answer(h *message.ResponseHeader, f message.Framing) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answerLocked(h, f)
}

func (t *HijackedConn) answerLocked(h *message.ResponseHeader, f message.Framing) bool {
	if t.phase != tunnelAsked {
		return false
	}
	t.phase = tunnelRefused
	if server.IsTunnelStatus(h.Status()) {
		t.phase = tunnelAccepted
	}
	return t.Tunnel.SendHead(Acceptance(h, f, t.isKeyed), false, t.phase == tunnelRefused)
}

// Revoke leaves the stream to another answer. It is false if there was one.
func (t *HijackedConn) Revoke() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.phase != tunnelAsked {
		return false
	}
	t.phase = tunnelRefused
	t.Tunnel.Revoke()
	return true
}

// Acceptance returns what is sent of a head that accepts an extended CONNECT, or refuses it.
func Acceptance(h *message.ResponseHeader, f message.Framing, isKeyed bool) Fields {
	if !isKeyed {
		h.Del([]byte("Sec-WebSocket-Accept")) // of a key that the client does not know
	}
	return tunnelHead{h, f}
}

// tunnelHead implements Fields for the response to an extended CONNECT: 101
// is 200 there.
type tunnelHead struct {
	header  *message.ResponseHeader
	framing message.Framing
}

// AppendFields implements Fields.
func (t tunnelHead) AppendFields(dst []byte, e message.FieldEncoder) []byte {
	if t.header.Status() == statusSwitching {
		t.header.SetStatus(statusOK)
		defer t.header.SetStatus(statusSwitching)
	}
	return t.header.AppendFields(dst, e, t.framing)
}

// Write implements net.Conn.
func (t *HijackedConn) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.phase == tunnelAccepted {
		return t.Tunnel.Write(p)
	}
	return t.writeHead(p)
}

// CloseWrite ends the output, as that of a *net.TCPConn does; the peer may go on sending. It
// returns net.ErrClosed if the request was not accepted.
func (t *HijackedConn) CloseWrite() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.phase != tunnelAccepted {
		return net.ErrClosed
	}
	return t.Tunnel.CloseWrite()
}

// writeHead collects a response of HTTP/1.1, sends its head and what follows it. The
// content of a refusal is dropped.
func (t *HijackedConn) writeHead(p []byte) (int, error) {
	if t.phase == tunnelRefused {
		return 0, net.ErrClosed
	}
	t.head = append(t.head, p...)
	before, after, isWhole := bytes.Cut(t.head, []byte("\r\n\r\n"))
	if !isWhole && len(t.head) <= maxTunnelHead {
		return len(p), nil
	}
	t.head = nil
	var h message.ResponseHeader
	head := bufio.NewReaderSize(bytes.NewReader(append(before, "\r\n\r\n"...)), maxTunnelHead)
	if err := h.Read(head, message.ReaderLimits(head), nil); err != nil {
		t.phase = tunnelRefused
		t.Tunnel.Abort()
		return 0, fmt.Errorf("sluice: over HTTP/2 and HTTP/3, a hijacked connection begins with a response of HTTP/1.1: %w", err)
	}
	framing := message.Framing{Length: -2, OmitDefaultType: true}
	if status := h.Status(); status < statusOK && status != statusSwitching {
		if !t.Tunnel.SendHead(tunnelHead{&h, framing}, true, false) {
			return 0, net.ErrClosed
		}
		if len(after) > 0 { // the next one begins
			_, err := t.writeHead(after)
			return len(p), err
		}
		return len(p), nil
	}
	if !t.answerLocked(&h, framing) {
		return 0, net.ErrClosed
	}
	if t.phase == tunnelAccepted && len(after) > 0 {
		if _, err := t.Tunnel.Write(after); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

const (
	statusSwitching = 101
	statusOK        = 200
)

// maxTunnelHead is how long a head may be that is written to a tunnel.
const maxTunnelHead = 16 << 10

// ConnectionState returns the state of a TLS connection.
func (t *HijackedConn) ConnectionState() tls.ConnectionState {
	return TLSStateOf(t.netConn)
}
