package fieldlist

import (
	"bytes"
	"strings"
	"testing"
)

// TestHuffmanTables: the codes are complete, and the table has all nodes that they need.
func TestHuffmanTables(t *testing.T) {
	var sum uint64
	for symbol, entry := range huffmanCodes {
		sum += 1 << (30 - entry>>32)
		if symbol < endOfString && entry&(1<<32-1)>>(entry>>32) != 0 {
			t.Errorf("the code of %d has more than %d bits", symbol, entry>>32)
		}
	}
	if sum != 1<<30 || huffmanCodes[endOfString]&(1<<32-1) != 1<<30-1 {
		t.Error("the codes are not complete")
	}
	// Examples of RFC 7541 appendix B.
	for symbol, code := range map[int]uint64{0: 0x1ff8, '0': 0, 'a': 3, '&': 0xf8, '\\': 0x7fff0, 0xff: 0x3ffffee, '\n': 0x3ffffffc, 0xf9: 0xffffffe} {
		if got := huffmanCodes[symbol] & (1<<32 - 1); got != code {
			t.Errorf("the code of %d is %x, want %x", symbol, got, code)
		}
	}
	used := map[byte]bool{0: true}
	for _, node := range huffmanSteps {
		for _, step := range node {
			if step>>8 == 0 && step != 0 {
				used[byte(step)] = true
			}
		}
	}
	if len(used) != huffmanNodes {
		t.Errorf("%d nodes are used of %d", len(used), huffmanNodes)
	}
}

func TestHuffmanRoundTrip(t *testing.T) {
	var every []byte
	for c := range 256 {
		every = append(every, byte(c))
		for _, s := range [][]byte{{byte(c)}, bytes.Repeat([]byte{byte(c)}, 3), append(every, 'a')} {
			coded := appendHuffman([]byte("x"), s)[1:]
			if len(coded) != huffmanLength(s) {
				t.Errorf("%q: %d bytes, want %d", s, len(coded), huffmanLength(s))
			}
			got, ok := AppendHuffmanDecoded([]byte("y"), coded)
			if !ok || string(got) != "y"+string(s) {
				t.Fatalf("%q became %q, %v", s, got, ok)
			}
		}
	}
}

// TestHuffmanPadding: up to seven bits, all of them ones.
func TestHuffmanPadding(t *testing.T) {
	for coded, want := range map[string]string{
		"": "", "\x1f": "a", "\x07": "0", "\xf8": "&", "\xf9": "*", "\xfe\x3f": "!", "\x18\xff": "aa",
	} {
		if got, ok := AppendHuffmanDecoded(nil, []byte(coded)); !ok || string(got) != want {
			t.Errorf("%x: %q, %v, want %q", coded, got, ok, want)
		}
	}
	for _, coded := range []string{
		"\x1e", "\x18", "\x00", "\x01", // a zero in the padding
		"\xff", "\x1f\xff", "\xf8\xff", "\xfe\x3f\xff", // eight bits or more
		"\xfe", "\xff\xff", "\xff\xfe", // half a code
		"\xff\xff\xff\xfc", "\xff\xff\xff\xff", "\x1f\xff\xff\xff\xff\xff", // EOS
	} {
		if got, ok := AppendHuffmanDecoded(nil, []byte(coded)); ok {
			t.Errorf("%x is %q", coded, got)
		}
	}
}

// FuzzHuffman: a text that is decoded has one code.
func FuzzHuffman(f *testing.F) {
	f.Add([]byte("\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"))
	f.Add([]byte("\xff\xff\xff\xfc"))
	f.Add([]byte(strings.Repeat("\x9c", 20)))
	f.Fuzz(func(t *testing.T, coded []byte) {
		if text, ok := AppendHuffmanDecoded(nil, coded); ok {
			if again := appendHuffman(nil, text); !bytes.Equal(again, coded) {
				t.Fatalf("%x is %q, which is %x", coded, text, again)
			}
			if len(text) > len(coded)*8/minHuffmanBits {
				t.Fatalf("%d bytes of %d", len(text), len(coded))
			}
		}
		got, ok := AppendHuffmanDecoded(nil, appendHuffman(nil, coded))
		if !ok || !bytes.Equal(got, coded) {
			t.Fatalf("%q became %q, %v", coded, got, ok)
		}
	})
}

func BenchmarkHuffmanDecode(b *testing.B) {
	text := "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"
	coded, out := appendHuffman(nil, []byte(text)), []byte(nil)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		out, _ = AppendHuffmanDecoded(out[:0], coded)
	}
}
