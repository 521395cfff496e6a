package compress

import (
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/flate"

	"github.com/sluicehttp/sluice/internal/buf"
)

// MaxWindowBits is the largest window of DEFLATE, as a power of 2.
const MaxWindowBits = 15

// messageLevel is the level for messages. BenchmarkMessage compares the levels.
const messageLevel = 1

// flushed is the end of what Flush writes: an empty block without compression. The
// extension removes it from messages (RFC 7692 section 7.2.1).
const flushed = "\x00\x00\xff\xff"

// messageTail follows a message that is decoded: what the sender has removed, and an empty
// final block, after which the decoder stops.
const messageTail = flushed + "\x01\x00\x00\xff\xff"

// ErrMessage is returned for a message that is not DEFLATE data.
var ErrMessage = errors.New("sluice: a compressed message is damaged")

// A flateWriter is a compressor that one call of AppendMessage owns.
type flateWriter struct {
	*flate.Writer
	out sink
}

// AppendMessage appends src, compressed as the message of a WebSocket (RFC 7692 section
// 7.2.1), to dst. The receiver must have history as the end of its window; it may be empty.
// No distance exceeds a window of bits. AppendMessage keeps none of its arguments.
func AppendMessage(dst, src, history []byte, bits uint8) []byte {
	if len(history)+len(src) <= 1<<bits {
		bits = MaxWindowBits // no distance can be larger
	}
	z := acquireFlateWriter(bits)
	z.out.b = dst
	z.ResetDict(&z.out, history)
	// A sink without a writer returns no errors, so the encoder does not either.
	_, _ = z.Write(src)
	_ = z.Flush()
	dst = bytes.TrimSuffix(z.out.b, []byte(flushed))
	z.out.b = nil
	z.ResetDict(&z.out, nil) // it has kept history
	releaseFlateWriter(z, bits)
	return dst
}

func newFlateWriter(bits uint8) *flateWriter {
	var err error
	z := &flateWriter{}
	if bits == MaxWindowBits {
		z.Writer, err = flate.NewWriter(nil, messageLevel)
	} else {
		z.Writer, err = flate.NewWriterWindow(nil, 1<<bits)
	}
	if err != nil {
		panic(err) // cannot happen: level and window are valid
	}
	return z
}

// A flateReader is a decompressor that one call of InflateMessage owns.
type flateReader struct {
	io.ReadCloser
	source messageSource
	more   [1]byte
}

// A messageSource reads a message and messageTail.
type messageSource struct {
	in   []byte
	tail string
}

// ReadByte implements io.ByteReader, which keeps the decoder from reading ahead.
func (s *messageSource) ReadByte() (c byte, err error) {
	switch {
	case len(s.in) > 0:
		c, s.in = s.in[0], s.in[1:]
	case len(s.tail) > 0:
		c, s.tail = s.tail[0], s.tail[1:]
	default:
		return 0, io.EOF
	}
	return c, nil
}

// Read implements io.Reader.
func (s *messageSource) Read(p []byte) (n int, err error) {
	n = copy(p, s.in)
	s.in = s.in[n:]
	if n < len(p) && len(s.in) == 0 {
		more := copy(p[n:], s.tail)
		s.tail = s.tail[more:]
		n += more
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// InflateMessage decodes a message of AppendMessage, or of any sender (RFC 7692 section
// 7.2.2), into a buffer, which the caller must release. history is the end of what the
// sender has compressed before, as far as it may refer to it. A message of more than limit
// bytes is ErrTooLarge, and no more is decoded; limit 0 is none. Data that is not DEFLATE,
// and more than 16 final blocks within a message, are ErrMessage. No bytes at all are an empty
// message: RFC 7692 section 7.2.3.6 has one byte for it, but zlib accepts them, so browsers do.
func InflateMessage(src, history []byte, limit int) (*buf.Buffer, error) {
	if len(src) == 0 {
		return buf.Get(minInflated), nil
	}
	z := acquireFlateReader()
	out := buf.Get(inflatedSize(len(src), limit))
	z.source = messageSource{in: src, tail: messageTail}
	err := z.reset(history)
	for ends := 0; err == nil; ends++ {
		if out, err = z.inflate(out, limit); err != nil || z.isAtEnd() {
			break
		}
		if ends == maxEnds {
			err = ErrMessage
			break
		}
		err = z.resume(history, out.B) // the sender has ended a stream within its message
	}
	z.source = messageSource{}
	releaseFlateReader(z)
	if err == nil {
		return out, nil
	}
	out.Release()
	if err != ErrTooLarge {
		err = ErrMessage
	}
	return nil, err
}

// maxEnds is how many final blocks may come before the end of a message. Each takes two bytes
// there, and costs the decoder a window of 32 KiB: BenchmarkMessageEnds.
const maxEnds = 16

// inflatedSize returns the room for a message at first.
func inflatedSize(size, limit int) int {
	size = max(4*size, minInflated)
	if limit > 0 {
		size = min(size, limit)
	}
	return size
}

const minInflated = 512

func (z *flateReader) reset(history []byte) error {
	return z.ReadCloser.(flate.Resetter).Reset(&z.source, history)
}

// isAtEnd tells, after the end of a stream, whether the message ends there too.
func (z *flateReader) isAtEnd() bool { return len(z.source.in) == 0 }

// resume goes on after a final block (RFC 7692 section 7.2.3.4). out follows history.
func (z *flateReader) resume(history, out []byte) error {
	const window = 1 << MaxWindowBits
	if len(out) >= window || len(history) == 0 {
		return z.reset(out)
	}
	both := buf.Get(len(history) + len(out))
	defer both.Release()
	both.B = append(append(both.B, history...), out...)
	return z.reset(both.B)
}

// inflate appends to out until the stream ends. It returns the buffer that has taken the
// place of out.
func (z *flateReader) inflate(out *buf.Buffer, limit int) (*buf.Buffer, error) {
	for {
		room := out.B[len(out.B):cap(out.B)]
		if limit > 0 {
			room = room[:min(len(room), limit-len(out.B))]
		}
		isFull := limit > 0 && len(out.B) == limit
		switch {
		case isFull:
			room = z.more[:] // one more byte tells the end from a violation
		case len(room) == 0:
			out = grow(out, limit)
			continue
		}
		n, err := z.Read(room)
		if isFull && n > 0 {
			return out, ErrTooLarge
		}
		if !isFull {
			out.B = out.B[:len(out.B)+n]
		}
		switch err {
		case nil:
		case io.EOF:
			return out, nil
		default:
			return out, err
		}
	}
}

// grow returns a buffer with the content of b and about twice its size.
func grow(b *buf.Buffer, limit int) *buf.Buffer {
	size := 2 * cap(b.B)
	if limit > 0 {
		size = min(size, limit)
	}
	larger := buf.Get(size)
	larger.B = append(larger.B, b.B...)
	b.Release()
	return larger
}
