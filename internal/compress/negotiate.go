package compress

import (
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// Content is what a response has, as far as it matters for encoding it.
type Content struct {
	Size      int  // of the answer to GET; < 0: unknown
	IsStream  bool // a handler has set a stream, which is encoded however short it is
	IsSkipped bool // it is not sent, although the method is not HEAD
}

// Smallest is the size, in bytes, from which on content in memory is encoded.
const Smallest = 200

// Negotiate chooses the offer that the client prefers (RFC 9110 section 12.5.3), and sets
// the fields that depend on this. offers are in the order of preference. encodes is false if
// the content is sent without encoding, or none is sent.
func Negotiate(request *message.RequestHeader, response *message.ResponseHeader, c Content, offers []Offer) (o Offer, encodes bool) {
	if !mayEncode(response) {
		return o, false
	}
	status := response.Status()
	isUnchanged, isPart := status == message.StatusNotModified, status == message.StatusPartialContent
	if isUnchanged || isPart { // they have the fields of the 200, whose size is not known
		c = Content{Size: -1, IsStream: true}
	}
	wish := ReadAccept(request)
	o, found := wish.Choose(offers)
	if !c.isWorthEncoding(response, found && wish.RefusesIdentity()) {
		return o, false
	}
	response.AddVary("Accept-Encoding")
	if !found || isPart {
		return o, false
	}
	weakenETag(response)
	response.Table.DelID(field.AcceptRanges) // a range would select other bytes
	return o, !isUnchanged
}

// ReadAccept returns what all Accept-Encoding fields of a request, in any spelling of the
// name, say together.
func ReadAccept(h *message.RequestHeader) (a Accept) {
	var lines [4][]byte
	for _, line := range h.AppendLines(lines[:0], field.AcceptEncoding) {
		a.Read(line)
	}
	return a
}

// mayEncode reports whether the response is subject to negotiation. A 304 and a 206 are: they
// have fields that the 200 would have (RFC 9110 sections 15.4.5 and 15.3.7).
func mayEncode(h *message.ResponseHeader) bool {
	status := h.Status()
	return len(h.Table.Get(field.ContentEncoding)) == 0 && status != message.StatusResetContent &&
		(status == message.StatusNotModified || !message.BodyForbidden(status)) && !forbidsTransforms(h) && !hasDigest(h)
}

// digests are fields with a hash of the bytes that a handler has made: RFC 9530, and RFC 3230 and RFC
// 2616 before. Encoded, they would have another one.
var digests = [...]string{"Content-Digest", "Repr-Digest", "Digest", "Content-MD5"}

func hasDigest(h *message.ResponseHeader) bool {
	for i := range h.Table.Len() {
		if h.Table.ID(i) != field.Other {
			continue
		}
		for _, name := range digests {
			if ascii.EqualFold(h.Table.Name(i), name) {
				return true
			}
		}
	}
	return false
}

// forbidsTransforms reports whether a Cache-Control field says so (RFC 9111 section
// 5.2.2.6).
func forbidsTransforms(h *message.ResponseHeader) bool {
	var room [4][]byte
	for _, line := range h.AppendLines(room[:0], field.CacheControl) {
		if ascii.HasMember(line, "no-transform") {
			return true
		}
	}
	return false
}

// isWorthEncoding reports whether there is content that compresses well; with
// isForced any content will do.
func (c Content) isWorthEncoding(h *message.ResponseHeader, isForced bool) bool {
	switch {
	case c.IsSkipped, c.Size == 0:
		return false
	case isForced:
		return true
	}
	return (c.IsStream || c.Size >= Smallest) && IsCompressible(h.ContentType())
}

// weakenETag makes a strong ETag weak, because it does not identify the encoded
// bytes (RFC 9110 section 8.8.3.3).
func weakenETag(h *message.ResponseHeader) {
	tag := h.Get(field.ETag)
	if len(tag) == 0 || tag[0] != '"' {
		return
	}
	var room [96]byte
	h.SetKnown(field.ETag, append(append(room[:0], "W/"...), tag...))
}
