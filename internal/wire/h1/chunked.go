package h1

// Bounds of a chunked body's overhead. Valid senders stay far below. Without bounds,
// a few bytes of data could cost any number of other bytes.
const (
	maxChunkExtension = 256      // bytes in one chunk's extensions
	maxBodyExtensions = 16 << 10 // bytes of extensions in one body
)

type chunkState uint8

const (
	chunkSize chunkState = iota // digits
	chunkExtension
	chunkSizeLF
	chunkData
	chunkDataCR
	chunkDataLF
	chunkDone // the last chunk's line was read; the trailer section follows
)

// A Chunked decodes the chunked transfer coding (RFC 9112 section 7.1) up to the
// trailer section. The input may arrive in any pieces. The zero value is ready. The
// returned data is a part of the input, never a copy.
type Chunked struct {
	left       uint64 // of the chunk: its size while digits are read, then the remaining data
	extensions int    // bytes of extensions in the body so far
	extension  int    // bytes of extensions in this chunk
	digits     uint8
	state      chunkState
	part       extensionPart
}

// Done reports whether the last chunk's line was read. The trailer section follows, for
// a HeadParser after ResetTrailer.
func (c *Chunked) Done() bool { return c.state == chunkDone }

// InData reports whether the next bytes are data, and at most how many.
func (c *Chunked) InData() (left uint64, ok bool) { return c.left, c.state == chunkData }

// Next reads from in and returns how many bytes it has used, and the data found,
// which is a part of in. It returns after each run of data. Call it again with the
// rest until used is 0 or Done.
func (c *Chunked) Next(in []byte) (used int, data []byte, err error) {
	used, err = c.Advance(in)
	if err != nil || c.state != chunkData {
		return used, nil, err
	}
	n := len(in) - used
	if uint64(n) > c.left {
		n = int(c.left)
	}
	c.left -= uint64(n)
	if c.left == 0 {
		c.state = chunkDataCR
	}
	return used + n, in[used : used+n], nil
}

// Advance reads from in up to the beginning of data or of the trailer section, and
// returns how many bytes it has used. A caller with limited room for data can then
// pass Next only so many bytes.
func (c *Chunked) Advance(in []byte) (used int, err error) {
	for used < len(in) && c.state != chunkData && c.state != chunkDone {
		if err := c.step(in[used]); err != nil {
			return 0, err
		}
		used++
	}
	return used, nil
}

// step handles one byte that is not data.
func (c *Chunked) step(b byte) error {
	switch c.state {
	case chunkSize:
		return c.sizeByte(b)
	case chunkExtension:
		return c.extensionByte(b)
	case chunkSizeLF:
		if b != '\n' {
			return ErrChunkSize
		}
		c.state = chunkData
		if c.left == 0 {
			c.state = chunkDone
		}
	case chunkDataCR:
		if b != '\r' {
			return ErrChunkEnd
		}
		c.state = chunkDataLF
	case chunkDataLF:
		if b != '\n' {
			return ErrChunkEnd
		}
		c.state = chunkSize
		c.digits, c.extension = 0, 0
	}
	return nil
}

// sizeByte reads 1*HEXDIG without prefix, sign or overflow, at most sixteen digits
// including leading zeros. White space after the size is refused, although the
// grammar permits it before a semicolon for old senders: parsers differ in its
// meaning.
func (c *Chunked) sizeByte(b byte) error {
	if d, ok := hexValue(b); ok {
		if c.digits == 16 || c.left >= 1<<59 {
			return ErrChunkSize
		}
		c.digits++
		c.left = c.left<<4 | uint64(d)
		return nil
	}
	if c.digits == 0 {
		return ErrChunkSize
	}
	switch b {
	case '\r':
		c.state = chunkSizeLF
		return nil
	case ';':
		c.state = chunkExtension
		c.part = beforeName
		return c.countExtension()
	}
	return ErrChunkSize
}

// extensionByte skips an extension, which must be well-formed. Otherwise another
// parser could find its end elsewhere.
func (c *Chunked) extensionByte(b byte) error {
	if b == '\r' && (c.part == inExtensionName || c.part == inExtensionValue || c.part == behindQuoted) {
		c.state = chunkSizeLF
		return nil
	}
	if c.part = c.part.next(b); c.part == malformedExtension {
		return ErrChunkExtension
	}
	return c.countExtension()
}

func (c *Chunked) countExtension() error {
	c.extension++
	c.extensions++
	if c.extension > maxChunkExtension || c.extensions > maxBodyExtensions {
		return ErrChunkExtensionTooLarge
	}
	return nil
}

func hexValue(b byte) (byte, bool) {
	switch {
	case '0' <= b && b <= '9':
		return b - '0', true
	case 'a' <= b && b <= 'f':
		return b - 'a' + 10, true
	case 'A' <= b && b <= 'F':
		return b - 'A' + 10, true
	}
	return 0, false
}

// maxChunkHead is the longest line that AppendChunkHead appends.
const maxChunkHead = 16 + 2

// AppendChunkHead appends the line before n bytes of data. n must not be 0, which
// would end the body.
func AppendChunkHead(dst []byte, n int) []byte {
	const digits = "0123456789abcdef"
	var buf [maxChunkHead]byte
	i := len(buf) - 2
	buf[i], buf[i+1] = '\r', '\n'
	for v := uint64(n); v > 0; v >>= 4 {
		i--
		buf[i] = digits[v&15]
	}
	return append(dst, buf[i:]...)
}

// AppendChunk appends data as one chunk, or nothing if data is empty.
func AppendChunk(dst, data []byte) []byte {
	if len(data) == 0 {
		return dst
	}
	dst = AppendChunkHead(dst, len(data))
	dst = append(dst, data...)
	return append(dst, "\r\n"...)
}

// LastChunk is the line that ends the data of a chunked body. The trailer
// section and an empty line follow it.
const LastChunk = "0\r\n"
