package sluice

import (
	"io"
	"os"
	"slices"

	"github.com/sluicehttp/sluice/internal/engine"
)

// smallFileSize is the size up to which a part of a file is read behind its head
// instead of being left to the engine: one system call less is worth as much as
// copying so much twice (BenchmarkSendFile of internal/engine/epoll).
const smallFileSize = 16 << 10

// A fileSource is a body stream that is nothing but a part of a file: whoever
// sends that part may close the stream without having read it. Reading must not
// have begun.
type fileSource interface {
	io.Closer
	// filePart returns where the body is. The stream keeps f open until it is
	// closed, and the offset of f is not looked at.
	filePart() (f *os.File, offset, size int64)
}

// isFileStream tells whether a body stream is made of files or bytes in memory, and
// so not of the request's body.
func isFileStream(s io.Reader) bool {
	switch s.(type) {
	case *contentStream, fileSource, *multipartRanges, *os.File:
		return true
	}
	return false
}

// fileOf returns the part of a file that the first length bytes of the body
// stream are, to be closed by the response's Done, which is the stream. It
// returns false if they are none: not a file, not a regular one, too short, or
// of unknown length.
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
		// What is missing of a user's file is found when it is sent.
		part.Source, size, part.Done = s, length, s
	default:
		return part, false
	}
	part.Size = length
	return part, part.Source != nil && size >= length
}

// writeFile answers with a part of a file, which the body stream stands for. A
// small one is appended to what was collected; the others are the engine's from
// now on, and this is the last that is written in a Run.
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

// readFile appends a part of a file to what was collected, and closes the body
// stream. Of a file that is too short, the client gets what there is.
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
