package sluice

import (
	"io"
	"time"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/uri"
)

// Write appends p to the response's body. It implements io.Writer. The error is
// ErrTakenOver after websocket.Endpoint.Upgrade, sse.Hub.Serve and their like, otherwise nil.
func (ctx *RequestCtx) Write(p []byte) (int, error) {
	if ctx.isTakenOver() {
		return 0, ErrTakenOver
	}
	ctx.Response.AppendBody(p)
	return len(p), nil
}

// WriteString is Write with a string.
func (ctx *RequestCtx) WriteString(s string) (int, error) {
	if ctx.isTakenOver() {
		return 0, ErrTakenOver
	}
	ctx.Response.AppendBodyString(s)
	return len(s), nil
}

// SetBody sets the response's body to a copy of body.
func (ctx *RequestCtx) SetBody(body []byte) { ctx.Response.SetBody(body) }

// SetBodyString sets the response's body.
func (ctx *RequestCtx) SetBodyString(body string) { ctx.Response.SetBodyString(body) }

// ResetBody empties the response's body.
func (ctx *RequestCtx) ResetBody() { ctx.Response.ResetBody() }

// SetBodyStream sets the response's body to what bodyStream returns; see
// Response.SetBodyStream. bodySize < 0 means until io.EOF. The server closes
// bodyStream afterwards if it is an io.Closer.
func (ctx *RequestCtx) SetBodyStream(bodyStream io.Reader, bodySize int) {
	ctx.Response.SetBodyStream(bodyStream, bodySize)
}

// SetBodyStreamWriter makes sw write the response's body after the handler has
// returned, on the same goroutine. The Flush of sw's writer sends the buffered
// bytes to the client at once, and returns an error when the client has
// disconnected. sw must not use ctx, only values that the handler took from it
// before.
func (ctx *RequestCtx) SetBodyStreamWriter(sw StreamWriter) { ctx.Response.SetBodyStreamWriter(sw) }

// SetConnectionClose makes the server close the connection after this response.
func (ctx *RequestCtx) SetConnectionClose() { ctx.Response.SetConnectionClose() }

// SetStatusCode sets the response's status; 200 is the default.
func (ctx *RequestCtx) SetStatusCode(statusCode int) { ctx.Response.SetStatusCode(statusCode) }

// SetContentType sets the response's Content-Type.
func (ctx *RequestCtx) SetContentType(contentType string) {
	ctx.Response.Header.SetContentType(contentType)
}

// SetContentTypeBytes sets the response's Content-Type.
func (ctx *RequestCtx) SetContentTypeBytes(contentType []byte) {
	ctx.Response.Header.SetContentTypeBytes(contentType)
}

// Success sets Content-Type and body of the response.
func (ctx *RequestCtx) Success(contentType string, body []byte) {
	ctx.SetContentType(contentType)
	ctx.SetBody(body)
}

// SuccessString sets Content-Type and body of the response.
func (ctx *RequestCtx) SuccessString(contentType, body string) {
	ctx.SetContentType(contentType)
	ctx.SetBodyString(body)
}

// Error replaces the response with one that has the given status, the type
// text/plain and the body msg.
func (ctx *RequestCtx) Error(msg string, statusCode int) {
	ctx.replaceResponse(statusCode)
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString(msg)
}

// NotFound replaces the response with a 404.
func (ctx *RequestCtx) NotFound() {
	ctx.replaceResponse(StatusNotFound)
	ctx.SetBodyString("404 Page not found")
}

// NotModified replaces the response with a 304 without a body.
func (ctx *RequestCtx) NotModified() { ctx.replaceResponse(StatusNotModified) }

// IfModifiedSince reports whether lastModified is after the time in the
// If-Modified-Since field. It also returns true if the field is absent or
// invalid (RFC 9110 section 13.1.3).
func (ctx *RequestCtx) IfModifiedSince(lastModified time.Time) bool {
	since := ctx.Request.Header.head().Get(field.IfModifiedSince)
	if len(since) == 0 {
		return true
	}
	t, err := ParseHTTPDate(since)
	if err != nil {
		return true
	}
	return t.Before(lastModified.Truncate(time.Second))
}

// Redirect resolves location, which may be relative, against the request's URI,
// sets Location to the result, and sets the status to statusCode. The status is
// 302 if statusCode is none of 301, 302, 303, 307 and 308. A URI with a scheme and
// without "//", such as mailto:x, is sent unchanged, its line ends as spaces; one
// that URI.Update refuses becomes "http:///". Line ends in a query or a fragment alone
// are spaces.
func (ctx *RequestCtx) Redirect(location string, statusCode int) {
	ctx.RedirectBytes(ascii.Bytes(location), statusCode)
}

// RedirectBytes is Redirect with a []byte.
func (ctx *RequestCtx) RedirectBytes(location []byte, statusCode int) {
	if !uri.IsOpaque(location) {
		u := AcquireURI()
		defer ReleaseURI(u)
		ctx.URI().CopyTo(u)
		if ascii.HasCTL(location) && (location[0] == '?' || location[0] == '#') {
			location = h1.AppendFieldValue(nil, location)
		}
		u.UpdateBytes(location)
		location = u.FullURI()
	}
	ctx.Response.Header.SetBytesV(HeaderLocation, location)
	if !StatusCodeIsRedirect(statusCode) {
		statusCode = StatusFound
	}
	ctx.SetStatusCode(statusCode)
}
