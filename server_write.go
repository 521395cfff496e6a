package sluice

import (
	"bufio"
	"io"
	"runtime/debug"

	"github.com/sluicehttp/sluice/internal/ascii"
)

// sendStream sends a streamed body, after the head, and closes the stream. It
// sends the bytes of the stream as they arrive. left is the length of the body,
// < 0 if it is unknown; form has it only if the head does.
func (ctx *RequestCtx) sendStream(left int64) bool {
	resp, f := &ctx.Response, &ctx.form
	if s, ok := resp.stream.(*contentStream); ok && f.length == int64(len(s.left)) {
		ok = ctx.exchange.sendData(s.left, true)
		_ = resp.closeStream(nil) // it never fails
		return ok
	}
	if !f.hasTrailers {
		if part, isFile := resp.fileOf(f.length); isFile {
			return ctx.sendFile(part)
		}
	}
	w := bodyWriter{ctx: ctx, left: left}
	err := ctx.copyStream(&w)
	if w.failed {
		_ = resp.endStream(ErrConnectionClosed)
		return false
	}
	if err = resp.endStream(err); err != nil {
		if err != ErrAbortHandler {
			ctx.logStreamError(err)
		}
		return false
	}
	return ctx.exchange.sendData(nil, true)
}

func (ctx *RequestCtx) logStreamError(err error) {
	ctx.cfg.logger.Printf("cannot write the body stream for %q: %v", ctx.exchange.RemoteAddr(), err)
}

// copyStream writes the body stream to w. It returns a panic of the stream as
// an error.
func (ctx *RequestCtx) copyStream(w *bodyWriter) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &ErrBodyStreamWritePanic{cause: panicError(v)}
			ctx.cfg.logger.Printf("%v\n%s", err, debug.Stack())
		}
	}()
	if ctx.Response.ImmediateHeaderFlush && !ctx.exchange.flush() {
		w.failed = true
		return ErrConnectionClosed
	}
	err = w.copyFrom(&ctx.Response)
	if err == nil && w.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// bodyWriter sends the bytes written to it as a part of the body at once.
type bodyWriter struct {
	ctx       *RequestCtx
	left      int64 // of a body of known length; < 0: unknown
	endsEarly bool  // Write returns errSizeReached for bytes beyond the length
	failed    bool  // the connection, not the stream, failed
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
	x := w.ctx.exchange
	if !x.sendData(p, false) || !x.flush() {
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
	size := w.ctx.cfg.streamBufferSize
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
