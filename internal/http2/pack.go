package http2

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/h2"
)

// A form of packed state is its first byte. It says the version, so change its number when
// the form changes. Integers are uvarints in their shortest form. Of times, only the end
// of IdleTimeout is packed.
type packedForm byte

// formSleep is for this process: the list of Pairs and the clock are the same.
const formSleep packedForm = 1

// errRecord ends a connection whose record is damaged.
var errRecord = errors.New("sluice: the record of a sleeping HTTP/2 connection is damaged")

// appendPacked appends what c knows after a Pause that returned true.
func (c *Conn) appendPacked(dst []byte, form packedForm) []byte {
	dst = append(dst, byte(form))
	for _, n := range c.packedIntegers() {
		dst = binary.AppendUvarint(dst, n)
	}
	dst = c.peer.AppendPacked(dst)
	dst = c.own.InForce.AppendPacked(dst)
	dst = c.budget.AppendPacked(dst)
	start := len(dst)
	dst = c.encoder.AppendIndices(append(dst, 0, 0))
	binary.LittleEndian.PutUint16(dst[start:], uint16(len(dst)-start-2))
	return c.decoder.AppendPacked(dst)
}

func (c *Conn) packedIntegers() [7]uint64 {
	return [...]uint64{
		uint64(c.newest), uint64(c.last), uint64(c.window.Left()), uint64(uint32(c.sendWindow)),
		c.opened, uint64(c.growth.RoundTrip.Nanos()), uint64(c.idleDue),
	}
}

// unpack puts a new c into the state that appendPacked has written. ok is false if b is
// anything else; then c must not be used.
func (c *Conn) unpack(b []byte, form packedForm) (ok bool) {
	if len(b) == 0 || packedForm(b[0]) != form {
		return false
	}
	b = b[1:]
	integers := c.packedIntegers()
	for i := range integers {
		if integers[i], b, ok = h2.CutUvarint(b); !ok {
			return false
		}
	}
	newest, last, left, window := integers[0], integers[1], integers[2], integers[3]
	if last > newest || max(newest, left) > h2.MaxStream || window > math.MaxUint32 || window == 1<<31 || integers[5] > math.MaxInt64 {
		return false
	}
	if c.peer, b, ok = h2.CutSettings(b); !ok {
		return false
	}
	if c.own.InForce, b, ok = h2.CutSettings(b); !ok {
		return false
	}
	if c.budget, b, ok = h2.CutBudget(b); !ok || len(b) < 2 {
		return false
	}
	size := int(binary.LittleEndian.Uint16(b))
	if b = b[2:]; size > len(b) {
		return false
	}
	if c.encoder.UnpackIndices(b[:size], c.cfg.Pairs) != nil || c.decoder.Unpack(b[size:]) != nil {
		return false
	}
	c.newest, c.last, c.opened = uint32(newest), uint32(last), integers[4]
	c.growth.RoundTrip = h2.MeasuredRoundTrip(int64(integers[5]))
	c.idleDue = int64(integers[6])
	c.sendWindow = h2.SendWindow(int32(uint32(window)))
	c.window = h2.NewReceiveWindow(clock.Nanos(), uint32(left), c.cfg.ConnWindow, c.cfg.MaxConnWindow)
	c.resets.forget(c.newest)
	c.parser.Resume()
	c.parser.MaxFrameSize = c.own.InForce.MaxFrameSize
	c.isPrefaced = true
	return true
}
