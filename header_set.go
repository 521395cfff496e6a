package sluice

import (
	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/field"
	"github.com/sluicehttp/sluice/internal/h1"
)

// idSet is a set of known field names.
type idSet uint64

// with returns the union of s and id.
func (s idSet) with(id field.ID) idSet { return s | 1<<id }

// has tells whether id is in s.
func (s idSet) has(id field.ID) bool { return s>>id&1 != 0 }

const (
	// framingFields are stored as state of a header, not as fields.
	framingFields idSet = 1<<field.ContentLength | 1<<field.TransferEncoding | 1<<field.Trailer

	// singleFields have one value: both setting and adding replace it.
	singleFields idSet = 1<<field.Host | 1<<field.ContentType | 1<<field.UserAgent |
		1<<field.Server | 1<<field.ContentEncoding | 1<<field.Date
)

// Set sets the field key to value. If there are several fields of that name,
// the first one is changed and the others stay.
//
// A field whose name is announced as a trailer field is set in the trailer
// section, even if a peer announced it; fields of that name in the head are
// removed. To ignore the announcement of a peer, call Del("Trailer") first.
//
// Some fields are treated specially. Cookie and Set-Cookie add to the existing
// cookies. Content-Length is ignored unless it is a number. Transfer-Encoding
// is ignored, except after DisableSpecialHeader: the framing follows from the
// body. Trailer announces trailer fields; see SetTrailer.
//
// A key that is not a token (RFC 9110 section 5.1) sets nothing. In the value,
// control characters become spaces, and white space at the ends is removed.
func (h *header) Set(key, value string) { h.put(ascii.Bytes(key), ascii.Bytes(value), false) }

// SetBytesK is Set for a key of bytes.
func (h *header) SetBytesK(key []byte, value string) { h.put(key, ascii.Bytes(value), false) }

// SetBytesV is Set for a value of bytes.
func (h *header) SetBytesV(key string, value []byte) { h.put(ascii.Bytes(key), value, false) }

// SetBytesKV is Set for bytes.
func (h *header) SetBytesKV(key, value []byte) { h.put(key, value, false) }

// Add adds a field after the existing ones of the same name. Fields that occur
// only once (Host, Content-Type, Content-Encoding, Content-Length, Connection,
// User-Agent, Server, Date) are set instead, unless they are announced as
// trailer fields. Trailer adds to the announced names; see AddTrailer. See Set
// for the fields that are treated specially, and for invalid keys and values.
func (h *header) Add(key, value string) { h.put(ascii.Bytes(key), ascii.Bytes(value), true) }

// AddBytesK is Add for a key of bytes.
func (h *header) AddBytesK(key []byte, value string) { h.put(key, ascii.Bytes(value), true) }

// AddBytesV is Add for a value of bytes.
func (h *header) AddBytesV(key string, value []byte) { h.put(ascii.Bytes(key), value, true) }

// AddBytesKV is Add for bytes.
func (h *header) AddBytesKV(key, value []byte) { h.put(key, value, true) }

// SetCanonical is SetBytesKV without normalisation of the key: the key is
// compared and written verbatim. Fields that are treated specially are set in
// any spelling.
func (h *header) SetCanonical(key, value []byte) {
	if h.table.KeepNames || field.IsNormalized(key) {
		h.put(key, value, false)
		return
	}
	if !h1.IsToken(key) {
		return
	}
	value = h.fitValue(value)
	id := field.Lookup(key)
	if id != field.Other && h.putSpecial(id, key, value, false) {
		return
	}
	if i := h.findExact(key); i >= 0 {
		h.table.SetValue(i, value)
		return
	}
	h.table.AddExact(key, value)
}

// findExact returns the index of the first field whose name is exactly key, or
// -1.
func (h *header) findExact(key []byte) int {
	for i := range h.table.Len() {
		if string(h.table.Name(i)) == string(key) {
			return i
		}
	}
	return -1
}

// fitValue returns value without any byte that could end its line (RFC 9110
// section 5.5). The result is value itself or h.clean. Other control characters
// stay: getters return them, and written makes spaces of them.
func (h *header) fitValue(value []byte) []byte {
	if ascii.All(value, ascii.Value) {
		return value
	}
	h.hasControls = true
	h.clean = ascii.AppendOneLine(h.clean[:0], value)
	return h.clean
}

// written returns out, whose part from at on are fields of h, with spaces for
// the control characters of values.
func (h *header) written(out []byte, at int) []byte {
	if h.hasControls {
		ascii.BlankControls(out[at:])
	}
	return out
}

// put sets or adds a field.
func (h *header) put(key, value []byte, adds bool) {
	if !h1.IsToken(key) {
		return
	}
	value = h.fitValue(value)
	id := field.Lookup(key)
	if h.trailer != nil && h.trailer.announces(id, key) {
		if !adds { // docs/adr/0013: a field that a peer has sent must not stay in the head
			h.table.Del(id, key)
		}
		if !adds && singleFields.has(id) {
			h.trailer.replace(id, value)
		} else {
			putPlain(&h.trailer.values, id, key, value, adds)
		}
		return
	}
	if id != field.Other && h.putSpecial(id, key, value, adds) {
		return
	}
	putPlain(&h.table, id, key, value, adds)
}

// putPlain sets or adds a field that is not treated specially.
func putPlain(t *field.Table, id field.ID, key, value []byte, adds bool) {
	if !adds {
		if i := t.Find(id, key, 0); i >= 0 {
			t.SetValue(i, value)
			return
		}
	}
	t.Add(id, key, value)
}

// interpretedFields are lists, numbers and cookies, which the header reads itself.
const interpretedFields = framingFields | 1<<field.Connection | 1<<field.Cookie | 1<<field.SetCookie

// putSpecial sets a field that is treated specially. done is false if putPlain
// must store the field: it is not special, or h is raw and needs the field's
// place in the order.
func (h *header) putSpecial(id field.ID, key, value []byte, adds bool) (done bool) {
	if interpretedFields.has(id) && !ascii.All(value, ascii.Value) {
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
			h.contentLength = -1
		}
		return false
	case field.Connection:
		if h.setConnection(value); h.connectionClose {
			value = ascii.TrimOWS(value)
		}
		if !h.isRaw {
			h.table.Set(field.Connection, value)
		}
		return !h.isRaw
	case field.Trailer:
		if adds {
			_ = h.announce(value) // names that must not be announced are left out
		} else {
			_ = h.replaceAnnouncement(value)
		}
	case field.Cookie:
		h.addCookies(key, ascii.TrimOWS(value))
	case field.SetCookie:
		h.table.Add(id, key, value)
	default:
		if h.isRaw || !singleFields.has(id) {
			return false
		}
		h.setKnown(id, value)
	}
	return true
}

// setConnection sets connectionClose from the value of a Connection field.
func (h *header) setConnection(value []byte) {
	h.connectionClose = h1.ConnectionOptions(value)&h1.ConnectionClose != 0
}

// setKnown sets the one field with a known name.
func (h *header) setKnown(id field.ID, value []byte) {
	value = h.fitValue(value)
	if h.announces(id) {
		h.trailer.replace(id, value)
		return
	}
	h.table.Set(id, value)
}

// Del removes all fields of that name from the head and the trailer section. An
// announced name stays announced. Del("Trailer") removes all announcements, as
// SetTrailer("") does.
func (h *header) Del(key string) { h.DelBytes(ascii.Bytes(key)) }

// DelBytes is Del for bytes.
func (h *header) DelBytes(key []byte) {
	id := field.Lookup(key)
	switch {
	case id == field.Other:
		h.delPlain(id, key)
	case id == field.TransferEncoding:
		h.showsCoding = false // the framing follows from the body
	case id == field.Connection:
		h.connectionClose = false
		h.table.DelID(id)
	case id == field.ContentLength:
		if h.contentLength >= 0 {
			h.contentLength, h.hasLength = 0, false
		}
		h.table.DelID(id)
	case id == field.Trailer:
		_ = h.replaceAnnouncement(nil) // cannot fail
		h.table.DelID(id)
	case id == field.Cookie, id == field.SetCookie:
		h.table.DelID(id)
	case singleFields.has(id):
		if id == field.Server {
			h.showsServer = false
		}
		h.table.DelID(id)
		if h.trailer != nil {
			h.trailer.del(id, key)
		}
	default:
		h.delPlain(id, key)
	}
}

func (h *header) delPlain(id field.ID, key []byte) {
	h.table.Del(id, key)
	if h.trailer != nil {
		h.trailer.del(id, key)
	}
}
