package h3

import (
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
)

// A Decoder decodes field sections (RFC 9204 section 4.5) of peers that know of no dynamic
// table, and validates their fields. It has no state between sections. Set Limits and
// AcceptsConnect before the first use.
type Decoder struct {
	fieldlist.List
}

// MaxSection is the length of the longest section that a Decoder is to get: a longer one has
// more than Limits.MaxHead, in whatever way it is encoded but a foolish one.
func (d *Decoder) MaxSection() int { return d.Limits.MaxHead }

// malformed has the error of each Violation.
var malformed = func() (all [fieldlist.Violations]*Error) {
	for v := range all {
		cause := fieldlist.Violation(v)
		all[v] = &Error{Code: MessageError, Scope: StreamScope, msg: cause.Error(), cause: cause}
	}
	return all
}()

// Decode decodes a section. It adds the fields to t, which must be empty and have no raw head, and
// the pseudo-fields to h, which may be nil for a Trailer. An unwanted section need not be decoded.
//
// An *Error ends the connection or, for a malformed message, the stream. An *h1.Error is a
// request that is answered with its status. With any error, the fields in t mean nothing.
func (d *Decoder) Decode(section []byte, kind fieldlist.Kind, t *field.Table, h *fieldlist.Head) error {
	d.Begin(kind, t, h)
	d.Out = t.Raw()
	err := d.decode(section)
	t.SetRaw(d.Out)
	d.Out = nil
	if err != nil {
		return err
	}
	list := d.Finish()
	if v, ok := list.(fieldlist.Violation); ok {
		return malformed[v]
	}
	return list
}

// decode decodes a section.
func (d *Decoder) decode(in []byte) *Error {
	if len(in) == 0 {
		return ErrSectionTruncated
	}
	inserts, at := fieldlist.ReadInteger(in, 0, 8)
	switch {
	case at <= 0:
		return incomplete(at)
	case inserts != 0:
		return ErrDynamicTable
	case at == len(in):
		return ErrSectionTruncated
	case in[at]&0x80 != 0:
		return ErrBase
	}
	if _, at = fieldlist.ReadInteger(in, at, 7); at <= 0 {
		return incomplete(at)
	}
	for at < len(in) {
		var err *Error
		switch first := in[at]; {
		case first >= 0x80:
			at, err = d.indexed(in, at)
		case first >= 0x40:
			at, err = d.namedByIndex(in, at)
		case first >= 0x20:
			at, err = d.named(in, at)
		default:
			return ErrDynamicTable // an index after the base
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// incomplete returns the error for an integer or a string that does not end in the section.
func incomplete(next int) *Error {
	if next == fieldlist.TooLarge {
		return ErrInteger
	}
	return ErrSectionTruncated
}

// index reads the index at in[at] of a field or a name in the static table, with a prefix of
// some bits. The bit above them tells that table.
func index(in []byte, at, prefix int) (i, next int, err *Error) {
	if in[at]>>prefix&1 == 0 {
		return 0, 0, ErrDynamicTable
	}
	switch i, next = fieldlist.ReadInteger(in, at, prefix); {
	case next <= 0:
		return 0, 0, incomplete(next)
	case i >= len(staticText):
		return 0, 0, ErrIndex
	}
	return i, next, nil
}

// indexed adds a field of the static table (RFC 9204 section 4.5.2).
func (d *Decoder) indexed(in []byte, at int) (next int, err *Error) {
	i, next, err := index(in, at, 6)
	if err != nil {
		return 0, err
	}
	f, text := &staticFields[i], &staticText[i]
	start := len(d.Out)
	if d.Counts(f.code, len(text[1]), len(text[0])+len(text[1])+fieldlist.FieldOverhead) {
		if d.KeepsName(f.code) {
			d.Out = append(d.Out, text[0]...)
		}
		value := d.BeginValue(f.code, start)
		d.Out = append(d.Out, text[1]...)
		d.Add(f.code, f.flaw, start, value)
	}
	return next, nil
}

// namedByIndex adds a field whose name is in the static table (RFC 9204 section 4.5.4).
func (d *Decoder) namedByIndex(in []byte, at int) (next int, err *Error) {
	i, at, err := index(in, at, 4)
	if err != nil {
		return 0, err
	}
	code, name, start := staticFields[i].code, staticText[i][0], len(d.Out)
	if d.KeepsName(code) {
		d.Out = append(d.Out, name...)
	}
	return d.value(in, at, code, fieldlist.None, start, len(name))
}

// named adds a field with a name of its own (RFC 9204 section 4.5.6).
func (d *Decoder) named(in []byte, at int) (next int, err *Error) {
	start := len(d.Out)
	if at, err = d.text(in, at, 3); err != nil {
		return 0, err
	}
	name := d.Out[start:]
	size := len(name)
	code := fieldlist.CodeOf(name)
	flaw := fieldlist.NameViolation(code, name)
	if code != fieldlist.Other && !d.KeepsName(code) {
		d.Out = d.Out[:start]
	}
	return d.value(in, at, code, flaw, start, size)
}

// value reads the value at in[at] of a field, and adds the field. It begins at start in what is
// decoded; flaw is that of its name, which has size bytes.
func (d *Decoder) value(in []byte, at int, code fieldlist.Code, flaw fieldlist.Violation, start, size int) (next int, err *Error) {
	nameEnd := len(d.Out)
	value := d.BeginValue(code, start)
	if next, err = d.text(in, at, 7); err != nil {
		return 0, err
	}
	text := d.Out[value:]
	flaw = fieldlist.FieldViolation(code, flaw, d.Out[start:nameEnd], text)
	if d.Counts(code, len(text), size+len(text)+fieldlist.FieldOverhead) {
		d.Add(code, flaw, start, value)
	} else {
		d.Out = d.Out[:start]
	}
	return next, nil
}

// text appends the string at in[at], whose length has a prefix of some bits, to what is
// decoded.
func (d *Decoder) text(in []byte, at, prefix int) (next int, err *Error) {
	if at == len(in) {
		return 0, ErrSectionTruncated
	}
	isHuffman := in[at]>>prefix&1 != 0
	n, at := fieldlist.ReadInteger(in, at, prefix)
	switch {
	case at <= 0:
		return 0, incomplete(at)
	case n > len(in)-at:
		return 0, ErrSectionTruncated
	}
	text := in[at : at+n]
	if !isHuffman {
		d.Out = append(d.Out, text...)
		return at + n, nil
	}
	var isValid bool
	if d.Out, isValid = fieldlist.AppendHuffmanDecoded(d.Out, text); !isValid {
		return 0, ErrHuffman
	}
	return at + n, nil
}
