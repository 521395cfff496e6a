package fasthttpadaptor

import (
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/sluicehttp/sluice"
)

// ConvertRequest makes r the request that ctx has received. With forServer,
// RequestURI is the target as it was received; without, it is empty, as an
// http.Client wants it. URL is what the target says: of one in origin-form, path
// and query. Set Scheme and Host of URL before an http.Client gets r. The error is
// that of a target which package net/url cannot parse; r is then not changed.
//
// The context of r is ctx. Its body is that of ctx, read while it arrives with
// Server.StreamRequestBody; r.Trailer then has its values when the body was read
// to the end, otherwise at once. Both, unlike the other parts, are valid as long
// as ctx is. A request without forServer that has trailer fields is chunked.
func ConvertRequest(ctx *sluice.RequestCtx, r *http.Request, forServer bool) error {
	body := &requestBody{}
	converted := &http.Request{}
	if err := fillRequest(converted, ctx, body, forServer); err != nil {
		return err
	}
	*r = *converted.WithContext(ctx)
	body.request = r
	return nil
}

// fillRequest sets everything but the context of r, which is zero.
func fillRequest(r *http.Request, ctx *sluice.RequestCtx, body *requestBody, forServer bool) error {
	h := &ctx.Request.Header
	r.Method = methodName(h.Method())
	target := string(h.RequestURI())
	var err error
	if r.URL, err = parseTarget(r.Method, target); err != nil {
		return err
	}
	r.Host = r.URL.Host
	if r.Host == "" {
		r.Host = string(h.Host())
	}
	if forServer {
		r.RequestURI = target
	}
	r.Proto, r.ProtoMajor, r.ProtoMinor = protocolOf(h.Protocol())
	r.Close = h.ConnectionClose()
	r.RemoteAddr = ctx.RemoteAddr().String()
	r.TLS = ctx.TLSConnectionState()
	r.Trailer = announcedTrailers(h)
	r.Header = copyHeader(h)
	fillBody(r, ctx, body)
	if !forServer && r.Trailer != nil && r.Body != http.NoBody { // else a client leaves them out
		r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
	}
	return nil
}

// protocolOf returns the text and the numbers of a protocol. Numbers of what is
// no version of HTTP are those of HTTP/1.1.
func protocolOf(protocol []byte) (text string, major, minor int) {
	switch string(protocol) {
	case "HTTP/1.1":
		return "HTTP/1.1", 1, 1
	case "HTTP/1.0":
		return "HTTP/1.0", 1, 0
	case "HTTP/2":
		return "HTTP/2.0", 2, 0
	}
	text = string(protocol)
	major, minor, ok := http.ParseHTTPVersion(text)
	if !ok {
		return text, 1, 1
	}
	return text, major, minor
}

// methodName returns a method without an allocation if it is a usual one.
func methodName(method []byte) string {
	switch string(method) {
	case http.MethodGet:
		return http.MethodGet
	case http.MethodHead:
		return http.MethodHead
	case http.MethodPost:
		return http.MethodPost
	case http.MethodPut:
		return http.MethodPut
	case http.MethodDelete:
		return http.MethodDelete
	case http.MethodPatch:
		return http.MethodPatch
	case http.MethodOptions:
		return http.MethodOptions
	}
	return string(method)
}

// parseTarget parses a request-target. That of CONNECT is an authority (RFC 9112
// section 3.2.3), which would be taken for a scheme.
func parseTarget(method, target string) (*url.URL, error) {
	if method != http.MethodConnect || strings.HasPrefix(target, "/") {
		return url.ParseRequestURI(target)
	}
	u, err := url.ParseRequestURI("http://" + target)
	if err == nil {
		u.Scheme = ""
	}
	return u, err
}

// announcedTrailers returns the names of the trailer fields, nil if there are
// none.
func announcedTrailers(h *sluice.RequestHeader) http.Header {
	var trailer http.Header
	for name := range h.Trailers() {
		if trailer == nil {
			trailer = http.Header{}
		}
		trailer[textproto.CanonicalMIMEHeaderKey(string(name))] = nil
	}
	return trailer
}

// copyHeader copies the fields that http.Request.Header has: all but those that
// are fields of the http.Request. Names and values are parts of one string.
func copyHeader(h *sluice.RequestHeader) http.Header {
	size, count := 0, 0
	for key, value := range h.All() {
		size += len(key) + len(value)
		count++
	}
	var text strings.Builder
	text.Grow(size)
	for key, value := range h.All() {
		text.Write(key)
		text.Write(value)
	}
	all := text.String()
	header := make(http.Header, count)
	slab := make([]string, 0, count)
	for key, value := range h.All() {
		var name, v string
		name, all = all[:len(key)], all[len(key):]
		v, all = all[:len(value)], all[len(value):]
		name = textproto.CanonicalMIMEHeaderKey(name)
		if isOwnField(name) {
			continue
		}
		if values, ok := header[name]; ok {
			header[name] = append(values, v)
			continue
		}
		slab = append(slab, v)
		header[name] = slab[len(slab)-1 : len(slab) : len(slab)]
	}
	return header
}

// isOwnField tells whether http.Request has a place of its own for a field.
func isOwnField(name string) bool {
	return name == "Host" || name == "Transfer-Encoding" || name == "Trailer"
}
