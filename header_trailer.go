package sluice

import (
	"iter"

	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/field"
	"github.com/sluicehttp/sluice/internal/h1"
)

// trailerSection is what a message says behind a chunked body (RFC 9110
// section 6.5).
type trailerSection struct {
	names  field.Table // the announced names, as fields without values
	values field.Table // the trailer fields themselves, announced or not
	list   []byte      // the announced names, as a Trailer field lists them
	text   []byte      // what TrailerHeader returned
}

func (s *trailerSection) reset() {
	s.names.Reset()
	s.values.Reset()
	s.setKeepNames(false)
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
	s.list = append(s.list[:0], other.list...)
}

// announces tells whether a field of that name is announced.
func (s *trailerSection) announces(id field.ID, name []byte) bool {
	return s.names.Len() > 0 && s.names.Find(id, name, 0) >= 0
}

// announce adds a name.
func (s *trailerSection) announce(id field.ID, name []byte) {
	s.names.Add(id, name, nil)
	if len(s.list) > 0 {
		s.list = append(s.list, ", "...)
	}
	s.list = append(s.list, s.names.Name(s.names.Len()-1)...)
}

// trailers returns the trailer section, which it makes if there is none.
func (h *header) trailers() *trailerSection {
	if h.trailer == nil {
		h.trailer = new(trailerSection)
		h.trailer.setKeepNames(h.table.KeepNames)
	}
	return h.trailer
}

// hasTrailers tells whether there is something to write behind a chunked body.
func (h *header) hasTrailers() bool {
	return h.trailer != nil && (h.trailer.names.Len() > 0 || h.trailer.values.Len() > 0)
}

// forgetTrailers takes the announcements back. Trailer fields stay.
func (h *header) forgetTrailers() {
	if h.trailer != nil {
		h.trailer.names.Reset()
		h.trailer.list = h.trailer.list[:0]
	}
}

// announcement returns the value of Trailer, nil if nothing is announced.
func (h *header) announcement() []byte {
	if h.trailer == nil || len(h.trailer.list) == 0 {
		return nil
	}
	return h.trailer.list
}

// maxAnnounced bounds how many trailer fields a message announces: each name is
// compared with those before it, and a peer must not make that expensive.
const maxAnnounced = 64

// announceList adds the names of a list. A name that must not be announced is
// left out, and is the reason for the error.
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

// announce is announceList for a message that is to be written: the fields
// that have an announced name become trailer fields.
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
		h.moveToTrailer(h.trailer.names.ID(i), h.trailer.names.Name(i))
	}
	return err
}

// moveToTrailer makes the fields of that name trailer fields.
func (h *header) moveToTrailer(id field.ID, name []byte) {
	i := h.table.Find(id, name, 0)
	if i < 0 {
		return
	}
	for ; i >= 0; i = h.table.Find(id, name, i+1) {
		h.trailer.values.Add(id, name, h.table.Value(i))
	}
	h.table.Del(id, name)
}

// setParsedTrailers takes over the fields of a trailer section that was
// received; the forbidden ones must have been dropped.
func (h *header) setParsedTrailers(t *field.Table) {
	if t.Len() == 0 {
		return
	}
	values := &h.trailers().values
	for i := range t.Len() {
		values.Add(t.ID(i), t.Name(i), t.Value(i))
	}
}

// appendTrailers appends what follows the last chunk: the trailer fields and
// an empty line (RFC 9112 section 7.1.2). A field that was announced and not
// set is sent without a value.
func (h *header) appendTrailers(dst []byte) []byte {
	if h.trailer == nil {
		return append(dst, "\r\n"...)
	}
	s := h.trailer
	for i := range s.names.Len() {
		id, name := s.names.ID(i), s.names.Name(i)
		at := s.values.Find(id, name, 0)
		if at < 0 {
			dst = h1.AppendField(dst, name, nil)
		}
		for ; at >= 0; at = s.values.Find(id, name, at+1) {
			dst = h1.AppendField(dst, s.values.Name(at), s.values.Value(at))
		}
	}
	for i := range s.values.Len() {
		if name := s.values.Name(i); !s.announces(s.values.ID(i), name) {
			dst = h1.AppendField(dst, name, s.values.Value(i))
		}
	}
	return append(dst, "\r\n"...)
}

// AddTrailer announces trailer fields: fields of these names, set before or
// after, are sent behind a chunked body instead of in the head (RFC 9110
// section 6.6.2). trailer is a name or a list of names separated by commas.
//
// ErrBadTrailer says that a name is no token, or that fields of that name must
// not be trailer fields: those that frame or route the message, authenticate,
// or say how to handle it (RFC 9110 section 6.5.1). The other names of the
// list are announced all the same. More than 64 cannot be.
func (h *header) AddTrailer(trailer string) error { return h.announce(ascii.Bytes(trailer)) }

// AddTrailerBytes is AddTrailer for bytes.
func (h *header) AddTrailerBytes(trailer []byte) error { return h.announce(trailer) }

// SetTrailer is AddTrailer with all former announcements taken back.
func (h *header) SetTrailer(trailer string) error { return h.SetTrailerBytes(ascii.Bytes(trailer)) }

// SetTrailerBytes is SetTrailer for bytes.
func (h *header) SetTrailerBytes(trailer []byte) error {
	h.forgetTrailers()
	return h.announce(trailer)
}

// PeekTrailerKeys returns the names of all trailer fields, first those that
// are announced. The result is valid until the next call of a Peek method or
// change of the header.
func (h *header) PeekTrailerKeys() [][]byte {
	h.peeked = h.peeked[:0]
	for name := range h.Trailers() {
		h.peeked = append(h.peeked, name)
	}
	return h.peeked
}

// Trailers iterates over the names of all trailer fields, first those that are
// announced, each once. They are valid until the header is changed, which must
// not happen during the iteration.
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
// keep them.
//
// Deprecated: Use Trailers.
func (h *header) VisitAllTrailer(f func(value []byte)) {
	for name := range h.Trailers() {
		f(name)
	}
}

// TrailerHeader returns the trailer section as it is written behind a chunked
// body, with the empty line that ends it. It is valid until the next call or
// change of the header.
func (h *header) TrailerHeader() []byte {
	if h.trailer == nil {
		return textCRLF
	}
	h.trailer.text = h.appendTrailers(h.trailer.text[:0])
	return h.trailer.text
}
