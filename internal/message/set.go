package message

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// idSet is a set of known field names.
type idSet uint64

// with returns the union of s and id.
func (s idSet) with(id field.ID) idSet { return s | 1<<id }

// has reports whether id is in s.
func (s idSet) has(id field.ID) bool { return s>>id&1 != 0 }

const (
	// framingFields are stored as state of a header, not as fields.
	framingFields idSet = 1<<field.ContentLength | 1<<field.TransferEncoding | 1<<field.Trailer

	// singleFields have one line: both setting and adding replace it, but adding
	// extends Content-Encoding, which is a list.
	singleFields idSet = 1<<field.Host | 1<<field.ContentType | 1<<field.UserAgent |
		1<<field.Server | 1<<field.ContentEncoding | 1<<field.Date

	// interpretedFields are lists, numbers and cookies, which the header reads itself.
	interpretedFields = framingFields | 1<<field.Connection | 1<<field.Cookie | 1<<field.SetCookie
)

// PutMode says how Put treats a field.
type PutMode uint8

const (
	// Sets: the first field of the same name is replaced.
	Sets PutMode = 0
	// Adds: fields of the same name stay.
	Adds PutMode = 1
	// DropsDate: Date is ignored unless it is announced as a trailer field,
	// because the server writes the current one.
	DropsDate PutMode = 2
)

// drops reports whether a field with a known name is ignored.
func (h *Header) drops(id field.ID, mode PutMode) bool {
	return id == field.Date && mode&DropsDate != 0 && !h.announces(id)
}

// Put sets or adds a field. The name decides once where the value goes: to the
// trailer section, to the header's state, to the one field of that name, or to
// the table. The name is a string so that root's Set is inlined.
func (h *Header) Put(name string, value []byte, mode PutMode) {
	key := ascii.Bytes(name)
	if !h1.IsToken(key) {
		return
	}
	id := field.Lookup(key)
	if h.drops(id, mode) {
		return
	}
	value = h.FitValue(value)
	switch {
	case h.trailer != nil && h.trailer.announces(id, key):
		h.putTrailer(id, key, value, mode)
	case interpretedFields.has(id) && h.interpret(id, key, value, mode):
	case singleFields.has(id) && !h.isRaw:
		if id == field.ContentEncoding {
			value = h.extended(id, value, mode)
		}
		h.setOnly(id, value)
	default:
		putPlain(&h.Table, id, key, value, mode)
	}
}

// PutCanonical is Put without normalisation of the key.
func (h *Header) PutCanonical(key, value []byte, mode PutMode) {
	if h.Table.KeepNames || field.IsNormalized(key) {
		h.Put(ascii.String(key), value, mode)
		return
	}
	id := field.Lookup(key)
	if !h1.IsToken(key) || h.drops(id, mode) {
		return
	}
	value = h.FitValue(value)
	switch {
	case interpretedFields.has(id) && h.interpret(id, key, value, mode):
	case singleFields.has(id) && !h.isRaw:
		if id == field.ContentEncoding {
			value = h.extended(id, value, mode)
		}
		h.setOnly(id, value)
	case (singleFields | interpretedFields).has(id): // of a raw head, which must know what it has
		putPlain(&h.Table, id, key, value, mode)
	default:
		h.setExact(key, value)
	}
}

// extended returns the value of a field that is a list (RFC 9110 section 5.3) after
// value was set or added.
func (h *Header) extended(id field.ID, value []byte, mode PutMode) []byte {
	old := h.Table.Get(id)
	switch {
	case mode&Adds == 0 || len(old) == 0:
		return value
	case id == field.Connection && ascii.HasMember(old, ascii.String(ascii.TrimOWS(value))):
		return old
	}
	return ascii.AppendMembers(bytes.Clone(old), value)
}

// setExact sets the field whose name is exactly key.
func (h *Header) setExact(key, value []byte) {
	if i := h.findExact(key); i >= 0 {
		h.Table.SetValue(i, value)
		return
	}
	h.Table.AddExact(key, value)
}

// findExact returns the index of the first field whose name is exactly key, or
// -1.
func (h *Header) findExact(key []byte) int {
	for i := range h.Table.Len() {
		if string(h.Table.Name(i)) == string(key) {
			return i
		}
	}
	return -1
}

// FitValue returns value without any byte that could end its line (RFC 9110
// section 5.5). The result is value itself or h.clean. Other control characters
// stay: getters return them, and written makes spaces of them.
func (h *Header) FitValue(value []byte) []byte {
	if h1.IsValue(value) {
		return value
	}
	h.hasControls = true
	h.clean = ascii.AppendOneLine(h.clean[:0], value)
	return h.clean
}

// written returns out, whose part from at on are fields of h, with spaces for
// the control characters of values.
func (h *Header) written(out []byte, at int) []byte {
	if h.hasControls {
		ascii.BlankControls(out[at:])
	}
	return out
}

// putTrailer sets or adds an announced field.
func (h *Header) putTrailer(id field.ID, key, value []byte, mode PutMode) {
	if mode&Adds == 0 { // docs/adr/0013: a field that a peer has sent must not stay in the head
		h.Table.Del(id, key)
		if singleFields.has(id) {
			h.ownTrailers().replace(id, value)
			return
		}
	}
	putPlain(&h.ownTrailers().values, id, key, value, mode)
}

// putPlain sets or adds a field that is not treated specially.
func putPlain(t *field.Table, id field.ID, key, value []byte, mode PutMode) {
	if mode&Adds == 0 {
		if i := t.Find(id, key, 0); i >= 0 {
			t.SetValue(i, value)
			return
		}
	}
	t.Add(id, key, value)
}

// interpret reads one of interpretedFields. done is false if the field must be
// stored, too: h is raw and needs its place in the order.
func (h *Header) interpret(id field.ID, key, value []byte, mode PutMode) (done bool) {
	if !ascii.All(value, ascii.Value) {
		ascii.BlankControls(value) // value is h.clean. It must mean here what it means to the peer
	}
	switch id {
	case field.ContentLength:
		n, err := ascii.ParseUint(ascii.TrimOWS(value))
		if err != nil || int64(int(n)) != n {
			return true
		}
		h.setLength(int(n))
		return !h.isRaw
	case field.TransferEncoding:
		if !h.isRaw {
			return true
		}
		h.showsCoding = true
		if ascii.EqualFold(ascii.TrimOWS(value), textChunked) {
			h.ContentLength = -1
		}
		return false
	case field.Connection:
		if !h.isRaw {
			value = h.extended(id, value, mode)
		}
		h.ConnectionClose = h1.ConnectionOptions(value)&h1.ConnectionClose != 0
		if h.isRaw {
			return false
		}
		if h.ConnectionClose {
			value = ascii.TrimOWS(value)
		}
		h.Table.Set(field.Connection, value)
	case field.Trailer:
		if mode&Adds != 0 {
			_ = h.Announce(value) // names that must not be announced are left out
		} else {
			_ = h.ReplaceAnnouncement(value)
		}
	case field.Cookie:
		h.addCookies(key, ascii.TrimOWS(value))
	case field.SetCookie:
		h.Table.Add(id, key, value)
	}
	return true
}

// SetKnown sets the one field with a known name.
func (h *Header) SetKnown(id field.ID, value []byte) { h.setOnly(id, h.FitValue(value)) }

// setOnly is SetKnown for a value that is fit.
func (h *Header) setOnly(id field.ID, value []byte) {
	if h.announces(id) {
		h.ownTrailers().replace(id, value)
		return
	}
	h.Table.Set(id, value)
}

// Del removes all fields of that name from the head and the trailer section. An
// announced name stays announced.
func (h *Header) Del(key []byte) {
	id := field.Lookup(key)
	switch {
	case id == field.Other:
		h.delPlain(id, key)
	case id == field.TransferEncoding:
		h.showsCoding = false // the framing follows from the body
	case id == field.Connection:
		h.ConnectionClose = false
		h.Table.DelID(id)
	case id == field.ContentLength:
		if h.ContentLength >= 0 {
			h.ContentLength, h.HasLength = 0, false
		}
		h.Table.DelID(id)
	case id == field.Trailer:
		_ = h.ReplaceAnnouncement(nil) // cannot fail
		h.Table.DelID(id)
	case id == field.Cookie, id == field.SetCookie:
		h.Table.DelID(id)
	case singleFields.has(id):
		switch id {
		case field.Server:
			h.ShowsServer = false
		case field.Date:
			h.OwnsDate = false
		}
		h.Table.DelID(id)
		if h.trailer != nil {
			h.ownTrailers().del(id, key)
		}
	default:
		h.delPlain(id, key)
	}
}

func (h *Header) delPlain(id field.ID, key []byte) {
	h.Table.Del(id, key)
	if h.trailer != nil {
		h.ownTrailers().del(id, key)
	}
}

// DelAny is Del for a name in any spelling: with KeepNames, and after PutCanonical, Del
// removes one spelling only.
func (h *Header) DelAny(name string) {
	h.Del(ascii.Bytes(name))
	delAny(&h.Table, name)
	if h.trailer != nil {
		delAny(&h.ownTrailers().values, name)
	}
}

func delAny(t *field.Table, name string) {
	for i := t.Len() - 1; i >= 0; i-- {
		if ascii.EqualFold(t.Name(i), name) {
			t.DelAt(i)
		}
	}
}
