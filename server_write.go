package sluice

import (
	"io"
	"os"
	"runtime/debug"

	"github.com/sluicehttp/sluice/internal/body"
	http1client "github.com/sluicehttp/sluice/internal/client/http1"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/files"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
)

// sendStream sends the body stream of r by x, after the head f, and closes the stream. It
// sends the bytes of the stream as they arrive. left is the length of the body,
// < 0 if it is unknown; f has it only if the head does.
func (r *Response) sendStream(x server.Exchange, c *serverConfig, f *message.ResponseForm, left int64) bool {
	if s, ok := r.streamed().(*body.Memory); ok && f.Length == int64(len(s.Left)) {
		ok = x.SendData(s.Left, true)
		_ = r.closeStream(nil) // it never fails
		return ok
	}
	if !f.HasTrailers {
		if part, isFile := r.fileOf(f.Length); isFile {
			return r.sendFile(x, c, part)
		}
	}
	w := &bodyWriter{exchange: x}
	w.Sized = body.Sized{To: (*bodySink)(w), Left: left}
	err := w.copyStream(r, c)
	if w.failed {
		_ = r.endStream(ErrConnectionClosed)
		return false
	}
	if err = r.endStream(err); err != nil {
		if err != ErrAbortHandler {
			c.logStreamError(x, err)
		}
		return false
	}
	return x.SendData(nil, true)
}

func (c *serverConfig) logStreamError(x server.Exchange, err error) {
	c.logger.Printf("cannot write the body stream for %q: %v", x.RemoteAddr(), err)
}

// bodyWriter sends the bytes written to it as a part of the body at once. It drops
// those beyond the announced length.
type bodyWriter struct {
	body.Sized
	exchange server.Exchange
	failed   bool // the connection, not the stream, failed
}

// bodySink is what the Sized of a bodyWriter writes to.
type bodySink bodyWriter

// Write implements io.Writer.
func (w *bodySink) Write(p []byte) (int, error) {
	if !w.exchange.SendData(p, false) || !w.exchange.Flush() {
		w.failed = true
		return 0, ErrConnectionClosed
	}
	return len(p), nil
}

// copyStream writes the body stream of resp. It returns a panic of the stream as
// an error. A StreamWriter runs on the handler's goroutine, and its Flush sends to the
// client.
func (w *bodyWriter) copyStream(resp *Response, c *serverConfig) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = message.StreamPanic(v)
			c.logger.Printf("%v\n%s", err, debug.Stack())
		}
	}()
	if resp.ImmediateHeaderFlush && !w.exchange.Flush() {
		w.failed = true
		return ErrConnectionClosed
	}
	if write := resp.inPlace(); write == nil {
		err = w.CopyFrom(resp.takeStream(), w.Left >= 0)
	} else {
		buf := http1client.AcquireWriter(w, c.streamBufferSize)
		defer http1client.ReleaseWriter(buf)
		write(buf)
		err = buf.Flush()
	}
	if err == nil && w.Left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// isFileStream reports whether a body stream consists of files or bytes in
// memory, so that it cannot contain the request's body.
func isFileStream(s io.Reader) bool {
	switch s.(type) {
	case *body.Memory, *files.Part, *files.Ranges, *os.File:
		return true
	}
	return false
}

// fileOf returns the part of a file that contains the first length bytes of the
// body stream. part.Done is the stream, which the receiver of part closes.
// isFile is false if the stream is not a file, or not a regular one, or too
// short, or if length is unknown.
func (b *messageBody) fileOf(length int64) (part engine.File, isFile bool) {
	if length < 0 || b.inPlace() != nil {
		return part, false
	}
	var size int64
	switch s := b.streamed().(type) {
	case *files.Part:
		f, offset, left, ok := s.OSPart()
		if !ok {
			return part, false
		}
		part.Source, part.Offset, size, part.Done = f, offset, left, s
	case *os.File:
		info, err := s.Stat()
		if err != nil || !info.Mode().IsRegular() {
			return part, false
		}
		if part.Offset, err = s.Seek(0, io.SeekCurrent); err != nil {
			return part, false
		}
		// If the user's file is too short, sending it fails.
		part.Source, size, part.Done = s, length, s
	default:
		return part, false
	}
	part.Size = length
	return part, size >= length
}

// sendFile sends a part of a file, which the body stream represents.
func (r *Response) sendFile(x server.Exchange, c *serverConfig, part engine.File) bool {
	if r.ImmediateHeaderFlush && !x.Flush() {
		_ = r.closeStream(ErrConnectionClosed)
		return false
	}
	r.leaveStream()
	err := x.SendFile(part)
	if err != nil && err != ErrConnectionClosed {
		c.logStreamError(x, err)
	}
	return err == nil
}

// SendFile is ServeFile.
func (ctx *RequestCtx) SendFile(path string) { ServeFile(ctx, path) }

// SendFileBytes is ServeFileBytes.
func (ctx *RequestCtx) SendFileBytes(path []byte) { ServeFileBytes(ctx, path) }

// SendFileLiteral is ServeFileLiteral.
func (ctx *RequestCtx) SendFileLiteral(path string) { ServeFileLiteral(ctx, path) }
