package h2

import (
	"strconv"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
)

const (
	// maxKnown is the number of entries of the peer's table that an Encoder knows.
	maxKnown = 16
	// dateSize is the length of every date (RFC 9110 section 5.6.7).
	dateSize = len("Mon, 02 Jan 2006 15:04:05 GMT")
	// notHeld is the place of a date that the peer's table does not have.
	notHeld = -1
)

// An Encoder encodes the field blocks of one direction of a connection (RFC 7541). It
// puts only fields into the peer's table that repeat: those of its Pairs, and a date
// that is sent again. Blocks must be sent in the order in which they were encoded, and
// none may be left out. Call Reset before the first use, and Begin before each block.
type Encoder struct {
	pairs *Pairs
	limit int // of the table, as the peer knows it
	want  int // of the table from the next block on
	low   int // the least want since the last block

	// known is what the peer's table has, the newest entry first: slots of pairs, or
	// pairSlots and the size of an entry that is not used again.
	known  [maxKnown]uint16
	count  int
	date   [dateSize]byte // the last one that was sent
	dateAt int            // its index in known, or notHeld

	length     int64 // the last content-length
	lengthText [24]byte
	lengthSize uint8 // of its field in lengthText; 0: none was sent
}

// Reset makes e ready for a new connection. Its fields are compared with pairs.
func (e *Encoder) Reset(pairs *Pairs) {
	*e = Encoder{pairs: pairs, limit: DefaultTableSize, want: DefaultTableSize, low: DefaultTableSize, dateAt: notHeld}
}

// SetLimit bounds the peer's table by its SETTINGS_HEADER_TABLE_SIZE. The Encoder uses
// at most DefaultTableSize.
func (e *Encoder) SetLimit(size int) {
	e.want = min(size, DefaultTableSize)
	e.low = min(e.low, e.want)
}

// Begin starts a block: it appends the size updates that are due (RFC 7541 section
// 4.2).
func (e *Encoder) Begin(dst []byte) []byte {
	if e.low < e.limit {
		dst = e.resize(dst, e.low)
	}
	if e.want != e.limit {
		dst = e.resize(dst, e.want)
	}
	e.low = e.want
	return dst
}

func (e *Encoder) resize(dst []byte, size int) []byte {
	e.limit = size
	e.evict()
	return fieldlist.AppendInteger(dst, 0x20, 5, size)
}

// evict forgets the entries that the peer's table has no room for.
func (e *Encoder) evict() {
	size := 0
	for i := range e.count {
		if size += e.sizeOf(i); size > e.limit {
			e.count = i
			break
		}
	}
	if e.dateAt >= e.count {
		e.dateAt = notHeld
	}
}

// sizeOf returns the size of an entry of the peer's table.
func (e *Encoder) sizeOf(i int) int {
	if id := int(e.known[i]); id >= pairSlots {
		return id - pairSlots
	}
	return e.pairs.slots[e.known[i]].Load().size
}

// insert notes a new entry of the peer's table, which has room for it.
func (e *Encoder) insert(id uint16) {
	copy(e.known[1:], e.known[:])
	e.known[0] = id
	e.count = min(e.count+1, maxKnown)
	if e.dateAt != notHeld {
		e.dateAt++
	}
	e.evict()
}

// AppendStatus appends :status, of three digits.
func (e *Encoder) AppendStatus(dst []byte, status int) []byte {
	switch status {
	case 200:
		return append(dst, 0x80|8)
	case 204:
		return append(dst, 0x80|9)
	case 206:
		return append(dst, 0x80|10)
	case 304:
		return append(dst, 0x80|11)
	case 400:
		return append(dst, 0x80|12)
	case 404:
		return append(dst, 0x80|13)
	case 500:
		return append(dst, 0x80|14)
	}
	var digits [20]byte
	return e.append(dst, fieldlist.PseudoStatus, nil, strconv.AppendInt(digits[:0], int64(status), 10))
}

// AppendServer appends Server and Alt-Svc, unless they are empty. Their bytes must not change
// after that: the Pairs retain them, and compare their addresses.
func (e *Encoder) AppendServer(dst, server, altSvc []byte) []byte {
	if len(server) > 0 {
		if i := e.indexOf(e.pairs.server.Load(), server); i >= 0 {
			dst = append(dst, 0x80|byte(i))
		} else {
			dst = e.appendConstant(dst, &e.pairs.server, fieldlist.Code(field.Server), nil, server)
		}
	}
	if len(altSvc) > 0 {
		if i := e.indexOf(e.pairs.altSvc.Load(), altSvc); i >= 0 {
			dst = append(dst, 0x80|byte(i))
		} else {
			dst = e.appendConstant(dst, &e.pairs.altSvc, fieldlist.Other, altSvcName, altSvc)
		}
	}
	return dst
}

// altSvcName is a name that the static table does not have.
var altSvcName = []byte("alt-svc")

// indexOf returns the index of a field with that value, or -1: it is not that of c, or the peer's
// table does not have it.
func (e *Encoder) indexOf(c *constant, value []byte) int {
	if c.is(value) {
		for i, id := range e.known[:e.count] {
			if id == c.slot {
				return len(staticFields) + i
			}
		}
	}
	return -1
}

// appendConstant is append for a field whose value does not change. last is the last such one.
func (e *Encoder) appendConstant(dst []byte, last *atomic.Pointer[constant], code fieldlist.Code, name, value []byte) []byte {
	dst = e.append(dst, code, name, value)
	if e.limit > 0 && !last.Load().is(value) {
		if p, slot := e.pairs.find(hashField(code, name, value), code, name, value); p != nil {
			last.Store(&constant{&value[0], len(value), uint16(slot)})
		}
	}
	return dst
}

// AppendRequest appends the pseudo-fields of a request.
func (e *Encoder) AppendRequest(dst []byte, r fieldlist.RequestFields) []byte {
	switch string(r.Method) {
	case "GET":
		dst = append(dst, 0x80|2)
	case "POST":
		dst = append(dst, 0x80|3)
	default:
		dst = e.append(dst, fieldlist.PseudoMethod, nil, r.Method)
	}
	switch string(r.Scheme) {
	case "":
	case "http":
		dst = append(dst, 0x80|6)
	case "https":
		dst = append(dst, 0x80|7)
	default:
		dst = e.append(dst, fieldlist.PseudoScheme, nil, r.Scheme)
	}
	if len(r.Authority) > 0 {
		dst = e.append(dst, fieldlist.PseudoAuthority, nil, r.Authority)
	}
	switch string(r.Path) {
	case "":
	case "/":
		dst = append(dst, 0x80|4)
	default:
		dst = e.append(dst, fieldlist.PseudoPath, nil, r.Path)
	}
	if len(r.Protocol) > 0 {
		dst = e.append(dst, fieldlist.PseudoProtocol, protocolName, r.Protocol)
	}
	return dst
}

// protocolName is a pseudo-field that the static table does not have.
var protocolName = []byte(":protocol")

// AppendField appends a field with a valid value. id is that of name, a token in any
// case. Fields that HTTP/2 forbids, because they concern a connection, are left out.
func (e *Encoder) AppendField(dst []byte, id field.ID, name, value []byte) []byte {
	if fieldlist.IsConnectionOnly(id, name) {
		return dst
	}
	return e.append(dst, fieldlist.Code(id), name, value)
}

// AppendLength appends content-length.
func (e *Encoder) AppendLength(dst []byte, length int64) []byte {
	if length != e.length || e.lengthSize == 0 {
		var digits [20]byte
		text := appendLiteral(e.lengthText[:0], 0, 4, fieldlist.Code(field.ContentLength), nil)
		text = fieldlist.AppendString(text, 0, 7, strconv.AppendInt(digits[:0], length, 10))
		e.length, e.lengthSize = length, uint8(len(text))
	}
	return append(dst, e.lengthText[:e.lengthSize]...)
}

// AppendDate appends the date of a response. It is put into the peer's table when it is
// sent for the second time: on a connection with less than two responses in a second,
// dates would only displace what repeats.
func (e *Encoder) AppendDate(dst, date []byte) []byte {
	isRepeated := string(e.date[:]) == string(date)
	switch {
	case isRepeated && e.dateAt != notHeld:
		return append(dst, 0x80|byte(len(staticFields)+e.dateAt))
	case isRepeated && dateEntry <= e.limit:
		dst = appendLiteral(dst, 0x40, 6, fieldlist.Code(field.Date), nil)
		e.insert(uint16(pairSlots + dateEntry))
		e.dateAt = 0
	default:
		copy(e.date[:], date)
		e.dateAt = notHeld
		dst = appendLiteral(dst, 0, 4, fieldlist.Code(field.Date), nil)
	}
	return fieldlist.AppendString(dst, 0, 7, date)
}

// dateEntry is the size of a date in the peer's table.
const dateEntry = len("date") + dateSize + fieldlist.FieldOverhead

// append appends a field: by its index if the peer's table has it, with indexing if it
// is a pair, otherwise as a literal.
func (e *Encoder) append(dst []byte, code fieldlist.Code, name, value []byte) []byte {
	if fieldlist.IsSecret(code, name) {
		dst = appendLiteral(dst, 0x10, 4, code, name)
		return fieldlist.AppendString(dst, 0, 7, value)
	}
	for i, id := range e.known[:e.count] {
		if id < pairSlots && e.pairs.slots[id].Load().is(code, name, value) {
			return append(dst, 0x80|byte(len(staticFields)+i))
		}
	}
	if e.limit > 0 {
		hash := hashField(code, name, value)
		p, slot := e.pairs.find(hash, code, name, value)
		switch {
		case p == nil:
			e.pairs.sight(hash, code, name, value)
		case p.size <= e.limit:
			e.insert(uint16(slot))
			return append(dst, p.literal...)
		}
	}
	dst = appendLiteral(dst, 0, 4, code, name)
	return fieldlist.AppendString(dst, 0, 7, value)
}
