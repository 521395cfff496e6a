package h3

import (
	"strconv"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
)

// First bits of field lines (RFC 9204 section 4.5).
const (
	lineIndexed     = 0xc0 // of the static table
	lineNameIndexed = 0x50
	lineNamed       = 0x20
	neverIndexed    = 0x20 // of lineNameIndexed: no party may put the field into a table
	namedNever      = 0x10 // of lineNamed
)

// An Encoder encodes field sections without a dynamic table (RFC 9204 section 4.5). It keeps
// no state of a connection, only the bytes of fields that it has encoded, so that the zero
// value is ready, and sections may be sent in any order or not at all. One Encoder may serve
// any number of connections, one after the other. Call Begin before each section.
type Encoder struct {
	length     int64
	lengthText [24]byte
	lengthSize uint8 // of the field in lengthText; 0: there is none
	date       [dateSize]byte
	dateText   [dateSize + 8]byte
	dateLen    uint8 // of the field in dateText; 0: there is none
	lines      [keptLines]keptLine
}

// dateSize is the length of every date (RFC 9110 section 5.6.7).
const dateSize = len("Mon, 02 Jan 2006 15:04:05 GMT")

// Begin starts a section.
func (e *Encoder) Begin(dst []byte) []byte { return append(dst, 0, 0) }

// AppendStatus appends :status, of three digits.
func (e *Encoder) AppendStatus(dst []byte, status int) []byte {
	if i := statusIndex(status); i != 0 {
		return appendIndexed(dst, i)
	}
	var digits [20]byte
	return appendNameIndexed(dst, 0, indexStatus, strconv.AppendInt(digits[:0], int64(status), 10))
}

// AppendServer appends Server and Alt-Svc, unless they are empty.
func (e *Encoder) AppendServer(dst, server, altSvc []byte) []byte {
	if len(server) > 0 {
		dst = e.appendKept(dst, fieldlist.Code(field.Server), nil, server)
	}
	if len(altSvc) > 0 {
		dst = e.appendKept(dst, fieldlist.Other, altSvcName, altSvc)
	}
	return dst
}

var altSvcName = []byte("alt-svc")

// AppendRequest appends the pseudo-fields of a request.
func (e *Encoder) AppendRequest(dst []byte, r fieldlist.RequestFields) []byte {
	dst = appendStatic(dst, fieldlist.PseudoMethod, indexMethod, r.Method)
	if len(r.Scheme) > 0 {
		dst = appendStatic(dst, fieldlist.PseudoScheme, indexScheme, r.Scheme)
	}
	if len(r.Authority) > 0 {
		dst = e.appendKept(dst, fieldlist.PseudoAuthority, nil, r.Authority)
	}
	if len(r.Path) > 0 {
		dst = appendStatic(dst, fieldlist.PseudoPath, indexPath, r.Path)
	}
	if len(r.Protocol) > 0 {
		dst = fieldlist.AppendString(dst, lineNamed, 3, protocolName)
		dst = fieldlist.AppendString(dst, 0, 7, r.Protocol)
	}
	return dst
}

// protocolName is a pseudo-field that the static table does not have.
var protocolName = []byte(":protocol")

// AppendField appends a field with a valid value. id is that of name, a token in any case.
// It omits connection-specific fields, which HTTP/3 forbids.
func (e *Encoder) AppendField(dst []byte, id field.ID, name, value []byte) []byte {
	if fieldlist.IsConnectionOnly(id, name) {
		return dst
	}
	code := fieldlist.Code(id)
	if fieldlist.IsSecret(code, name) {
		return appendLine(dst, code, name, value, true)
	}
	return e.appendKept(dst, code, name, value)
}

// appendLine appends a field. name is not needed if the static table has that of code. A secret
// is sent with a literal value that no party may put into a table.
func appendLine(dst []byte, code fieldlist.Code, name, value []byte, isSecret bool) []byte {
	if r := findName(code, name); r.count > 0 {
		first := byte(0)
		if isSecret {
			first = neverIndexed
		} else if i, ok := r.find(value); ok {
			return appendIndexed(dst, i)
		}
		return appendNameIndexed(dst, first, r.first, value)
	}
	first := byte(lineNamed)
	if isSecret {
		first |= namedNever
	}
	var room [64]byte
	dst = fieldlist.AppendString(dst, first, 3, ascii.AppendLower(room[:0], name))
	return fieldlist.AppendString(dst, 0, 7, value)
}

// AppendLength appends content-length.
func (e *Encoder) AppendLength(dst []byte, length int64) []byte {
	if length != e.length || e.lengthSize == 0 {
		var digits [20]byte
		text := appendStatic(e.lengthText[:0], fieldlist.Code(field.ContentLength), indexLength, strconv.AppendInt(digits[:0], length, 10))
		e.length, e.lengthSize = length, uint8(len(text))
	}
	return append(dst, e.lengthText[:e.lengthSize]...)
}

// AppendDate appends the date of a response.
func (e *Encoder) AppendDate(dst, date []byte) []byte {
	if e.dateLen == 0 || string(e.date[:]) != string(date) {
		copy(e.date[:], date)
		e.dateLen = uint8(len(appendNameIndexed(e.dateText[:0], 0, indexDate, date)))
	}
	return append(dst, e.dateText[:e.dateLen]...)
}

// appendStatic appends a field whose name the static table has, at index name with the values
// of its range.
func appendStatic(dst []byte, code fieldlist.Code, name byte, value []byte) []byte {
	if i, ok := staticOfCode[code].find(value); ok {
		return appendIndexed(dst, i)
	}
	return appendNameIndexed(dst, 0, name, value)
}

// find returns the index of the field with a value.
func (r staticRange) find(value []byte) (index byte, ok bool) {
	for i := r.first; i < r.first+r.count; i++ {
		if staticText[i][1] == string(value) {
			return i, true
		}
	}
	return 0, false
}

// appendIndexed appends a field of the static table.
func appendIndexed(dst []byte, index byte) []byte {
	return fieldlist.AppendInteger(dst, lineIndexed, 6, int(index))
}

// appendNameIndexed appends a field whose name is in the static table. first may have
// neverIndexed.
func appendNameIndexed(dst []byte, first, name byte, value []byte) []byte {
	dst = fieldlist.AppendInteger(dst, lineNameIndexed|first, 4, int(name))
	return fieldlist.AppendString(dst, 0, 7, value)
}
