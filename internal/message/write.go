package message

import (
	"bufio"
	"io"
	"strings"
)

// HeadRoom returns memory to append a head to that is then written to w: the
// free part of w's buffer, or h.text if that is larger because an earlier head
// did not fit.
func (h *Header) HeadRoom(w *bufio.Writer) []byte {
	if room := w.AvailableBuffer(); cap(room) >= cap(h.text) {
		return room
	}
	return h.text[:0]
}

// WriteHead writes a head that was appended to the memory of HeadRoom.
func (h *Header) WriteHead(w *bufio.Writer, head []byte) error {
	if cap(head) > w.Available() && cap(head) > cap(h.text) {
		h.text = head // reused for the next head
	}
	_, err := w.Write(head)
	return err
}

// Writable writes itself. Requests and responses implement it.
type Writable interface{ Write(w *bufio.Writer) error }

// WriteTo writes m to w and returns the number of bytes.
func WriteTo(w io.Writer, m Writable) (int64, error) {
	c := counter{w: w}
	bw := bufio.NewWriter(&c)
	err := m.Write(bw)
	if flushErr := bw.Flush(); err == nil {
		err = flushErr
	}
	return c.n, err
}

// counter counts the bytes that w accepted.
type counter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// String returns what m writes, or the text of the error of writing it.
func String(m Writable) string {
	var text strings.Builder
	if _, err := WriteTo(&text, m); err != nil {
		return err.Error()
	}
	return text.String()
}
