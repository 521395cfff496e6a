package sluice

import (
	"fmt"
	"io"
	"net"
	"os"
)

// A Response is an HTTP response, which a handler sends or a client has received.
//
// The zero value is a response with status 200 and no body, ready to use. It owns the
// slices that its methods return; see the package comment. Copy it with CopyTo: a copy by
// assignment takes memory of its own when it is changed, and until then shows the
// original's changes.
type Response struct {
	noCopy noCopy

	// Header is the status line and the fields. It must not be copied.
	Header ResponseHeader

	// ImmediateHeaderFlush makes Write and servers send the head before they
	// read from a body stream.
	ImmediateHeaderFlush bool

	// StreamBody makes reading a response stop after the head. The body is then
	// a stream, and reading the stream returns the errors of the body.
	StreamBody bool

	// SkipBody makes reading stop after the head, and makes writing leave the
	// body out. Set it for responses to HEAD.
	SkipBody bool

	// DecodeBody has a Client or HostClient decode the body; see Client.DecodeResponseBody. Read does not.
	DecodeBody bool

	// OnInterim is called by a client for each interim response that it receives before the
	// final one (RFC 9110 section 15.2), such as 103, except 100 and 101. It runs on the
	// goroutine that sends the request, and must not retain h. nil: they are skipped.
	OnInterim func(h *ResponseHeader)

	// KeepBodyBuffer makes Reset keep the memory of the body, whatever its size;
	// see Request.KeepBodyBuffer.
	KeepBodyBuffer bool

	// strayWriters counts the StreamWriters that were set and have not returned: their
	// goroutines may outlive the response. It only matters in a RequestCtx.
	strayWriters int32

	messageBody
	localAddr, remoteAddr net.Addr
}

// Reset makes the response empty and closes a body stream. SetBodySizePoolLimit
// and KeepBodyBuffer determine whether the memory of the body is kept.
func (r *Response) Reset() {
	r.Header.Reset()
	r.clear(r.KeepBodyBuffer, &bodyPoolLimits.response) // ResetBody, inlined
	r.ImmediateHeaderFlush = false
	r.StreamBody = false
	r.SkipBody = false
	r.DecodeBody = false
	r.OnInterim = nil
	r.localAddr, r.remoteAddr = nil, nil
}

// resetForServer resets r for the next response of a server.
func (r *Response) resetForServer() {
	r.KeepBodyBuffer = false
	r.Reset()
}

// CopyTo makes dst a copy of r that shares no memory with it. Of the settings,
// only SkipBody is copied. A body stream is not copied; to copy its content,
// call Body first.
func (r *Response) CopyTo(dst *Response) {
	if r == dst {
		return
	}
	dst.Reset()
	r.Header.CopyTo(&dst.Header)
	dst.SkipBody = r.SkipBody
	dst.localAddr, dst.remoteAddr = r.localAddr, r.remoteAddr
	r.copyBodyTo(&dst.messageBody)
}

// ResetBody makes the body empty.
func (r *Response) ResetBody() { r.clear(r.KeepBodyBuffer, &bodyPoolLimits.response) }

// SetBodyStream makes the content of stream, up to io.EOF, the body, of size
// bytes; see Request.SetBodyStream. The response owns the stream. A body of
// unknown length, whose size is negative, is sent to clients of HTTP/1.0 up to
// the end of the connection.
func (r *Response) SetBodyStream(stream io.Reader, size int) {
	r.ResetBody()
	r.setStream(stream, size)
	r.Header.SetContentLength(size)
}

// SetBodyStreamWriter makes what sw writes the body. Its length is unknown, unless
// Header.SetContentLength is called afterwards; see SetBodyStream. sw is always
// called, and it is called after the handler has returned: it must not use the
// RequestCtx.
func (r *Response) SetBodyStreamWriter(sw StreamWriter) {
	r.ResetBody()
	r.strayWriters++
	r.setStreamWriter(sw, &r.strayWriters)
	r.Header.SetContentLength(-1)
}

// SendFile makes the file at path the body stream, and sets Last-Modified to
// the time of the file's last change. It does not set Content-Type. It fails if
// the file cannot be opened or is a directory.
func (r *Response) SendFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("sluice: cannot send %q: it is a directory", path)
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	size := info.Size()
	if !info.Mode().IsRegular() {
		size = -1
	}
	r.Header.SetLastModified(info.ModTime())
	r.SetBodyStream(f, streamLength(size))
	return nil
}

// BodyUncompressed is Request.BodyUncompressed. The limit of a response is the client's
// MaxResponseBodySize or the argument of ReadLimitBody.
func (r *Response) BodyUncompressed() ([]byte, error) { return r.BodyUncompressedWithLimit(0) }

// BodyUncompressedWithLimit is Request.BodyUncompressedWithLimit.
func (r *Response) BodyUncompressedWithLimit(maxBodySize int) ([]byte, error) {
	return r.uncompressed(r.Header.ContentEncoding(), maxBodySize)
}

// StatusCode returns the status; 200 if none was set.
func (r *Response) StatusCode() int { return r.Header.StatusCode() }

// SetStatusCode sets the status.
func (r *Response) SetStatusCode(statusCode int) { r.Header.SetStatusCode(statusCode) }

// ConnectionClose reports whether the connection ends after this response.
func (r *Response) ConnectionClose() bool { return r.Header.ConnectionClose() }

// SetConnectionClose makes the connection end after this response.
func (r *Response) SetConnectionClose() { r.Header.SetConnectionClose() }

// ParseNetConn stores the addresses of conn, the connection that the response
// came from, for LocalAddr and RemoteAddr. It does not retain conn.
func (r *Response) ParseNetConn(conn net.Conn) {
	r.localAddr, r.remoteAddr = conn.LocalAddr(), conn.RemoteAddr()
}

// LocalAddr returns the local address of the connection that the response came
// from, nil if it is not known. It must not be changed.
func (r *Response) LocalAddr() net.Addr { return r.localAddr }

// RemoteAddr is LocalAddr for the other end.
func (r *Response) RemoteAddr() net.Addr { return r.remoteAddr }
