package ws

import "github.com/sluicehttp/sluice/internal/ascii"

// deflateName is the name of the extension of RFC 7692.
const deflateName = "permessage-deflate"

// The parameters of RFC 7692 section 7.1.
const (
	serverNoTakeover = "server_no_context_takeover"
	clientNoTakeover = "client_no_context_takeover"
	serverMaxBits    = "server_max_window_bits"
	clientMaxBits    = "client_max_window_bits"

	// MinWindowBits and MaxWindowBits are the limits of a window's size, as a power of 2.
	MinWindowBits = 8
	MaxWindowBits = 15
)

// Deflate holds the parameters of permessage-deflate in an offer, or in its answer (RFC
// 7692 section 7.1). The zero value has none.
type Deflate struct {
	// ServerNoTakeover and ClientNoTakeover: that side compresses each message without
	// those before it.
	ServerNoTakeover, ClientNoTakeover bool
	// ServerBits and ClientBits limit the window of that side; 0: not mentioned.
	ServerBits, ClientBits uint8
	// AcceptsClientBits: an offer has client_max_window_bits, with or without a value.
	AcceptsClientBits bool
}

// NextDeflate returns the next acceptable offer of permessage-deflate in the value of
// Sec-WebSocket-Extensions, and the rest of the value after it. It skips other extensions
// and offers that RFC 7692 section 7.1 declines: with unknown, repeated or wrong
// parameters. ok is false if there is no further one.
func NextDeflate(value []byte) (d Deflate, rest []byte, ok bool) {
	for len(value) > 0 {
		var member []byte
		member, value = NextMember(value, ',')
		if d, ok := parseDeflate(member); ok {
			return d, value, true
		}
	}
	return Deflate{}, nil, false
}

func parseDeflate(member []byte) (d Deflate, ok bool) {
	name, params := NextMember(member, ';')
	if !ascii.EqualFold(name, deflateName) {
		return Deflate{}, false
	}
	if len(params) == 0 {
		return d, len(name) == len(member)
	}
	for len(params) > 0 {
		var param []byte
		if param, params = NextMember(params, ';'); !d.set(param) {
			return Deflate{}, false
		}
	}
	return d, member[len(member)-1] != ';'
}

// set takes one parameter.
func (d *Deflate) set(param []byte) bool {
	name, value, hasValue := ascii.Cut(param, '=')
	name, value = ascii.TrimOWS(name), ascii.TrimOWS(value)
	switch {
	case ascii.EqualFold(name, serverNoTakeover):
		return !hasValue && setOnce(&d.ServerNoTakeover)
	case ascii.EqualFold(name, clientNoTakeover):
		return !hasValue && setOnce(&d.ClientNoTakeover)
	case ascii.EqualFold(name, serverMaxBits):
		bits := parseBits(value)
		isNew := d.ServerBits == 0
		d.ServerBits = bits
		return isNew && bits > 0
	case ascii.EqualFold(name, clientMaxBits):
		d.ClientBits = parseBits(value)
		return setOnce(&d.AcceptsClientBits) && (!hasValue || d.ClientBits > 0)
	}
	return false
}

// setOnce sets b. It returns false if b was set before.
func setOnce(b *bool) bool {
	was := *b
	*b = true
	return !was
}

// parseBits returns the size of a window: digits, which may be quoted. 0: it is wrong.
func parseBits(value []byte) uint8 {
	if n := len(value); n >= 2 && value[0] == '"' && value[n-1] == '"' {
		value = value[1 : n-1]
	}
	if len(value) == 0 || value[0] == '0' || len(value) > 2 {
		return 0
	}
	n, err := ascii.ParseUint(value)
	if err != nil || n < MinWindowBits || n > MaxWindowBits {
		return 0
	}
	return uint8(n)
}

// AppendDeflate appends d as an offer or an answer. client_max_window_bits has no value if
// d.ClientBits is 0.
func AppendDeflate(dst []byte, d Deflate) []byte {
	dst = append(dst, deflateName...)
	if d.ServerNoTakeover {
		dst = append(dst, "; "+serverNoTakeover...)
	}
	if d.ClientNoTakeover {
		dst = append(dst, "; "+clientNoTakeover...)
	}
	if d.ServerBits > 0 {
		dst = ascii.AppendUint(append(dst, "; "+serverMaxBits+"="...), uint64(d.ServerBits))
	}
	if d.AcceptsClientBits {
		dst = append(dst, "; "+clientMaxBits...)
		if d.ClientBits > 0 {
			dst = ascii.AppendUint(append(dst, '='), uint64(d.ClientBits))
		}
	}
	return dst
}
