package sluice

import (
	"math"
	"strconv"

	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/field"
	"github.com/sluicehttp/sluice/internal/h1"
)

// header is the common part of RequestHeader and ResponseHeader. Its methods are
// promoted to both.
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
type header struct {
	table   field.Table
	trailer *trailerSection // nil until there is one

	protocol []byte   // of SetProtocol, if it is neither HTTP/1.1 nor HTTP/1.0
	clean    []byte   // a value without CR and LF, until it is stored
	text     []byte   // the result of Header; setters use it as scratch memory
	peeked   [][]byte // the result of PeekAll, PeekKeys and PeekTrailerKeys

	contentLength int // >= 0; -1: chunked; -2: none, the body of a response ends with the connection
	lengthText    [20]byte

	// What getters return for a field that is state or has a default. The header
	// owns this memory, so that a caller that writes to it changes no other
	// message.
	versionText [len("HTTP/1.1")]byte
	closeText   [len("close")]byte
	chunkedText [len("chunked")]byte
	names       []byte // the names that PeekKeys and PeekTrailerKeys returned

	hasLength            bool // contentLength was set or received
	connectionClose      bool
	noDefaultContentType bool
	isHTTP10             bool
	hasControls          bool // a value that was set may have control characters
	// isRaw: the fields of the request are written in the order in which they
	// were set, without special treatment; see DisableSpecialHeader.
	isRaw bool
	// showsCoding: Peek shows the Transfer-Encoding that was set while isRaw.
	showsCoding bool
	// showsServer: the response of a server, whose Server field was not deleted.
	// If it has no such field, getters return the server's name.
	showsServer bool
}

// reset empties the header. All settings go back to their defaults.
func (h *header) reset() {
	h.table.Reset()
	h.table.KeepNames = false
	if h.trailer != nil {
		h.trailer.reset()
	}
	if len(h.protocol) > 0 {
		h.protocol = h.protocol[:0]
	}
	h.contentLength = 0
	h.hasLength = false
	h.connectionClose = false
	h.noDefaultContentType = false
	h.isHTTP10 = false
	h.hasControls = false
	h.isRaw = false
	h.showsCoding = false
	h.showsServer = false
}

// resetMessage empties the header before a message is read. It keeps the
// settings.
func (h *header) resetMessage() {
	keepNames, isRaw, noDefault := h.table.KeepNames, h.isRaw, h.noDefaultContentType
	h.reset()
	h.table.KeepNames, h.isRaw, h.noDefaultContentType = keepNames, isRaw, noDefault
	if h.trailer != nil {
		h.trailer.setKeepNames(keepNames)
	}
}

// copyTo makes dst equal to h.
func (h *header) copyTo(dst *header) {
	h.table.CopyTo(&dst.table)
	switch {
	case h.trailer != nil:
		dst.trailers().copyFrom(h.trailer)
	case dst.trailer != nil:
		dst.trailer.reset()
		dst.trailer.setKeepNames(h.table.KeepNames)
	}
	dst.protocol = append(dst.protocol[:0], h.protocol...)
	dst.contentLength = h.contentLength
	dst.hasLength = h.hasLength
	dst.connectionClose = h.connectionClose
	dst.noDefaultContentType = h.noDefaultContentType
	dst.isHTTP10 = h.isHTTP10
	dst.hasControls = h.hasControls
	dst.isRaw = h.isRaw
	dst.showsCoding = h.showsCoding
}

// shrink releases memory that exceeds what a pool may keep.
func (h *header) shrink(maxBytes, maxFields int) {
	h.table.Shrink(maxBytes, maxFields)
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

// tooLong stands for every Content-Length that an int cannot hold: 2 GiB or more
// where an int has 32 bits. No such body is read; the error is ErrBodyTooLarge.
const tooLong = math.MaxInt

// setParsed sets the state from the head that a parser has put into table.
func (h *header) setParsed(head *h1.Head) {
	h.isHTTP10 = head.Minor == 0
	h.connectionClose = !head.KeepsAlive()
	switch {
	case head.Has(h1.ChunkedBody):
		h.contentLength = -1
	case head.Has(h1.HasLength):
		h.contentLength = int(min(head.ContentLength, tooLong))
		h.hasLength = true
	default:
		h.contentLength = -2
	}
	if i := h.table.Index(field.Trailer); i >= 0 {
		for ; i >= 0; i = h.table.FindID(field.Trailer, i+1) {
			// Names that must not be announced are left out.
			_ = h.announceList(h.table.Value(i))
		}
	}
}

// DisableNormalizing switches off the normalisation of field names. Names that
// are set or received from now on are compared and written verbatim. By
// default, the first letter and each letter after a hyphen are written in upper
// case, and all others in lower case: "cONTENT-tYPE" becomes "Content-Type".
// Fields with a method or meaning of their own (Host, Content-Type, Cookie and
// so on) are found in any spelling and written in the usual one.
// DisableNormalizing returns whether normalisation was off before.
func (h *header) DisableNormalizing() bool { return h.setKeepNames(true) }

// EnableNormalizing switches on the normalisation of field names, which is the
// default; see DisableNormalizing. It returns whether normalisation was off
// before.
func (h *header) EnableNormalizing() bool { return h.setKeepNames(false) }

func (h *header) setKeepNames(keep bool) (previous bool) {
	previous = h.table.KeepNames
	h.table.KeepNames = keep
	if h.trailer != nil {
		h.trailer.setKeepNames(keep)
	}
	return previous
}

// Protocol returns the protocol version: "HTTP/1.1" unless another one was
// received or set. If a higher minor version was received, it is "HTTP/1.1" too
// (RFC 9110 section 2.5). The bytes must not be changed.
func (h *header) Protocol() []byte {
	switch {
	case len(h.protocol) > 0:
		return h.protocol
	case h.isHTTP10:
		return own(h.versionText[:], textHTTP10)
	}
	return own(h.versionText[:], textHTTP11)
}

// own copies a text that all messages share to dst, which has the same length.
func own(dst, text []byte) []byte { return dst[:copy(dst, text)] }

// IsHTTP11 tells whether the protocol is HTTP/1.1.
func (h *header) IsHTTP11() bool { return !h.isHTTP10 && len(h.protocol) == 0 }

// setProtocol sets what Protocol returns. Messages are written only as HTTP/1.0
// or HTTP/1.1, whatever protocol is.
func (h *header) setProtocol(protocol []byte) {
	h.isHTTP10 = string(protocol) == string(textHTTP10)
	h.protocol = h.protocol[:0]
	if !h.isHTTP10 && string(protocol) != string(textHTTP11) {
		h.protocol = ascii.AppendFieldText(h.protocol, protocol)
	}
}

// ContentLength returns the length of the body that the header announces, in
// bytes. It is -1 for a chunked body. It is -2 if the header announces no body;
// the body of a response then ends with the connection. It is 0 if nothing was
// set or received. Where an int has 32 bits, a length of 2 GiB or more is
// math.MaxInt; no such body is read.
func (h *header) ContentLength() int { return h.contentLength }

// setLength sets a known length.
func (h *header) setLength(n int) {
	h.contentLength = n
	h.hasLength = true
}

// lengthValue returns Content-Length's value, nil if there is none.
func (h *header) lengthValue() []byte {
	if !h.hasLength || h.contentLength < 0 {
		return nil
	}
	return strconv.AppendInt(h.lengthText[:0], int64(h.contentLength), 10)
}

// ConnectionClose tells whether the connection ends with this message. It does
// after SetConnectionClose, with a Connection field that lists close, and, in a
// message that was received, with HTTP/1.0 without keep-alive.
func (h *header) ConnectionClose() bool { return h.connectionClose }

// SetConnectionClose adds "Connection: close" to the message.
func (h *header) SetConnectionClose() { h.connectionClose = true }

// ResetConnectionClose removes "Connection: close". Connection fields keep their
// other options; fields that list only close are removed.
func (h *header) ResetConnectionClose() {
	if !h.connectionClose {
		return
	}
	h.connectionClose = false
	for i := h.table.Len() - 1; i >= 0; i-- {
		if h.table.ID(i) != field.Connection {
			continue
		}
		if others := withoutClose(h.table.Value(i)); len(others) > 0 {
			h.table.SetValue(i, others)
		} else {
			h.table.DelAt(i)
		}
	}
}

// withoutClose returns a Connection list without close.
func withoutClose(list []byte) []byte {
	var others []byte
	for more := true; more; {
		var member []byte
		member, list, more = cutByte(list, ',')
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

// ConnectionUpgrade tells whether a Connection field lists upgrade (RFC 9110
// section 7.8). It is false if the connection ends with this message.
func (h *header) ConnectionUpgrade() bool {
	return !h.connectionClose && h.connectionLists(h1.ConnectionUpgrade)
}

func (h *header) connectionLists(option h1.Flags) bool {
	for i := h.table.Index(field.Connection); i >= 0; i = h.table.FindID(field.Connection, i+1) {
		if h1.ConnectionOptions(h.table.Value(i))&option != 0 {
			return true
		}
	}
	return false
}

// connectionValues yields the values of Connection fields. The one that lists
// close is the last.
func (h *header) connectionValues(yield func(value []byte) bool) {
	for i := h.table.Index(field.Connection); i >= 0; i = h.table.FindID(field.Connection, i+1) {
		if value := h.table.Value(i); (!h.connectionClose || !isAboutClose(value)) && !yield(value) {
			return
		}
	}
	if h.connectionClose {
		yield(h.closeValue())
	}
}

// closeValue returns the value of the Connection field that lists close, with
// its other options. If there is none, it is "close".
func (h *header) closeValue() []byte {
	for i := h.table.Index(field.Connection); i >= 0; i = h.table.FindID(field.Connection, i+1) {
		if value := h.table.Value(i); h1.ConnectionOptions(value)&h1.ConnectionClose != 0 {
			return value
		}
	}
	return own(h.closeText[:], textClose)
}

// isAboutClose tells whether a Connection field of that value lists close or
// keep-alive. Such a field is replaced by the one that closeValue returns.
func isAboutClose(value []byte) bool {
	return h1.ConnectionOptions(value)&(h1.ConnectionClose|h1.ConnectionKeepAlive) != 0
}

// ContentEncoding returns the value of Content-Encoding, nil if there is none.
// It is valid until the header is changed or released.
func (h *header) ContentEncoding() []byte { return h.table.Get(field.ContentEncoding) }

// SetContentEncoding sets Content-Encoding. A response with an empty value is
// written without the field.
func (h *header) SetContentEncoding(contentEncoding string) {
	h.SetContentEncodingBytes(ascii.Bytes(contentEncoding))
}

// SetContentEncodingBytes is SetContentEncoding for bytes.
func (h *header) SetContentEncodingBytes(contentEncoding []byte) {
	h.setKnown(field.ContentEncoding, contentEncoding)
}

// SetContentType sets Content-Type. An empty value selects the default; see
// SetNoDefaultContentType.
func (h *header) SetContentType(contentType string) {
	h.SetContentTypeBytes(ascii.Bytes(contentType))
}

// SetContentTypeBytes is SetContentType for bytes.
func (h *header) SetContentTypeBytes(contentType []byte) {
	h.setKnown(field.ContentType, contentType)
}

// SetNoDefaultContentType controls how a message that has a body and no
// Content-Type is written. With true, it is written without the field. With
// false, the default, it is written with "text/plain; charset=utf-8" in
// responses and with "application/octet-stream" in requests.
func (h *header) SetNoDefaultContentType(noDefaultContentType bool) {
	h.noDefaultContentType = noDefaultContentType
}
