package uri

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

var percent25 = []byte("%25")

// appendHost appends host, which may have a port, in lower case. A valid host is
// a name, an IPv4 address, or an IPv6 address in brackets. Percent-encodings are
// decoded where net/url decodes them: in a name if they encode bytes above 0x7F,
// and in an IPv6 zone.
func appendHost(dst, host []byte) ([]byte, error) {
	for _, c := range host {
		if !ascii.Is(c, ascii.HostChar) {
			return appendUnusualHost(dst, host)
		}
	}
	return ascii.AppendLower(dst, host), nil
}

func appendUnusualHost(dst, host []byte) ([]byte, error) {
	if host[0] == '[' {
		return appendIPv6Host(dst, host)
	}
	name, port, hasPort := ascii.Cut(host, ':')
	if hasPort && !isPort(port) {
		return dst, InvalidHostError(host)
	}
	at := len(dst)
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c == '%':
			decoded, err := decodeHostByte(name[i:])
			if err != nil {
				return dst[:at], err
			}
			c = decoded
			i += 2
		case c < 0x80 && !ascii.Is(c, ascii.HostChar):
			return dst[:at], InvalidHostError(host)
		}
		dst = append(dst, ascii.Lower(c))
	}
	if hasPort {
		dst = append(dst, ':')
		dst = append(dst, port...)
	}
	return dst, nil
}

// isPort reports whether s is empty or a decimal number of at most 65535 (RFC 3986
// section 3.2.3).
func isPort(s []byte) bool {
	if len(s) == 0 {
		return true
	}
	n, err := ascii.ParseUint(s)
	return err == nil && n <= 65535
}

// decodeHostByte decodes the percent-encoding that s begins with. It refuses an
// encoded ASCII character, which could decode to a delimiter of port or path.
func decodeHostByte(s []byte) (byte, error) {
	s = s[:min(len(s), 3)]
	if decoded := ascii.AppendUnescaped(make([]byte, 0, 3), s); len(decoded) == 1 && decoded[0] >= 0x80 {
		return decoded[0], nil
	}
	return 0, EscapeError(s)
}

// appendIPv6Host appends "[" address ["%25" zone] "]" [":" port] with "%25"
// decoded, which is the format of package net.
func appendIPv6Host(dst, host []byte) ([]byte, error) {
	if !h1.ValidHost(host) {
		return dst, InvalidHostError(host)
	}
	at := len(dst)
	before, zone, hasZone := bytes.Cut(host, percent25)
	dst = ascii.AppendLower(dst, before)
	if !hasZone {
		return dst, nil
	}
	dst = append(dst, '%')
	zoneAt := len(dst)
	end := bytes.LastIndexByte(zone, ']')
	zone, after := zone[:end], zone[end:]
	dst = ascii.AppendUnescaped(dst, zone)
	for i := zoneAt; i < len(dst); i++ {
		if c := dst[i]; c < 0x80 && c != ']' && !ascii.Is(c, ascii.HostChar) {
			return dst[:at], InvalidHostError(host)
		}
		dst[i] = ascii.Lower(dst[i])
	}
	return append(dst, after...), nil
}

// IsSameOrigin reports whether scheme, host and port are equal (RFC 9110 section
// 4.3.1). The scheme of both is http or https.
func (u *URI) IsSameOrigin(other *URI) bool {
	return u.IsHTTPS() == other.IsHTTPS() && bytes.Equal(u.originHost(), other.originHost())
}

// originHost returns host and port, without the scheme's default port.
func (u *URI) originHost() []byte {
	usual := ":80"
	if u.IsHTTPS() {
		usual = ":443"
	}
	return bytes.TrimSuffix(u.Host(), []byte(usual))
}

// WithoutZone returns the host of a URI without the zone of an IPv6 address, which has a
// meaning on this machine only and must not leave it (RFC 6874 section 4).
func WithoutZone(host []byte) []byte {
	address, _, after, hasZone := cutZone(host)
	if !hasZone {
		return host
	}
	return append(append(make([]byte, 0, len(host)), address...), after...)
}

// cutZone slices a decoded host around the zone of its IPv6 address. The last "]" ends
// the zone, which may contain others.
func cutZone(host []byte) (address, zone, after []byte, ok bool) {
	if len(host) == 0 || host[0] != '[' {
		return host, nil, nil, false
	}
	address, rest, hasZone := ascii.Cut(host, '%')
	end := bytes.LastIndexByte(rest, ']')
	if !hasZone || end < 0 {
		return host, nil, nil, false
	}
	return address, rest[:end], rest[end:], true
}

// appendWrittenHost appends a decoded host as a URI has it, with the zone of an IPv6
// address percent-encoded (RFC 6874 section 2).
func appendWrittenHost(dst, host []byte) []byte {
	address, zone, after, hasZone := cutZone(host)
	dst = ascii.AppendHost(dst, address)
	if !hasZone {
		return dst
	}
	dst = append(dst, percent25...)
	for _, c := range zone {
		if ascii.Is(c, ascii.HostChar) {
			dst = append(dst, c)
		} else {
			dst = ascii.AppendPercent(dst, c)
		}
	}
	return ascii.AppendHost(dst, after)
}
