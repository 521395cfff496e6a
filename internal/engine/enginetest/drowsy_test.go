package enginetest

import (
	"net"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A drowsy engine lets every Protocol sleep that can, on top of an engine that
// lets none: the suite's sleepers are tested without an engine that needs them.
type drowsy struct{ engine.Engine }

// Serve implements engine.Engine.
func (e drowsy) Serve(ln net.Listener, a engine.Acceptor) error {
	return e.Engine.Serve(ln, drowsyAcceptor{a})
}

// ServeConn implements engine.Engine.
func (e drowsy) ServeConn(c net.Conn, leftover []byte, a engine.Acceptor) error {
	return e.Engine.ServeConn(c, leftover, drowsyAcceptor{a})
}

// AdoptConn implements engine.Engine.
func (e drowsy) AdoptConn(c net.Conn, p engine.Parcel, a engine.Acceptor) error {
	if _, unpacks := a.(engine.Unpacker); !unpacks { // as drowsyAcceptors are
		return e.Engine.AdoptConn(c, p, a)
	}
	return e.Engine.AdoptConn(c, p, drowsyAcceptor{a})
}

type drowsyAcceptor struct{ engine.Acceptor }

// Hooks implements engine.Hooker.
func (a drowsyAcceptor) Hooks() engine.Hooks { return engine.HooksOf(a.Acceptor) }

// Open implements engine.Acceptor.
func (a drowsyAcceptor) Open(c engine.Conn) (engine.Protocol, []byte) {
	p, refusal := a.Acceptor.Open(c)
	return a.drowsy(c, p), refusal
}

// Unpack implements engine.Unpacker.
func (a drowsyAcceptor) Unpack(c engine.Conn, state []byte) (engine.Protocol, []byte) {
	p, refusal := a.Acceptor.(engine.Unpacker).Unpack(c, state)
	return a.drowsy(c, p), refusal
}

func (a drowsyAcceptor) drowsy(c engine.Conn, p engine.Protocol) engine.Protocol {
	if p == nil || !p.Capabilities().Has(engine.CanSleep) {
		return p
	}
	return &drowsyProtocol{awake: p, can: p.Capabilities(), waker: a.Acceptor.(engine.Waker), conn: c}
}

// A drowsyProtocol sleeps whenever it may.
type drowsyProtocol struct {
	awake engine.Protocol // nil: asleep
	can   engine.Capabilities
	memo  engine.Memo
	waker engine.Waker
	conn  engine.Conn
}

func (p *drowsyProtocol) protocol() engine.Protocol {
	if p.awake == nil {
		p.awake = p.waker.Wake(p.conn, p.memo)
	}
	return p.awake
}

func (p *drowsyProtocol) Capabilities() engine.Capabilities { return p.can &^ engine.CanSleep }

func (p *drowsyProtocol) Start() engine.Next { return p.awake.(engine.Starter).Start() }

func (p *drowsyProtocol) Pause() bool {
	if p.awake == nil {
		return true
	}
	if !p.awake.Pause() {
		return false
	}
	memo, ok := p.awake.(engine.Sleeper).Sleep()
	if ok {
		p.memo, p.awake = memo, nil
	}
	return true
}

func (p *drowsyProtocol) CanRewind() bool { return p.awake.(engine.Rewinder).CanRewind() }

func (p *drowsyProtocol) Rewind() []byte { return p.awake.(engine.Rewinder).Rewind() }

func (p *drowsyProtocol) Prompted(out []byte) ([]byte, engine.Next) {
	return p.protocol().(engine.Prompted).Prompted(out)
}

func (p *drowsyProtocol) Successor() engine.Protocol {
	next := p.protocol().(engine.Switcher).Successor()
	return &drowsyProtocol{awake: next, can: next.Capabilities(), waker: p.waker, conn: p.conn}
}

func (p *drowsyProtocol) Pack(dst []byte) ([]byte, bool) {
	return p.protocol().(engine.Packer).Pack(dst)
}

func (p *drowsyProtocol) Room() []byte {
	if p.awake == nil {
		return nil
	}
	return p.awake.(engine.Receiver).Room()
}

func (p *drowsyProtocol) Feed(in []byte) (int, engine.Next)       { return p.protocol().Feed(in) }
func (p *drowsyProtocol) Run(out []byte) ([]byte, engine.Next)    { return p.protocol().Run(out) }
func (p *drowsyProtocol) HalfClosed(out []byte) []byte            { return p.protocol().HalfClosed(out) }
func (p *drowsyProtocol) TimedOut(o []byte) ([]byte, engine.Next) { return p.protocol().TimedOut(o) }
func (p *drowsyProtocol) Detached(c net.Conn)                     { p.protocol().Detached(c) }
func (p *drowsyProtocol) Closed(err error)                        { p.protocol().Closed(err) }
