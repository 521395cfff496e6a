package h2

import (
	"encoding/binary"
	"math"
)

// A SettingID names a setting (RFC 9113 section 6.5.2). Unknown ones are ignored.
type SettingID uint16

// The settings of RFC 9113 section 6.5.2, RFC 8441 section 3 and RFC 9218 section 2.1.
const (
	SettingHeaderTableSize       SettingID = 0x1
	SettingEnablePush            SettingID = 0x2
	SettingMaxConcurrentStreams  SettingID = 0x3
	SettingInitialWindowSize     SettingID = 0x4
	SettingMaxFrameSize          SettingID = 0x5
	SettingMaxHeaderListSize     SettingID = 0x6
	SettingEnableConnectProtocol SettingID = 0x8
	SettingNoRFC7540Priorities   SettingID = 0x9
)

// NoLimit is the value of a Settings field that limits nothing.
const NoLimit = math.MaxUint32

// Settings are the values of one side. DefaultSettings are in force before the first
// SETTINGS frame; the zero value is not of use.
type Settings struct {
	HeaderTableSize       uint32 // bytes, as RFC 7541 section 4.1 counts them
	MaxConcurrentStreams  uint32
	InitialWindowSize     uint32 // bytes
	MaxFrameSize          uint32 // bytes of payload
	MaxHeaderListSize     uint32 // bytes, 32 more for each field; advice
	EnablePush            bool
	EnableConnectProtocol bool
	NoRFC7540Priorities   bool
}

// DefaultSettings returns the initial values of RFC 9113 section 6.5.2.
func DefaultSettings() Settings {
	return Settings{
		HeaderTableSize:      4096,
		MaxConcurrentStreams: NoLimit,
		InitialWindowSize:    1<<16 - 1,
		MaxFrameSize:         MinMaxFrameSize,
		MaxHeaderListSize:    NoLimit,
		EnablePush:           true,
	}
}

// Apply stores a value that a Parser has passed on. Unknown settings are ignored. It
// returns ErrSetting if the peer withdraws extended CONNECT (RFC 8441 section 3).
// Whoever changes InitialWindowSize calls SendWindow.Shift for all open streams.
func (s *Settings) Apply(id SettingID, value uint32) *Error {
	switch id {
	case SettingHeaderTableSize:
		s.HeaderTableSize = value
	case SettingEnablePush:
		s.EnablePush = value == 1
	case SettingMaxConcurrentStreams:
		s.MaxConcurrentStreams = value
	case SettingInitialWindowSize:
		s.InitialWindowSize = value
	case SettingMaxFrameSize:
		s.MaxFrameSize = value
	case SettingMaxHeaderListSize:
		s.MaxHeaderListSize = value
	case SettingEnableConnectProtocol:
		if s.EnableConnectProtocol && value == 0 {
			return ErrSetting
		}
		s.EnableConnectProtocol = value == 1
	case SettingNoRFC7540Priorities:
		s.NoRFC7540Priorities = value == 1
	}
	return nil
}

// checkSetting refuses values that the peer of side must not send.
func checkSetting(side Side, id SettingID, value uint32) *Error {
	switch id {
	case SettingEnablePush:
		// Only a client may enable push (RFC 9113 section 6.5.2).
		if value > 1 || value == 1 && side == ClientSide {
			return ErrSetting
		}
	case SettingEnableConnectProtocol, SettingNoRFC7540Priorities:
		if value > 1 {
			return ErrSetting
		}
	case SettingInitialWindowSize:
		if value > maxWindow {
			return ErrInitialWindow
		}
	case SettingMaxFrameSize:
		if value < MinMaxFrameSize || value > MaxMaxFrameSize {
			return ErrSetting
		}
	}
	return nil
}

// packedFlags are the flags of packed Settings, by their bits.
func (s *Settings) packedFlags() [3]*bool {
	return [...]*bool{&s.EnablePush, &s.EnableConnectProtocol, &s.NoRFC7540Priorities}
}

func (s *Settings) packedValues() [5]*uint32 {
	return [...]*uint32{&s.HeaderTableSize, &s.MaxConcurrentStreams, &s.InitialWindowSize, &s.MaxFrameSize, &s.MaxHeaderListSize}
}

// AppendPacked appends s in a form of at most 26 bytes.
func (s Settings) AppendPacked(dst []byte) []byte {
	flags := byte(0)
	for i, flag := range s.packedFlags() {
		if *flag {
			flags |= 1 << i
		}
	}
	dst = append(dst, flags)
	for _, value := range s.packedValues() {
		dst = binary.AppendUvarint(dst, uint64(*value))
	}
	return dst
}

// CutSettings returns the Settings that AppendPacked has put at the beginning of in,
// and what follows. ok is false if in does not begin with valid ones.
func CutSettings(in []byte) (s Settings, rest []byte, ok bool) {
	if len(in) == 0 || in[0] >= 1<<len(s.packedFlags()) {
		return Settings{}, nil, false
	}
	for i, flag := range s.packedFlags() {
		*flag = in[0]>>i&1 != 0
	}
	rest = in[1:]
	for _, value := range s.packedValues() {
		var n uint64
		if n, rest, ok = CutUvarint(rest); !ok || n > math.MaxUint32 {
			return Settings{}, nil, false
		}
		*value = uint32(n)
	}
	if s.InitialWindowSize > maxWindow || s.MaxFrameSize < MinMaxFrameSize || s.MaxFrameSize > MaxMaxFrameSize {
		return Settings{}, nil, false
	}
	return s, rest, true
}

// PeerSettings are those that the peer has sent.
type PeerSettings struct {
	Settings
	before uint32 // InitialWindowSize before the frame that arrives, or has arrived last
}

// NewPeerSettings returns settings of a peer that has sent none.
func NewPeerSettings() PeerSettings { return PeerSettings{Settings: DefaultSettings()} }

// Receive handles EventSetting, and bounds the table of e. isLast is true for the last value
// of a frame: if WindowChanged, the caller calls Shift for all open streams, and then it
// acknowledges the frame. isFirst: no frame has ended yet. Only that one may choose
// NoRFC7540Priorities (RFC 9218 section 2.1).
func (p *PeerSettings) Receive(ev *Event, e *Encoder, isFirst bool) (isLast bool, err *Error) {
	if ev.Has(FrameStart) {
		p.before = p.InitialWindowSize
	}
	if ev.Setting == SettingNoRFC7540Priorities && !isFirst && p.NoRFC7540Priorities != (ev.Value == 1) {
		return false, ErrSetting
	}
	tableSize := p.HeaderTableSize
	if err := p.Apply(ev.Setting, ev.Value); err != nil {
		return false, err
	}
	if p.HeaderTableSize != tableSize {
		e.SetLimit(int(min(p.HeaderTableSize, MaxTableSize)))
	}
	return ev.Has(EndSettings), nil
}

// WindowChanged reports whether the frame that has ended has changed InitialWindowSize.
// Streams are told once for a frame: it has up to 2,730 values.
func (p *PeerSettings) WindowChanged() bool { return p.before != p.InitialWindowSize }

// Shift changes the window of a stream by what the frame has changed. ok is false if it gets
// too large (RFC 9113 section 6.9.2).
func (p *PeerSettings) Shift(w *SendWindow) (ok bool) {
	return w.Shift(p.before, p.InitialWindowSize)
}

// OwnSettings are the settings that we send. They are in force when the peer has
// acknowledged them (RFC 9113 section 6.5.3); at most one frame waits for that.
type OwnSettings struct {
	InForce Settings
	sent    Settings
	waits   bool
}

// NewOwnSettings returns settings of which nothing was sent.
func NewOwnSettings() OwnSettings { return OwnSettings{InForce: DefaultSettings()} }

// Send appends a SETTINGS frame with the values of s that differ from those in force,
// also if none does. ok is false, and dst unchanged, while a frame waits to be
// acknowledged.
func (o *OwnSettings) Send(dst []byte, s Settings) (out []byte, ok bool) {
	if o.waits {
		return dst, false
	}
	o.sent, o.waits = s, true
	return AppendSettings(dst, &s, &o.InForce), true
}

// Waits reports whether a frame waits to be acknowledged.
func (o *OwnSettings) Waits() bool { return o.waits }

// Ack handles EventSettingsAck: what was sent is now InForce. It returns
// ErrUnexpectedAck if nothing was sent. The caller passes on what changed: the
// decoder's table size, the Parser's MaxFrameSize, and the initial window to
// ReceiveWindow.Shift of all open streams.
func (o *OwnSettings) Ack() *Error {
	if !o.waits {
		return ErrUnexpectedAck
	}
	o.InForce, o.waits = o.sent, false
	return nil
}
