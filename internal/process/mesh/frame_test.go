package mesh

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/backplane"
)

func TestFrames(t *testing.T) {
	long, large := strings.Repeat("r", backplane.MaxRoom), bytes.Repeat([]byte("d"), backplane.MaxData)
	for _, c := range []struct {
		kind        frameKind
		plane, room string
		data        []byte
		topic       string
	}{
		{frameBye, "", "", nil, ""},
		{frameGap, "", "", nil, ""},
		{frameGap, "p", "", nil, "p\x00"},
		{frameMessage, "p", "room", []byte("data"), "p\x00room"},
		{frameMessage, strings.Repeat("p", maxPlane), long, large, strings.Repeat("p", maxPlane) + "\x00" + long},
		{99, "p", "r", []byte("a later version's"), "p\x00r"},
	} {
		in := appendFrame([]byte("before"), c.kind, c.plane, c.room, c.data)[len("before"):]
		f, size, err := parseFrame(append(in, "after"...))
		if err != nil || size != len(in) || f.kind != c.kind || string(f.topic) != c.topic || !bytes.Equal(f.data, c.data) {
			t.Errorf("%d %.9q %.9q: %d %.9q, size %d of %d, %v", c.kind, c.plane, c.room, f.kind, f.topic, size, len(in), err)
		}
		for cut := range min(len(in), 20) {
			if f, size, err := parseFrame(in[:cut]); err != nil || size <= cut || size > len(in) || f.kind != 0 {
				t.Errorf("%d bytes of it: %v, size %d, %v", cut, f, size, err)
			}
		}
	}
}

// What is no frame is found before memory is reserved for it.
func TestBadFrames(t *testing.T) {
	head := func(size uint32, kind byte, topic uint16) []byte {
		in := append(binary.LittleEndian.AppendUint32(nil, size), kind)
		return binary.LittleEndian.AppendUint16(in, topic)
	}
	for name, in := range map[string][]byte{
		"no kind":         head(3, 0, 0),
		"too large":       head(maxFrame-3, 2, 0),
		"topic too large": head(maxFrame-4, 2, maxTopic+1),
		"topic outside":   head(3+5, 2, 6),
		"shorter than it": head(2, 2, 0),
		"empty":           head(0, 2, 0),
	} {
		if _, _, err := parseFrame(in); !errors.Is(err, errFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHello(t *testing.T) {
	for _, want := range []hello{{}, {1, 2, 3}, {1 << 31, 1 << 31, -1}} {
		got, err := parseHello(append(appendHello(nil, want), "later"...))
		if err != nil || got != want {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
	other := appendHello(nil, hello{})
	other[3]++ // another version
	for _, in := range [][]byte{nil, appendHello(nil, hello{})[:helloSize-1], other, appendHello(nil, hello{interests: -2})} {
		if h, err := parseHello(in); !errors.Is(err, errHello) {
			t.Errorf("%x: %v, %v", in, h, err)
		}
	}
}

// Frames are the same wherever the stream is cut.
func FuzzFrames(f *testing.F) {
	all := appendFrame(nil, frameHello, "", "", appendHello(nil, hello{1, 2, 3}))
	all = appendFrame(all, frameMessage, "plane", "room", []byte("data"))
	f.Add(appendFrame(all, frameGap, "plane", "room", nil), 5)
	f.Add(appendFrame(all, frameBye, "", "", nil), 60)
	f.Add([]byte{255, 255, 255, 255, 1, 0, 0}, 3)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		whole, left, err := parseAll(nil, in)
		if cut = max(0, min(cut, len(in))); err == nil {
			parts, rest, err1 := parseAll(nil, in[:cut])
			parts, rest, err2 := parseAll(parts, append(rest[:len(rest):len(rest)], in[cut:]...))
			if err1 != nil || err2 != nil || !bytes.Equal(parts, whole) || !bytes.Equal(rest, left) {
				t.Fatalf("cut at %d: %q and %q, %v, %v; want %q and %q", cut, parts, rest, err1, err2, whole, left)
			}
		}
		if !bytes.HasPrefix(in, whole) {
			t.Fatalf("%q, again %q", in, whole)
		}
	})
}

// parseAll appends the frames in in, and returns the rest of in.
func parseAll(dst, in []byte) (frames, rest []byte, err error) {
	for {
		f, size, err := parseFrame(in)
		if err != nil || size > len(in) {
			return dst, in, err
		}
		if plane, room, isTopic := strings.Cut(string(f.topic), "\x00"); isTopic && plane != "" || len(f.topic) == 0 {
			dst = appendFrame(dst, f.kind, plane, room, f.data)
		} else {
			dst = append(dst, in[:size]...) // no process sends such a topic
		}
		in = in[size:]
		if f.kind == frameHello {
			_, _ = parseHello(f.data)
		}
	}
}
