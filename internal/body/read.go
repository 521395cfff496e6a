package body

import (
	"bufio"
	"io"

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// Append appends the content of a received message to dst. length is that of
// message.Header.ContentLength: -1 is chunked content, whose trailer section stays in
// r, and less than -1 content to the end of r. It returns ErrTooLarge for more than
// limit bytes; limit <= 0 is no limit. A malformed chunk is an ErrBrokenChunk. Memory grows
// with the bytes that arrive.
func Append(dst []byte, r *bufio.Reader, length, limit int) ([]byte, error) {
	switch {
	case length >= 0:
		if limit > 0 && length > limit || length == message.TooLong {
			return dst, ErrTooLarge
		}
		return appendSized(dst, r, length)
	case length == -1:
		return appendChunks(dst, r, limit)
	}
	return appendAll(dst, r, max(limit, 0))
}

func appendSized(dst []byte, r *bufio.Reader, length int) ([]byte, error) {
	for left := int64(length); left > 0; {
		dst = makeRoom(dst, left)
		room := dst[len(dst):cap(dst)]
		if int64(len(room)) > left {
			room = room[:left]
		}
		n, err := r.Read(room)
		dst = dst[:len(dst)+n]
		left -= int64(n)
		if err != nil && left > 0 {
			return dst, Unexpected(err)
		}
	}
	return dst, nil
}

// Unexpected replaces io.EOF within a message with io.ErrUnexpectedEOF.
func Unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendChunks appends the data of chunked content. It returns ErrTooLarge as soon as
// the size line of a chunk shows it.
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
			return dst, ErrTooLarge
		}
		dst = append(dst, data...)
	}
	return dst, nil
}

// nextChunkData consumes at most most bytes of r and returns the data in them.
// The data is valid until r is used again.
func nextChunkData(r *bufio.Reader, chunks *h1.Chunked, most int) ([]byte, error) {
	if _, err := r.Peek(1); err != nil {
		return nil, Unexpected(err)
	}
	in, _ := r.Peek(min(r.Buffered(), most))
	used, data, err := chunks.Next(in)
	if err != nil {
		return nil, message.BrokenChunk(err)
	}
	_, err = r.Discard(used)
	return data, err
}

// Reader reads the content of a received message while it arrives. It returns io.EOF
// only at the verified end of the content. A malformed chunk is an ErrBrokenChunk.
type Reader struct {
	r      *bufio.Reader
	header *message.Header // gets the trailer fields
	limits h1.Limits       // of the trailer section
	chunks h1.Chunked      // of chunked content
	read   uint64          // data of chunks that was returned
	limit  uint64          // of read; 0 is no limit
	left   int64           // of content of known length
	kind   readerKind
	err    error // returned by every further Read
}

// readerKind says how the end of a Reader is found.
type readerKind uint8

const (
	sizedReader readerKind = iota
	chunkedReader
	closedReader // ends with the connection
)

// NewReader returns the content after the head h, which has been read from r. length
// is that of Append, and limits are those of a trailer section.
func NewReader(r *bufio.Reader, h *message.Header, length int, limits h1.Limits) *Reader {
	s := &Reader{r: r, header: h, limits: limits, left: int64(length)}
	switch {
	case length == -1:
		s.kind = chunkedReader
	case length < -1:
		s.kind = closedReader
	}
	return s
}

// LimitChunks makes Read return ErrTooLarge instead of waiting for a chunk with which
// the content is longer than limit bytes. Read still returns the part of that chunk that
// has arrived.
func (s *Reader) LimitChunks(limit int) { s.limit = uint64(limit) }

// IsComplete reports whether the verified end was reached. The connection can
// then carry another message.
func (s *Reader) IsComplete() bool {
	return s.kind != closedReader && s.err == io.EOF || s.kind == sizedReader && s.left == 0
}

// Read implements io.Reader.
func (s *Reader) Read(p []byte) (n int, err error) {
	if s.err != nil || len(p) == 0 {
		return 0, s.err
	}
	switch s.kind {
	case chunkedReader:
		n, err = s.readChunk(p)
	case closedReader:
		n, err = s.r.Read(p)
	default:
		n, err = s.readSized(p)
	}
	s.err = err
	return n, err
}

func (s *Reader) readSized(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > s.left {
		p = p[:s.left]
	}
	n, err := s.r.Read(p)
	s.left -= int64(n)
	if err == io.EOF && s.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// readChunk returns io.EOF after the trailer section was read.
func (s *Reader) readChunk(p []byte) (int, error) {
	for !s.chunks.Done() {
		// Data is a part of the input, so it cannot be longer than p.
		data, err := nextChunkData(s.r, &s.chunks, len(p))
		if err != nil {
			return 0, err
		}
		if len(data) > 0 {
			s.read += uint64(len(data))
			return copy(p, data), nil
		}
		if left, isData := s.chunks.InData(); isData && s.limit > 0 && left > s.limit-min(s.limit, s.read) && s.r.Buffered() == 0 {
			return 0, ErrTooLarge
		}
	}
	if err := s.header.ReadTrailer(s.r, s.limits); err != nil {
		return 0, Unexpected(err)
	}
	return 0, io.EOF
}
