package message

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// Get returns the value of a field with a known name. If the head does not have
// the field, Get looks in the trailer section. An empty field of the head counts
// as present.
func (h *Header) Get(id field.ID) []byte {
	if h.trailer != nil && h.Table.Index(id) < 0 {
		return h.trailer.values.Get(id)
	}
	return h.Table.Get(id)
}

// ContentEncoding returns the codings of all Content-Encoding fields of the head, which
// are one list. More than one field is there in raw mode only.
func (h *Header) ContentEncoding() []byte {
	const id = field.ContentEncoding
	list := h.Table.Get(id)
	i := h.Table.Index(id)
	if i < 0 || h.Table.FindID(id, i+1) < 0 {
		return list
	}
	list = bytes.Clone(list)
	for i = h.Table.FindID(id, i+1); i >= 0; i = h.Table.FindID(id, i+1) {
		list = ascii.AppendMembers(list, h.Table.Value(i))
	}
	return list
}

// peek is Peek for a key that was looked up.
func (h *Header) peek(id field.ID, key []byte) []byte {
	switch id {
	case field.ContentLength:
		return h.lengthValue()
	case field.TransferEncoding:
		if h.isChunked() {
			return own(h.chunkedText[:], textChunked)
		}
		if h.showsCoding {
			return h.Table.Get(id)
		}
		return nil
	case field.Connection:
		var first []byte // empty, not nil, if all are
		for value := range h.connectionValues {
			if len(value) > 0 {
				return value
			}
			if first == nil {
				first = value
			}
		}
		return first
	case field.Trailer:
		return h.announcement()
	case field.Cookie:
		return h.cookies()
	case field.Host, field.ContentType, field.UserAgent, field.Server, field.ContentEncoding, field.Date:
		return h.Get(id)
	}
	if i := h.Table.Find(id, key, 0); i >= 0 {
		return h.Table.Value(i)
	}
	if h.trailer != nil {
		if i := h.trailer.values.Find(id, key, 0); i >= 0 {
			return h.trailer.values.Value(i)
		}
	}
	return nil
}

// Peek returns the value of the first field named key, nil if there is none.
func (h *Header) Peek(key []byte) []byte { return h.peek(field.Lookup(key), key) }

// PeekCanonical is Peek, but compares key verbatim. A field that is treated
// specially is found only by its canonical name.
func (h *Header) PeekCanonical(key []byte) []byte {
	if id := field.Lookup(key); id != field.Other && (framingFields | singleFields).with(field.Connection).with(field.Cookie).has(id) {
		if string(id.Canonical()) != string(key) {
			return nil
		}
		return h.peek(id, key)
	}
	if i := h.findExact(key); i >= 0 {
		return h.Table.Value(i)
	}
	if h.trailer != nil {
		if i := h.trailer.values.Find(field.Lookup(key), key, 0); i >= 0 && string(h.trailer.values.Name(i)) == string(key) {
			return h.trailer.values.Value(i)
		}
	}
	return nil
}

// peekEvery returns the values of all fields named key, first those of the head.
// Fields that are treated specially have at most one value in the head. An empty
// field of the set own counts as absent.
func (h *Header) peekEvery(id field.ID, key []byte, own idSet) [][]byte {
	switch {
	case (own & singleFields).has(id):
		return h.peekedSingle(id, h.Table.Get(id))
	case id != field.Other && framingFields.with(field.Cookie).has(id):
		return h.peekedOne(h.peek(id, key))
	}
	h.peeked = h.peeked[:0]
	if id == field.Connection {
		for value := range h.connectionValues {
			h.peeked = append(h.peeked, value)
		}
		return h.peeked
	}
	h.peeked = appendValues(h.peeked, &h.Table, id, key)
	if h.trailer != nil {
		h.peeked = appendValues(h.peeked, &h.trailer.values, id, key)
	}
	return h.peeked
}

// peekedOne is PeekAll's result for a field with one value. An empty value
// counts as absent.
func (h *Header) peekedOne(value []byte) [][]byte {
	h.peeked = h.peeked[:0]
	if len(value) > 0 {
		h.peeked = append(h.peeked, value)
	}
	return h.peeked
}

// peekedSingle is PeekAll's result for a field that occurs once in the head,
// with the given value.
func (h *Header) peekedSingle(id field.ID, value []byte) [][]byte {
	h.peekedOne(value)
	if h.trailer != nil {
		h.peeked = appendValues(h.peeked, &h.trailer.values, id, id.Canonical())
	}
	return h.peeked
}

// addPeeked adds a copy of name to PeekKeys' result. It copies because all
// messages share the names of known fields.
func (h *Header) addPeeked(name []byte) {
	at := len(h.names)
	h.names = append(h.names, name...)
	h.peeked = append(h.peeked, h.names[at:len(h.names):len(h.names)])
}

func appendValues(dst [][]byte, t *field.Table, id field.ID, key []byte) [][]byte {
	for i := t.Find(id, key, 0); i >= 0; i = t.Find(id, key, i+1) {
		dst = append(dst, t.Value(i))
	}
	return dst
}

// visitKnown yields the one field with a known name, unless it is absent or
// empty. Like all visit functions, it returns false if yield returned false.
func visitKnown(id field.ID, value []byte, yield func(key, value []byte) bool) bool {
	return len(value) == 0 || yield(id.Canonical(), value)
}

// visitPlain yields the fields of the table that are not in skip. It never
// yields trailer fields: a caller that copies a head must not turn them into
// fields of the head (RFC 9110 section 6.5.1).
func (h *Header) visitPlain(skip idSet, yield func(key, value []byte) bool) bool {
	if h.ConnectionClose {
		skip = skip.with(field.Connection) // close is visited last
	}
	for i := 0; i < h.Table.Len(); i++ {
		if id := h.Table.ID(i); skip.has(id) && (id != field.Connection || isAboutClose(h.Table.Value(i))) {
			continue
		}
		if !yield(h.Table.Name(i), h.Table.Value(i)) {
			return false
		}
	}
	return true
}

// visitClose yields the Connection field that lists close.
func (h *Header) visitClose(yield func(key, value []byte) bool) bool {
	return !h.ConnectionClose || yield(field.Connection.Canonical(), h.closeValue())
}

// isChunked reports whether the message has the Transfer-Encoding chunked. A length that
// HTTP/2 or HTTP/3 leaves open needs none.
func (h *Header) isChunked() bool {
	return h.ContentLength == -1 && !h.hasStreams()
}

// visitChunked yields the Transfer-Encoding of a chunked message.
func (h *Header) visitChunked(yield func(key, value []byte) bool) bool {
	return !h.isChunked() || yield(field.TransferEncoding.Canonical(), own(h.chunkedText[:], textChunked))
}
