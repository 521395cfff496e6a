package h2

import (
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
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
	// List bounds and validates field lists: set its Limits and AcceptsConnect. A string that
	// needs more than MaxHead bytes in the block counts as too large, even if its text is
	// shorter. Its Out is used while Push runs.
	fieldlist.List

	table dynamicTable
	limit int // of the table's size, by our settings
	low   int // the least limit since the last size update

	phase   blockPhase
	updates uint8
	scratch []byte // Out of an unwanted block
	partial []byte // the beginning of a field whose rest has not arrived
	need    int    // bytes of the field that are needed to continue
	rest    int    // bytes of a long string that have not arrived
	long    longField

	last *repeated // nil: no block has come twice
	mark uint32    // of the last block
	path pathPlace // in the block, if it came as one piece
}

// A longField is a field with a string that is too long to be kept.
type longField struct {
	code    fieldlist.Code
	inserts bool // it goes into the table, which it empties
	size    int
}

// Reset makes d ready for a new connection. It keeps Limits, AcceptsConnect and
// memory.
func (d *Decoder) Reset() {
	*d = Decoder{List: fieldlist.List{Limits: d.Limits, AcceptsConnect: d.AcceptsConnect}, table: d.table, partial: d.partial[:0], scratch: d.scratch, last: d.last}
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
// raw head, and what the others say to h. Both may be nil for an Unwanted block, and h for a
// Trailer.
func (d *Decoder) Begin(kind fieldlist.Kind, t *field.Table, h *fieldlist.Head) {
	d.List.Begin(kind, t, h)
	d.phase, d.updates, d.path = atSizeUpdate, 0, pathPlace{}
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
	if d.Beyond > 0 {
		if err := b.Charge(now, Cost(min(1+d.Beyond>>10, 1000))*CostDecodedKiB); err != nil {
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
	if d.Table == nil {
		d.Out = d.scratch[:0]
		err := d.push(piece)
		d.scratch, d.Out = d.Out, nil
		return err
	}
	d.Out = d.Table.Raw()
	err := d.push(piece)
	d.Table.SetRaw(d.Out)
	d.Out = nil
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
	err := d.Finish()
	if v, ok := err.(fieldlist.Violation); ok {
		return malformed[v]
	}
	return err
}

// malformed has the error of each Violation.
var malformed = func() (all [fieldlist.Violations]*Error) {
	for v := range all {
		cause := fieldlist.Violation(v)
		all[v] = &Error{Code: CodeProtocolError, Scope: StreamScope, msg: cause.Error(), cause: cause}
	}
	return all
}()

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
		index, next := fieldlist.ReadInteger(in, 0, 7)
		if next <= 0 {
			return 0, d.await(in, next)
		}
		return next, d.indexed(index)
	case first >= 0x40:
		return d.literal(in, 6, true)
	case first >= 0x20:
		return d.sizeUpdate(in)
	}
	return d.literal(in, 4, false)
}

// await asks for another byte of an integer that ends with in, unless next says that it is too
// large.
func (d *Decoder) await(in []byte, next int) error {
	if next == fieldlist.TooLarge {
		return ErrInteger
	}
	d.need = len(in) + 1
	return nil
}

// sizeUpdate reads a change of the table's size (RFC 7541 section 6.3).
func (d *Decoder) sizeUpdate(in []byte) (used int, err error) {
	size, next := fieldlist.ReadInteger(in, 0, 5)
	switch {
	case next <= 0:
		return 0, d.await(in, next)
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
	start := len(d.Out)
	if index < len(staticFields) {
		f := &staticFields[index]
		size := len(f.name) + len(f.value) + fieldlist.FieldOverhead
		if d.Counts(f.code, len(f.value), size) {
			if d.KeepsName(f.code) {
				d.Out = append(d.Out, f.name...)
			}
			value := d.BeginValue(f.code, start)
			d.Out = append(d.Out, f.value...)
			d.Add(f.code, f.flaw, start, value)
		}
		return nil
	}
	if index -= len(staticFields); index >= d.table.count {
		return ErrIndex
	}
	e := d.table.get(index)
	if d.Counts(e.code, int(e.valueSize), e.size()) {
		if d.KeepsName(e.code) {
			d.Out = d.table.appendName(d.Out, e)
		}
		value := d.BeginValue(e.code, start)
		d.Out = d.table.appendValue(d.Out, e)
		d.Add(e.code, e.flaw, start, value)
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
	n, next := fieldlist.ReadInteger(in, at, 7)
	if next <= 0 {
		return s, d.await(in, next)
	}
	return wireString{next, n, in[at]&0x80 != 0}, nil
}

// decode appends the text of s to what is decoded.
func (d *Decoder) decode(in []byte, s wireString) error {
	text := in[s.start : s.start+s.length]
	if s.isHuffman {
		var isValid bool
		if d.Out, isValid = fieldlist.AppendHuffmanDecoded(d.Out, text); !isValid {
			return ErrHuffman
		}
		return nil
	}
	d.Out = append(d.Out, text...)
	return nil
}

// maxString is the length of the longest string that is decoded. The text of a longer
// one exceeds the limit of the list, and an entry with it the table: no code has more
// than 30 bits for a byte.
func (d *Decoder) maxString() int { return max(d.Limits.MaxHead, 4*d.table.max) }

// literal reads a field with a value of its own (RFC 7541 section 6.2).
func (d *Decoder) literal(in []byte, prefix int, inserts bool) (used int, err error) {
	index, at := fieldlist.ReadInteger(in, 0, prefix)
	if at <= 0 {
		return 0, d.await(in, at)
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
	start := len(d.Out)
	n, nameLen, err := d.name(in, index, name)
	if err != nil {
		return 0, err
	}
	if isLong {
		d.Out = d.Out[:start]
		d.long = longField{n.code, inserts, nameLen}
		d.skip(inLongValue, value)
		return value.start, nil
	}
	used = value.start + value.length
	if n.code == fieldlist.PseudoPath && !inserts {
		d.path = pathPlace{len(in) - valueAt, len(in) - used}
	}
	return used, d.literalValue(in, n, start, nameLen, value, inserts)
}

// name finds out the name of a literal field: that of the index or, if it is 0, the
// string. Its bytes are appended unless the static table has them and nothing else
// needs them.
func (d *Decoder) name(in []byte, index int, s wireString) (n fieldName, size int, err error) {
	start := len(d.Out)
	switch {
	case index == 0:
		if err := d.decode(in, s); err != nil {
			return n, 0, err
		}
		name := d.Out[start:]
		n.code = fieldlist.CodeOf(name)
		if n.flaw = fieldlist.NameViolation(n.code, name); n.flaw == fieldlist.None {
			n.static = staticName(n.code, name)
		}
		if n.static != 0 && !d.KeepsName(n.code) {
			d.Out = d.Out[:start]
		}
		return n, len(name), nil
	case index < len(staticFields):
		f := &staticFields[index]
		if n = (fieldName{code: f.code, static: uint8(index)}); f.code != fieldlist.Other {
			n.static = staticOfCode[f.code]
		}
		if d.KeepsName(f.code) {
			d.Out = append(d.Out, f.name...)
		}
		return n, len(f.name), nil
	}
	if index -= len(staticFields); index >= d.table.count {
		return n, 0, ErrIndex
	}
	e := d.table.get(index)
	n = e.fieldName
	if n.static == 0 || d.KeepsName(n.code) {
		d.Out = d.table.appendName(d.Out, e)
	}
	if n.flaw != fieldlist.None { // of the name, or of that entry's value
		n.flaw = fieldlist.None
		if n.static == 0 {
			n.flaw = fieldlist.NameViolation(n.code, d.Out[start:])
		}
	}
	return n, e.nameLen(), nil
}

// literalValue decodes the value of a field whose name is n, puts the field into the
// table if that is asked for, and adds it to the list.
func (d *Decoder) literalValue(in []byte, n fieldName, start, nameLen int, s wireString, inserts bool) error {
	name := d.Out[start:]
	value := d.BeginValue(n.code, start)
	if err := d.decode(in, s); err != nil {
		return err
	}
	name = d.Out[start : start+len(name)] // decoding may have moved it
	text := d.Out[value:]
	n.flaw = fieldlist.FieldViolation(n.code, n.flaw, name, text)
	if inserts {
		if n.static != 0 {
			name = nil
		}
		d.table.insert(n, name, text)
	}
	if d.Counts(n.code, len(text), nameLen+len(text)+fieldlist.FieldOverhead) {
		d.Add(n.code, n.flaw, start, value)
	} else {
		d.Out = d.Out[:start]
	}
	return nil
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
	d.Counts(d.long.code, d.long.size, max(d.long.size, d.Limits.MaxHead)+fieldlist.FieldOverhead)
}
