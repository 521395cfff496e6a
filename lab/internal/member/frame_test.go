//go:build linux

package member

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/ws"
)

// TestFrames: what the lab takes of RFC 6455.
func TestFrames(t *testing.T) {
	const length16, length64 = "\x82\x7e", "\x82\x7f"
	for _, c := range []struct {
		in       string
		isMasked bool
		op       ws.Opcode
		payload  string
		size     int // 0: not complete
		err      error
	}{
		{"\x89\x05Hello", false, ws.OpPing, "Hello", 7, nil},
		{"\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", true, ws.OpPong, "Hello", 11, nil},
		{length16 + "\x01\x00" + strings.Repeat("x", 256) + "more", false, ws.OpBinary, strings.Repeat("x", 256), 260, nil},
		{"\x88\x00", false, ws.OpClose, "", 2, nil},
		{"", true, 0, "", 0, nil},
		{"\x82\x81\x01\x02\x03\x04", true, 0, "", 0, nil},
		{"\x82\x01x", true, 0, "", 0, errMask},
		{"\x82\x81\x00\x00\x00\x00x", false, 0, "", 0, errMask},
		{"\x81\x05Hello", false, 0, "", 0, errNotBinary},
		{"\x02\x03Hel", false, 0, "", 0, errNotBinary},
		{"\x80\x02lo", false, 0, "", 0, errNotBinary},
		{"\xc2\x00", false, 0, "", 0, errNotBinary}, // compressed
		{"\xa2\x00", false, 0, "", 0, ws.ErrReserved},
		{length64 + "\x00\x00\x00\x00\x00\x01\x00\x00", false, 0, "", 0, errFrameSize},
		{length16 + "\x80\x01", false, 0, "", 0, errFrameSize},
	} {
		op, payload, size, err := parseFrame([]byte(c.in), c.isMasked)
		if op != c.op || string(payload) != c.payload || size != c.size || !errors.Is(err, c.err) {
			t.Errorf("%.20q: %d, %.20q, %d, %v", c.in, op, payload, size, err)
		}
	}
}

// TestFrameGrows: until a frame is complete, nothing is taken or changed.
func TestFrameGrows(t *testing.T) {
	for _, n := range []int{0, 8, 125, 126, 300} {
		whole := ws.AppendMasked(nil, ws.OpBinary, 0x01020304, bytes.Repeat([]byte{'a'}, n))
		for end := range whole {
			part := bytes.Clone(whole[:end])
			if _, _, size, err := parseFrame(part, true); size != 0 || err != nil || !bytes.Equal(part, whole[:end]) {
				t.Fatalf("%d of %d bytes: %d, %v", end, len(whole), size, err)
			}
		}
	}
}
