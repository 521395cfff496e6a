package h3

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestVarints: the examples of RFC 9000 appendix A.1, and the bounds of each length.
func TestVarints(t *testing.T) {
	for wire, want := range map[string]uint64{
		"c2197c5eff14e88c": 151288809941952652, "9d7f3e7d": 494878333, "7bbd": 15293, "25": 37, "4025": 37,
		"00": 0, "3f": 63, "4040": 64, "7fff": 16383, "80004000": 16384, "bfffffff": 1<<30 - 1, "c000000040000000": 1 << 30, "ffffffffffffffff": MaxVarint,
	} {
		in := unhex(t, wire)
		if n, size := ReadVarint(append(in, 0xaa)); n != want || size != len(in) {
			t.Errorf("%s: %d in %d bytes, want %d", wire, n, size, want)
		}
		for i := range in {
			if _, size := ReadVarint(in[:i]); size != 0 {
				t.Errorf("%s cut at %d has %d bytes", wire, i, size)
			}
		}
		if wire != "4025" && !bytes.Equal(AppendVarint(nil, want), in) {
			t.Errorf("%d: %x, want %s", want, AppendVarint(nil, want), wire)
		}
	}
}

// frames lists the frames of a stream that arrives in two pieces.
func frames(wire []byte, cut int) (list []string, isBetween bool) {
	var r FrameReader
	var payload []byte
	for _, in := range [][]byte{wire[:cut], wire[cut:]} {
		for {
			if !r.isInside {
				used, isWhole := r.ReadHeader(in)
				in = in[used:]
				if !isWhole {
					break
				}
				payload = nil
			}
			piece, isEnd := r.Take(in)
			payload, in = append(payload, piece...), in[len(piece):]
			if !isEnd {
				break
			}
			list = append(list, hex.EncodeToString(AppendVarint(nil, uint64(r.Type)))+" "+string(payload))
		}
	}
	return list, r.IsBetween()
}

func TestFrames(t *testing.T) {
	wire := append(AppendFrameHeader(nil, FrameHeaders, 3), "abc"...)
	wire = AppendFrameHeader(wire, FrameData, 0)
	wire = append(AppendFrameHeader(wire, FramePriorityUpdate, 2), "xy"...)
	wire = append(AppendFrameHeader(wire, FrameType(MaxVarint), 70), strings.Repeat("z", 70)...)
	want := []string{"01 abc", "00 ", "800f0700 xy", "ffffffffffffffff " + strings.Repeat("z", 70)}
	for cut := range len(wire) + 1 {
		if got, isBetween := frames(wire, cut); strings.Join(got, "\n") != strings.Join(want, "\n") || !isBetween {
			t.Fatalf("cut at %d: %q, %v", cut, got, isBetween)
		}
	}
	for at, want := range map[int]bool{0: true, 1: false, 4: false, 5: true, 6: false, 7: true, 12: false, 13: false, 14: true, 15: false} {
		if _, isBetween := frames(wire[:at], 0); isBetween != want {
			t.Errorf("after %d bytes: %v", at, isBetween)
		}
	}
}

// TestOrderOfFrames: RFC 9114 sections 4.1, 7.1 and 7.2. H is a head, I an interim one, D DATA, T
// the trailer fields, C: a tunnel begins; the others are types.
func TestOrderOfFrames(t *testing.T) {
	types := map[rune]FrameType{'H': FrameHeaders, 'I': FrameHeaders, 'T': FrameHeaders, 'D': FrameData, 's': FrameSettings, 'p': FramePushPromise, 'g': FrameGoAway, 'c': FrameCancelPush, 'm': FrameMaxPushID, 'u': FramePriorityUpdate, 'v': FramePriorityPush, '2': 0x2, '6': 0x6, '8': 0x8, '9': 0x9, 'x': 0x21, 'y': 0xf0702}
	for _, c := range []struct {
		side   Side
		frames string
		want   *Error
	}{
		{Server, "H", nil},
		{Server, "HDD", nil},
		{Server, "HDT", nil},
		{Server, "HT", nil},
		{Server, "xHyDxTx", nil},
		{Server, "", ErrIncomplete},
		{Server, "x", ErrIncomplete},
		{Server, "D", ErrDataFirst},
		{Server, "HTD", ErrAfterTrailer},
		{Server, "HDTT", ErrAfterTrailer},
		{Server, "HCDDx", nil},
		{Server, "HCDH", ErrTunnelFrame},
		{Server, "p", ErrPush},
		{Client, "HIp", ErrPush},
		{Client, "IIHDT", nil},
		{Client, "II", ErrNoResponse},
		{Client, "ID", ErrDataFirst},
		{Server, "s", ErrFrameOnRequest},
		{Server, "Hg", ErrFrameOnRequest},
		{Server, "Hc", ErrFrameOnRequest},
		{Server, "Hm", ErrFrameOnRequest},
		{Server, "Hu", ErrFrameOnRequest},
		{Server, "Hv", ErrFrameOnRequest},
		{Server, "2", ErrFrameReserved},
		{Server, "H6", ErrFrameReserved},
		{Server, "HD8", ErrFrameReserved},
		{Server, "HT9", ErrFrameReserved},
	} {
		m := Message{Side: c.side}
		var err *Error
		for _, f := range c.frames {
			if f == 'C' {
				m.Tunnel()
				continue
			}
			var isKnown bool
			if isKnown, err = m.Admit(types[f]); err != nil {
				break
			}
			if isKnown != strings.ContainsRune("HITD", f) {
				t.Errorf("%s: %c: known is %v", c.frames, f, isKnown)
			}
			switch f {
			case 'H', 'I':
				m.HeadReceived(f == 'I')
			case 'T':
				if !m.IsTrailer() {
					t.Errorf("%s: no trailer", c.frames)
				}
				m.TrailerReceived()
			}
		}
		if err == nil {
			err = m.End()
		}
		if err != c.want {
			t.Errorf("%s: %v, want %v", c.frames, err, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	if err := error(malformed[3]); !errors.Is(err, malformed[3].cause) || Violation(err) == nil || !strings.HasPrefix(err.Error(), "sluice: http3: ") {
		t.Error(err)
	}
	if Violation(errors.New("x")) != nil {
		t.Error("another error is a violation")
	}
	for code, want := range map[Code]string{NoError: "H3_NO_ERROR", VersionFallback: "H3_VERSION_FALLBACK", DecoderStreamError: "QPACK_DECODER_STREAM_ERROR", 7: "unknown code"} {
		if code.String() != want {
			t.Errorf("%#x is %s", uint64(code), code)
		}
	}
}
