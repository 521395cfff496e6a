package message

import (
	"bytes"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
)

// TestTrailerSectionIsLarger: each part of a section counts, also when it is empty.
func TestTrailerSectionIsLarger(t *testing.T) {
	for name, fill := range map[string]func(s *trailerSection, n int){
		"list":   func(s *trailerSection, n int) { s.list = make([]byte, 0, n) },
		"text":   func(s *trailerSection, n int) { s.text = make([]byte, 0, n) },
		"names":  func(s *trailerSection, n int) { s.names.Append(make([]byte, n)) },
		"values": func(s *trailerSection, n int) { s.values.Append(make([]byte, n)) },
	} {
		var s trailerSection
		fill(&s, 1000)
		s.names.Reset()
		s.values.Reset()
		if !s.isLarger(999) || s.isLarger(2000) {
			t.Errorf("%s of 1000 bytes: larger than 999: %v, than 2000: %v", name, s.isLarger(999), s.isLarger(2000))
		}
	}
}

func TestTrailerSectionReset(t *testing.T) {
	var s trailerSection
	s.setKeepNames(true)
	s.receive(field.Other, []byte("x"), []byte("1"))
	if s.received == 0 || len(s.list) == 0 {
		t.Fatal("nothing is there to reset")
	}
	s.reset()
	if s.names.Len()+s.values.Len()+len(s.list) != 0 || s.received != 0 || s.names.KeepNames || s.values.KeepNames {
		t.Errorf("%+v is left", s)
	}
}

func TestShrink(t *testing.T) {
	var h RequestHeader
	_ = h.Announce([]byte("T"))
	h.Put("T", bytes.Repeat([]byte("t"), 5000), Sets)
	h.Put("X", bytes.Repeat([]byte("x"), 5000), Sets)
	_ = h.Head()
	h.Reset()
	h.Shrink(1000, 10)
	if cap(h.text) > 1000 || cap(h.Table.Raw()) > 1000 || h.trailer != nil {
		t.Error("memory above the limit stays")
	}
	h.Put("X", []byte("1"), Sets)
	if got := string(h.Head()); got != "GET / HTTP/1.1\r\nX: 1\r\n\r\n" {
		t.Errorf("got %q", got)
	}
}

// TestShrinkKeepsSmallMemory: only what is above a bound is released.
func TestShrinkKeepsSmallMemory(t *testing.T) {
	for _, over := range []int{0, 1} {
		h := Header{
			text: make([]byte, 0, 10), clean: make([]byte, 0, 20), names: make([]byte, 0, 30+over),
			peeked: make([][]byte, 0, 5+over), trailer: &trailerSection{list: make([]byte, 0, 60+over)},
		}
		h.Shrink(60, 5)
		isKept := over == 0
		if (h.text != nil) != isKept || (h.clean != nil) != isKept || (h.names != nil) != isKept || (h.peeked != nil) != isKept || (h.trailer != nil) != isKept {
			t.Errorf("%d above the bounds: %+v remains", over, h)
		}
	}
}

// TestResetControls: a header that was reset does not look for the control
// characters of what it held before.
func TestResetControls(t *testing.T) {
	var h ResponseHeader
	h.Put("X", []byte("\x01"), Sets)
	if !h.hasControls {
		t.Error("a control character was not seen")
	}
	if h.Reset(); h.hasControls {
		t.Error("a header that was reset is said to have control characters")
	}
}
