package h2

import (
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// maxSizeUpdates is the number of size updates at the beginning of a block: one for
// the smallest limit since the last block, and one for the current limit (RFC 7541
// section 4.2).
const maxSizeUpdates = 2

// maxKept is the size up to which a Decoder keeps memory for the next block.
const maxKept = 4 << 10

// A blockPhase is what a Decoder reads next.
type blockPhase uint8

const (
	atSizeUpdate blockPhase = iota // a size update or a field
	atListField                    // a field
	inLongName                     // a name that is too long to be kept
	atLongValue                    // the value of such a name
	inLongValue                    // a value that is too long to be kept
	blockFailed
)

// A Decoder decodes the field blocks of one direction of a connection (RFC 7541) and
// validates their fields (RFC 9113 sections 8.1 to 8.3). Blocks may arrive in any
// pieces; the result does not depend on how they are cut. Call Reset before the first
// use. For each block call Begin, Push for each piece, and End.
type Decoder struct {
	// Limits bound a field list: MaxLine the bytes of its path, MaxFields the number
	// of its fields without pseudo-fields, MaxHead the sum of names, values and 32 for
	// each field. A string that needs more than MaxHead bytes in the block counts as
	// too large, even if its text is shorter.
	Limits h1.Limits
	// AcceptsConnect admits :protocol in requests, as our SETTINGS must have announced
	// (RFC 8441 section 3).
	AcceptsConnect bool

	table dynamicTable
	limit int // of the table's size, by our settings
	low   int // the least limit since the last size update

	block   FieldBlock
	phase   blockPhase
	updates uint8
	isPlain bool // a field that is not a pseudo-field was seen
	head    *Head
	fields  *field.Table
	out     []byte // while Push runs: what is decoded, Raw of fields
	scratch []byte // out of an unwanted block
	partial []byte // the beginning of a field whose rest has not arrived
	need    int    // bytes of the field that are needed to continue
	rest    int    // bytes of a long string that have not arrived
	long    longField

	count     int     // fields, without pseudo-fields
	size      int     // of the list so far
	beyond    int64   // of the fields that were not stored
	cookie    h1.Span // crumbs that were joined, not yet in fields
	hasCookie bool
	refused   error // the first violation that makes the message malformed
	excess    error // the first limit that was exceeded

	last *repeated // nil: no block has come twice
	mark uint32    // of the last block
	path pathPlace // in the block, if it came as one piece
}

// A longField is a field with a string that is too long to be kept.
type longField struct {
	code    fieldCode
	inserts bool // it goes into the table, which it empties
	size    int
}

// Reset makes d ready for a new connection. It keeps Limits, AcceptsConnect and
// memory.
func (d *Decoder) Reset() {
	*d = Decoder{Limits: d.Limits, AcceptsConnect: d.AcceptsConnect, table: d.table, partial: d.partial[:0], scratch: d.scratch, last: d.last}
	d.table.reset(DefaultTableSize)
	d.limit, d.low = DefaultTableSize, DefaultTableSize
}

// SetLimit bounds the dynamic table. Call it when the peer has acknowledged our
// SETTINGS_HEADER_TABLE_SIZE. It is at most MaxTableSize.
func (d *Decoder) SetLimit(size int) {
	d.limit = min(size, MaxTableSize)
	d.low = min(d.low, d.limit)
}

// Begin starts a block. Its fields will be added to t, which must be empty and have no
// raw head, and what the others say to h. Both may be nil for an UnwantedBlock, and h
// for a TrailerBlock.
func (d *Decoder) Begin(block FieldBlock, t *field.Table, h *Head) {
	if h != nil {
		*h = Head{}
		h.Minor = 1
	}
	d.block, d.fields, d.head = block, t, h
	d.phase, d.updates, d.isPlain = atSizeUpdate, 0, false
	d.count, d.size, d.beyond = 0, 0, 0
	d.hasCookie = false
	d.refused, d.excess = nil, nil
	d.path = pathPlace{}
}

// Discard makes the rest of the block that Begin has started an UnwantedBlock. The table
// and the Head of Begin are not used any more.
func (d *Decoder) Discard() {
	d.block, d.fields, d.head = UnwantedBlock, nil, nil
	d.hasCookie = false
}

// Receive handles a piece of the block that Begin has started, and charges b for what it
// costs beyond its size. isEnd is true at the last piece: then list is what End has returned,
// unless that ends the connection, as violation does.
func (d *Decoder) Receive(ev *Event, b *Budget, now int64) (isEnd bool, violation *Error, list error) {
	if ev.Padding > 0 || ev.Has(FrameStart) && ev.Length == 0 {
		if err := b.Charge(now, CostEmptyFrame); err != nil {
			return false, err, nil
		}
	}
	isWhole := ev.Has(BlockStart) && ev.Has(EndHeaders)
	if isWhole && d.repeats(ev.Payload) {
		return true, nil, nil
	}
	before := d.table.changes
	if err := d.Push(ev.Payload); err != nil {
		return false, Violation(err), nil
	}
	if !ev.Has(EndHeaders) {
		return false, nil, nil
	}
	if list = d.End(); isWhole && list == nil {
		d.keep(ev.Payload, before)
	}
	if d.beyond > 0 {
		if err := b.Charge(now, Cost(min(1+d.beyond>>10, 1000))*CostDecodedKiB); err != nil {
			return true, err, nil
		}
	}
	if v := Violation(list); v != nil && v.Scope == ConnectionScope {
		return true, v, nil
	}
	return true, nil, list
}

// Push decodes the next piece of the block, and keeps no reference to it. An error
// ends the connection; then only Reset may be called.
func (d *Decoder) Push(piece []byte) error {
	if d.fields == nil {
		d.out = d.scratch[:0]
		err := d.push(piece)
		d.scratch, d.out = d.out, nil
		return err
	}
	d.out = d.fields.Raw()
	err := d.push(piece)
	d.fields.SetRaw(d.out)
	d.out = nil
	return err
}

func (d *Decoder) push(in []byte) error {
	for len(d.partial) > 0 {
		take := min(d.need-len(d.partial), len(in))
		d.partial = append(d.partial, in[:take]...)
		in = in[take:]
		if len(d.partial) < d.need {
			return nil
		}
		used, err := d.step(d.partial)
		if err != nil {
			return d.fail(err)
		}
		if used > 0 { // all of it: need is never more than what a field has
			d.partial = d.partial[:0]
		}
	}
	for len(in) > 0 {
		used, err := d.step(in)
		if err != nil {
			return d.fail(err)
		}
		if used == 0 {
			d.partial = append(d.partial, in...)
			return nil
		}
		in = in[used:]
	}
	return nil
}

func (d *Decoder) fail(err error) error {
	d.phase = blockFailed
	d.partial = d.partial[:0]
	return err
}

// End ends the block. An *Error ends the connection or, for a malformed message, the
// stream. An *h1.Error is a request that is answered with its status: a list that is
// too large, or a message that HTTP/1.1 refuses in the same way. With any error, the
// fields in the table mean nothing.
func (d *Decoder) End() error {
	if len(d.partial) > 0 || d.phase > atListField {
		return d.fail(ErrTruncated)
	}
	if cap(d.partial) > maxKept {
		d.partial = nil
	}
	if cap(d.scratch) > maxKept {
		d.scratch = nil
	}
	t, h := d.fields, d.head
	switch {
	case d.block == UnwantedBlock:
		return nil
	case d.refused != nil:
		return d.refused
	case d.excess != nil:
		return d.excess
	}
	d.endCookies(t)
	var err error
	switch d.block {
	case RequestBlock:
		err = h.finishRequest(t)
	case ResponseBlock:
		err = h.finishResponse()
	}
	t.Seal(len(t.Raw()))
	return err
}

// step decodes from in, which is not empty, and returns how many bytes it has used: 0
// if it needs more of them.
func (d *Decoder) step(in []byte) (used int, err error) {
	switch d.phase {
	case inLongName, inLongValue:
		used = min(len(in), d.rest)
		if d.rest -= used; d.rest == 0 {
			d.endLong()
		}
		return used, nil
	case atLongValue:
		s, err := d.locate(in, 0)
		if s.start == 0 {
			return 0, err
		}
		d.skip(inLongValue, s)
		return s.start, nil
	case blockFailed:
		return 0, ErrTruncated
	}
	switch first := in[0]; {
	case first >= 0x80:
		index, next, err := readInteger(in, 0, 7)
		if next == 0 {
			d.need = len(in) + 1
			return 0, err
		}
		return next, d.indexed(index)
	case first >= 0x40:
		return d.literal(in, 6, true)
	case first >= 0x20:
		return d.sizeUpdate(in)
	}
	return d.literal(in, 4, false)
}

// sizeUpdate reads a change of the table's size (RFC 7541 section 6.3).
func (d *Decoder) sizeUpdate(in []byte) (used int, err error) {
	size, next, err := readInteger(in, 0, 5)
	switch {
	case next == 0:
		d.need = len(in) + 1
		return 0, err
	case d.phase != atSizeUpdate || d.updates == maxSizeUpdates:
		return 0, ErrSizeUpdateAt
	case size > d.limit, d.table.max > d.low && size > d.low:
		return 0, ErrSizeUpdate
	}
	d.updates++
	d.low = d.limit
	d.table.resize(size)
	return next, nil
}

// beginField is called before each field. The first one ends the size updates; one that
// our settings require must have come.
func (d *Decoder) beginField() error {
	if d.phase != atSizeUpdate {
		return nil
	}
	if d.table.max > d.low {
		return ErrNoSizeUpdate
	}
	d.phase, d.low = atListField, d.limit
	return nil
}

// indexed adds a field of the tables (RFC 7541 section 6.1).
func (d *Decoder) indexed(index int) error {
	if err := d.beginField(); err != nil {
		return err
	}
	if index == 0 {
		return ErrIndex
	}
	start := len(d.out)
	if index < len(staticFields) {
		f := &staticFields[index]
		size := len(f.name) + len(f.value) + entryOverhead
		if d.counts(f.code, len(f.value), size) {
			if d.keepsName(f.code) {
				d.out = append(d.out, f.name...)
			}
			value := d.beginValue(f.code, start)
			d.out = append(d.out, f.value...)
			d.add(fieldName{f.code, uint8(index), staticFlaws[index]}, start, value)
		}
		return nil
	}
	if index -= len(staticFields); index >= d.table.count {
		return ErrIndex
	}
	e := d.table.get(index)
	if d.counts(e.code, int(e.valueSize), e.size()) {
		if d.keepsName(e.code) {
			d.out = d.table.appendName(d.out, e)
		}
		value := d.beginValue(e.code, start)
		d.out = d.table.appendValue(d.out, e)
		d.add(e.fieldName, start, value)
	}
	return nil
}

// A wireString locates a string literal (RFC 7541 section 5.2). No string begins at 0.
type wireString struct {
	start, length int
	isHuffman     bool
}

// locate reads the length of the string at in[at].
func (d *Decoder) locate(in []byte, at int) (s wireString, err error) {
	if at == len(in) {
		d.need = at + 1
		return s, nil
	}
	n, next, err := readInteger(in, at, 7)
	if next == 0 {
		d.need = len(in) + 1
		return s, err
	}
	return wireString{next, n, in[at]&0x80 != 0}, nil
}

// decode appends the text of s to what is decoded.
func (d *Decoder) decode(in []byte, s wireString) (err error) {
	text := in[s.start : s.start+s.length]
	if s.isHuffman {
		d.out, err = appendHuffmanDecoded(d.out, text)
		return err
	}
	d.out = append(d.out, text...)
	return nil
}

// maxString is the length of the longest string that is decoded. The text of a longer
// one exceeds the limit of the list, and an entry with it the table: no code has more
// than 30 bits for a byte.
func (d *Decoder) maxString() int { return max(d.Limits.MaxHead, 4*d.table.max) }

// literal reads a field with a value of its own (RFC 7541 section 6.2).
func (d *Decoder) literal(in []byte, prefix int, inserts bool) (used int, err error) {
	index, at, err := readInteger(in, 0, prefix)
	if at == 0 {
		d.need = len(in) + 1
		return 0, err
	}
	var name, value wireString
	if index == 0 {
		if name, err = d.locate(in, at); name.start == 0 {
			return 0, err
		}
		if name.length > d.maxString() {
			if err := d.beginField(); err != nil {
				return 0, err
			}
			d.long = longField{inserts: inserts}
			d.skip(inLongName, name)
			return name.start, nil
		}
		if at = name.start + name.length; at >= len(in) {
			d.need = at + 1
			return 0, nil
		}
	}
	valueAt := at
	if value, err = d.locate(in, at); value.start == 0 {
		return 0, err
	}
	isLong := value.length > d.maxString()
	if !isLong && value.start+value.length > len(in) {
		d.need = value.start + value.length
		return 0, nil
	}
	if err := d.beginField(); err != nil {
		return 0, err
	}
	start := len(d.out)
	n, nameLen, err := d.name(in, index, name)
	if err != nil {
		return 0, err
	}
	if isLong {
		d.out = d.out[:start]
		d.long = longField{n.code, inserts, nameLen}
		d.skip(inLongValue, value)
		return value.start, nil
	}
	used = value.start + value.length
	if n.code == pseudoPath && !inserts {
		d.path = pathPlace{len(in) - valueAt, len(in) - used}
	}
	return used, d.literalValue(in, n, start, nameLen, value, inserts)
}

// name finds out the name of a literal field: that of the index or, if it is 0, the
// string. Its bytes are appended unless the static table has them and nothing else
// needs them.
func (d *Decoder) name(in []byte, index int, s wireString) (n fieldName, size int, err error) {
	start := len(d.out)
	switch {
	case index == 0:
		if err := d.decode(in, s); err != nil {
			return n, 0, err
		}
		name := d.out[start:]
		n.code = codeOf(name)
		if n.flaw = nameFlaw(n.code, name); n.flaw == noFlaw {
			n.static = staticName(n.code, name)
		}
		if n.static != 0 && !d.keepsName(n.code) {
			d.out = d.out[:start]
		}
		return n, len(name), nil
	case index < len(staticFields):
		f := &staticFields[index]
		if n = (fieldName{code: f.code, static: uint8(index)}); f.code != otherField {
			n.static = staticOfCode[f.code]
		}
		if d.keepsName(f.code) {
			d.out = append(d.out, f.name...)
		}
		return n, len(f.name), nil
	}
	if index -= len(staticFields); index >= d.table.count {
		return n, 0, ErrIndex
	}
	e := d.table.get(index)
	n = e.fieldName
	if n.static == 0 || d.keepsName(n.code) {
		d.out = d.table.appendName(d.out, e)
	}
	if n.flaw != noFlaw { // of the name, or of that entry's value
		n.flaw = noFlaw
		if n.static == 0 {
			n.flaw = nameFlaw(n.code, d.out[start:])
		}
	}
	return n, e.nameLen(), nil
}

// literalValue decodes the value of a field whose name is n, puts the field into the
// table if that is asked for, and adds it to the list.
func (d *Decoder) literalValue(in []byte, n fieldName, start, nameLen int, s wireString, inserts bool) error {
	name := d.out[start:]
	value := d.beginValue(n.code, start)
	if err := d.decode(in, s); err != nil {
		return err
	}
	name = d.out[start : start+len(name)] // decoding may have moved it
	text := d.out[value:]
	n.flaw = fieldFlaw(n, name, text)
	if inserts {
		if n.static != 0 {
			name = nil
		}
		d.table.insert(n, name, text)
	}
	if d.counts(n.code, len(text), nameLen+len(text)+entryOverhead) {
		d.add(n, start, value)
	} else {
		d.out = d.out[:start]
	}
	return nil
}

// keepsName reports whether the bytes of a name are stored with the field.
func (d *Decoder) keepsName(code fieldCode) bool {
	return code == otherField || d.fields != nil && d.fields.KeepNames && !code.isPseudo()
}

// beginValue returns where the value of a field begins that begins at start: after its
// name, and for a cookie that follows another also after the separator that joins the
// two (RFC 9113 section 8.2.3).
func (d *Decoder) beginValue(code fieldCode, start int) int {
	if d.joins(code, start) {
		d.out = append(d.out, "; "...)
	}
	return len(d.out)
}

// joins reports whether a field that begins at start is joined to the cookie before it.
func (d *Decoder) joins(code fieldCode, start int) bool {
	return code == fieldCode(field.Cookie) && d.hasCookie && d.cookie.End == start && !d.keepsName(code)
}

// counts counts a field against the limits, and reports whether it is added to the list.
// From the first field on that exceeds a limit, none is.
func (d *Decoder) counts(code fieldCode, valueLen, size int) bool {
	if d.excess == nil {
		d.size += size
		if !code.isPseudo() {
			d.count++
		}
		switch {
		case code == pseudoPath && valueLen > d.Limits.MaxLine:
			d.excess = h1.ErrLineTooLong
		case d.size > d.Limits.MaxHead:
			d.excess = h1.ErrHeadTooLarge
		case d.count > d.Limits.MaxFields:
			d.excess = h1.ErrTooManyFields
		}
	}
	if d.excess != nil {
		d.beyond += int64(size)
		return false
	}
	return d.block != UnwantedBlock
}

// skip passes over a string that is too long.
func (d *Decoder) skip(phase blockPhase, s wireString) {
	d.phase, d.rest = phase, s.length
	d.long.size += s.length
	if s.length == 0 {
		d.endLong()
	}
}

// endLong goes on after a long string. The entry with it would be larger than the
// table, and so empties it.
func (d *Decoder) endLong() {
	if d.phase == inLongName {
		d.phase = atLongValue
		return
	}
	d.phase = atListField
	if d.long.inserts {
		d.table.evict(d.table.max + 1)
	}
	// Its text may be shorter than the limit; the field counts as too large.
	d.counts(d.long.code, d.long.size, max(d.long.size, d.Limits.MaxHead)+entryOverhead)
}

// add adds a field within the limits to the list. It begins at start in what is
// decoded, and its value at value.
func (d *Decoder) add(n fieldName, start, value int) {
	span := h1.Span{Start: value, End: len(d.out)}
	switch {
	case n.flaw != noFlaw:
		d.refuse(flawErrors[n.flaw])
	case n.code.isPseudo():
		d.addPseudo(n.code, span)
	}
	if n.code.isPseudo() {
		return
	}
	d.isPlain = true
	if d.joins(n.code, start) {
		d.cookie.End = span.End
		return
	}
	if d.hasCookie {
		d.flushCookie()
	}
	if n.code == fieldCode(field.Cookie) && !d.fields.KeepNames {
		d.hasCookie, d.cookie = true, span
		return
	}
	id := field.ID(n.code)
	d.fields.PushParsed(id, start, value, span.Start, span.End)
	if noted>>id&1 != 0 && d.block != TrailerBlock {
		d.note(id, span.In(d.out))
	}
}

// refuse keeps the first error that makes the message malformed.
func (d *Decoder) refuse(err error) {
	if d.refused == nil {
		d.refused = err
	}
}

// addPseudo stores a pseudo-field.
func (d *Decoder) addPseudo(code fieldCode, value h1.Span) {
	switch {
	case !d.block.isExpected(code, d.AcceptsConnect):
		d.refuse(ErrPseudoForbidden)
	case d.isPlain:
		d.refuse(ErrPseudoOrder)
	case d.head.hasPseudo(code):
		d.refuse(ErrPseudoRepeated)
	default:
		d.head.notePseudo(code, value, d.out)
	}
}

// noted is the set of the fields that note handles.
const noted uint64 = 1<<field.ContentLength | 1<<field.Expect

// note applies a field that frames the message.
func (d *Decoder) note(id field.ID, value []byte) {
	role := h1.Requests
	if d.block == ResponseBlock {
		role = h1.Responses
	}
	switch {
	case id == field.ContentLength:
		if d.head.NoteLength(role, value) != nil {
			d.refuse(ErrLength)
		}
	case role == h1.Requests:
		if err := d.head.NoteExpect(value); err != nil {
			d.refuse(err)
		}
	}
}

// flushCookie adds the crumbs that were joined.
func (d *Decoder) flushCookie() {
	d.hasCookie = false
	d.fields.PushParsed(field.Cookie, d.cookie.Start, d.cookie.Start, d.cookie.Start, d.cookie.End)
}

// endCookies joins the cookies that did not follow each other.
func (d *Decoder) endCookies(t *field.Table) {
	if d.hasCookie {
		d.flushCookie()
	}
	i := t.Index(field.Cookie)
	if i < 0 || t.FindID(field.Cookie, i+1) < 0 {
		return
	}
	raw := t.Raw()
	start := len(raw)
	if t.KeepNames {
		raw = append(raw, "cookie"...)
	}
	value := len(raw)
	for first := i; i >= 0; i = t.FindID(field.Cookie, i+1) {
		if i > first {
			raw = append(raw, "; "...)
		}
		raw = append(raw, t.Value(i)...)
	}
	t.SetRaw(raw)
	t.PushParsed(field.Cookie, start, value, value, len(raw))
	t.KeepLast(1 << field.Cookie)
}
