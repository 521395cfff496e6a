package message

import (
	"errors"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// ErrBadTrailer is sluice.ErrBadTrailer.
var ErrBadTrailer = errors.New("sluice: the field is not allowed in a trailer section")

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
	list     []byte  // the announced names, as a Trailer field lists them
	text     []byte  // the result of TrailerHeader
	header   *Header // that changes it; a copy by assignment of header does not
}

// MaxAnnounced bounds how many trailer fields a message announces. Each name is
// compared with those before it; without the bound, a peer could make that
// expensive. It also is the number of bits in trailerSection.received.
const MaxAnnounced = 64

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

// isLarger reports whether s holds more memory than a pool may keep.
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

// announces reports whether a field of that name is announced.
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
	if i < 0 && s.names.Len() < MaxAnnounced {
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

// trailers returns the trailer section, which it makes if there is none, for changes.
func (h *Header) trailers() *trailerSection {
	if h.ownTrailers() == nil {
		h.trailer = &trailerSection{header: h}
		h.trailer.setKeepNames(h.Table.KeepNames)
	}
	return h.trailer
}

// ownTrailers returns the trailer section, nil if there is none, for changes. A header that
// was copied by assignment gets a section of its own.
func (h *Header) ownTrailers() *trailerSection {
	if s := h.trailer; s != nil && s.header != h {
		h.trailer = &trailerSection{header: h}
		h.trailer.setKeepNames(h.Table.KeepNames)
		h.trailer.copyFrom(s)
	}
	return h.trailer
}

// Moved makes h, a copy by assignment, own the memory that the other header gives up.
func (h *Header) Moved() {
	h.Table.Moved()
	if h.trailer != nil {
		h.trailer.header = h
	}
}

// HasTrailers reports whether a trailer section must be written after a chunked
// body.
func (h *Header) HasTrailers() bool {
	return h.trailer != nil && (h.trailer.names.Len() > 0 || h.trailer.values.Len() > 0)
}

// announces reports whether a field with a known name is announced, in any
// spelling.
func (h *Header) announces(id field.ID) bool {
	return h.trailer != nil && h.trailer.names.Index(id) >= 0
}

// announcement returns the value of Trailer, nil if nothing is announced.
func (h *Header) announcement() []byte {
	if h.trailer == nil || len(h.trailer.list) == 0 {
		return nil
	}
	return h.trailer.list
}

// announceList adds the names of a list, which may end in a comma. It leaves out names
// that must not be announced, and then returns ErrBadTrailer.
func (h *Header) announceList(list []byte) error {
	var err error
	for list = ascii.TrimOWS(list); len(list) > 0; {
		var name []byte
		name, list, _ = ascii.Cut(list, ',')
		name = ascii.TrimOWS(name)
		id := field.Lookup(name)
		switch {
		case !h1.IsToken(name) || !h1.MayTrail(id, name):
			err = ErrBadTrailer
		case h.trailer != nil && h.trailer.announces(id, name):
		case h.trailers().names.Len() == MaxAnnounced:
			return ErrBadTrailer
		default:
			h.trailer.announce(id, name)
		}
	}
	return err
}

// Announce is announceList for setters: fields of the head that have an
// announced name become trailer fields.
func (h *Header) Announce(list []byte) error {
	first := 0
	if h.trailer != nil {
		first = h.trailer.names.Len()
	}
	err := h.announceList(list)
	if h.ownTrailers() == nil {
		return err
	}
	for i := first; i < h.trailer.names.Len(); i++ {
		h.moveToTrailer(i)
	}
	return err
}

// ReplaceAnnouncement replaces the announced names with those of list. Names of
// list that were announced before come first, in the order of list, then the
// others. Fields whose name is no longer announced return to the head, except
// those that were received.
func (h *Header) ReplaceAnnouncement(list []byte) error {
	s := h.ownTrailers()
	if s == nil || s.names.Len() == 0 {
		return h.Announce(list)
	}
	// list may be s.list, so the new list needs other memory.
	old := trailerSection{names: s.names, received: s.received, list: s.list}
	s.names, s.received, s.list = field.Table{KeepNames: h.Table.KeepNames}, 0, nil
	err := h.announceList(list)
	named := s.names
	s.names, s.list = field.Table{KeepNames: h.Table.KeepNames}, nil
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
func (h *Header) moveToTrailer(i int) {
	s := h.trailer
	id, name := s.names.ID(i), s.names.Name(i)
	if s.values.Find(id, name, 0) >= 0 {
		s.received |= 1 << i
		return
	}
	at := h.Table.Find(id, name, 0)
	if at < 0 {
		return
	}
	for ; at >= 0; at = h.Table.Find(id, name, at+1) {
		s.values.Add(id, name, h.Table.Value(at))
	}
	h.Table.Del(id, name)
}

// moveToHead moves trailer fields to the head, in their order, if their names
// were announced in old and no longer are. Fields that were received stay.
func (h *Header) moveToHead(old *trailerSection) {
	s := h.trailer
	isDropped := func(i int) bool {
		return i >= 0 && old.received>>i&1 == 0 && !s.announces(old.names.ID(i), old.names.Name(i))
	}
	for at := range s.values.Len() {
		if id, name := s.values.ID(at), s.values.Name(at); isDropped(old.find(id, name)) {
			h.Put(ascii.String(name), s.values.Value(at), Adds)
		}
	}
	for i := range old.names.Len() {
		if isDropped(i) {
			s.values.Del(old.names.ID(i), old.names.Name(i))
		}
	}
}

// ReceiveTrailers adds the fields of a trailer section that was received. The
// caller has removed the forbidden ones.
func (h *Header) ReceiveTrailers(t *field.Table) {
	for i := range t.Len() {
		h.trailers().receive(t.ID(i), t.Name(i), t.Value(i))
	}
}

// AppendTrailers appends the trailer fields, in the order in which they were set,
// and an empty line, which follow the last chunk (RFC 9112 section 7.1.2). A name
// that was announced and has no value is not written.
func (h *Header) AppendTrailers(dst []byte) []byte {
	if h.trailer == nil {
		return append(dst, "\r\n"...)
	}
	at := len(dst)
	values := &h.trailer.values
	for i := range values.Len() {
		dst = values.AppendLine(dst, i)
	}
	return h.written(append(dst, "\r\n"...), at)
}

// TrailerKeys returns the names that VisitTrailers yields.
func (h *Header) TrailerKeys() [][]byte {
	h.peeked, h.names = h.peeked[:0], h.names[:0]
	h.VisitTrailers(func(name []byte) bool {
		h.addPeeked(name)
		return true
	})
	return h.peeked
}

// VisitTrailers yields the names of all trailer fields once, the announced ones
// first.
func (h *Header) VisitTrailers(yield func([]byte) bool) {
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

// TrailerSection returns the trailer section in wire format, with the empty line
// that ends it.
func (h *Header) TrailerSection() []byte {
	if h.ownTrailers() == nil {
		return []byte("\r\n")
	}
	h.trailer.text = h.AppendTrailers(h.trailer.text[:0])
	return h.trailer.text
}
