package sluice

import (
	"fmt"
	"io"
	"net"
	"os"
)

// A Response is an HTTP response: what a handler answers, or what a client
// received.
//
// The zero value is a response with status 200 and no body, ready to use. A
// Response must not be copied (use CopyTo) nor be used by several goroutines at
// once. Slices that its methods return belong to it and are valid until what
// they come from is changed, or the Response is reset or released.
type Response struct {
	noCopy noCopy

	// Header is the status line and the fields. It must not be copied.
	Header ResponseHeader

	// ImmediateHeaderFlush sends the head before the first bytes of a body
	// stream are there.
	ImmediateHeaderFlush bool

	// StreamBody makes reading a response stop behind the head: the body is a
	// stream then, whose reading returns the errors of the body.
	StreamBody bool

	// SkipBody makes reading stop behind the head, and writing leave the body
	// out, as is right for responses to HEAD.
	SkipBody bool

	// KeepBodyBuffer keeps the memory of the body, however large, when the
	// response is reset: for a Response that is used for many responses. Reset
	// and CopyTo leave it as it is; ReleaseResponse and servers clear it.
	KeepBodyBuffer bool

	body
	localAddr, remoteAddr net.Addr
}

// Reset makes the response an empty one. A body stream is closed. Memory of the
// body is kept as SetBodySizePoolLimit and KeepBodyBuffer say.
func (r *Response) Reset() {
	r.Header.Reset()
	r.ResetBody()
	r.ImmediateHeaderFlush = false
	r.StreamBody = false
	r.SkipBody = false
	r.localAddr, r.remoteAddr = nil, nil
}

// resetForServer prepares a response for the next one of a server.
func (r *Response) resetForServer() {
	r.KeepBodyBuffer = false
	r.Reset()
}

// CopyTo makes dst a copy of r that shares no memory with it. Of the settings,
// only SkipBody is copied. A body stream is not; call Body before to have it.
func (r *Response) CopyTo(dst *Response) {
	if r == dst {
		return
	}
	dst.Reset()
	r.Header.CopyTo(&dst.Header)
	dst.SkipBody = r.SkipBody
	dst.localAddr, dst.remoteAddr = r.localAddr, r.remoteAddr
	r.copyBodyTo(&dst.body)
}

// ResetBody makes the body empty.
func (r *Response) ResetBody() { r.clear(r.KeepBodyBuffer, &bodyPoolLimits.response) }

// SetBodyStream makes what stream has, up to its io.EOF, the body. size is its
// length: the response can only be written if there are as many bytes, and no
// more are read. A negative size stands for an unknown length; the body is then
// sent chunked, or to clients of HTTP/1.0 up to the end of the connection.
//
// The stream is closed when it was written, and when the response is reset,
// released or given another body: with CloseWithError if it is a
// ReadCloserWithError, else with Close if it is an io.Closer. See BodyWriterTo
// for streams that have a WriteTo.
func (r *Response) SetBodyStream(stream io.Reader, size int) {
	r.ResetBody()
	r.setStream(stream, size)
	r.Header.SetContentLength(size)
}

// SetBodyStreamWriter makes what sw writes the body, of unknown length as for
// SetBodyStream. sw is called in any case, and after the handler has returned:
// it must not use the RequestCtx.
func (r *Response) SetBodyStreamWriter(sw StreamWriter) {
	r.ResetBody()
	r.setStreamWriter(sw)
	r.Header.SetContentLength(-1)
}

// SendFile makes the file at path the body stream, and sets Last-Modified if it
// is not set. Content-Type is not set. It fails if the file cannot be opened or
// is a directory.
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

// BodyUncompressed returns the body, decoded as Content-Encoding says: gzip,
// deflate, br or zstd. Another coding is ErrContentEncodingUnsupported. A body
// that is not encoded is returned without a copy.
//
// A body that is decoded to more than the response's limit is ErrBodyTooLarge.
// That is the client's MaxResponseBodySize, or what ReadLimitBody was given, and
// stays until ResetBody. A response without one is not bounded: use
// BodyUncompressedWithLimit for bodies of others.
func (r *Response) BodyUncompressed() ([]byte, error) { return r.BodyUncompressedWithLimit(0) }

// BodyUncompressedWithLimit is BodyUncompressed for at most maxBodySize bytes;
// more are ErrBodyTooLarge. maxBodySize <= 0 stands for the limit of
// BodyUncompressed.
func (r *Response) BodyUncompressedWithLimit(maxBodySize int) ([]byte, error) {
	return r.uncompressed(r.Header.ContentEncoding(), maxBodySize)
}

// StatusCode returns the status; 200 if none was set.
func (r *Response) StatusCode() int { return r.Header.StatusCode() }

// SetStatusCode sets the status.
func (r *Response) SetStatusCode(statusCode int) { r.Header.SetStatusCode(statusCode) }

// ConnectionClose tells whether the connection ends after this response.
func (r *Response) ConnectionClose() bool { return r.Header.ConnectionClose() }

// SetConnectionClose makes the connection end after this response.
func (r *Response) SetConnectionClose() { r.Header.SetConnectionClose() }

// ParseNetConn takes over the addresses of the connection that the response
// came from.
func (r *Response) ParseNetConn(conn net.Conn) {
	r.localAddr, r.remoteAddr = conn.LocalAddr(), conn.RemoteAddr()
}

// LocalAddr returns the local address of the connection that the response came
// from, nil if it is not known. It is shared and must not be changed.
func (r *Response) LocalAddr() net.Addr { return r.localAddr }

// RemoteAddr returns the remote address of the connection that the response
// came from, nil if it is not known. It is shared and must not be changed.
func (r *Response) RemoteAddr() net.Addr { return r.remoteAddr }
