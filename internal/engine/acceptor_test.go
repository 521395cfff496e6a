package engine

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"testing"
)

// plainAcceptor has no optional methods.
type plainAcceptor struct{ Acceptor }

func (plainAcceptor) Open(Conn) (Protocol, []byte) { return nil, []byte("opened") }

// fullAcceptor has all of them.
type fullAcceptor struct{ plainAcceptor }

func (fullAcceptor) Hooks() Hooks                                       { return Hooks{Arrived: func() {}} }
func (fullAcceptor) RefusePlain(first []byte) []byte                    { return append([]byte("no TLS: "), first...) }
func (fullAcceptor) Unpack(_ Conn, state []byte) (p Protocol, r []byte) { return nil, state }

func TestOptionalPartsOfAcceptors(t *testing.T) {
	if HooksOf(plainAcceptor{}).Arrived != nil || HooksOf(fullAcceptor{}).Arrived == nil {
		t.Error("HooksOf finds others than those of the acceptor")
	}
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	spoken := error(tls.RecordHeaderError{Conn: server, RecordHeader: [5]byte{'G', 'E', 'T', ' ', '/'}})
	if below, refusal := PlainRefusal(fullAcceptor{}, spoken); below != server || string(refusal) != "no TLS: GET /" {
		t.Errorf("refused with %q", refusal)
	}
	for _, err := range []error{errors.New("other"), tls.RecordHeaderError{}} {
		if below, refusal := PlainRefusal(fullAcceptor{}, err); below != nil || refusal != nil {
			t.Errorf("%v: refused with %q", err, refusal)
		}
	}
	if below, _ := PlainRefusal(plainAcceptor{}, spoken); below != nil {
		t.Error("an acceptor refuses that cannot")
	}
}

func TestAdoptedState(t *testing.T) {
	p := Parcel{Leftover: []byte("rest"), State: []byte("state")}
	if _, err := p.For(plainAcceptor{}); err != ErrNoUnpacker {
		t.Errorf("a state that the acceptor cannot use: %v", err)
	}
	got, err := p.For(fullAcceptor{})
	if err != nil || !bytes.Equal(got.Leftover, p.Leftover) || !bytes.Equal(got.State, p.State) || &got.State[0] == &p.State[0] {
		t.Errorf("%q, %v; want a copy", got, err)
	}
	if _, refusal := Open(fullAcceptor{}, nil, got.State); string(refusal) != "state" {
		t.Errorf("with a state: %q", refusal)
	}
	if _, refusal := Open(fullAcceptor{}, nil, nil); string(refusal) != "opened" {
		t.Errorf("without a state: %q", refusal)
	}
}

func TestLeaverLeaves(t *testing.T) {
	var l Leaver
	if l.Start() != Detach || !l.Capabilities().Has(CanStart) || l.Capabilities().Has(CanPack) || l.Pause() {
		t.Error("a Leaver does not leave at once")
	}
	if used, next := l.Feed([]byte("x")); used != 0 || next != Detach {
		t.Errorf("Feed: %d, %v", used, next)
	}
	if out, next := l.Run([]byte("x")); string(out) != "x" || next != Detach {
		t.Errorf("Run: %q, %v", out, next)
	}
	if out := l.HalfClosed([]byte("x")); string(out) != "x" {
		t.Errorf("HalfClosed: %q", out)
	}
	if out, next := l.TimedOut([]byte("x")); string(out) != "x" || next != Abort {
		t.Errorf("TimedOut: %q, %v", out, next)
	}
}
