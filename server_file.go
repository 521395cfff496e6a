package sluice

import (
	"io"
	"os"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/files"
	"github.com/sluicehttp/sluice/internal/transfer"
)

// isFileStream reports whether a body stream consists of files or bytes in
// memory, so that it cannot contain the request's body.
func isFileStream(s io.Reader) bool {
	switch s.(type) {
	case *transfer.Memory, *files.Part, *files.Ranges, *os.File:
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
func (ctx *RequestCtx) sendFile(part engine.File) bool {
	resp := &ctx.Response
	if resp.ImmediateHeaderFlush && !ctx.exchange.Flush() {
		_ = resp.closeStream(ErrConnectionClosed)
		return false
	}
	resp.stream, resp.streamSize = nil, 0
	err := ctx.exchange.SendFile(part)
	if err != nil && err != ErrConnectionClosed {
		ctx.logStreamError(err)
	}
	return err == nil
}
