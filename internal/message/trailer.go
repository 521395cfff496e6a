package sluice

import (
	"iter"

	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/field"
	"github.com/sluicehttp/sluice/internal/h1"
)

// trailerSection holds the fields after a chunked body (RFC 9110 section 6.5).
// It is separate from the head: setters of an announced name change only the
// section, and a field that was received in it never becomes a field of the head
// (section 6.5.1).
type trailerSection struct {
	names  field.Table // the announced names, as fields without values
	values field.Table // the trailer fields themselves, announced or not
	// received has a bit for each index in names. It is set if a peer has sent
	// trailer fields of that name. Values that are not announced were received,
	// too.
	received uint64
	list     []byte // the announced names, as a Trailer field lists them
	text     []byte // the result of TrailerHeader
}

// maxAnnounced bounds how many trailer fields a message announces. Each name is
// compared with those before it; without the bound, a peer could make that
// expensive. It also is the number of bits in trailerSection.received.
const maxAnnounced = 64

func (s *trailerSection) reset() {
	s.names.Reset()
	s.values.Reset()
	s.setKeepNames(false)
	s.received = 0
	s.list = s.list[:0]
}

func (s *trailerSection) setKeepNames(keep bool) {
	s.names.KeepNames = keep
	s.values.KeepNames = keep
}

// isLarger tells whether s holds more memory than a pool may keep.
func (s *trailerSection) isLarger(maxBytes int) bool {
	return cap(s.list)+cap(s.text)+s.values.HeldBytes()+s.names.HeldBytes() > maxBytes
}

func (s *trailerSection) copyFrom(other *trailerSection) {
	other.names.CopyTo(&s.names)
	other.values.CopyTo(&s.values)
	s.received = other.received
	s.list = append(s.list[:0], other.list...)
}

// find returns the index of an announced name, or -1.
func (s *trailerSection) find(id field.ID, name []byte) int {
	if s.names.Len() == 0 {
		return -1
	}
	return s.names.Find(id, name, 0)
}

// announces tells whether a field of that name is announced.
func (s *trailerSection) announces(id field.ID, name []byte) bool { return s.find(id, name) >= 0 }

// announce adds a name.
func (s *trailerSection) announce(id field.ID, name []byte) {
	s.names.Add(id, name, nil)
	if len(s.list) > 0 {
		s.list = append(s.list, ", "...)
	}
	s.list = append(s.list, s.names.Name(s.names.Len()-1)...)
}

// receive adds a field that a peer has sent, and announces it if there is room.
func (s *trailerSection) receive(id field.ID, name, value []byte) {
	s.values.Add(id, name, value)
	i := s.find(id, name)
	if i < 0 && s.names.Len() < maxAnnounced {
		i = s.names.Len()
		s.announce(id, name)
	}
	if i >= 0 {
		s.received |= 1 << i
	}
}

// replace gives the field with a known name one value.
func (s *trailerSection) replace(id field.ID, value []byte) {
	s.values.DelID(id)
	s.values.Add(id, id.Canonical(), value)
}

// del removes the fields of that name, which stays announced.
func (s *trailerSection) del(id field.ID, name []byte) {
	if singleFields.has(id) {
		s.values.DelID(id)
	} else {
		s.values.Del(id, name)
	}
	if i := s.find(id, name); i >= 0 {
		s.received &^= 1 << i
	}
}

// trailers returns the trailer section, which it makes if there is none.
func (h *header) trailers() *trailerSection {
	if h.trailer == nil {
		h.trailer = new(trailerSection)
		h.trailer.setKeepNames(h.table.KeepNames)
	}
	return h.trailer
}

// hasTrailers tells whether a trailer section must be written after a chunked
// body.
func (h *header) hasTrailers() bool {
	return h.trailer != nil && (h.trailer.names.Len() > 0 || h.trailer.values.Len() > 0)
}

// announces tells whether a field with a known name is announced, in any
// spelling.
func (h *header) announces(id field.ID) bool {
	return h.trailer != nil && h.trailer.names.Index(id) >= 0
}

// announcement returns the value of Trailer, nil if nothing is announced.
func (h *header) announcement() []byte {
	if h.trailer == nil || len(h.trailer.list) == 0 {
		return nil
	}
	return h.trailer.list
}

// announceList adds the names of a list. It leaves out names that must not be
// announced, and then returns ErrBadTrailer.
func (h *header) announceList(list []byte) error {
	var err error
	for more := len(list) > 0; more; {
		var name []byte
		name, list, more = cutByte(list, ',')
		name = ascii.TrimOWS(name)
		id := field.Lookup(name)
		switch {
		case !h1.IsToken(name) || !h1.MayTrail(id, name):
			err = ErrBadTrailer
		case h.trailer != nil && h.trailer.announces(id, name):
		case h.trailers().names.Len() == maxAnnounced:
			return ErrBadTrailer
		default:
			h.trailer.announce(id, name)
		}
	}
	return err
}

// announce is announceList for setters: fields of the head that have an
// announced name become trailer fields.
func (h *header) announce(list []byte) error {
	first := 0
	if h.trailer != nil {
		first = h.trailer.names.Len()
	}
	err := h.announceList(list)
	if h.trailer == nil {
		return err
	}
	for i := first; i < h.trailer.names.Len(); i++ {
		h.moveToTrailer(i)
	}
	return err
}

// replaceAnnouncement replaces the announced names with those of list. Names of
// list that were announced before come first, in the order of list, then the
// others. Fields whose name is no longer announced return to the head, except
// those that were received.
func (h *header) replaceAnnouncement(list []byte) error {
	s := h.trailer
	if s == nil || s.names.Len() == 0 {
		return h.announce(list)
	}
	// list may be s.list, so the new list needs other memory.
	old := trailerSection{names: s.names, received: s.received, list: s.list}
	s.names, s.received, s.list = field.Table{KeepNames: h.table.KeepNames}, 0, nil
	err := h.announceList(list)
	named := s.names
	s.names, s.list = field.Table{KeepNames: h.table.KeepNames}, nil
	for i := range named.Len() {
		id, name := named.ID(i), named.Name(i)
		if at := old.find(id, name); at >= 0 {
			s.received |= old.received >> at & 1 << s.names.Len()
			s.announce(id, name)
		}
	}
	for i := range named.Len() {
		if id, name := named.ID(i), named.Name(i); !s.announces(id, name) {
			s.announce(id, name)
			h.moveToTrailer(s.names.Len() - 1)
		}
	}
	h.moveToHead(&old)
	return err
}

// moveToTrailer moves the head's fields of the announced name i to the trailer
// section. If trailer fields of that name were received, they stay in the head.
func (h *header) moveToTrailer(i int) {
	s := h.trailer
	id, name := s.names.ID(i), s.names.Name(i)
	if s.values.Find(id, name, 0) >= 0 {
		s.received |= 1 << i
		return
	}
	at := h.table.Find(id, name, 0)
	if at < 0 {
		return
	}
	for ; at >= 0; at = h.table.Find(id, name, at+1) {
		s.values.Add(id, name, h.table.Value(at))
	}
	h.table.Del(id, name)
}

// moveToHead moves trailer fields to the head, in their order, if their names
// were announced in old and no longer are. Fields that were received stay.
func (h *header) moveToHead(old *trailerSection) {
	s := h.trailer
	isDropped := func(i int) bool {
		return i >= 0 && old.received>>i&1 == 0 && !s.announces(old.names.ID(i), old.names.Name(i))
	}
	for at := range s.values.Len() {
		if id, name := s.values.ID(at), s.values.Name(at); isDropped(old.find(id, name)) {
			h.put(name, s.values.Value(at), true)
		}
	}
	for i := range old.names.Len() {
		if isDropped(i) {
			s.values.Del(old.names.ID(i), old.names.Name(i))
		}
	}
}

// setParsedTrailers adds the fields of a trailer section that was received. The
// caller has removed the forbidden ones.
func (h *header) setParsedTrailers(t *field.Table) {
	for i := range t.Len() {
		h.trailers().receive(t.ID(i), t.Name(i), t.Value(i))
	}
}

// appendTrailers appends the trailer fields, in the order in which they were set,
// and an empty line, which follow the last chunk (RFC 9112 section 7.1.2). A name
// that was announced and has no value is not written.
func (h *header) appendTrailers(dst []byte) []byte {
	if h.trailer == nil {
		return append(dst, "\r\n"...)
	}
	at := len(dst)
	values := &h.trailer.values
	for i := range values.Len() {
		dst = h1.AppendField(dst, values.Name(i), values.Value(i))
	}
	return h.written(append(dst, "\r\n"...), at)
}

// AddTrailer announces trailer fields: fields of these names, set before or
// after the call, are sent after a chunked body instead of in the head (RFC
// 9110 section 6.6.2). trailer is a name or a list of names separated by commas.
// Values can be set until the whole body has been sent.
//
// The error is ErrBadTrailer if a name is not a token, or if fields of that name
// must not be trailer fields: those that frame or route the message,
// authenticate, or say how to handle it (RFC 9110 section 6.5.1). The other
// names of the list are announced nevertheless. At most 64 names can be
// announced; the error of more is ErrBadTrailer, too.
func (h *header) AddTrailer(trailer string) error { return h.announce(ascii.Bytes(trailer)) }

// AddTrailerBytes is AddTrailer for bytes.
func (h *header) AddTrailerBytes(trailer []byte) error { return h.announce(trailer) }

// SetTrailer announces the names of the list trailer and no others; see
// AddTrailer. Fields whose name was announced before and is not in the list
// return to the head with all their values. Trailer fields that were received
// stay trailer fields (RFC 9110 section 6.5.1). A list without a valid name
// removes all announcements.
func (h *header) SetTrailer(trailer string) error {
	return h.replaceAnnouncement(ascii.Bytes(trailer))
}

// SetTrailerBytes is SetTrailer for bytes.
func (h *header) SetTrailerBytes(trailer []byte) error { return h.replaceAnnouncement(trailer) }

// PeekTrailerKeys returns the names of all trailer fields, the announced ones
// first. The result is valid until the next call of a Peek method or change of
// the header.
func (h *header) PeekTrailerKeys() [][]byte {
	h.peeked, h.names = h.peeked[:0], h.names[:0]
	for name := range h.Trailers() {
		h.addPeeked(name)
	}
	return h.peeked
}

// Trailers iterates over the names of all trailer fields, the announced ones
// first, and yields each name once. The names are valid until the header is
// changed. The header must not be changed during the iteration.
func (h *header) Trailers() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if h.trailer == nil {
			return
		}
		names, values := &h.trailer.names, &h.trailer.values
		for i := 0; i < names.Len(); i++ {
			if !yield(names.Name(i)) {
				return
			}
		}
		for i := 0; i < values.Len(); i++ {
			id, name := values.ID(i), values.Name(i)
			if h.trailer.announces(id, name) || values.Find(id, name, 0) < i {
				continue
			}
			if !yield(name) {
				return
			}
		}
	}
}

// VisitAllTrailer calls f with the names of all trailer fields. f must not
// retain them.
//
// Deprecated: Use Trailers.
func (h *header) VisitAllTrailer(f func(value []byte)) {
	for name := range h.Trailers() {
		f(name)
	}
}

// TrailerHeader returns the trailer section in wire format, with the empty line
// that ends it. The section is written after a chunked body. The result is
// valid until the next call of TrailerHeader or change of the header.
func (h *header) TrailerHeader() []byte {
	if h.trailer == nil {
		return []byte("\r\n")
	}
	h.trailer.text = h.appendTrailers(h.trailer.text[:0])
	return h.trailer.text
}
