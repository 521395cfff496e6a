package fieldlist

import (
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// connectionOnly is the set of the known fields that concern a connection (RFC 9113
// section 8.2.2, RFC 9114 section 4.2).
const connectionOnly uint64 = 1<<field.Connection | 1<<field.KeepAlive | 1<<field.TransferEncoding | 1<<field.Upgrade

// IsConnectionOnly reports whether HTTP/2 and HTTP/3 forbid a field of that name, in any case.
func IsConnectionOnly(id field.ID, name []byte) bool {
	if id != field.Other {
		return connectionOnly>>id&1 != 0
	}
	return len(name) == len("proxy-connection") && ascii.EqualFold(name, "proxy-connection")
}

// NameViolation examines a name that was sent as a string.
func NameViolation(code Code, name []byte) Violation {
	if code.IsPseudo() {
		if code == PseudoNone {
			return ErrPseudoUnknown
		}
		return None
	}
	for _, c := range name {
		if !ascii.Is(c, ascii.Token) || 'A' <= c && c <= 'Z' {
			return ErrFieldName
		}
	}
	if len(name) == 0 {
		return ErrFieldName
	}
	return None
}

// FieldViolation examines a field. ofName is the violation of its name, which may be absent if
// code or a table says it: no name in a table but "te" needs another look.
func FieldViolation(code Code, ofName Violation, name, value []byte) Violation {
	switch {
	case ofName != None:
		return ofName
	case code.IsPseudo():
		return pseudoViolation(code, value)
	case IsConnectionOnly(field.ID(code), name):
		return ErrConnectionOnly
	case string(name) == "te" && !ascii.EqualFold(value, "trailers"):
		return ErrTE
	case !h1.IsFieldValue(value):
		return ErrFieldValue
	}
	return None
}

// pseudoViolation examines the value of a pseudo-field (RFC 9113 sections 8.3.1, 8.3.2, RFC
// 9114 section 4.3).
func pseudoViolation(code Code, value []byte) Violation {
	switch code {
	case PseudoMethod:
		return unless(h1.IsToken(value), ErrMethod)
	case PseudoScheme:
		return unless(isScheme(value), ErrScheme)
	case PseudoPath:
		isPath := len(value) > 0 && value[0] == '/' && h1.IsPath(value)
		return unless(isPath || string(value) == "*", ErrPath)
	case PseudoAuthority:
		return unless(h1.ValidHost(value), ErrAuthority)
	case PseudoStatus:
		isStatus := len(value) == 3 && value[0] != '0' && ascii.All(value, ascii.Digit)
		return unless(isStatus, ErrStatus)
	case PseudoProtocol:
		return unless(h1.IsToken(value), ErrProtocol)
	}
	return ErrPseudoUnknown
}

// unless returns v, or None if what it is about is valid.
func unless(isValid bool, v Violation) Violation {
	if isValid {
		return None
	}
	return v
}

// isScheme reports whether s is a scheme (RFC 3986 section 3.1).
func isScheme(s []byte) bool {
	for i, c := range s {
		isLetter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !isLetter && (i == 0 || !ascii.Is(c, ascii.Digit) && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return len(s) > 0
}

// Secret is the set of the known fields that no party may put into a table.
const Secret uint64 = 1<<field.Cookie | 1<<field.SetCookie | 1<<field.Authorization

// IsSecret reports whether no party may put the field into a table (RFC 7541 section
// 7.1.3, RFC 9204 section 7.1.3).
func IsSecret(code Code, name []byte) bool {
	if code == Other {
		return len(name) == len("proxy-authorization") && ascii.EqualFold(name, "proxy-authorization")
	}
	return !code.IsPseudo() && Secret>>code&1 != 0
}

// RequestFields are the pseudo-fields of a request. Those that are empty are not sent.
type RequestFields struct{ Method, Scheme, Authority, Path, Protocol []byte }
