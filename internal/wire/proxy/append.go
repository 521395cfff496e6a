package proxy

import (
	"encoding/binary"
	"strconv"
)

// Local is a header of version 2 with which a proxy speaks for itself.
const Local = signature + "\x20\x00\x00\x00"

// Append appends h to dst in its Version, 2 if that is 0. In version 1, a header of unix sockets
// says that the addresses are unknown, and there are no TLVs. Both addresses must be of one
// family, and the TLVs must not be larger than MaxSize allows.
func Append(dst []byte, h Header) []byte {
	if h.Version == 1 {
		return append1(dst, h)
	}
	family, began := familyUnspecified, len(dst)
	switch {
	case h.IsUnix:
		family = familyUnix
	case h.Source.Addr().Is4():
		family = familyIPv4
	case h.Source.Addr().Is6():
		family = familyIPv6
	}
	transport := byte(1) // a stream
	if family == familyUnspecified {
		transport = 0
	}
	dst = append(dst, signature...)
	dst = append(dst, version2|commandProxy, byte(family)<<4|transport)
	dst = binary.BigEndian.AppendUint16(dst, uint16(addressSizes[family]+len(h.TLVs)))
	if h.IsUnix {
		for _, name := range [][]byte{h.SourceName, h.DestinationName} {
			var field [unixName]byte
			copy(field[:], name)
			dst = append(dst, field[:]...)
		}
	} else if family != familyUnspecified {
		dst = append(dst, h.Source.Addr().AsSlice()...)
		dst = append(dst, h.Destination.Addr().AsSlice()...)
		dst = binary.BigEndian.AppendUint16(dst, h.Source.Port())
		dst = binary.BigEndian.AppendUint16(dst, h.Destination.Port())
	}
	dst = append(dst, h.TLVs...)
	sign(dst[began:], len(dst)-began-len(h.TLVs))
	return dst
}

func append1(dst []byte, h Header) []byte {
	dst = append(dst, prefix1...)
	if !h.Source.IsValid() {
		return append(dst, "UNKNOWN\r\n"...)
	}
	if h.Source.Addr().Is4() {
		dst = append(dst, "TCP4 "...)
	} else {
		dst = append(dst, "TCP6 "...)
	}
	dst = append(h.Source.Addr().AppendTo(dst), ' ')
	dst = append(h.Destination.Addr().AppendTo(dst), ' ')
	dst = append(strconv.AppendUint(dst, uint64(h.Source.Port()), 10), ' ')
	dst = strconv.AppendUint(dst, uint64(h.Destination.Port()), 10)
	return append(dst, "\r\n"...)
}
