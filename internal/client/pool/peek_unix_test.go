//go:build unix

package pool

import (
	"net"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// wrapper embeds a connection, as the connections of counting dialers do.
type wrapper struct{ net.Conn }

// hider wraps a connection with a method.
type hider struct {
	net.Conn
	below net.Conn
}

func (h *hider) NetConn() net.Conn { return h.below }

// number is a connection that is no struct.
type number int

func (number) Read([]byte) (int, error)         { return 0, nil }
func (number) Write([]byte) (int, error)        { return 0, nil }
func (number) Close() error                     { return nil }
func (number) LocalAddr() net.Addr              { return nil }
func (number) RemoteAddr() net.Addr             { return nil }
func (number) SetDeadline(time.Time) error      { return nil }
func (number) SetReadDeadline(time.Time) error  { return nil }
func (number) SetWriteDeadline(time.Time) error { return nil }

// teller says itself whether it is quiet.
type teller struct {
	number
	isQuiet bool
}

func (t *teller) IsQuiet() bool { return t.isQuiet }

// namer has a field Conn that it does not embed.
type namer struct {
	number
	Conn net.Conn
}

// TestInnermost: through methods and embedded fields.
func TestInnermost(t *testing.T) {
	inner := number(1)
	for name, c := range map[string]net.Conn{
		"itself":          inner,
		"embedded":        wrapper{inner},
		"by pointer":      &wrapper{inner},
		"method":          &hider{below: inner},
		"all of them":     &wrapper{&hider{below: wrapper{inner}}},
		"method is first": &hider{Conn: number(2), below: inner},
	} {
		if got := innermost(c); got != net.Conn(inner) {
			t.Errorf("%s: %#v", name, got)
		}
	}
	empty, named := &wrapper{}, &namer{Conn: inner}
	if innermost(empty) != net.Conn(empty) || innermost(named) != net.Conn(named) {
		t.Error("a connection that wraps none is another one")
	}
}

// TestPeeker: what a Peeker says of a socket, of a connection that knows itself, and of
// one that it cannot check.
func TestPeeker(t *testing.T) {
	check := func(name string, c net.Conn, canLook, isQuiet bool) {
		t.Helper()
		var p Peeker
		p.Init(c)
		if p.CanLook() != canLook || p.IsQuiet() != isQuiet {
			t.Errorf("%s: can look %v, quiet %v", name, p.CanLook(), p.IsQuiet())
		}
	}
	check("unknown", number(1), false, true)
	check("quiet", &teller{isQuiet: true}, true, true)
	check("not quiet", wrapper{&teller{}}, true, false)

	mine, other := nettest.TCPPair(t)
	check("open socket", wrapper{mine}, true, true)
	if _, err := other.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	var p Peeker
	for p.Init(mine); p.IsQuiet(); {
		time.Sleep(time.Millisecond) // until the byte is there
	}
	if n, err := mine.Read(make([]byte, 2)); n != 1 || err != nil || !p.IsQuiet() {
		t.Errorf("peeking took the byte: %d, %v", n, err)
	}
	other.Close()
	for p.IsQuiet() {
		time.Sleep(time.Millisecond) // until the end is there
	}
	mine.Close()
	if p.IsQuiet() {
		t.Error("a closed socket is quiet")
	}
	check("closed socket", mine, true, false)
}
