package message

import (
	"bytes"
	"math"
	"strconv"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// RequestHeader is the head of a request. The zero value is the head of "GET /
// HTTP/1.1" without fields.
type RequestHeader struct {
	Header

	// The spans refer to the raw head that was received. The slices hold what was
	// set.
	methodAt, targetAt h1.Span
	fieldsAt           h1.Span // the field lines as they were received
	connectAt          h1.Span // :protocol of HTTP/2
	method, target     []byte
	// isTargetFit: target is percent-encoded.
	isTargetFit bool
	isForwarded bool        // see IsForwarded
	isLent      bool        // LendOrigin was called, and TakeBack was not
	owner       field.Owner // of method and target
}

// Reset makes h the zero value. It keeps memory for the next use.
func (h *RequestHeader) Reset() {
	h.leave()
	h.reset()
	h.resetStartLine()
}

// ResetMessage empties the header before a message is read. It keeps the
// settings.
func (h *RequestHeader) ResetMessage() {
	h.leave()
	h.resetMessage()
	h.resetStartLine()
}

func (h *RequestHeader) resetStartLine() { // it writes to no memory that a copy shares
	h.methodAt, h.targetAt, h.fieldsAt, h.connectAt = h1.Span{}, h1.Span{}, h1.Span{}, h1.Span{}
	h.method, h.target = h.method[:0], h.target[:0]
	h.isTargetFit, h.isForwarded = false, false
}

// ownStartLine gives a header that was copied by assignment memory of its own for what is
// set of the start line, before a change.
func (h *RequestHeader) ownStartLine() {
	if !h.owner.Owns() { // the first change
		h.claimStartLine()
	}
}

func (h *RequestHeader) claimStartLine() {
	if h.owner.IsCopy() {
		h.method, h.target = bytes.Clone(h.method), bytes.Clone(h.target)
	}
}

// Moved makes h, a copy by assignment, own the memory that the other header gives up.
func (h *RequestHeader) Moved() {
	h.owner.Moved()
	h.Header.Moved()
}

// CopyTo makes dst, which is not h, a copy of h that shares no memory with it.
func (h *RequestHeader) CopyTo(dst *RequestHeader) {
	dst.leave()
	dst.ownStartLine()
	h.copyTo(&dst.Header)
	dst.methodAt, dst.targetAt, dst.fieldsAt, dst.connectAt = h.methodAt, h.targetAt, h.fieldsAt, h.connectAt
	replace(&dst.method, h.method)
	replace(&dst.target, h.target)
	dst.isTargetFit, dst.isForwarded = h.isTargetFit, h.isForwarded
}

// SetParsed sets the state from the head that a parser has put into h.Table.
func (h *RequestHeader) SetParsed(head *h1.Head) {
	h.methodAt, h.targetAt, h.fieldsAt = head.Method, head.Target, head.Fields
	h.setParsed(head)
	if !h.isRaw {
		h.Table.Join(field.ContentEncoding)
		h.Table.KeepLast(uint64(lastCountsInRequests))
	}
}

// SetConnect makes protocol, a range of the received head, what Connect returns.
func (h *RequestHeader) SetConnect(protocol h1.Span) { h.connectAt = protocol }

// Connect returns :protocol of an extended CONNECT (RFC 8441 section 4) as it was
// received.
func (h *RequestHeader) Connect() []byte { return h.connectAt.In(h.Table.Raw()) }

// OwnMethod is Method with a result that belongs to h: callers that write to it
// change no other message.
func (h *RequestHeader) OwnMethod() []byte {
	h.ownStartLine()
	if h.methodAt.End == 0 && len(h.method) == 0 {
		h.method = append(h.method, textGet...)
	}
	return h.Method()
}

// Method returns the method, "GET" if none was set. All messages may share the
// result.
func (h *RequestHeader) Method() []byte {
	switch {
	case h.methodAt.End > 0:
		return h.methodAt.In(h.Table.Raw())
	case len(h.method) > 0:
		return h.method
	}
	return textGet
}

// SetMethod sets the method. A method that is not a token selects GET.
func (h *RequestHeader) SetMethod(method []byte) {
	if !h1.IsToken(method) {
		method = nil
	}
	h.ownStartLine()
	h.method = append(h.method[:0], method...)
	h.methodAt = h1.Span{}
}

// IsMethod reports whether the method is name. Methods are case-sensitive.
func (h *RequestHeader) IsMethod(name string) bool { return string(h.Method()) == name }

// OwnTarget is Target with a result that belongs to h.
func (h *RequestHeader) OwnTarget() []byte {
	h.ownStartLine()
	if h.targetAt.End == 0 && len(h.target) == 0 {
		h.target = append(h.target, '/')
	}
	return h.Target()
}

// Target returns the request-target as it was received or set, "/" if there is
// none. All messages may share the result.
func (h *RequestHeader) Target() []byte {
	switch {
	case h.targetAt.End > 0:
		return h.targetAt.In(h.Table.Raw())
	case len(h.target) > 0:
		return h.target
	}
	return textSlash
}

// IsTargetReceived reports whether the target is in the raw head.
func (h *RequestHeader) IsTargetReceived() bool { return h.targetAt.End > 0 }

// IsForwarded reports whether ForwardTo has made h: a proxy changes neither path nor query of
// the target (RFC 9110 section 7.7).
func (h *RequestHeader) IsForwarded() bool { return h.isForwarded }

// LendOrigin returns the target, which begins with "/", and the Host, nil if there is none.
// ok is false if one of them was set, or the target has another form: a parser has checked
// what is in the raw head. The bytes stay as they are until TakeBack: a header that is reset
// before has new memory for its next use.
func (h *RequestHeader) LendOrigin() (host, target []byte, ok bool) {
	if h.targetAt.End == 0 {
		return nil, nil, false
	}
	target = h.targetAt.In(h.Table.Raw())
	host, ok = h.Table.RawValue(field.Host)
	ok = ok && target[0] == '/'
	h.isLent = h.isLent || ok
	return host, target, ok
}

// HasOrigin reports whether the head was received with a target that begins with "/", and with a
// Host that is not empty.
func (h *RequestHeader) HasOrigin() bool {
	host, isReceived := h.Table.RawValue(field.Host)
	return h.targetAt.End > 0 && isReceived && len(host) > 0 && h.Target()[0] == '/'
}

// TakeBack ends what LendOrigin began.
func (h *RequestHeader) TakeBack() { h.isLent = false }

// leave gives up the memory that is lent.
func (h *RequestHeader) leave() {
	if h.isLent {
		h.Table.Shrink(0, math.MaxInt)
		h.isLent = false
	}
}

// SetTarget sets the request-target. One that begins with "?" gets a "/" before
// it.
func (h *RequestHeader) SetTarget(target []byte) {
	h.ownStartLine()
	h.target = h.target[:0]
	if len(target) > 0 && target[0] == '?' {
		h.target = append(h.target, '/')
	}
	h.target = append(h.target, target...)
	h.targetAt = h1.Span{}
	h.isTargetFit = false
}

// TargetRoom returns memory of h for SetFitTarget.
func (h *RequestHeader) TargetRoom() []byte {
	h.ownStartLine()
	return h.target[:0]
}

// SetFitTarget makes target, which is percent-encoded, the target. h owns it from
// now on.
func (h *RequestHeader) SetFitTarget(target []byte) {
	h.ownStartLine()
	h.target = target
	h.targetAt = h1.Span{}
	h.isTargetFit = true
}

// Host returns the value of the Host field.
func (h *RequestHeader) Host() []byte { return h.Table.Get(field.Host) }

// SetContentLength sets the length of the body. A negative one stands for a
// chunked body.
func (h *RequestHeader) SetContentLength(n int) {
	if n < 0 {
		h.ContentLength, h.HasLength = -1, false
		return
	}
	h.showsCoding = false
	h.setLength(n)
}

// SettleChunked gives an empty chunked body that was read the length 0, unless
// it has trailers: it does not differ from a body of length 0 then.
func (h *RequestHeader) SettleChunked(length int) {
	if length == 0 && h.ContentLength == -1 && !h.HasTrailers() {
		h.setLength(0)
	}
}

// SettleLength sets the length of a request without Content-Length and
// Transfer-Encoding to 0, since it has no body (RFC 9112 section 6.3). fasthttp
// does that too, and handlers test for length 0. GET and HEAD usually have no
// body and stay without a length.
func (h *RequestHeader) SettleLength() {
	if h.ContentLength != -2 {
		return
	}
	switch string(h.Method()) {
	case "GET", "HEAD":
	default:
		h.setLength(0)
	}
}

// SetByteRange sets the Range field; see sluice.RequestHeader.SetByteRange.
func (h *RequestHeader) SetByteRange(startPos, endPos int) {
	h.text = strconv.AppendInt(append(h.text[:0], "bytes="...), int64(startPos), 10)
	if startPos >= 0 {
		h.text = append(h.text, '-')
		if endPos >= 0 {
			h.text = ascii.AppendUint(h.text, uint64(endPos))
		}
	}
	h.SetKnown(field.Range, h.text)
}

// Accepts reports whether an Accept-Encoding field lists coding with a weight
// other than 0.
func (h *RequestHeader) Accepts(coding []byte) bool {
	if len(coding) == 0 {
		return false
	}
	for i := h.Table.Index(field.AcceptEncoding); i >= 0; i = h.Table.FindID(field.AcceptEncoding, i+1) {
		if acceptsCoding(h.Table.Value(i), coding) {
			return true
		}
	}
	return false
}

// acceptsCoding reports whether list, the value of an Accept-Encoding field, lists
// coding with a weight other than 0.
func acceptsCoding(list, coding []byte) bool {
	for more := true; more; {
		var member []byte
		member, list, more = ascii.Cut(list, ',')
		name, parameters, _ := ascii.Cut(member, ';')
		if ascii.EqualFold(ascii.TrimOWS(name), coding) && !hasZeroWeight(parameters) {
			return true
		}
	}
	return false
}

// hasZeroWeight reports whether parameters contain q=0, with or without decimals
// (RFC 9110 section 12.4.2).
func hasZeroWeight(parameters []byte) bool {
	for more := true; more; {
		var parameter []byte
		parameter, parameters, more = ascii.Cut(parameters, ';')
		name, value, _ := ascii.Cut(parameter, '=')
		if !ascii.EqualFold(ascii.TrimOWS(name), "q") {
			continue
		}
		value = ascii.TrimOWS(value)
		return len(value) > 0 && value[0] == '0' && len(bytes.Trim(value[1:], ".0")) == 0
	}
	return false
}

// MultipartBoundary returns the boundary of the Content-Type
// "multipart/form-data; boundary=…", nil if that is not the Content-Type.
func (h *RequestHeader) MultipartBoundary() []byte {
	mediaType, parameters, _ := ascii.Cut(h.Table.Get(field.ContentType), ';')
	if !ascii.EqualFold(ascii.TrimOWS(mediaType), textMultipartForm) {
		return nil
	}
	for len(parameters) > 0 {
		var key, value []byte
		key, value, parameters = cutFormParameter(parameters)
		if ascii.EqualFold(key, "boundary") {
			return value
		}
	}
	return nil
}

// SetMultipartBoundary sets the Content-Type to "multipart/form-data;
// boundary=…". A boundary that is not a token is quoted. Quotes and backslashes
// are then left out: a boundary must not contain them (RFC 2046 section 5.1.1).
func (h *RequestHeader) SetMultipartBoundary(boundary []byte) {
	h.text = append(h.text[:0], textMultipartForm...)
	h.text = append(h.text, "; boundary="...)
	if h1.IsToken(boundary) {
		h.text = append(h.text, boundary...)
	} else {
		h.text = append(h.text, '"')
		for _, c := range boundary {
			if c != '"' && c != '\\' {
				h.text = append(h.text, c)
			}
		}
		h.text = append(h.text, '"')
	}
	h.SetKnown(field.ContentType, h.text)
}

// SetRaw switches the special treatment of fields off or on, and reports whether
// it was off before.
func (h *RequestHeader) SetRaw(raw bool) (previous bool) {
	previous = h.isRaw
	h.isRaw = raw
	return previous
}

// PeekAll returns the values of all fields named key, first those of the head,
// then those of the trailer section.
func (h *RequestHeader) PeekAll(key []byte) [][]byte {
	return h.peekEvery(field.Lookup(key), key, requestFields)
}

// PeekKeys returns the names that Visit yields.
func (h *RequestHeader) PeekKeys() [][]byte {
	h.peeked, h.names = h.peeked[:0], h.names[:0]
	h.Visit(func(key, _ []byte) bool {
		h.addPeeked(key)
		return true
	})
	return h.peeked
}

// Len returns the number of fields that Visit yields.
func (h *RequestHeader) Len() int {
	n := 0
	h.Visit(func(_, _ []byte) bool {
		n++
		return true
	})
	return n
}

// Visit yields the fields: first those that are treated specially, then the
// others in their order. It returns false if yield returned false.
func (h *RequestHeader) Visit(yield func(key, value []byte) bool) bool {
	cookies := h.cookies()
	if h.isRaw {
		return h.visitPlain(framingFields, yield) &&
			visitKnown(field.ContentLength, h.lengthValue(), yield) &&
			h.visitChunked(yield) && visitKnown(field.Trailer, h.announcement(), yield) &&
			h.visitClose(yield)
	}
	return visitKnown(field.Host, h.Host(), yield) &&
		visitKnown(field.ContentLength, h.lengthValue(), yield) &&
		visitKnown(field.ContentType, h.Table.Get(field.ContentType), yield) &&
		visitKnown(field.UserAgent, h.Table.Get(field.UserAgent), yield) &&
		visitKnown(field.Trailer, h.announcement(), yield) &&
		visitKnown(field.Cookie, cookies, yield) &&
		h.visitChunked(yield) && h.visitPlain(requestFields, yield) && h.visitClose(yield)
}

// VisitReceived yields the fields of a request that was read, in the order and
// with the values that were received.
func (h *RequestHeader) VisitReceived(yield func(key, value []byte) bool) {
	raw := h.RawFields()
	for len(raw) > 0 {
		line, rest, _ := ascii.Cut(raw, '\n')
		name, value, found := ascii.Cut(bytes.TrimSuffix(line, textCRLF[:1]), ':')
		if !found {
			return // the empty line
		}
		if !h.Table.KeepNames {
			h.text = append(h.text[:0], name...)
			field.Normalize(h.text)
			name = h.text
		}
		if !yield(name, ascii.TrimOWS(value)) {
			return
		}
		raw = rest
	}
}

// RawFields returns the field lines as they were received, with the empty line
// that ends them: empty if the head had no field, nil if no head was read.
func (h *RequestHeader) RawFields() []byte {
	if h.fieldsAt.End == 0 {
		return nil
	}
	raw := h.fieldsAt.In(h.Table.Raw())
	if string(raw) == string(textCRLF) {
		return raw[:0]
	}
	return raw
}

// Head returns the head in wire format, in memory of h.
func (h *RequestHeader) Head() []byte {
	h.text = h.AppendHead(h.text[:0], h.Framing())
	return h.text
}
