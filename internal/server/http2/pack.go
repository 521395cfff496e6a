package http2

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// A form of packed state is its first byte. It says the version, so change its number when
// the form changes. Integers are uvarints in their shortest form. Of times, only the end
// of IdleTimeout is packed.
type packedForm byte

const (
	// formSleep is for this process: the list of Pairs and the clock are the same.
	formSleep packedForm = 1
	// formMove is for other processes. Pairs are written out, time-outs begin again, and
	// a checksum is at the end.
	formMove packedForm = 0x81
)

// StateVersion is the version of what Pack appends.
const StateVersion = int(formMove)

// errRecord ends a connection whose record is damaged.
var errRecord = errors.New("sluice: the record of a sleeping HTTP/2 connection is damaged")

// appendPacked appends what c knows after a Pause that returned true.
func (c *Conn) appendPacked(dst []byte, form packedForm) []byte {
	dst = append(dst, byte(form))
	integers, appendEncoder := c.packedIntegers(), c.encoder.AppendIndices
	if form == formMove {
		integers[requestsPacked], integers[idlePacked] = 0, 0
		appendEncoder = c.encoder.AppendPacked
	}
	for _, n := range integers {
		dst = binary.AppendUvarint(dst, n)
	}
	dst = c.peer.AppendPacked(dst)
	dst = c.own.InForce.AppendPacked(dst)
	dst = c.budget.AppendPacked(dst)
	start := len(dst)
	dst = appendEncoder(append(dst, 0, 0))
	binary.LittleEndian.PutUint16(dst[start:], uint16(len(dst)-start-2))
	return c.decoder.AppendPacked(dst)
}

// The integers of packed state.
const (
	newestPacked = iota
	lastPacked
	receiveWindowPacked
	sendWindowPacked
	roundTripPacked
	requestsPacked
	idlePacked
	packedIntegers
)

func (c *Conn) packedIntegers() [packedIntegers]uint64 {
	return [...]uint64{
		newestPacked:        uint64(c.newest),
		lastPacked:          uint64(c.last),
		receiveWindowPacked: uint64(c.window.Left()),
		sendWindowPacked:    uint64(uint32(c.sendWindow)),
		roundTripPacked:     uint64(c.growth.RoundTrip.Nanos()),
		requestsPacked:      c.opened,
		idlePacked:          uint64(c.idleDue),
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
	if !c.setIntegers(integers) {
		return false
	}
	if c.peer.Settings, b, ok = h2.CutSettings(b); !ok {
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
	unpackEncoder := c.encoder.UnpackIndices
	if form == formMove {
		unpackEncoder = c.encoder.Unpack
	}
	if unpackEncoder(b[:size], c.cfg.Pairs) != nil || c.decoder.Unpack(b[size:]) != nil {
		return false
	}
	c.endings.forget(c.newest)
	c.parser.Resume()
	c.parser.MaxFrameSize = c.own.InForce.MaxFrameSize
	c.decoder.AcceptsConnect = c.decoder.AcceptsConnect || c.own.InForce.EnableConnectProtocol
	c.isPrefaced = true
	return true
}

// setIntegers stores unpacked integers. It returns false if they are not possible.
func (c *Conn) setIntegers(n [packedIntegers]uint64) bool {
	newest, left, window := n[newestPacked], n[receiveWindowPacked], n[sendWindowPacked]
	if n[lastPacked] > newest || max(newest, left) > h2.MaxStream || window > math.MaxUint32 || window == 1<<31 || n[roundTripPacked] > math.MaxInt64 {
		return false
	}
	c.newest, c.last, c.opened = uint32(newest), uint32(n[lastPacked]), n[requestsPacked]
	c.growth.RoundTrip = h2.MeasuredRoundTrip(int64(n[roundTripPacked]))
	c.idleDue = int64(n[idlePacked])
	c.sendWindow = h2.SendWindow(int32(uint32(window)))
	c.window = h2.NewReceiveWindow(clock.Nanos(), uint32(left), c.cfg.ConnWindow, c.cfg.MaxConnWindow)
	return true
}

// Pack implements engine.Packer.
func (c *Conn) Pack(dst []byte) (state []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isIdle() {
		return dst, false
	}
	start := len(dst)
	dst = c.appendPacked(dst, formMove)
	return binary.LittleEndian.AppendUint32(dst, checksum(dst[start:])), true
}

// Unpack returns the Protocol of a connection that was packed by Pack, perhaps in another
// process; nil if state is anything else. Our settings are sent if they have changed.
func Unpack(conn engine.Conn, host Host, cfg *Config, f server.Facts, state []byte) *Conn {
	end := len(state) - checksumSize
	if end < 0 || checksum(state[:end]) != binary.LittleEndian.Uint32(state[end:]) {
		return nil
	}
	c := newConn(conn, host, cfg, f)
	if !c.unpack(state[:end], formMove) {
		return nil
	}
	c.gauge.conns.Add(1)
	now := clock.Nanos()
	settings := cfg.Settings
	// What a client was told it may use cannot be withdrawn (RFC 8441 section 3).
	settings.EnableConnectProtocol = settings.EnableConnectProtocol || c.own.InForce.EnableConnectProtocol
	if settings != c.own.InForce {
		c.out, _ = c.own.Send(c.out, settings)
		c.ackDue = now + int64(c.cfg.StallTimeout)
	}
	if c.newest == 0 {
		c.firstDue = now + int64(firstTime)
	}
	c.credit(now)
	c.becomeIdle(now)
	return c
}

const checksumSize = 4

func checksum(p []byte) uint32 { return crc32.ChecksumIEEE(p) }
