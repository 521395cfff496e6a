package h3

// A SettingID names a setting (RFC 9114 section 7.2.4.1). Unknown ones are ignored.
type SettingID uint64

// The settings of RFC 9114 section 7.2.4.1, RFC 9204 section 5 and RFC 9220 section 3.
const (
	SettingTableCapacity   SettingID = 0x1
	SettingMaxSectionSize  SettingID = 0x6
	SettingBlockedStreams  SettingID = 0x7
	SettingExtendedConnect SettingID = 0x8
)

// Settings are the values of one side. The zero value has the defaults, except for
// MaxSectionSize, which has none.
type Settings struct {
	// TableCapacity is the largest dynamic table that the side keeps for the other one's
	// field sections, in bytes.
	TableCapacity uint64
	// MaxSectionSize is advice: the largest field section that the side accepts, as RFC 9114
	// section 4.2.2 counts; 0: none was given.
	MaxSectionSize uint64
	// BlockedStreams bounds the streams that may wait for the dynamic table.
	BlockedStreams uint64
	// ExtendedConnect: the server accepts extended CONNECT (RFC 9220).
	ExtendedConnect bool
}

// maxSettings is the number of settings that a peer may send.
const maxSettings = 32

// isReserved reports whether a setting of HTTP/2 has the number (RFC 9114 section 7.2.4.1).
func (id SettingID) isReserved() bool { return id >= 0x2 && id <= 0x5 }

// ReadSettings reads the payload of a SETTINGS frame.
func ReadSettings(in []byte) (s Settings, err *Error) {
	var seen [maxSettings]SettingID
	for count := 0; len(in) > 0; count++ {
		id, n := ReadVarint(in)
		if n == 0 {
			return s, ErrFrameLength
		}
		value, m := ReadVarint(in[n:])
		if m == 0 {
			return s, ErrFrameLength
		}
		in = in[n+m:]
		if count == maxSettings {
			return s, ErrSettingsNumber
		}
		for _, other := range seen[:count] {
			if other == SettingID(id) {
				return s, ErrSettingRepeated
			}
		}
		seen[count] = SettingID(id)
		if err := s.apply(SettingID(id), value); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s *Settings) apply(id SettingID, value uint64) *Error {
	switch {
	case id.isReserved():
		return ErrSettingReserved
	case id == SettingTableCapacity:
		s.TableCapacity = value
	case id == SettingMaxSectionSize:
		s.MaxSectionSize = value
	case id == SettingBlockedStreams:
		s.BlockedStreams = value
	case id == SettingExtendedConnect && value > 1:
		return ErrSettingValue
	case id == SettingExtendedConnect:
		s.ExtendedConnect = value == 1
	}
	return nil
}

// AppendSettings appends a SETTINGS frame with what differs from the defaults, and a setting of
// no meaning (RFC 9114 section 7.2.4.1), which has peers ignore what they do not know.
func AppendSettings(dst []byte, s Settings) []byte {
	var room [64]byte
	payload := room[:0]
	add := func(id SettingID, value uint64) {
		if value != 0 {
			payload = AppendVarint(AppendVarint(payload, uint64(id)), value)
		}
	}
	add(SettingTableCapacity, s.TableCapacity)
	add(SettingMaxSectionSize, s.MaxSectionSize)
	add(SettingBlockedStreams, s.BlockedStreams)
	if s.ExtendedConnect {
		add(SettingExtendedConnect, 1)
	}
	payload = AppendVarint(AppendVarint(payload, 0x1f*7+0x21), 0)
	dst = AppendFrameHeader(dst, FrameSettings, uint64(len(payload)))
	return append(dst, payload...)
}
