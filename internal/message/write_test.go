package message

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestWriteHead: a head is written in order, whether or not it fits the buffer. The memory of one
// that did not fit is used for the next one.
func TestWriteHead(t *testing.T) {
	var out bytes.Buffer
	w := bufio.NewWriterSize(&out, 64)
	var h RequestHeader
	h.Put("X", []byte(strings.Repeat("x", 100)), Sets)
	_, _ = w.WriteString("before ")
	want := "before "
	for range 2 {
		head := h.AppendHead(h.HeadRoom(w), h.Framing())
		want += string(head)
		if err := h.WriteHead(w, head); err != nil {
			t.Fatal(err)
		}
	}
	if cap(h.text) < 100 || cap(h.HeadRoom(w)) < 100 || len(h.HeadRoom(w)) != 0 {
		t.Errorf("the next head has room for %d bytes", cap(h.HeadRoom(w)))
	}
	if n := testing.AllocsPerRun(10, func() {
		out.Reset()
		_ = h.WriteHead(w, h.AppendHead(h.HeadRoom(w), h.Framing()))
	}); n != 0 {
		t.Errorf("%v allocations for another head", n)
	}
	out.Reset()
	w.Reset(&out)
	_, _ = w.WriteString("before ")
	for range 2 {
		_ = h.WriteHead(w, h.AppendHead(h.HeadRoom(w), h.Framing()))
	}
	if _ = w.Flush(); out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	var short RequestHeader
	if w.Reset(&out); cap(short.HeadRoom(w)) != 64 {
		t.Errorf("a buffer of 64 bytes has room for %d", cap(short.HeadRoom(w)))
	}
	if _ = short.WriteHead(w, short.AppendHead(short.HeadRoom(w), Framing{Length: -2})); short.text != nil {
		t.Error("a head that fits the buffer is kept")
	}
}

// failingWriter refuses all bytes.
type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestWriteHeadReturnsError(t *testing.T) {
	failure := errors.New("failure")
	w := bufio.NewWriterSize(failingWriter{failure}, 16)
	var h RequestHeader
	if err := h.WriteHead(w, h.AppendHead(h.HeadRoom(w), h.Framing())); err != failure {
		t.Errorf("%v", err)
	}
}

// textMessage is its text, or fails.
type textMessage struct {
	text string
	err  error
}

func (m textMessage) Write(w *bufio.Writer) error {
	_, _ = w.WriteString(m.text)
	return m.err
}

// A message is written whole, and the bytes that the writer took are counted.
func TestWriteTo(t *testing.T) {
	failed := errors.New("failed")
	for _, tc := range []struct {
		message textMessage
		text    string // of String
		err     error
	}{{textMessage{text: "text"}, "text", nil}, {textMessage{}, "", nil}, {textMessage{"text", failed}, "failed", failed}} {
		var out strings.Builder
		n, err := WriteTo(&out, tc.message)
		if n != int64(len(tc.message.text)) || err != tc.err || out.String() != tc.message.text || String(tc.message) != tc.text {
			t.Errorf("%q: %d, %v, String %q", out.String(), n, err, String(tc.message))
		}
	}
	if n, err := WriteTo(failingWriter{failed}, textMessage{text: "text"}); n != 0 || err != failed {
		t.Errorf("a writer that fails: %d, %v", n, err)
	}
}
