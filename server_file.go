package sluice

import (
	"io"
	"os"
	"slices"

	"github.com/sluicehttp/sluice/internal/engine"
)

// smallFileSize is the size up to which a part of a file is read and appended
// to its head. A larger part is left to the engine. Saving one system call is
// worth as much as copying that many bytes twice (BenchmarkSendFile of
// internal/engine/epoll).
const smallFileSize = 16 << 10

// A fileSource is a body stream that consists of a part of a file. The code
// that sends that part may close the stream without reading it. Reading must
// not have begun.
type fileSource interface {
	io.Closer
	// filePart returns the part of f that is the body. The stream keeps f open
	// until it is closed. The current offset of f does not matter.
	filePart() (f *os.File, offset, size int64)
}

// isFileStream reports whether a body stream consists of files or bytes in
// memory, so that it cannot contain the request's body.
func isFileStream(s io.Reader) bool {
	switch s.(type) {
	case *contentStream, fileSource, *multipartRanges, *os.File:
		return true
	}
	return false
}

// fileOf returns the part of a file that contains the first length bytes of the
// body stream. part.Done is the stream, which the receiver of part closes.
// isFile is false if the stream is not a file, or not a regular one, or too
// short, or if length is unknown.
func (b *body) fileOf(length int64) (part engine.File, isFile bool) {
	if length < 0 || b.streamWriter != nil {
		return part, false
	}
	var size int64
	switch s := b.stream.(type) {
	case fileSource:
		part.Source, part.Offset, size = s.filePart()
		part.Done = s
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
	return part, part.Source != nil && size >= length
}

// writeFile answers with a part of a file, which the body stream represents. It
// appends a small part to the collected bytes. The engine owns any other part
// from now on and sends it after Run; nothing may be written in this Run after
// it.
func (c *serverConn) writeFile(part engine.File) bool {
	resp := &c.ctx.Response
	if part.Size <= smallFileSize {
		return c.readFile(part)
	}
	if resp.ImmediateHeaderFlush && !c.flush() {
		_ = resp.closeStream(ErrConnectionClosed)
		return false
	}
	resp.stream, resp.streamSize = nil, 0 // the engine closes it
	c.countFile(part.Size)
	c.ctx.sendsFile = true
	c.conn.SendFile(part)
	return true
}

// readFile appends a part of a file to the collected bytes, and closes the body
// stream. If the file is too short, the client receives the bytes that exist.
func (c *serverConn) readFile(part engine.File) bool {
	ctx := c.ctx
	head := len(ctx.out)
	ctx.out = slices.Grow(ctx.out, int(part.Size))
	body := ctx.out[head : head+int(part.Size)]
	n, err := part.Source.ReadAt(body, part.Offset)
	ctx.out = ctx.out[:head+n]
	if n == len(body) {
		err = nil
	} else if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err = ctx.Response.closeStream(err); err == nil {
		return true
	}
	c.cfg.logger.Printf("cannot write the body stream for %q: %v", c.conn.RemoteAddr(), err)
	c.flush()
	return false
}
