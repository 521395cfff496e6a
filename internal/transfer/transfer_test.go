package transfer

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
