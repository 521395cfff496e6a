package body

import (
	"io"
	"strings"
	"testing"
)

// TestAppendStream: what was in dst before does not count.
func TestAppendStream(t *testing.T) {
	for limit, want := range map[int]string{0: "pre12345", 1: "pre1", 4: "pre1234", 5: "pre12345", 8: "pre12345"} {
		got, err := AppendStream([]byte("pre"), struct{ io.Reader }{strings.NewReader("12345")}, limit)
		if string(got) != want || (err == ErrTooLarge) != (len(want) < 8) {
			t.Errorf("limit %d: %q, %v", limit, got, err)
		}
	}
}

func TestMakeRoomGrowsInProportion(t *testing.T) {
	for _, test := range []struct {
		have int
		left int64
		want int
	}{
		{0, 0, 512}, {0, 10, 10}, {512, 0, 1024}, {512, 100, 612}, {512, 1, 513}, {512, 600, 1024}, {1000, 1 << 40, 2000},
	} {
		b := makeRoom(make([]byte, test.have), test.left)
		if cap(b) != test.want || len(b) != test.have {
			t.Errorf("%d with %d left: capacity %d, want %d", test.have, test.left, cap(b), test.want)
		}
	}
}

// A shortWriter takes two bytes.
type shortWriter struct{}

func (shortWriter) Write([]byte) (int, error) { return 2, io.ErrShortWrite }

// TestMemory: what was not written is still there, and the end is reported
// only to who asks for bytes.
func TestMemory(t *testing.T) {
	s := &Memory{Left: []byte("0123456789")}
	if n, err := s.Read(nil); n != 0 || err != nil || !s.SupportsBodyWriteTo() {
		t.Errorf("Read(nil): %d, %v", n, err)
	}
	p := make([]byte, 4)
	if n, err := s.Read(p); n != 4 || err != nil || string(p) != "0123" {
		t.Errorf("Read: %d, %v, %q", n, err, p)
	}
	if n, err := s.WriteTo(shortWriter{}); n != 2 || err != io.ErrShortWrite {
		t.Errorf("WriteTo: %d, %v", n, err)
	}
	var rest strings.Builder
	if n, err := s.WriteTo(&rest); n != 4 || err != nil || rest.String() != "6789" {
		t.Errorf("the rest: %d, %v, %q", n, err, rest.String())
	}
	if n, err := s.Read(p); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
	s.Left = []byte("more")
	if err := s.Close(); err != nil || len(s.Left) > 0 {
		t.Errorf("Close: %q, %v", s.Left, err)
	}
}
