package sluice

import (
	"bufio"
	"io"
	"runtime/debug"

	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/h1"
)

// copyLimit is the size up to which a body is copied after its head. A larger
// body is not copied: one system call writes head and body.
const copyLimit = 4 << 10

// flush writes the collected bytes. It reports whether the connection still
// works.
func (c *serverConn) flush() bool {
	ctx := c.ctx
	if len(ctx.out) == 0 {
		return true
	}
	n, err := c.conn.Write(ctx.out)
	c.countWritten(n)
	ctx.out = ctx.out[:0]
	return c.wrote(err)
}

// wrote reports whether a write succeeded. It stores and logs the error,
// because the engine does not receive it.
func (c *serverConn) wrote(err error) bool {
	if err == nil {
		return true
	}
	c.cfg.fail(err)
	if c.cfg.logsAllErrors {
		c.logError(err)
	}
	return false
}

// writeBody appends a small body to the collected bytes. It writes a large one
// after them without copying it.
func (c *serverConn) writeBody(body []byte) bool {
	ctx := c.ctx
	if len(body) <= copyLimit {
		ctx.out = append(ctx.out, body...)
		return true
	}
	ctx.vector[0], ctx.vector[1] = ctx.out, body
	ctx.buffers = ctx.vector[:]
	n, err := c.conn.WriteBuffers(&ctx.buffers)
	c.countWritten(int(n))
	ctx.vector[0], ctx.vector[1] = nil, nil
	ctx.out = ctx.out[:0]
	return c.wrote(err)
}

// writeStream writes a streamed body and closes the stream. It sends the bytes
// of the stream as they arrive. The engine sends and closes a large file after
// Run.
func (c *serverConn) writeStream(f bodyFraming, sendsBody bool) (ok bool) {
	ctx := c.ctx
	resp := &ctx.Response
	if !sendsBody {
		_ = resp.endStream(nil) // the response is complete without it
		return true
	}
	if s, ok := resp.stream.(*contentStream); ok && f.length == int64(len(s.left)) {
		ok = c.writeBody(s.left)
		_ = resp.closeStream(nil) // it never fails
		return ok
	}
	if part, isFile := resp.fileOf(f.length); isFile {
		return c.writeFile(part)
	}
	w := bodyWriter{c: c, left: f.length, isChunked: f.length == -1}
	if w.isChunked {
		w.left = int64(resp.streamSize) // may be known, if trailer fields make it chunked
	}
	err := c.copyStream(&w)
	if w.failed {
		_ = resp.endStream(ErrConnectionClosed)
		return false
	}
	if err = resp.endStream(err); err != nil {
		if err != ErrAbortHandler {
			c.cfg.logger.Printf("cannot write the body stream for %q: %v", c.conn.RemoteAddr(), err)
		}
		return false
	}
	if w.isChunked {
		ctx.out = append(ctx.out, h1.LastChunk...)
		ctx.out = resp.Header.appendTrailers(ctx.out)
	}
	return true
}

// copyStream writes the body stream to w. It returns a panic of the stream as
// an error.
func (c *serverConn) copyStream(w *bodyWriter) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &ErrBodyStreamWritePanic{cause: panicError(v)}
			c.cfg.logger.Printf("%v\n%s", err, debug.Stack())
		}
	}()
	resp := &c.ctx.Response
	if resp.ImmediateHeaderFlush && !c.flush() {
		w.failed = true
		return ErrConnectionClosed
	}
	err = w.copyFrom(resp)
	if err == nil && w.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// bodyWriter frames the bytes written to it as a part of the body, and sends
// them at once, after the bytes that were collected before.
type bodyWriter struct {
	c         *serverConn
	left      int64 // of a body of known length; < 0: unknown
	isChunked bool
	endsEarly bool // Write returns errSizeReached for bytes beyond the length
	failed    bool // the connection, not the stream, failed
}

// Write implements io.Writer. It drops bytes beyond the announced length; with
// endsEarly it returns errSizeReached for them.
func (w *bodyWriter) Write(p []byte) (n int, err error) {
	n = len(p)
	if w.left >= 0 && int64(n) > w.left {
		p = p[:w.left]
		if w.endsEarly {
			n, err = len(p), errSizeReached
		}
	}
	if len(p) == 0 {
		return n, err
	}
	ctx := w.c.ctx
	if w.isChunked {
		ctx.out = h1.AppendChunkHead(ctx.out, len(p))
	}
	ok := w.c.writeBody(p)
	if ok && w.isChunked {
		ctx.out = append(ctx.out, "\r\n"...)
	}
	if ok {
		ok = w.c.flush()
	}
	if !ok {
		w.failed = true
		return 0, ErrConnectionClosed
	}
	if w.left >= 0 {
		w.left -= int64(len(p))
	}
	return n, err
}

// WriteString implements io.StringWriter.
func (w *bodyWriter) WriteString(s string) (int, error) { return w.Write(ascii.Bytes(s)) }

// copyFrom writes the whole stream of resp. A StreamWriter runs on the
// handler's goroutine, and its Flush sends to the client.
func (w *bodyWriter) copyFrom(resp *Response) error {
	size := w.c.cfg.streamBufferSize
	if write := resp.streamWriter; write != nil {
		buf := acquireStreamWriter(w, size)
		defer releaseStreamWriter(buf, size)
		write(buf)
		return buf.Flush()
	}
	stream := resp.takeStream()
	if to, ok := bodyWriterTo(stream, w.left >= 0); ok {
		w.endsEarly = true
		if _, err := to.WriteTo(w); err != errSizeReached {
			return err
		}
		return nil
	}
	buf := acquireCopyBuffer()
	defer releaseCopyBuffer(buf)
	for w.left != 0 {
		n, err := stream.Read(*buf)
		if n > 0 {
			if _, err := w.Write((*buf)[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// acquireStreamWriter returns a buffered writer for a StreamWriter. Only
// writers of 4096 bytes are pooled.
func acquireStreamWriter(w io.Writer, size int) *bufio.Writer {
	if size == 4096 {
		if v := streamWriterPool.Get(); v != nil {
			bw := v.(*bufio.Writer)
			bw.Reset(w)
			return bw
		}
	}
	return bufio.NewWriterSize(w, size)
}

func releaseStreamWriter(w *bufio.Writer, size int) {
	if size == 4096 {
		w.Reset(nil)
		streamWriterPool.Put(w)
	}
}
