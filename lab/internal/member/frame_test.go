//go:build linux

package member

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestFrameExamples has what RFC 6455 section 5.7 shows, and what it forbids.
func TestFrameExamples(t *testing.T) {
	const length16, length64 = "\x82\x7e", "\x82\x7f"
	for _, c := range []struct {
		in       string
		isMasked bool
		op       opcode
		payload  string
		size     int // 0: not complete
		err      error
	}{
		{"\x89\x05Hello", false, opPing, "Hello", 7, nil},
		{"\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", true, opPong, "Hello", 11, nil},
		{length16 + "\x01\x00" + strings.Repeat("x", 256) + "more", false, opBinary, strings.Repeat("x", 256), 260, nil},
		{"\x88\x00", false, opClose, "", 2, nil},
		{"", true, 0, "", 0, nil},
		{"\x82", true, 0, "", 0, nil},
		{"\x82\x81\x01\x02\x03", true, 0, "", 0, nil},
		{"\x82\x81\x01\x02\x03\x04", true, 0, "", 0, nil},
		{length16 + "\x01", false, 0, "", 0, nil},
		{length64 + "\x00\x00\x00\x00\x00\x01\x00", false, 0, "", 0, nil},
		{"\x82\x01x", true, 0, "", 0, errMask},
		{"\x82\x81", false, 0, "", 0, errMask},
		{"\x81\x05Hello", false, 0, "", 0, errNotBinary},
		{"\x02\x03Hel", false, 0, "", 0, errNotBinary},
		{"\x80\x02lo", false, 0, "", 0, errNotBinary},
		{"\xc2\x00", false, 0, "", 0, errFrame},
		{"\x83\x00", false, 0, "", 0, errFrame},
		{"\x8b\x00", false, 0, "", 0, errFrame},
		{"\x09\x00", false, 0, "", 0, errFrame},
		{"\x89\x7e\x00\x7e", false, 0, "", 0, errFrame},
		{length16 + "\x00\x7d", false, 0, "", 0, errFrame},
		{length64 + "\x00\x00\x00\x00\x00\x00\xff\xff", false, 0, "", 0, errFrame},
		{length64 + "\xff\x00\x00\x00\x00\x01\x00\x00", false, 0, "", 0, errFrame},
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
	for _, n := range []int{0, 8, 125, 126, 300, maxPayload} {
		whole := appendMasked(nil, opBinary, 0x01020304, bytes.Repeat([]byte{'a'}, n))
		for end := range whole {
			part := bytes.Clone(whole[:end])
			if _, _, size, err := parseFrame(part, true); size != 0 || err != nil || !bytes.Equal(part, whole[:end]) {
				t.Fatalf("%d of %d bytes: %d, %v", end, len(whole), size, err)
			}
			if end == 20 && n == maxPayload {
				break // the rest is alike
			}
		}
	}
}

// FuzzFrame: what is parsed is written as it was, and what is written is parsed.
func FuzzFrame(f *testing.F) {
	f.Add([]byte("\x82\x88\x01\x02\x03\x04pingpong"), true)
	f.Add([]byte("\x82\x7e\x01\x00"+strings.Repeat("x", 256)), false)
	f.Add([]byte("\x88\x02\x03\xe8"), false)
	f.Fuzz(func(t *testing.T, in []byte, isMasked bool) {
		original := bytes.Clone(in)
		op, payload, size, err := parseFrame(in, isMasked)
		switch {
		case err != nil || size == 0:
			if op != 0 || payload != nil || size != 0 || !bytes.Equal(in, original) {
				t.Fatalf("%q: %d, %q, %d, %v", original, op, payload, size, err)
			}
			return
		case size > len(in) || !bytes.Equal(in[size:], original[size:]):
			t.Fatalf("%d of %d bytes", size, len(in))
		}
		again := appendFrame(nil, op, payload)
		if isMasked {
			key := original[size-len(payload)-4:]
			again = appendMasked(nil, op, uint32(key[0])<<24|uint32(key[1])<<16|uint32(key[2])<<8|uint32(key[3]), payload)
		}
		if !bytes.Equal(again, original[:size]) {
			t.Fatalf("%q is written as %q", original[:size], again)
		}
	})
}
