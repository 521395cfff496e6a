package message

import (
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// A headStart is how a response's head began the last time: status line, Server, Alt-Svc,
// Date and Content-Type. A server's responses within one second mostly begin alike, and
// most have only Content-Length after that, which text has, too.
type headStart struct {
	owner  field.Owner // of the memory: text and received
	text   []byte
	end    int   // of the start in text. What follows is Content-Length and the empty line
	length int64 // in text; -1: there is none

	// What the start was made from. Another value of one of these makes another start.
	status      int
	server      []byte // DefaultServer at the time, or nil; or received
	received    []byte // a Server field
	altSvc      []byte // DefaultAltSvc at the time, or nil
	from, until int64  // Nanos in which its Date may be used
	contentType []byte // a part of text
	typeAt      int    // where the line of contentType begins in text
}

// longestStartValue is the length of the longest Content-Type, with a Server field, that a headStart
// keeps.
const longestStartValue = 127

// startFor returns the start of the head, nil if it is an unusual one.
func (h *ResponseHeader) startFor(f *Framing) *headStart {
	if f.Date == 0 || h.IsHTTP10 || h.hasControls || len(h.reason) > 0 {
		return nil
	}
	s, altSvc := &h.start, h.altSvc()
	if !s.owner.Owns() && s.owner.IsCopy() { // by assignment
		*s = headStart{owner: s.owner}
	}
	if h.reasonAt.End > 0 || h.Table.Index(field.Server) >= 0 {
		return h.startOfReceived(f)
	}
	if !h.ShowsServer && !f.NamesServer {
		return nil
	}
	isRight := f.Date >= s.from && f.Date < s.until && s.status == h.status && isSame(s.server, h.DefaultServer) && isSame(s.altSvc, altSvc)
	if isRight && h.Table.IsKept() { // it has the start's Content-Type
		return s
	}
	contentType := h.contentTypeFor(f)
	if len(contentType) > longestStartValue {
		return nil
	}
	if !isRight {
		h.renewStart(f.Date, h.DefaultServer, altSvc, contentType)
	} else if string(s.contentType) != string(contentType) {
		s.setType(contentType)
	}
	h.Table.Keep(field.ContentType)
	return s
}

// startOfReceived is startFor for a head like those that a proxy has received, with a Server field.
func (h *ResponseHeader) startOfReceived(f *Framing) *headStart {
	server, contentType := h.Table.Get(field.Server), h.contentTypeFor(f)
	if len(server) == 0 || len(server)+len(contentType) > longestStartValue || h.reasonAt.End > 0 && string(h.Reason()) != Reason(h.Status()) {
		return nil
	}
	s, altSvc := &h.start, h.altSvc()
	if f.Date < s.from || f.Date >= s.until || s.status != h.status || string(s.server) != string(server) || !isSame(s.altSvc, altSvc) {
		s.received = append(s.received[:0], server...)
		h.renewStart(f.Date, s.received, altSvc, contentType)
	} else if string(s.contentType) != string(contentType) {
		s.setType(contentType)
	}
	return s
}

// renewStart makes a new start.
func (h *ResponseHeader) renewStart(at int64, server, altSvc, contentType []byte) {
	s := &h.start
	date, from, until := clock.DateUntil(at)
	s.from, s.until, s.status, s.server, s.altSvc = from, until, h.status, server, altSvc
	s.text = h.appendStart(s.text[:0], server, altSvc, date[:])
	s.typeAt = len(s.text)
	s.setType(contentType)
}

// HasDefaults reports whether DefaultServer and DefaultAltSvc are these bytes of the memory.
func (h *ResponseHeader) HasDefaults(server, altSvc []byte) bool {
	return isSame(h.DefaultServer, server) && isSame(h.DefaultAltSvc, altSvc)
}

// isSame reports whether a and b are the same bytes of the memory.
func isSame(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// setType ends the start with a Content-Type, if it is not empty.
func (s *headStart) setType(contentType []byte) {
	s.text = appendKnown(s.text[:s.typeAt], field.ContentType, contentType)
	s.end, s.length = len(s.text), -1
	valueEnd := s.end - len("\r\n")
	s.contentType = s.text[valueEnd-len(contentType) : valueEnd]
}

// head returns a head that has only a Content-Length after the start.
func (s *headStart) head(length int64) []byte {
	if s.length != length {
		s.setLength(length)
	}
	return s.text
}

func (s *headStart) setLength(length int64) {
	s.text = append(s.text[:s.end], "Content-Length: "...)
	s.text = append(ascii.AppendUint(s.text, uint64(length)), "\r\n\r\n"...)
	s.length = length
}

// SetContentType sets the Content-Type field. Mostly it is that of the last head.
func (h *ResponseHeader) SetContentType(value []byte) {
	if h.trailer == nil && h.Table.Again(field.ContentType, value) {
		return
	}
	h.SetKnown(field.ContentType, value)
}

// isBare reports whether the head has only a Content-Length after its start.
func (h *ResponseHeader) isBare(f *Framing) bool {
	if f.Length < 0 || f.CloseConnection || f.KeepAlive || h.ConnectionClose || len(h.announcement()) > 0 {
		return false
	}
	n := h.Table.Len()
	return n == 0 || n == 1 && h.Table.Index(field.ContentType) == 0
}
