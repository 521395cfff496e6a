package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strconv"
)

// MaxSize is the size of the largest header that Parse takes. The specification allows 64 KiB,
// of which addresses need 232 bytes and a client's certificate a few thousand.
const MaxSize = 4 << 10

const (
	prefix1   = "PROXY "
	longest1  = 107 // with CR LF (section 2.1)
	signature = "\r\n\r\n\x00\r\nQUIT\n"
	fixed2    = 16 // the signature, the version and command, the family, the length
)

// The parts of the fields of version 2 (section 2.2).
const (
	version2     = 2 << 4
	commandLocal = 0
	commandProxy = 1

	familyUnspecified = 0
	familyIPv4        = 1
	familyIPv6        = 2
	familyUnix        = 3
	datagram          = 2 // the largest transport protocol
	unixName          = 108
)

// addressSizes are the sizes of both addresses with their ports, by family.
var addressSizes = [...]int{familyUnspecified: 0, familyIPv4: 12, familyIPv6: 36, familyUnix: 2 * unixName}

// The errors of Parse. What follows a header that is wrong cannot be used.
var (
	// ErrAbsent means that the input does not begin with a header.
	ErrAbsent = errors.New("sluice: the connection does not begin with a header of the PROXY protocol")
	// ErrTooLarge is that of a header of more than MaxSize bytes, in version 1 of more than 107.
	ErrTooLarge = errors.New("sluice: the header of the PROXY protocol is too large")
	// ErrChecksum means that the checksum in the header is not that of the header.
	ErrChecksum = errors.New("sluice: the checksum of the header of the PROXY protocol is wrong")

	errLine     = errors.New("sluice: malformed line of the PROXY protocol, version 1")
	errVersion  = errors.New("sluice: unknown version of the PROXY protocol")
	errCommand  = errors.New("sluice: unknown command of the PROXY protocol")
	errFamily   = errors.New("sluice: unknown address family or transport of the PROXY protocol")
	errTooShort = errors.New("sluice: the header of the PROXY protocol is too short for its addresses")
	errTLV      = errors.New("sluice: malformed TLV of the PROXY protocol")
)

// A Header is what a proxy says of a connection. Its bytes are parts of the input.
type Header struct {
	// Version is 1 or 2.
	Version int
	// Source and Destination are the addresses of the client's connection. They are not valid
	// if the addresses are of unix sockets, or if the header names none: the proxy speaks for
	// itself, as for a health check, or does not know. Those of the socket are right then.
	Source, Destination netip.AddrPort
	// IsUnix is set for the addresses of unix sockets, whose names follow. A name may be empty.
	IsUnix                      bool
	SourceName, DestinationName []byte
	// TLVs is what else version 2 says.
	TLVs TLVs
}

// HasAddresses reports whether the header names the client's connection.
func (h *Header) HasAddresses() bool { return h.IsUnix || h.Source.IsValid() }

// Parse parses the header that in begins with. n is its size; 0 and no error mean that more of
// it must come. With MaxSize bytes, nothing more must come.
func Parse(in []byte) (h Header, n int, err error) {
	switch {
	case isPart(in, signature):
		return parse2(in)
	case isPart(in, prefix1):
		return parse1(in)
	}
	return h, 0, ErrAbsent
}

// isPart reports whether in begins with text, or text with in.
func isPart(in []byte, text string) bool {
	n := min(len(in), len(text))
	return string(in[:n]) == text[:n]
}

// parse1 parses a header of version 1, which is a line.
func parse1(in []byte) (h Header, n int, err error) {
	line, _, ends := bytes.Cut(in[:min(len(in), longest1)], []byte("\r\n"))
	switch {
	case !ends && len(in) >= longest1:
		return h, 0, ErrTooLarge
	case !ends:
		return h, 0, nil
	}
	h.Version, n = 1, len(line)+len("\r\n")
	family, rest, _ := bytes.Cut(line[len(prefix1):], []byte(" "))
	switch string(family) {
	case "UNKNOWN": // what follows is to be ignored
		return h, n, nil
	case "TCP4", "TCP6":
		if !h.parseLine(rest, family[3] == '6') {
			return Header{}, 0, errLine
		}
		return h, n, nil
	}
	return Header{}, 0, errLine
}

// parseLine parses what follows TCP4 or TCP6.
func (h *Header) parseLine(rest []byte, isIPv6 bool) (ok bool) {
	parts := bytes.Split(rest, []byte(" "))
	if len(parts) != 4 {
		return false
	}
	source, sourceOK := parseEndpoint(parts[0], parts[2], isIPv6)
	destination, destinationOK := parseEndpoint(parts[1], parts[3], isIPv6)
	h.Source, h.Destination = source, destination
	return sourceOK && destinationOK
}

// parseEndpoint parses an address and a port in text.
func parseEndpoint(address, port []byte, isIPv6 bool) (at netip.AddrPort, ok bool) {
	ip, err := netip.ParseAddr(string(address))
	if err != nil || ip.Is6() != isIPv6 || ip.Zone() != "" {
		return at, false
	}
	number, err := strconv.ParseUint(string(port), 10, 16)
	if err != nil || len(port) > 1 && port[0] == '0' {
		return at, false
	}
	return netip.AddrPortFrom(ip, uint16(number)), true
}

// parse2 parses a header of version 2, which is binary.
func parse2(in []byte) (h Header, n int, err error) {
	if len(in) > len(signature) {
		switch command := in[len(signature)]; {
		case command&0xf0 != version2:
			return h, 0, errVersion
		case command&0xf > commandProxy:
			return h, 0, errCommand
		}
	}
	if len(in) < fixed2 {
		return h, 0, nil
	}
	size := fixed2 + int(binary.BigEndian.Uint16(in[fixed2-2:]))
	family, transport := int(in[fixed2-3]>>4), in[fixed2-3]&0xf
	isLocal := in[len(signature)]&0xf == commandLocal // the rest is to be ignored
	switch {
	case size > MaxSize:
		return h, 0, ErrTooLarge
	case !isLocal && (family >= len(addressSizes) || transport > datagram):
		return h, 0, errFamily
	case !isLocal && size < fixed2+addressSizes[family]:
		return h, 0, errTooShort
	case len(in) < size:
		return h, 0, nil
	}
	h.Version = 2
	if isLocal {
		return h, size, nil
	}
	addresses := in[fixed2 : fixed2+addressSizes[family]]
	h.TLVs = TLVs(in[fixed2+len(addresses) : size : size])
	if err := h.TLVs.check(in[:size]); err != nil {
		return Header{}, 0, err
	}
	h.setAddresses(family, addresses)
	return h, size, nil
}

// setAddresses sets the addresses of version 2.
func (h *Header) setAddresses(family int, in []byte) {
	switch family {
	case familyIPv4:
		h.Source = netip.AddrPortFrom(netip.AddrFrom4([4]byte(in)), binary.BigEndian.Uint16(in[8:]))
		h.Destination = netip.AddrPortFrom(netip.AddrFrom4([4]byte(in[4:])), binary.BigEndian.Uint16(in[10:]))
	case familyIPv6:
		h.Source = netip.AddrPortFrom(netip.AddrFrom16([16]byte(in)), binary.BigEndian.Uint16(in[32:]))
		h.Destination = netip.AddrPortFrom(netip.AddrFrom16([16]byte(in[16:])), binary.BigEndian.Uint16(in[34:]))
	case familyUnix:
		h.IsUnix = true
		h.SourceName, h.DestinationName = nameOf(in[:unixName]), nameOf(in[unixName:])
	}
}

// nameOf returns the name of a unix socket. A name that begins with a zero byte is abstract,
// and ends with those that fill the field.
func nameOf(field []byte) []byte {
	if field[0] == 0 {
		return bytes.TrimRight(field, "\x00")
	}
	name, _, _ := bytes.Cut(field, []byte{0})
	return name
}
