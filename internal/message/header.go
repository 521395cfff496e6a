// Package message holds the heads of HTTP/1.1 messages: their fields, framing,
// trailer fields and cookies, how they are read and how they are written. It
// knows no connections.
package message

import (
	"math"
	"strconv"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// Header is the common part of RequestHeader and ResponseHeader.
//
// Content-Length, Transfer-Encoding and "Connection: close" are state, so that a
// message never has two conflicting fields about its framing. The table may have
// fields with the first two names: those that were received, and, in a request
// without special fields, those that mark where the field is written. Their
// values are never used.
//
// Setters store only what is one field line: names are tokens, and values have
// no CR and LF. Writing therefore only copies. Only if a value has another
// control character, which may be set and read but not sent, the copy is changed.
type Header struct {
	Table   field.Table
	trailer *trailerSection // nil until there is one

	protocol []byte   // of SetProtocol, if it is neither HTTP/1.1 nor HTTP/1.0
	clean    []byte   // a value without CR and LF, until it is stored
	text     []byte   // the result of Head; setters use it as scratch memory
	peeked   [][]byte // the result of PeekAll, PeekKeys and TrailerKeys

	ContentLength int // >= 0; -1: chunked; -2: none, the body of a response ends with the connection
	lengthText    [19]byte

	// What getters return for a field that is state or has a default. The header
	// owns this memory, so that a caller that writes to it changes no other
	// message.
	versionText [len("HTTP/1.1")]byte
	closeText   [len("close")]byte
	chunkedText [len("chunked")]byte
	// OwnsDate: the Date of the response was set with SetDate. It is sent unchanged, and
	// none if it is empty.
	OwnsDate bool
	names    []byte // the names that PeekKeys and TrailerKeys returned

	HasLength            bool // ContentLength was set or received
	ConnectionClose      bool
	NoDefaultContentType bool
	IsHTTP10             bool
	hasControls          bool // a value that was set may have control characters
	// isRaw: the fields of the request are written in the order in which they
	// were set, without special treatment.
	isRaw bool
	// showsCoding: Peek shows the Transfer-Encoding that was set while isRaw.
	showsCoding bool
	// ShowsServer: the response of a server, whose Server field was not deleted.
	// If it has no such field, getters return the server's name.
	ShowsServer bool
}

// reset empties the header. All settings go back to their defaults.
func (h *Header) reset() {
	h.Table.Reset()
	h.Table.KeepNames = false
	if h.trailer != nil {
		h.resetTrailers()
	}
	if len(h.protocol) > 0 {
		h.protocol = h.protocol[:0]
	}
	h.ContentLength = 0
	h.HasLength = false
	h.ConnectionClose = false
	h.NoDefaultContentType = false
	h.IsHTTP10 = false
	h.hasControls = false
	h.isRaw = false
	h.showsCoding = false
	h.ShowsServer = false
	h.OwnsDate = false
}

// resetTrailers empties the trailer section, and keeps its memory.
func (h *Header) resetTrailers() {
	if h.trailer.header != h {
		h.trailer = nil // a copy by assignment leaves it to the other one
		return
	}
	h.trailer.reset()
}

// resetMessage empties the header before a message is read. It keeps the
// settings.
func (h *Header) resetMessage() {
	keepNames, isRaw, noDefault := h.Table.KeepNames, h.isRaw, h.NoDefaultContentType
	h.reset()
	h.Table.KeepNames, h.isRaw, h.NoDefaultContentType = keepNames, isRaw, noDefault
	if h.trailer != nil {
		h.trailer.setKeepNames(keepNames)
	}
}

// copyTo makes dst equal to h.
func (h *Header) copyTo(dst *Header) {
	h.Table.CopyTo(&dst.Table)
	switch {
	case h.trailer != nil:
		dst.trailers().copyFrom(h.trailer)
	case dst.trailer != nil:
		dst.ownTrailers().reset()
		dst.trailer.setKeepNames(h.Table.KeepNames)
	}
	replace(&dst.protocol, h.protocol)
	dst.ContentLength = h.ContentLength
	dst.HasLength = h.HasLength
	dst.ConnectionClose = h.ConnectionClose
	dst.NoDefaultContentType = h.NoDefaultContentType
	dst.IsHTTP10 = h.IsHTTP10
	dst.hasControls = h.hasControls
	dst.isRaw = h.isRaw
	dst.showsCoding = h.showsCoding
	dst.OwnsDate = h.OwnsDate
}

// replace makes dst a copy of src. Mostly both are empty.
func replace(dst *[]byte, src []byte) {
	if len(src)|len(*dst) != 0 {
		*dst = append((*dst)[:0], src...)
	}
}

// Shrink releases memory that exceeds what a pool may keep.
func (h *Header) Shrink(maxBytes, maxFields int) {
	h.Table.Shrink(maxBytes, maxFields)
	if cap(h.text)+cap(h.clean)+cap(h.names) > maxBytes {
		h.text, h.clean, h.names = nil, nil, nil
	}
	if cap(h.peeked) > maxFields {
		h.peeked = nil
	}
	if h.trailer != nil && h.trailer.isLarger(maxBytes) {
		h.trailer = nil
	}
}

// TooLong stands for every Content-Length that an int cannot hold: 2 GiB or more
// where an int has 32 bits. No such body is read; the error is ErrBodyTooLarge.
const TooLong = math.MaxInt

// setParsed sets the state from the head that a parser has put into Table.
func (h *Header) setParsed(head *h1.Head) {
	h.IsHTTP10 = head.Minor == 0
	h.ConnectionClose = !head.KeepsAlive()
	switch {
	case head.Has(h1.ChunkedBody):
		h.ContentLength = -1
	case head.Has(h1.HasLength):
		h.ContentLength = int(min(head.ContentLength, TooLong))
		h.HasLength = true
	default:
		h.ContentLength = -2
	}
	if i := h.Table.Index(field.Trailer); i >= 0 {
		for ; i >= 0; i = h.Table.FindID(field.Trailer, i+1) {
			// Names that must not be announced are left out.
			_ = h.announceList(h.Table.Value(i))
		}
	}
}

// SetKeepNames switches the normalisation of names off or on, and reports whether
// it was off before.
func (h *Header) SetKeepNames(keep bool) (previous bool) {
	previous = h.Table.KeepNames
	h.Table.KeepNames = keep
	if h.ownTrailers() != nil {
		h.trailer.setKeepNames(keep)
	}
	return previous
}

// Protocol returns the version that was received or set, "HTTP/1.1" by default.
func (h *Header) Protocol() []byte {
	switch {
	case len(h.protocol) > 0:
		return h.protocol
	case h.IsHTTP10:
		return own(h.versionText[:], textHTTP10)
	}
	return own(h.versionText[:], textHTTP11)
}

// own copies a text that all messages share to dst, which has the same length.
func own(dst, text []byte) []byte { return dst[:copy(dst, text)] }

// IsHTTP11 reports whether the protocol is HTTP/1.1, HTTP/2 or HTTP/3.
func (h *Header) IsHTTP11() bool { return !h.IsHTTP10 && (len(h.protocol) == 0 || h.hasStreams()) }

// hasStreams reports whether the protocol is HTTP/2 or HTTP/3.
func (h *Header) hasStreams() bool {
	return string(h.protocol) == string(textHTTP2) || string(h.protocol) == string(textHTTP3)
}

// SetProtocol sets what Protocol returns. Messages are written only as HTTP/1.0
// or HTTP/1.1, whatever protocol is.
func (h *Header) SetProtocol(protocol []byte) {
	h.IsHTTP10 = string(protocol) == string(textHTTP10)
	h.protocol = h.protocol[:0]
	if !h.IsHTTP10 && string(protocol) != string(textHTTP11) {
		h.protocol = ascii.AppendFieldText(h.protocol, protocol)
	}
}

// SetVersion is SetProtocol for HTTP/2 and HTTP/3.
func (h *Header) SetVersion(major uint8) {
	text := textHTTP2
	if major == 3 {
		text = textHTTP3
	}
	h.IsHTTP10, h.protocol = false, append(h.protocol[:0], text...)
}

// setLength sets a known length.
func (h *Header) setLength(n int) {
	h.ContentLength = n
	h.HasLength = true
}

// lengthValue returns Content-Length's value, nil if there is none.
func (h *Header) lengthValue() []byte {
	if !h.HasLength || h.ContentLength < 0 {
		return nil
	}
	return strconv.AppendInt(h.lengthText[:0], int64(h.ContentLength), 10)
}

// ResetConnectionClose removes close from all Connection fields. Fields that list
// only close are removed.
func (h *Header) ResetConnectionClose() {
	if !h.ConnectionClose {
		return
	}
	h.ConnectionClose = false
	for i := h.Table.Len() - 1; i >= 0; i-- {
		if h.Table.ID(i) != field.Connection {
			continue
		}
		if others := withoutClose(h.Table.Value(i)); len(others) > 0 {
			h.Table.SetValue(i, others)
		} else {
			h.Table.DelAt(i)
		}
	}
}

// withoutClose returns a Connection list without close.
func withoutClose(list []byte) []byte {
	var others []byte
	for more := true; more; {
		var member []byte
		member, list, more = ascii.Cut(list, ',')
		member = ascii.TrimOWS(member)
		if len(member) == 0 || ascii.EqualFold(member, textClose) {
			continue
		}
		if len(others) > 0 {
			others = append(others, ", "...)
		}
		others = append(others, member...)
	}
	return others
}

// ConnectionUpgrade reports whether a Connection field lists upgrade, unless the
// connection ends with this message.
func (h *Header) ConnectionUpgrade() bool {
	return !h.ConnectionClose && h.connectionLists(h1.ConnectionUpgrade)
}

func (h *Header) connectionLists(option h1.Flags) bool {
	for i := h.Table.Index(field.Connection); i >= 0; i = h.Table.FindID(field.Connection, i+1) {
		if h1.ConnectionOptions(h.Table.Value(i))&option != 0 {
			return true
		}
	}
	return false
}

// connectionValues yields the values of Connection fields. The one that lists
// close is the last.
func (h *Header) connectionValues(yield func(value []byte) bool) {
	for i := h.Table.Index(field.Connection); i >= 0; i = h.Table.FindID(field.Connection, i+1) {
		if value := h.Table.Value(i); (!h.ConnectionClose || !isAboutClose(value)) && !yield(value) {
			return
		}
	}
	if h.ConnectionClose {
		yield(h.closeValue())
	}
}

// closeValue returns the value of the Connection field that lists close, with
// its other options. If there is none, it is "close".
func (h *Header) closeValue() []byte {
	for i := h.Table.Index(field.Connection); i >= 0; i = h.Table.FindID(field.Connection, i+1) {
		if value := h.Table.Value(i); h1.ConnectionOptions(value)&h1.ConnectionClose != 0 {
			return value
		}
	}
	return own(h.closeText[:], textClose)
}

// isAboutClose reports whether a Connection field of that value lists close or
// keep-alive. Such a field is replaced by the one that closeValue returns.
func isAboutClose(value []byte) bool {
	return h1.ConnectionOptions(value)&(h1.ConnectionClose|h1.ConnectionKeepAlive) != 0
}
