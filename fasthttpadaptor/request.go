package fasthttpadaptor

import (
	"bytes"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/server/route"
)

// ConvertRequest makes r the request that ctx has received. With forServer,
// RequestURI is the target as it was received. Without forServer it is empty, as
// http.Client requires. URL is parsed from the target; for a target in
// origin-form it has only path and query. Set Scheme and Host of URL before
// passing r to an http.Client. If package net/url cannot parse the target, its
// error is returned and r is not changed.
//
// The context of r is ctx, and the body of r is the body of ctx. Both are valid
// only as long as ctx; the other parts of r are copies. Reading the body of r does
// not change that of ctx: with Server.StreamRequestBody, ConvertRequest first reads
// the body into memory, within MaxRequestBodySize. If that fails, its error is
// returned and r is not changed. Without forServer, a request that has trailer
// fields and a body is chunked.
func ConvertRequest(ctx *sluice.RequestCtx, r *http.Request, forServer bool) error {
	if _, isForm := ctx.RequestBodyStream().(*bytes.Reader); !isForm {
		_ = ctx.Request.Body()
		if err := ctx.Request.BodyWriteTo(io.Discard); err != nil { // that of reading
			return err
		}
	}
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
		setRoute(r, ctx)
	}
	r.Proto, r.ProtoMajor, r.ProtoMinor = protocolOf(h.Protocol())
	if r.ProtoMajor == 3 && isGRPC(h.ContentType()) {
		r.Proto, r.ProtoMajor = "HTTP/2.0", 2 // handlers of gRPC refuse others, and the two differ in nothing they see
	}
	r.Close = h.ConnectionClose()
	r.RemoteAddr = ctx.RemoteAddr().String()
	r.TLS = ctx.TLSConnectionState()
	r.Trailer = announcedTrailers(h)
	r.Header = copyHeader(h)
	fillBody(r, ctx, body)
	// A client sends trailer fields only with a chunked body.
	if !forServer && r.Trailer != nil && r.Body != http.NoBody {
		r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
	}
	return nil
}

// setRoute sets the pattern and the parameters of the route of package router.
func setRoute(r *http.Request, ctx *sluice.RequestCtx) {
	m, ok := ctx.UserValue(route.Key{}).(*route.Match)
	if !ok {
		return
	}
	r.Pattern = m.Pattern()
	for _, name := range m.Names() {
		value, _ := m.Param(name)
		r.SetPathValue(name, string(value))
	}
}

// protocolOf returns the text and the version numbers of a protocol. For a text
// that is not a version of HTTP, the numbers are 1 and 1.
func protocolOf(protocol []byte) (text string, major, minor int) {
	switch string(protocol) {
	case "HTTP/1.1":
		return "HTTP/1.1", 1, 1
	case "HTTP/1.0":
		return "HTTP/1.0", 1, 0
	case "HTTP/2.0", "HTTP/2":
		return "HTTP/2.0", 2, 0
	case "HTTP/3.0", "HTTP/3":
		return "HTTP/3.0", 3, 0
	}
	text = string(protocol)
	major, minor, ok := http.ParseHTTPVersion(text)
	if !ok {
		return text, 1, 1
	}
	return text, major, minor
}

// isGRPC reports whether a Content-Type is that of gRPC, which grpc-web's is not.
func isGRPC(contentType []byte) bool {
	const own = "application/grpc"
	if len(contentType) < len(own) || !strings.EqualFold(string(contentType[:len(own)]), own) {
		return false
	}
	rest := contentType[len(own):]
	return len(rest) == 0 || rest[0] == '+' || rest[0] == ';'
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

// parseTarget parses a request-target. The target of CONNECT is an authority
// (RFC 9112 section 3.2.3), the host of which net/url would parse as a scheme.
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

// copyHeader returns a copy of all fields, except those that http.Request has
// as fields of its own. Names and values are parts of one string.
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

// isOwnField reports whether http.Request holds the field outside of its Header.
func isOwnField(name string) bool {
	return name == "Host" || name == "Transfer-Encoding" || name == "Trailer"
}
