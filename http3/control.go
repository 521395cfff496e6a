package http3

import (
	"context"
	"io"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// Types of unidirectional streams (RFC 9114 section 6.2, RFC 9204 section 4.2).
const (
	streamControl = 0x0
	streamPush    = 0x1
	streamEncoder = 0x2
	streamDecoder = 0x3
)

// allCritical is conn.critical with the control stream and both QPACK streams.
const allCritical = 1<<streamControl | 1<<streamEncoder | 1<<streamDecoder

// openControl opens our control stream, and sends SETTINGS.
func (c *conn) openControl() (err error) {
	if c.control, err = c.quic.OpenUniStream(); err != nil {
		return err
	}
	watchControl(c.control, c)
	_, err = c.control.Write(c.serving.settings)
	return err
}

// sendControlLocked sends a frame on our control stream, without waiting.
func (c *conn) sendControlLocked(frame []byte) {
	if c.control == nil || c.control.TryWriteAll(frame) == nil {
		return
	}
	go func() { _, _ = c.control.Write(frame) }() // it fails when the connection ends
}

// acceptUni accepts unidirectional streams until the three are there that every client may
// have. Later ones stay unaccepted, without credit.
func (c *conn) acceptUni(ctx context.Context) {
	for range maxUniStreams {
		s, err := c.quic.AcceptUniStream(ctx)
		if err != nil {
			return
		}
		go readUni(s, c)
	}
}

// opened implements uniOwner.
func (c *conn) opened(kind uint64) (p parser, err *h3.Error) {
	switch kind {
	case streamControl:
		p = &controlParser{conn: c}
	case streamEncoder:
		p = encoderParser{}
	case streamDecoder:
		p = &decoderParser{}
	case streamPush:
		return nil, h3.ErrPushStream
	default:
		c.charge(costIgnored)
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err = c.critical.add(kind)
	if c.critical == allCritical {
		c.endUni()
	}
	return p, err
}

// A criticalSet is the set of the peer's control and QPACK streams that are there.
type criticalSet uint8

// add adds a stream, which must not be there yet.
func (c *criticalSet) add(kind uint64) *h3.Error {
	if *c>>kind&1 != 0 {
		return h3.ErrCriticalAgain
	}
	*c |= 1 << kind
	return nil
}

// A uniOwner is a connection of a server or a client.
type uniOwner interface {
	// opened returns what parses a stream of this type; nil: it has no meaning.
	opened(kind uint64) (parser, *h3.Error)
	fail(err *h3.Error)
}

// readUni reads a unidirectional stream of the peer.
func readUni(s *quic.ReceiveStream, c uniOwner) {
	room := make([]byte, 64)
	have := 0
	for {
		n, err := s.Read(room[have:])
		have += n
		kind, size := h3.ReadVarint(room[:have])
		if size == 0 && err != nil {
			return
		}
		if size == 0 {
			continue
		}
		p, violation := c.opened(kind)
		switch {
		case violation != nil:
			c.fail(violation)
		case p == nil:
			s.CancelRead(quic.StreamErrorCode(h3.StreamCreationError))
		default:
			readCritical(s, c, p, room, room[size:have], err)
		}
		return
	}
}

// readCritical reads a stream that must not end. in was read into room, and then err.
func readCritical(s *quic.ReceiveStream, c uniOwner, p parser, room, in []byte, err error) {
	for {
		if violation := p.parse(in); violation != nil {
			c.fail(violation)
			return
		}
		if err != nil {
			if err == io.EOF || isPeerReset(err) {
				c.fail(h3.ErrCriticalClosed)
			}
			return
		}
		var n int
		n, err = s.Read(room)
		in = room[:n]
	}
}

// watchControl ends the connection when the peer stops our control stream, which it must not.
func watchControl(control *quic.SendStream, c uniOwner) {
	context.AfterFunc(control.Context(), func() {
		if isPeerReset(context.Cause(control.Context())) {
			c.fail(h3.ErrCriticalClosed)
		}
	})
}

// A parser parses what a peer sends on a critical stream.
type parser interface{ parse(in []byte) *h3.Error }

// An encoderParser is that of an encoder stream: without a table it is empty, or sets the
// capacity to 0.
type encoderParser struct{}

func (encoderParser) parse(in []byte) *h3.Error {
	const setCapacityZero = 0x20 // RFC 9204 section 4.3.1
	for _, c := range in {
		if c != setCapacityZero {
			return h3.ErrEncoderStream
		}
	}
	return nil
}

// A decoderParser is that of a decoder stream.
type decoderParser struct{ stream h3.DecoderStream }

func (d *decoderParser) parse(in []byte) *h3.Error { return d.stream.Check(in) }

// A controlParser is that of a client's control stream.
type controlParser struct {
	conn    *conn
	control h3.Control
	passed  int // bytes for which nothing was charged
}

func (p *controlParser) parse(in []byte) *h3.Error {
	for len(in) > 0 {
		used, ev, isEvent, err := p.control.Next(in)
		if err != nil {
			return err
		}
		in = in[used:]
		if p.passed += used; p.passed >= skippedPerToken { // a frame may be as long as it likes
			p.conn.charge(costIgnored)
			p.passed = 0
		}
		if !isEvent {
			continue
		}
		switch ev.Type {
		case h3.FrameSettings:
		case h3.FramePriorityUpdate:
			if !p.conn.mayOpen(ev.ID) {
				return h3.ErrPriorityID
			}
			p.conn.charge(costIgnored)
			p.conn.prioritize(ev.ID, fieldlist.ParsePriority(ev.Priority, fieldlist.DefaultPriority()))
		default:
			p.conn.charge(costIgnored)
		}
	}
	return nil
}

// mayOpen reports whether the client has credit for the stream of a request, or has opened it.
func (c *conn) mayOpen(id uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	ended := c.next/4 - uint64(c.open) // their credit was given back
	return c.phase > phaseLeaving || id/4 < ended+uint64(c.serving.config.MaxConcurrentStreams)
}

// charge charges the client.
func (c *conn) charge(n int) {
	c.mu.Lock()
	err := c.budget.charge(clock.Nanos(), n)
	c.mu.Unlock()
	if err != nil {
		c.fail(err)
	}
}
