package ws

import "github.com/sluicehttp/sluice/internal/wire/ascii"

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

// A DeflateSide is what one side of a connection does to what it sends: the bits of its
// window, and keepsWindow. 0: nothing is compressed.
type DeflateSide uint8

const keepsWindow = 0x80

// Bits returns the size of the window, as a power of 2.
func (s DeflateSide) Bits() uint8 { return uint8(s &^ keepsWindow) }

// Keeps reports whether messages may refer to those before them.
func (s DeflateSide) Keeps() bool { return s&keepsWindow != 0 }

// IsValid reports whether s is what Server or Client can return, or 0.
func (s DeflateSide) IsValid() bool {
	return s == 0 || s.Bits() >= MinWindowBits && s.Bits() <= MaxWindowBits
}

// Server and Client return what each side does after d was answered (RFC 7692 section 7.1).
func (d Deflate) Server() DeflateSide { return side(d.ServerBits, d.ServerNoTakeover) }

// Client is Server for the other side.
func (d Deflate) Client() DeflateSide { return side(d.ClientBits, d.ClientNoTakeover) }

func side(bits uint8, isAlone bool) DeflateSide {
	if bits == 0 {
		bits = MaxWindowBits
	}
	if !isAlone {
		bits |= keepsWindow
	}
	return DeflateSide(bits)
}

// A DeflatePolicy is what one side wants.
type DeflatePolicy struct {
	// SendsAlone and ReceivesAlone: messages that this side sends, or the peer, do not
	// refer to those before them.
	SendsAlone, ReceivesAlone bool
	// ReceiveBits is the window that the peer is asked for, if messages refer to others.
	ReceiveBits uint8
}

// Answer returns a server's answer to an offer, which it accepts (RFC 7692 section 7.1).
func (p DeflatePolicy) Answer(offer Deflate) Deflate {
	answer := Deflate{
		ServerNoTakeover: offer.ServerNoTakeover || p.SendsAlone,
		ClientNoTakeover: offer.ClientNoTakeover || p.ReceivesAlone,
		ServerBits:       offer.ServerBits,
	}
	if offer.AcceptsClientBits && !answer.ClientNoTakeover {
		answer.AcceptsClientBits, answer.ClientBits = true, p.ReceiveBits
		if offer.ClientBits > 0 {
			answer.ClientBits = min(offer.ClientBits, p.ReceiveBits)
		}
	}
	return answer
}

// offers returns what a client offers, best first. A server may decline an offer because of
// the window that it asks for.
func (p DeflatePolicy) offers() (best, last Deflate) {
	last = Deflate{ServerNoTakeover: p.ReceivesAlone, ClientNoTakeover: p.SendsAlone, AcceptsClientBits: true}
	best = last
	if !p.ReceivesAlone {
		best.ServerBits = p.ReceiveBits
	}
	return best, last
}

// AppendOffer appends a client's Sec-WebSocket-Extensions to dst.
func (p DeflatePolicy) AppendOffer(dst []byte) []byte {
	best, last := p.offers()
	dst = AppendDeflate(dst, best)
	if best != last {
		dst = AppendDeflate(append(dst, ", "...), last)
	}
	return dst
}

// ParseAnswer parses the Sec-WebSocket-Extensions of a server that has got AppendOffer, all
// of its fields joined with commas. isOn is false if it is empty: the server has declined.
// ok is false if the client must fail the connection: for another extension, for wrong
// parameters, and for those that the offer does not allow (RFC 7692 section 7.1).
func (p DeflatePolicy) ParseAnswer(value []byte) (d Deflate, isOn, ok bool) {
	if len(ascii.TrimOWS(value)) == 0 {
		return Deflate{}, false, true
	}
	member, rest := NextMember(value, ',')
	d, ok = parseDeflate(member)
	if !ok || len(rest) > 0 || len(member) < len(ascii.TrimOWS(value)) {
		return Deflate{}, false, false
	}
	_, last := p.offers()
	switch {
	case last.ServerNoTakeover && !d.ServerNoTakeover, d.AcceptsClientBits && d.ClientBits == 0:
		return Deflate{}, false, false
	}
	if last.ClientNoTakeover {
		d.ClientNoTakeover = true // a promise; the server need not repeat it
	}
	return d, true, true
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
