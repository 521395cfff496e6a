package h1

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// ValidHost reports whether s is uri-host [ ":" port ] (RFC 9110 section 7.2, RFC 3986
// section 3.2.2) with a non-empty host.
func ValidHost(s []byte) bool {
	if len(s) == 0 {
		return false
	}
	if s[0] == '[' {
		end := bytes.IndexByte(s, ']')
		return end > 0 && validIPLiteral(s[1:end]) && validPort(s[end+1:])
	}
	i := ascii.Prefix(s, ascii.HostChar)
	if i < len(s) && s[i] == '%' {
		name, port := s, s[len(s):]
		if colon := bytes.IndexByte(s, ':'); colon >= 0 {
			name, port = s[:colon], s[colon:]
		}
		return isName(name) && !escapesASCII(name) && validPort(port)
	}
	return i > 0 && validPort(s[i:])
}

// escapesASCII reports whether s, which isName, has an escaped ASCII character. It serves
// only to hide what the name is (RFC 3986 section 6.2.2.2).
func escapesASCII(s []byte) bool {
	for {
		i := bytes.IndexByte(s, '%')
		if i < 0 {
			return false
		}
		if s[i+1] < '8' {
			return true
		}
		s = s[i+1:]
	}
}

// isName reports whether s is a reg-name (RFC 3986 section 3.2.2).
func isName(s []byte) bool {
	for len(s) > 0 {
		switch {
		case ascii.Is(s[0], ascii.HostChar):
			s = s[1:]
		case s[0] == '%' && len(s) >= 3 && isEscape(s):
			s = s[3:]
		default:
			return false
		}
	}
	return true
}

// validPort accepts nothing, ":" and ":" with a number up to 65535.
func validPort(s []byte) bool {
	if len(s) == 0 {
		return true
	}
	if s[0] != ':' || len(s) > 6 {
		return false
	}
	port := 0
	for _, c := range s[1:] {
		if !ascii.Is(c, ascii.Digit) {
			return false
		}
		port = port*10 + int(c-'0')
	}
	return port <= 65535
}

// HasPort reports whether the valid host s ends in a port that is not empty, as
// CONNECT needs it.
func HasPort(s []byte) bool {
	colon := bytes.LastIndexByte(s, ':')
	return colon > bytes.LastIndexByte(s, ']') && colon < len(s)-1
}

// validIPLiteral checks the text between brackets: IPv6address with an optional zone
// (RFC 6874), or IPvFuture.
func validIPLiteral(s []byte) bool {
	if len(s) > 0 && ascii.Lower(s[0]) == 'v' {
		return validIPFuture(s[1:])
	}
	if zone := bytes.Index(s, []byte("%25")); zone >= 0 {
		name := s[zone+3:]
		if len(name) == 0 || !isName(name) {
			return false
		}
		s = s[:zone]
	}
	return validIPv6(s)
}

func validIPFuture(s []byte) bool {
	dot := bytes.IndexByte(s, '.')
	if dot <= 0 || !ascii.All(s[:dot], ascii.Hex) || dot+1 == len(s) {
		return false
	}
	for _, c := range s[dot+1:] {
		if c != ':' && !ascii.Is(c, ascii.HostChar) {
			return false
		}
	}
	return true
}

// validIPv6 checks for eight groups of one to four hex digits. "::" may replace one
// run of groups, and an IPv4 address the last two.
func validIPv6(s []byte) bool {
	groups, elided := 0, false
	if len(s) >= 2 && s[0] == ':' && s[1] == ':' {
		elided = true
		s = s[2:]
	}
	for len(s) > 0 {
		n := 0
		for n < len(s) && ascii.Is(s[n], ascii.Hex) {
			n++
		}
		if n < len(s) && s[n] == '.' {
			_, isIPv4 := ascii.ParseIPv4(s)
			return isIPv4 && isWholeIPv6(groups+2, elided)
		}
		if n == 0 || n > 4 {
			return false
		}
		groups++
		s = s[n:]
		if len(s) == 0 {
			break
		}
		if s[0] != ':' || len(s) == 1 {
			return false
		}
		s = s[1:]
		if s[0] == ':' {
			if elided {
				return false
			}
			elided = true
			s = s[1:]
		}
	}
	return isWholeIPv6(groups, elided)
}

// isWholeIPv6 reports whether this number of groups makes an address: eight, or fewer
// if a "::" replaces at least one.
func isWholeIPv6(groups int, elided bool) bool {
	return groups == 8 && !elided || groups < 8 && elided
}
