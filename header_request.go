package sluice

import (
	"bufio"
	"bytes"
	"io"
	"iter"
	"strconv"

	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/field"
	"github.com/sluicehttp/sluice/internal/h1"
)

// RequestHeader is the head of a request: method, target, version and fields.
//
// The zero value is the head of "GET / HTTP/1.1" without fields. Byte slices
// that methods return belong to the header and must not be changed. They stay
// valid until the header is changed or reset, or its Request is released. A
// RequestHeader must not be copied (use CopyTo) and must not be used by several
// goroutines at once.
//
// The header is always written as one well-formed head, whatever its setters
// were given. A field name that is not a token sets nothing. CR and LF in values
// become spaces; other control characters except HTAB are written as spaces. The
// request-target is percent-encoded where needed.
type RequestHeader struct {
	noCopy noCopy
	header

	// The spans refer to the raw head that was received. The slices hold what was
	// set.
	methodAt, targetAt h1.Span
	fieldsAt           h1.Span // the field lines as they were received
	method, target     []byte
	// isTargetFit: target comes from a URI, which has percent-encoded it.
	isTargetFit bool
}

// Reset makes h the zero value. It keeps memory for the next use.
func (h *RequestHeader) Reset() {
	h.header.reset()
	h.resetStartLine()
}

func (h *RequestHeader) resetStartLine() {
	h.methodAt, h.targetAt, h.fieldsAt = h1.Span{}, h1.Span{}, h1.Span{}
	if len(h.method) > 0 {
		h.method = h.method[:0]
	}
	if len(h.target) > 0 {
		h.target = h.target[:0]
	}
	h.isTargetFit = false
}

// CopyTo makes dst a copy of h that shares no memory with it.
func (h *RequestHeader) CopyTo(dst *RequestHeader) {
	if h == dst {
		return
	}
	h.header.copyTo(&dst.header)
	dst.methodAt, dst.targetAt, dst.fieldsAt = h.methodAt, h.targetAt, h.fieldsAt
	dst.method = append(dst.method[:0], h.method...)
	dst.target = append(dst.target[:0], h.target...)
	dst.isTargetFit = h.isTargetFit
}

// setParsed sets the state from the head that a parser has put into h.table.
func (h *RequestHeader) setParsed(head *h1.Head) {
	h.methodAt, h.targetAt, h.fieldsAt = head.Method, head.Target, head.Fields
	h.header.setParsed(head)
	if !h.isRaw {
		h.table.KeepLast(uint64(lastCountsInRequests))
	}
}

// Method returns the method, "GET" if none was set.
func (h *RequestHeader) Method() []byte {
	if h.methodAt.End == 0 && len(h.method) == 0 {
		h.method = append(h.method, MethodGet...)
	}
	return h.verb()
}

// verb is Method for callers that do not write to the result: all messages may
// share it.
func (h *RequestHeader) verb() []byte {
	switch {
	case h.methodAt.End > 0:
		return h.methodAt.In(h.table.Raw())
	case len(h.method) > 0:
		return h.method
	}
	return textGet
}

// SetMethod sets the method. A method that is not a token (RFC 9110 section
// 9.1) selects the default, GET.
func (h *RequestHeader) SetMethod(method string) { h.SetMethodBytes(ascii.Bytes(method)) }

// SetMethodBytes is SetMethod for bytes.
func (h *RequestHeader) SetMethodBytes(method []byte) {
	if !h1.IsToken(method) {
		method = nil
	}
	h.method = append(h.method[:0], method...)
	h.methodAt = h1.Span{}
}

// isMethod tells whether the method is name. Methods are case-sensitive.
func (h *RequestHeader) isMethod(name string) bool { return string(h.verb()) == name }

// IsGet tells whether the method is GET.
func (h *RequestHeader) IsGet() bool { return h.isMethod(MethodGet) }

// IsHead tells whether the method is HEAD.
func (h *RequestHeader) IsHead() bool { return h.isMethod(MethodHead) }

// IsPost tells whether the method is POST.
func (h *RequestHeader) IsPost() bool { return h.isMethod(MethodPost) }

// IsPut tells whether the method is PUT.
func (h *RequestHeader) IsPut() bool { return h.isMethod(MethodPut) }

// IsDelete tells whether the method is DELETE.
func (h *RequestHeader) IsDelete() bool { return h.isMethod(MethodDelete) }

// IsPatch tells whether the method is PATCH.
func (h *RequestHeader) IsPatch() bool { return h.isMethod(MethodPatch) }

// IsConnect tells whether the method is CONNECT.
func (h *RequestHeader) IsConnect() bool { return h.isMethod(MethodConnect) }

// IsOptions tells whether the method is OPTIONS.
func (h *RequestHeader) IsOptions() bool { return h.isMethod(MethodOptions) }

// IsTrace tells whether the method is TRACE.
func (h *RequestHeader) IsTrace() bool { return h.isMethod(MethodTrace) }

// IsQuery tells whether the method is QUERY.
func (h *RequestHeader) IsQuery() bool { return h.isMethod(MethodQuery) }

// RequestURI returns the request-target (RFC 9112 section 3.2) as it was
// received or set, "/" if there is none.
func (h *RequestHeader) RequestURI() []byte {
	if h.targetAt.End == 0 && len(h.target) == 0 {
		h.target = append(h.target, '/')
	}
	return h.requestTarget()
}

// requestTarget is RequestURI for callers that do not write to the result: all
// messages may share it.
func (h *RequestHeader) requestTarget() []byte {
	switch {
	case h.targetAt.End > 0:
		return h.targetAt.In(h.table.Raw())
	case len(h.target) > 0:
		return h.target
	}
	return textSlash
}

// SetRequestURI sets the request-target, which should be percent-encoded (RFC
// 3986 section 2.1). When the request is written, bytes that a target must not
// contain are encoded, and a fragment is left out. A target that begins with
// "?" gets a "/" before it, because every path begins with one.
func (h *RequestHeader) SetRequestURI(requestURI string) {
	h.SetRequestURIBytes(ascii.Bytes(requestURI))
}

// SetRequestURIBytes is SetRequestURI for bytes.
func (h *RequestHeader) SetRequestURIBytes(requestURI []byte) {
	h.target = h.target[:0]
	if len(requestURI) > 0 && requestURI[0] == '?' {
		h.target = append(h.target, '/')
	}
	h.target = append(h.target, requestURI...)
	h.targetAt = h1.Span{}
	h.isTargetFit = false
}

// setTargetOf makes path and query of uri the target.
func (h *RequestHeader) setTargetOf(uri *URI) {
	h.target = uri.appendRequestURI(h.target[:0])
	h.targetAt = h1.Span{}
	h.isTargetFit = true
}

// SetProtocol sets what Protocol returns. The request is written as HTTP/1.0 if
// protocol is "HTTP/1.0", and as HTTP/1.1 otherwise.
func (h *RequestHeader) SetProtocol(protocol string) { h.setProtocol(ascii.Bytes(protocol)) }

// SetProtocolBytes is SetProtocol for bytes.
func (h *RequestHeader) SetProtocolBytes(protocol []byte) { h.setProtocol(protocol) }

// Host returns the value of the Host field. A request in absolute form may ask
// for another host: see Request.Host.
func (h *RequestHeader) Host() []byte { return h.table.Get(field.Host) }

// SetHost sets the Host field.
func (h *RequestHeader) SetHost(host string) { h.SetHostBytes(ascii.Bytes(host)) }

// SetHostBytes is SetHost for bytes.
func (h *RequestHeader) SetHostBytes(host []byte) { h.setKnown(field.Host, host) }

// UserAgent returns the value of the User-Agent field of the head. If the head
// has none, it returns the field of the trailer section.
func (h *RequestHeader) UserAgent() []byte { return h.get(field.UserAgent) }

// SetUserAgent sets the User-Agent field.
func (h *RequestHeader) SetUserAgent(userAgent string) { h.SetUserAgentBytes(ascii.Bytes(userAgent)) }

// SetUserAgentBytes is SetUserAgent for bytes.
func (h *RequestHeader) SetUserAgentBytes(userAgent []byte) { h.setKnown(field.UserAgent, userAgent) }

// Referer returns the value of the Referer field of the head. If the head has
// none, it returns the field of the trailer section.
func (h *RequestHeader) Referer() []byte { return h.get(field.Referer) }

// SetReferer sets the Referer field.
func (h *RequestHeader) SetReferer(referer string) { h.SetRefererBytes(ascii.Bytes(referer)) }

// SetRefererBytes is SetReferer for bytes.
func (h *RequestHeader) SetRefererBytes(referer []byte) { h.setKnown(field.Referer, referer) }

// ContentType returns the value of the Content-Type field, nil if there is
// none.
func (h *RequestHeader) ContentType() []byte { return h.table.Get(field.ContentType) }

// SetContentLength sets the length of the body in bytes. A negative length
// stands for a chunked body. Writing a Request sets the length from the body.
func (h *RequestHeader) SetContentLength(contentLength int) {
	if contentLength < 0 {
		h.contentLength, h.hasLength = -1, false
		return
	}
	h.showsCoding = false
	h.setLength(contentLength)
}

// SetByteRange sets the Range field to "bytes=startPos-endPos" (RFC 9110
// section 14.2). If startPos is negative, the range is the last -startPos
// bytes. If endPos is negative, the range begins at startPos and has no end.
func (h *RequestHeader) SetByteRange(startPos, endPos int) {
	h.text = strconv.AppendInt(append(h.text[:0], "bytes="...), int64(startPos), 10)
	if startPos >= 0 {
		h.text = append(h.text, '-')
		if endPos >= 0 {
			h.text = ascii.AppendUint(h.text, uint64(endPos))
		}
	}
	h.setKnown(field.Range, h.text)
}

// HasAcceptEncoding tells whether an Accept-Encoding field lists the content
// coding with a weight other than 0 (RFC 9110 section 12.5.3). The comparison
// is case-insensitive. A listed "*" does not count.
func (h *RequestHeader) HasAcceptEncoding(acceptEncoding string) bool {
	return h.HasAcceptEncodingBytes(ascii.Bytes(acceptEncoding))
}

// HasAcceptEncodingBytes is HasAcceptEncoding for bytes.
func (h *RequestHeader) HasAcceptEncodingBytes(acceptEncoding []byte) bool {
	if len(acceptEncoding) == 0 {
		return false
	}
	for i := h.table.Index(field.AcceptEncoding); i >= 0; i = h.table.FindID(field.AcceptEncoding, i+1) {
		if acceptsCoding(h.table.Value(i), acceptEncoding) {
			return true
		}
	}
	return false
}

// acceptsCoding tells whether list, the value of an Accept-Encoding field, lists
// coding with a weight other than 0.
func acceptsCoding(list, coding []byte) bool {
	for more := true; more; {
		var member []byte
		member, list, more = cutByte(list, ',')
		name, parameters, _ := cutByte(member, ';')
		if ascii.EqualFold(ascii.TrimOWS(name), coding) && !hasZeroWeight(parameters) {
			return true
		}
	}
	return false
}

// hasZeroWeight tells whether parameters contain q=0, with or without decimals
// (RFC 9110 section 12.4.2).
func hasZeroWeight(parameters []byte) bool {
	for more := true; more; {
		var parameter []byte
		parameter, parameters, more = cutByte(parameters, ';')
		name, value, _ := cutByte(parameter, '=')
		if !ascii.EqualFold(ascii.TrimOWS(name), "q") {
			continue
		}
		value = ascii.TrimOWS(value)
		return len(value) > 0 && value[0] == '0' && len(bytes.Trim(value[1:], ".0")) == 0
	}
	return false
}

// MultipartFormBoundary returns the boundary of the Content-Type
// "multipart/form-data; boundary=…". It returns nil if the Content-Type is
// another one or has no boundary.
func (h *RequestHeader) MultipartFormBoundary() []byte {
	mediaType, parameters, _ := cutByte(h.ContentType(), ';')
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

// cutFormParameter cuts the first parameter of a media type (RFC 9110 section
// 5.6.6). It is more tolerant than VisitHeaderParams, because many boundaries
// contain characters that require quotes, but are sent without quotes.
func cutFormParameter(parameters []byte) (key, value, rest []byte) {
	equals := bytes.IndexByte(parameters, '=')
	semicolon := bytes.IndexByte(parameters, ';')
	if equals < 0 || 0 <= semicolon && semicolon < equals {
		key, rest, _ = cutByte(parameters, ';')
		return ascii.TrimOWS(key), nil, rest
	}
	key, value = ascii.TrimOWS(parameters[:equals]), ascii.TrimOWS(parameters[equals+1:])
	if len(value) > 0 && value[0] == '"' {
		if end := quotedLength(value[1:]); end >= 0 {
			_, rest, _ = cutByte(value[end+2:], ';')
			return key, value[1 : end+1], rest
		}
	}
	value, rest, _ = cutByte(value, ';')
	return key, ascii.TrimOWS(value), rest
}

// SetMultipartFormBoundary sets the Content-Type to "multipart/form-data;
// boundary=…".
func (h *RequestHeader) SetMultipartFormBoundary(boundary string) {
	h.SetMultipartFormBoundaryBytes(ascii.Bytes(boundary))
}

// SetMultipartFormBoundaryBytes is SetMultipartFormBoundary for bytes. A
// boundary that is not a token is quoted. Quotes and backslashes are then left
// out: a boundary must not contain them (RFC 2046 section 5.1.1).
func (h *RequestHeader) SetMultipartFormBoundaryBytes(boundary []byte) {
	h.text = append(h.text[:0], textMultipartForm...)
	h.text = append(h.text, textMultipartTrailer...)
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
	h.setKnown(field.ContentType, h.text)
}

// DisableSpecialHeader switches off the special treatment of fields. All fields
// are then written in the order in which they were set. A field is repeated only
// if it was added more than once. No field is added, except those that frame
// the body and those that the connection needs. It returns whether the special
// treatment was off before.
func (h *RequestHeader) DisableSpecialHeader() bool { return h.setRaw(true) }

// EnableSpecialHeader switches on the special treatment of fields, which is the
// default; see DisableSpecialHeader. It returns whether the special treatment
// was off before.
func (h *RequestHeader) EnableSpecialHeader() bool { return h.setRaw(false) }

func (h *RequestHeader) setRaw(raw bool) (previous bool) {
	previous = h.isRaw
	h.isRaw = raw
	return previous
}

// Peek returns the value of the first field named key in the head. If the head
// has none, Peek looks in the trailer section. It returns nil if neither has
// the field.
func (h *RequestHeader) Peek(key string) []byte { return h.PeekBytes(ascii.Bytes(key)) }

// PeekBytes is Peek for bytes.
func (h *RequestHeader) PeekBytes(key []byte) []byte { return h.peek(field.Lookup(key), key) }

// PeekCanonical is PeekBytes without normalisation of the key: it finds what
// SetCanonical set with the same key.
func (h *RequestHeader) PeekCanonical(key []byte) []byte { return h.peekCanonical(key) }

// PeekAll returns the values of all fields named key, first those of the head,
// then those of the trailer section. The slice of values is valid until the
// next call of a Peek method.
func (h *RequestHeader) PeekAll(key string) [][]byte {
	return h.peekEvery(field.Lookup(key), ascii.Bytes(key), requestFields)
}

// PeekKeys returns the names of all fields, in the order of All. The slice is
// valid until the next call of a Peek method.
func (h *RequestHeader) PeekKeys() [][]byte {
	h.peeked, h.names = h.peeked[:0], h.names[:0]
	h.visit(func(key, _ []byte) bool {
		h.addPeeked(key)
		return true
	})
	return h.peeked
}

// Len returns the number of fields that All iterates over.
func (h *RequestHeader) Len() int {
	n := 0
	h.visit(func(_, _ []byte) bool {
		n++
		return true
	})
	return n
}

// visit yields the fields: first those that are treated specially, then the
// others in their order.
func (h *RequestHeader) visit(yield func(key, value []byte) bool) bool {
	cookies := h.cookies()
	if h.isRaw {
		return h.visitPlain(framingFields, yield) &&
			visitKnown(field.ContentLength, h.lengthValue(), yield) &&
			h.visitChunked(yield) && visitKnown(field.Trailer, h.announcement(), yield) &&
			h.visitClose(yield)
	}
	return visitKnown(field.Host, h.Host(), yield) &&
		visitKnown(field.ContentLength, h.lengthValue(), yield) &&
		visitKnown(field.ContentType, h.ContentType(), yield) &&
		visitKnown(field.UserAgent, h.table.Get(field.UserAgent), yield) &&
		visitKnown(field.Trailer, h.announcement(), yield) &&
		visitKnown(field.Cookie, cookies, yield) &&
		h.visitChunked(yield) && h.visitPlain(requestFields, yield) && h.visitClose(yield)
}

// All iterates over the fields of the head: Host, Content-Length, Content-Type,
// User-Agent, Trailer and Cookie first, then the others in the order in which
// they were received or added. Trailer lists the names of all trailer fields,
// including those that were received without an announcement. For the trailer
// fields themselves, see Trailers and Peek. The header must not be changed
// during the iteration. For the order on the wire, use AllInOrder.
func (h *RequestHeader) All() iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) { h.visit(yield) }
}

// VisitAll calls f for each field; see All. f must not retain the slices.
//
// Deprecated: Use All.
func (h *RequestHeader) VisitAll(f func(key, value []byte)) { h.visit(visitor(f)) }

// AllInOrder iterates over the fields of a request that was read, in the order
// and with the values that were received. It does not show later changes. The
// name is valid until the next iteration.
func (h *RequestHeader) AllInOrder() iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		raw := h.RawHeaders()
		for len(raw) > 0 {
			line, rest, _ := cutByte(raw, '\n')
			name, value, found := cutByte(bytes.TrimSuffix(line, textCRLF[:1]), ':')
			if !found {
				return // the empty line
			}
			if !h.table.KeepNames {
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
}

// VisitAllInOrder calls f for each field; see AllInOrder. f must not retain the
// slices.
//
// Deprecated: Use AllInOrder.
func (h *RequestHeader) VisitAllInOrder(f func(key, value []byte)) { h.AllInOrder()(visitor(f)) }

// RawHeaders returns the field lines as they were received, with the empty line
// that ends them. It is empty if the head had no field, and nil if no head was
// read.
func (h *RequestHeader) RawHeaders() []byte {
	if h.fieldsAt.End == 0 {
		return nil
	}
	raw := h.fieldsAt.In(h.table.Raw())
	if string(raw) == string(textCRLF) {
		return raw[:0]
	}
	return raw
}

// AppendBytes appends the head to dst in wire format.
func (h *RequestHeader) AppendBytes(dst []byte) []byte { return h.appendHead(dst, h.framing()) }

// Header returns the head in wire format. It does not include the trailer
// section; see TrailerHeader. The result is valid until the next call of Header
// or change of the header.
func (h *RequestHeader) Header() []byte {
	h.text = h.AppendBytes(h.text[:0])
	return h.text
}

// String returns the head in wire format.
func (h *RequestHeader) String() string { return string(h.Header()) }

// Write writes the head to w.
func (h *RequestHeader) Write(w *bufio.Writer) error {
	_, err := w.Write(h.Header())
	return err
}

// WriteTo writes the head to w in one call. It implements io.WriterTo.
func (h *RequestHeader) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(h.Header())
	return int64(n), err
}
