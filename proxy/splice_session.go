package proxy

import (
	"net"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/invariants"
)

// A spliceSession is the engine.Protocol of an end of a splice that is awake.
type spliceSession struct {
	splice *splice
	conn   engine.Conn
	side   side
	owned  invariants.Pooled

	to       [1]engine.Target // of a cast that is running
	isMissed bool             // it has sent nothing
	miss     func(int)        // sets isMissed
}

var (
	_ engine.HalfCloser = (*spliceSession)(nil)
	_ engine.Prompted   = (*spliceSession)(nil)
	_ engine.Protocol   = (*spliceSession)(nil)
	_ engine.Sleeper    = (*spliceSession)(nil)
	_ engine.Stopper    = (*spliceSession)(nil)
)

// Capabilities implements engine.Protocol.
func (x *spliceSession) Capabilities() engine.Capabilities {
	return engine.CanPrompt | engine.CanSleep | engine.CanStop | engine.CanHalfClose | engine.IsDuplex | engine.NeverBlocks
}

// Feed passes in on; see engine.Protocol.
func (x *spliceSession) Feed(in []byte) (used int, next engine.Next) {
	x.count(x.side, len(in), 0)
	switch {
	case x.splice.events == nil:
		return len(in), x.pass(in)
	case x.side == clientSide:
		return len(in), engine.Read // it has nothing to say until the end of the body
	}
	return len(in), x.passEvents(in)
}

// pass passes p on to the other end.
func (x *spliceSession) pass(p []byte) engine.Next {
	to, mayCast := x.splice.begin(x.side)
	switch {
	case mayCast && x.cast(to, p):
		x.count(x.side.other(), 0, len(p))
	case !x.splice.leave(x.side, p):
		return engine.Close
	}
	return engine.Read
}

// passEvents passes on what in has of the body, up to its end.
func (x *spliceSession) passEvents(in []byte) engine.Next {
	b := buf.Get(len(in) + maxReframing)
	defer b.Release()
	out, isOver, err := x.splice.events.append(b.B, in)
	b.B = out
	switch {
	case err != nil:
		return engine.Abort
	case len(out) > 0 && x.pass(out) != engine.Read, isOver:
		return engine.Close
	}
	return engine.Read
}

// cast writes in to the other end, if that is idle.
func (x *spliceSession) cast(to engine.Target, in []byte) bool {
	x.to[0], x.isMissed = to, false
	if x.side == clientSide {
		x.splice.engine.Cast(x.to[:], in, x.miss)
	} else {
		x.splice.host.server.Cast(x.to[:], in, x.miss)
	}
	return !x.isMissed
}

// count counts bytes of the client's connection.
func (x *spliceSession) count(at side, read, written int) {
	if at == clientSide {
		x.splice.host.server.Count(read, written)
	}
}

// Stops implements engine.Stopper.
func (x *spliceSession) Stops() bool {
	stops, _ := x.splice.stops(x.side)
	return stops
}

// Prompted writes what the other end has left; see engine.Prompted.
func (x *spliceSession) Prompted(out []byte) ([]byte, engine.Next) {
	before := len(out)
	out, next := x.splice.take(x.side, out)
	x.count(x.side, 0, len(out)-before)
	if next == engine.EndOutput {
		x.arm()
	}
	return out, next
}

// PeerEnded implements engine.HalfCloser.
func (x *spliceSession) PeerEnded(out []byte) ([]byte, engine.Next) {
	if x.splice.events != nil {
		return out, engine.Close // the client is gone, or the body is incomplete
	}
	x.splice.silent(x.side)
	x.arm()
	return x.Prompted(out)
}

// arm sets when the splice ends if nothing comes. The client's end does that for both.
func (x *spliceSession) arm() {
	if x.side == clientSide {
		left := x.splice.left()
		if left < 0 {
			left = 1
		}
		x.conn.SetReadDeadline(clock.Nanos(), left)
	}
}

// TimedOut ends a splice through which nothing goes; see engine.Protocol.
func (x *spliceSession) TimedOut(out []byte) ([]byte, engine.Next) {
	if x.splice.left() < 0 {
		return out, engine.Close
	}
	x.arm()
	return out, engine.Read
}

// Run implements engine.Protocol; Feed never asks for it.
func (x *spliceSession) Run(out []byte) ([]byte, engine.Next) { return out, engine.Read }

// HalfClosed implements engine.Protocol; engines with Targets call PeerEnded.
func (x *spliceSession) HalfClosed(out []byte) []byte { return out }

// Detached implements engine.Protocol; it is never called.
func (x *spliceSession) Detached(c net.Conn) { _ = c.Close() }

// Pause implements engine.Protocol.
func (x *spliceSession) Pause() (isIdle bool) {
	_, isFull := x.splice.stops(x.side)
	return !isFull
}

// Sleep releases x until something happens; see engine.Sleeper.
func (x *spliceSession) Sleep() (engine.Memo, bool) {
	m := x.splice.host.memo(x.splice.index, x.side)
	releaseSpliceSession(x)
	return m, true
}

// Closed implements engine.Protocol.
func (x *spliceSession) Closed(error) {
	x.splice.closed(x.side)
	releaseSpliceSession(x)
}
