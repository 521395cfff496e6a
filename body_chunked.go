package sluice

import (
	"bufio"
	"io"

	"github.com/sluicehttp/sluice/internal/h1"
)

// trailerReader reads the trailer section after a chunked body from r. Both
// header types implement it.
type trailerReader interface {
	ReadTrailer(r *bufio.Reader) error
}

// chunkedReader decodes a chunked body (RFC 9112 section 7.1). At the end of
// the body, trailer reads the trailer section.
type chunkedReader struct {
	r       *bufio.Reader
	trailer trailerReader
	chunks  h1.Chunked
	// limit bounds the data; 0 is no limit. The reader does not wait for a chunk
	// that would exceed it, but returns the part of that chunk that has arrived.
	limit uint64
	read  uint64 // data returned so far
}

// Read implements io.Reader for a p that is not empty. It returns io.EOF after
// the trailer section was read.
func (c *chunkedReader) Read(p []byte) (int, error) {
	for !c.chunks.Done() {
		// Data is a part of the input, so it cannot be longer than p.
		data, err := nextChunkData(c.r, &c.chunks, len(p))
		if err != nil {
			return 0, err
		}
		if len(data) > 0 {
			c.read += uint64(len(data))
			return copy(p, data), nil
		}
		if left, isData := c.chunks.InData(); isData && c.limit > 0 && left > c.limit-min(c.limit, c.read) && c.r.Buffered() == 0 {
			return 0, ErrBodyTooLarge
		}
	}
	if err := c.trailer.ReadTrailer(c.r); err != nil {
		return 0, unexpectedEOF(err)
	}
	return 0, io.EOF
}

// nextChunkData consumes at most most bytes of r and returns the data in them.
// The data is valid until r is used again.
func nextChunkData(r *bufio.Reader, chunks *h1.Chunked, most int) ([]byte, error) {
	if _, err := r.Peek(1); err != nil {
		return nil, unexpectedEOF(err)
	}
	in, _ := r.Peek(min(r.Buffered(), most))
	used, data, err := chunks.Next(in)
	if err != nil {
		return nil, ErrBrokenChunk{cause: err}
	}
	_, err = r.Discard(used)
	return data, err
}

// appendChunks appends the data of a chunked body to dst and leaves the trailer
// section in r. It returns ErrBodyTooLarge for more than limit bytes, as soon
// as the size line of a chunk shows it; limit <= 0 is no limit.
func appendChunks(dst []byte, r *bufio.Reader, limit int) ([]byte, error) {
	var chunks h1.Chunked
	start := len(dst)
	for !chunks.Done() {
		data, err := nextChunkData(r, &chunks, r.Size())
		if err != nil {
			return dst, err
		}
		left, _ := chunks.InData()
		if limit > 0 && uint64(len(dst)-start+len(data))+left > uint64(limit) {
			return dst, ErrBodyTooLarge
		}
		dst = append(dst, data...)
	}
	return dst, nil
}
