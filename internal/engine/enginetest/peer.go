package enginetest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A peer is a client's end.
type peer struct {
	net.Conn
	in     *bufio.Reader
	server *server
	frame  []byte // what receiveBytes has returned last
}

// connect dials the server. The connection ends with the test.
func (s *server) connect(t *testing.T) *peer {
	t.Helper()
	c, err := s.dial()
	if err != nil {
		t.Fatal(err)
	}
	return newPeer(t, s, c)
}

// newPeer takes c, until the end of the test.
func newPeer(t *testing.T, s *server, c net.Conn) *peer {
	t.Cleanup(func() { _ = c.Close() })
	return newLonePeer(s, c)
}

// newLonePeer is newPeer for those who close c themselves.
func newLonePeer(s *server, c net.Conn) *peer {
	_ = c.SetDeadline(time.Now().Add(patience))
	return &peer{Conn: c, in: bufio.NewReader(c), server: s}
}

// state is the engine's, where err says that something did not happen in time.
func (p *peer) state(err error) string {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return p.server.state()
	}
	return ""
}

// frames returns the commands as input.
func frames(commands ...string) []byte {
	var out []byte
	for _, command := range commands {
		out = appendFrame(out, command)
	}
	return out
}

// send writes bytes.
func (p *peer) send(t *testing.T, data []byte) {
	t.Helper()
	if _, err := p.Write(data); err != nil {
		t.Fatalf("write: %v%s", err, p.state(err))
	}
}

// sendLater writes bytes without waiting until they are taken.
func (p *peer) sendLater(data []byte) (done chan error) {
	done = make(chan error, 1)
	go func() {
		_, err := p.Write(data)
		done <- err
	}()
	return done
}

// receive reads a frame.
func (p *peer) receive() (string, error) {
	payload, err := p.receiveBytes()
	return string(payload), err
}

// receiveBytes is receive with bytes that the next frame overwrites. Large frames are
// many, and fresh memory for each would be half of the suite's time.
func (p *peer) receiveBytes() ([]byte, error) {
	head, err := p.in.ReadString(':')
	if err != nil {
		if head != "" && err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	length, err := strconv.Atoi(strings.TrimSuffix(head, ":"))
	if err != nil {
		return nil, err
	}
	p.frame = slices.Grow(p.frame[:0], length)[:length]
	_, err = io.ReadFull(p.in, p.frame)
	return p.frame, err
}

// expect reads frames and compares them.
func (p *peer) expect(t *testing.T, want ...string) {
	t.Helper()
	for i, w := range want {
		got, err := p.receiveBytes()
		if err != nil {
			t.Fatalf("answer %d: %v, want %s%s", i, err, shortened(w), p.state(err))
		}
		if string(got) != w {
			t.Fatalf("answer %d: %s, want %s", i, shortened(string(got)), shortened(w))
		}
	}
}

// ask sends a command and expects its answer.
func (p *peer) ask(t *testing.T, command, want string) {
	t.Helper()
	p.send(t, frames(command))
	p.expect(t, want)
}

// expectEnd expects an orderly end.
func (p *peer) expectEnd(t *testing.T) {
	t.Helper()
	if got, err := p.receive(); err != io.EOF {
		t.Fatalf("got %s and %v, want the end%s", shortened(got), err, p.state(err))
	}
}

// expectGone expects an end of any kind.
func (p *peer) expectGone(t *testing.T) {
	t.Helper()
	got, err := p.receive()
	if err == nil {
		t.Fatalf("got %s, want the end", shortened(got))
	}
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Fatalf("the connection was not closed%s", p.state(err))
	}
}

// closeWrite ends the client's sending.
func (p *peer) closeWrite(t *testing.T) {
	t.Helper()
	if err := p.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatalf("CloseWrite: %v", err)
	}
}

func shortened(s string) string {
	if len(s) > 60 {
		return strconv.Quote(s[:60]) + "... (" + strconv.Itoa(len(s)) + " bytes)"
	}
	return strconv.Quote(s)
}

// reset ends the connection as rudely as its network can.
func (p *peer) reset() {
	under := p.Conn
	if wrapper, ok := under.(interface{ NetConn() net.Conn }); ok {
		under = wrapper.NetConn()
	}
	if tc, ok := under.(*net.TCPConn); ok {
		_ = tc.SetLinger(0)
	}
	_ = under.Close()
}
