// Package drive is the part of a connection that does not depend on how its bytes
// are moved: it calls the Protocol's methods in the order that package engine
// defines. The conns of engines embed a State, and are its Host.
package drive

import (
	"io"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A Host moves the bytes of one connection. Only its State calls it.
type Host interface {
	// BeginRun is called before a method of the Protocol that may append output, and
	// EndRun after it. EndRun ends what the Protocol has asked of the Conn, and
	// returns the next step. isMuch tells to write Out before another request runs;
	// it is false with Abort.
	BeginRun()
	EndRun(next engine.Next) (after engine.Next, isMuch bool)
	// Flush writes Out and empties it, and then sends the file. then is the step
	// that follows, unless FeedBlocked is called meanwhile.
	Flush(then engine.Next) Written
	// ReadInRun reads input during a Run. It may wait.
	ReadInRun(p []byte) (int, error)
	// Began is called when the connection has got a protocol, before Start.
	Began(isSuccessor bool)
}

// Written is how far a Flush came.
type Written uint8

const (
	WroteAll  Written = iota // Out is empty
	WroteSome                // the rest waits for room; the engine calls Resume when there is some
	WroteNot                 // writing failed, and Fail was called
)

// waiting is what follows a Flush that returned WroteSome.
const waiting engine.Next = 0xff

// A State is the Protocol of a connection and what was read and is to be written.
// The goroutine that serves the connection owns it.
type State struct {
	host     Host
	Protocol engine.Protocol     // nil: none yet, asleep, or closed
	Can      engine.Capabilities // of Protocol; undefined without one

	In     []byte      // the input buffer
	Out    []byte      // output that is not written yet
	Unread []byte      // input that was read and not fed yet
	After  engine.Next // the step after Out is written, if Out waits; otherwise Read

	IsFed     bool  // since Pause
	IsPartial bool  // the protocol had a part of a request at the last Pause
	Err       error // why the connection ends
}

// ServedBy sets the Host, before any other call.
func (s *State) ServedBy(h Host) { s.host = h }

// Fail records why the connection ends. The first reason counts.
func (s *State) Fail(err error) {
	if s.Err == nil {
		s.Err = err
	}
}

// Buffered implements engine.Conn.
func (s *State) Buffered() []byte { return s.Unread }

// Discard implements engine.Conn.
func (s *State) Discard(n int) { s.Unread = s.Unread[n:] }

// Read implements engine.Conn.
func (s *State) Read(p []byte) (int, error) {
	if len(s.Unread) > 0 || len(p) == 0 {
		n := copy(p, s.Unread)
		s.Unread = s.Unread[n:]
		return n, nil
	}
	return s.host.ReadInRun(p)
}

// Fill implements engine.Conn. It moves the bytes that Buffered returned.
func (s *State) Fill() error {
	if len(s.Unread) >= len(s.In) {
		return io.ErrShortBuffer
	}
	held := copy(s.In, s.Unread)
	s.Unread = s.In[:held]
	n, err := s.host.ReadInRun(s.In[held:])
	s.Unread = s.In[:held+n]
	return err
}

// Room returns where the next input goes. A protocol between requests is not asked.
func (s *State) Room() []byte {
	if s.Can.Has(engine.CanReceive) {
		return s.receiverRoom()
	}
	return s.In
}

func (s *State) receiverRoom() []byte {
	if (s.IsFed || s.IsPartial) && s.Protocol != nil {
		if p := s.Protocol.(engine.Receiver).Room(); len(p) > 0 {
			return p
		}
	}
	return s.In
}

// Begin gives the connection its protocol, and starts that.
func (s *State) Begin(p engine.Protocol) engine.Next { return s.begin(p, false) }

func (s *State) begin(p engine.Protocol, isSuccessor bool) engine.Next {
	s.Protocol, s.Can, s.IsFed = p, p.Capabilities(), true
	s.host.Began(isSuccessor)
	if s.Can.Has(engine.CanStart) {
		return p.(engine.Starter).Start()
	}
	return engine.Read
}

// The methods below return the next step: Read to wait for an event, or how the
// connection ends. They write the output before they return, unless it waits for room
// (Read). The unused input is then in Unread.

// Drive feeds in to the protocol, and runs the requests that it completes, until the
// protocol wants more input or something else.
func (s *State) Drive(in []byte) engine.Next {
	next := s.feed(in)
	if next == engine.Read && s.After == engine.Read { // write, in fewer instructions
		written := s.host.Flush(engine.Read)
		if written == WroteAll && s.After == engine.Read {
			return engine.Read
		}
		return s.follow(s.wrote(engine.Read, written))
	}
	return s.settle(next)
}

// Prompted calls the protocol's Prompted, if it has it.
func (s *State) Prompted() engine.Next {
	if !s.Can.Has(engine.CanPrompt) {
		return engine.Read
	}
	s.IsFed = true
	s.host.BeginRun()
	var next engine.Next
	s.Out, next = s.Protocol.(engine.Prompted).Prompted(s.Out)
	return s.settle(s.ran(next))
}

// TimedOut tells the protocol that its deadline has passed.
func (s *State) TimedOut() engine.Next {
	s.IsFed = true
	s.host.BeginRun()
	var next engine.Next
	s.Out, next = s.Protocol.TimedOut(s.Out)
	return s.settle(s.ran(next))
}

// HalfClosed tells the protocol that its input has ended.
func (s *State) HalfClosed() engine.Next {
	s.host.BeginRun()
	s.Out = s.Protocol.HalfClosed(s.Out)
	return s.settle(s.ran(engine.Close))
}

// PeerEnded is HalfClosed for engines that have HalfClosers.
func (s *State) PeerEnded() engine.Next {
	if !s.Can.Has(engine.CanHalfClose) {
		return s.HalfClosed()
	}
	s.IsFed = true
	s.host.BeginRun()
	var next engine.Next
	s.Out, next = s.Protocol.(engine.HalfCloser).PeerEnded(s.Out)
	return s.settle(s.ran(next))
}

// Resume continues what the lack of room has stopped.
func (s *State) Resume() engine.Next { return s.settle(engine.Read) }

// TakesInput reports whether the protocol is fed while its output waits: it is, until it
// has answered something else than Read or Run.
func (s *State) TakesInput() bool {
	return s.Protocol != nil && s.Can.Has(engine.IsDuplex) && (s.After == engine.Read || s.After == engine.Run || s.After == engine.EndOutput)
}

// Stops reports whether the protocol wants no input now.
func (s *State) Stops() bool {
	if !s.Can.Has(engine.CanStop) || s.Protocol == nil {
		return false
	}
	s.IsFed = true // what Pause returns changes with the answer
	return s.Protocol.(engine.Stopper).Stops()
}

// FeedBlocked feeds in while output waits, as long as TakesInput. What Feed answers
// is done when the output is written; Abort is also returned.
func (s *State) FeedBlocked(in []byte) (used int, next engine.Next) {
	for used < len(in) && s.TakesInput() {
		s.IsFed = true
		n, next := s.Protocol.Feed(in[used:])
		used += n
		switch {
		case next != engine.Read:
			s.After = next
		case n == 0:
			return used, engine.Read // against Feed's contract; do not spin
		}
		if next == engine.Abort {
			return used, next
		}
	}
	return used, engine.Read
}

// feed feeds in until the protocol wants something other than more input.
func (s *State) feed(in []byte) engine.Next {
	s.IsFed = true
	for len(in) > 0 {
		used, next := s.Protocol.Feed(in)
		if used > 0 {
			in = in[used:]
		} else if next == engine.Read {
			break // against Feed's contract; do not spin
		}
		s.Unread = in
		if next == engine.Run {
			next = s.run()
			in = s.Unread
		}
		if next != engine.Read {
			return next
		}
	}
	s.Unread = nil
	return engine.Read
}

// run calls Run while the protocol has requests ready and there is room to write.
func (s *State) run() engine.Next {
	for {
		s.host.BeginRun()
		var next engine.Next
		s.Out, next = s.Protocol.Run(s.Out)
		next, isMuch := s.host.EndRun(next) // as in ran; the call would cost every request
		if isMuch {
			next = s.write(next)
		}
		if next != engine.Run {
			return next
		}
	}
}

// ran ends a call that may have appended output, and writes that if it is much.
func (s *State) ran(next engine.Next) engine.Next {
	next, isMuch := s.host.EndRun(next)
	if isMuch {
		return s.write(next)
	}
	return next
}

// write writes the output. It returns the step after that: next, or what FeedBlocked
// has left to do.
func (s *State) write(next engine.Next) engine.Next {
	then := next
	if then == engine.Read {
		then = s.After
	}
	return s.wrote(next, s.host.Flush(then))
}

// wrote is the end of write.
func (s *State) wrote(next engine.Next, written Written) engine.Next {
	switch written {
	case WroteNot:
		return engine.Abort
	case WroteSome:
		if next != engine.Read {
			s.After = next
		}
		return waiting
	}
	if next == engine.Read {
		next, s.After = s.After, engine.Read
	}
	return next
}

// settle does next and what follows from it, as far as the protocol is concerned.
func (s *State) settle(next engine.Next) engine.Next {
	if next == engine.Run {
		next = s.run()
	}
	if next != engine.Abort && next != waiting {
		next = s.write(next)
	}
	return s.follow(next)
}

// follow is the end of settle, after a write that returned next. It is a loop, because one read may
// contain any number of switches.
func (s *State) follow(next engine.Next) engine.Next {
	for {
		switch next {
		case engine.Run: // a request was completed during the write
			next = s.run()
		case engine.Switch:
			if next = s.succeed(); next != engine.Read || len(s.Unread) == 0 {
				return next
			}
			next = s.feed(s.Unread)
		case engine.EndOutput:
			if len(s.Unread) == 0 {
				return engine.Read
			}
			next = s.feed(s.Unread)
		case waiting:
			return engine.Read
		default:
			return next
		}
		if next != engine.Abort && next != waiting {
			next = s.write(next)
		}
	}
}

// succeed gives the connection to the successor of its protocol.
func (s *State) succeed() engine.Next {
	s.After = engine.Read
	return s.begin(s.Protocol.(engine.Switcher).Successor(), true)
}

// Pause prepares for a wait. It returns what IsPartial then is.
func (s *State) Pause() (isPartial bool) {
	if s.IsFed {
		s.IsFed = false
		s.IsPartial = !s.Protocol.Pause()
	}
	return s.IsPartial
}

// CanRewind reports whether the beginning of a request can be returned unparsed, so
// that a connection that IsPartial can be detached.
func (s *State) CanRewind() bool {
	return s.Can.Has(engine.CanRewind) && s.Protocol.(engine.Rewinder).CanRewind()
}

// Pack packs the protocol for DetachIdle. The result false means that the connection
// stays.
func (s *State) Pack() (packed []byte, ok bool) {
	if !s.Can.Has(engine.CanPack) {
		return nil, true
	}
	return s.Protocol.(engine.Packer).Pack(nil)
}

// Parcel returns what a paused connection takes along, with the result of Pack.
func (s *State) Parcel(packed []byte) engine.Parcel {
	p := engine.Parcel{State: packed}
	if s.IsPartial {
		p.Leftover = s.Protocol.(engine.Rewinder).Rewind() // CanRewind said so
	}
	p.Leftover = append(p.Leftover, s.Unread...)
	return p
}
