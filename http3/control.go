package http3

import (
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h3"
)

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

// controlParser implements uniOwner.
func (c *conn) controlParser() parser { return &controlParser{conn: c} }

// openedOther implements uniOwner.
func (c *conn) openedOther(kind uint64) *h3.Error {
	if kind == streamPush {
		return h3.ErrPushStream
	}
	c.charge(costIgnored)
	return nil
}

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
