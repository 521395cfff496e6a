package engine

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
)

// An Acceptor gives each new connection its Protocol. Root's Server and package
// tcp implement it; engines call it.
type Acceptor interface {
	// Open is called once for each accepted connection, after the TLS handshake if
	// there is one, on the goroutine that will serve it. A nil Protocol refuses
	// the connection: the engine writes as much of refusal as it can without
	// waiting, and closes the connection.
	Open(c Conn) (p Protocol, refusal []byte)
	// Admit is called before anything is spent on a connection, so before the TLS
	// handshake. Use c only for its addresses, and do not retain it. The result
	// false refuses the connection; the engine then writes refusal in plain text
	// if the connection is not TLS. Release is called once for every admitted
	// connection, after Protocol.Closed or after Open has refused it.
	Admit(c net.Conn) (ok bool, refusal []byte)
	Release(c net.Conn)
	// AcceptError reports a failed Accept that the engine will retry.
	AcceptError(err error)
}

// Hooks are optional callbacks of an Acceptor. Each may be nil. Engines call them
// on their goroutines, so they must not block.
type Hooks struct {
	// Arrived is called for every connection as soon as the engine has it,
	// before Divert and Admit. Departed is called once for each of these when the
	// engine has finished with it: after Closed and Release, if these are called.
	Arrived, Departed func()
	// Divert is called for every connection that was accepted from a listener and
	// is a bare socket of package net; not for connections of TLS, ServeConn, Adopt
	// and AdoptConn. The result true means that Divert has taken ownership by
	// duplicating or sending fd; the engine then closes its descriptor and forgets
	// the connection. Divert must not call the engine.
	Divert func(fd int) bool
	// Proxy says which connections begin with a header of the PROXY protocol; nil: none.
	// Admit is called when that is there.
	Proxy *ProxyRule
}

// A Hooker is an Acceptor that has Hooks. Engines call Hooks once in a Serve,
// ServeConn or AdoptConn.
type Hooker interface {
	Hooks() Hooks
}

// HooksOf returns the hooks of a, none if it is no Hooker.
func HooksOf(a Acceptor) Hooks {
	if h, ok := a.(Hooker); ok {
		return h.Hooks()
	}
	return Hooks{}
}

// A PlainRefuser is an Acceptor that answers clients that do not speak TLS where it is
// spoken.
type PlainRefuser interface {
	// RefusePlain returns what is sent, without TLS, to a client whose first bytes,
	// five, are no TLS; nothing: the connection is closed.
	RefusePlain(first []byte) (refusal []byte)
}

// PlainRefusal returns what a has to say to the client of a TLS handshake that failed with
// err, and the connection below TLS. It returns nothing if the client speaks TLS.
func PlainRefusal(a Acceptor, err error) (below net.Conn, refusal []byte) {
	var header tls.RecordHeaderError
	r, ok := a.(PlainRefuser)
	if !ok || !errors.As(err, &header) || header.Conn == nil {
		return nil, nil
	}
	return header.Conn, r.RefusePlain(header.RecordHeader[:])
}

// A Waker is an Acceptor whose Protocols are Sleepers.
type Waker interface {
	// Wake returns a Protocol in the state in which Sleep was called. It does not
	// block, and calls only Prompter, Workers and NetConn of c.
	Wake(c Conn, m Memo) Protocol
}

// An Unpacker is an Acceptor that restores the Protocols that Packers have packed.
type Unpacker interface {
	// Unpack is Open for a connection that was adopted with state. It must not
	// retain state.
	Unpack(c Conn, state []byte) (p Protocol, refusal []byte)
}

// Open returns a's Protocol for c: from state with Unpack, without state with Open.
// Engines use it.
func Open(a Acceptor, c Conn, state []byte) (p Protocol, refusal []byte) {
	if len(state) > 0 {
		return a.(Unpacker).Unpack(c, state) // Parcel.For has seen that it is one
	}
	return a.Open(c)
}

// For returns a copy of p for a connection that a adopts. The error is ErrNoUnpacker
// if a cannot use its State. Engines use it.
func (p Parcel) For(a Acceptor) (Parcel, error) {
	if _, unpacks := a.(Unpacker); len(p.State) > 0 && !unpacks {
		return Parcel{}, ErrNoUnpacker
	}
	return Parcel{
		Leftover: bytes.Clone(p.Leftover), State: bytes.Clone(p.State), TLS: bytes.Clone(p.TLS), Proxy: bytes.Clone(p.Proxy),
	}, nil
}
