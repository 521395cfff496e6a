package ws

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestMask(t *testing.T) {
	const key Key = 0x3d21fa37
	for size := range 200 {
		plain := []byte(strings.Repeat("a", size))
		for at := range size + 1 { // 0x80 at each place, or nowhere
			p := bytes.Clone(plain)
			if at < size {
				p[at] = 0x80
			}
			want := bytes.Clone(p)
			for i := range p {
				p[i] ^= byte(key >> (8 * (i % 4)))
			}
			next, isASCII := Mask(p, key)
			if !bytes.Equal(p, want) || isASCII != (at == size) {
				t.Fatalf("%d bytes, 0x80 at %d: %q, %v", size, at, p, isASCII)
			}
			half := size / 2
			mid, _ := Mask(p[:half], key)
			if end, _ := Mask(p[half:], mid); end != next {
				t.Fatalf("%d bytes: key %#x after two halves, %#x after all", size, end, next)
			}
			if _, _ = Mask(p, key); !bytes.Equal(p, want) {
				t.Fatalf("%d bytes in two halves: %q", size, p)
			}
		}
	}
}

func FuzzHead(f *testing.F) {
	f.Add([]byte("\x81\x85\x01\x02\x03\x04"))
	f.Add([]byte("\x82\x7e\x01\x00"))
	f.Add([]byte("\x02\xff\x00\x00\x00\x00\x00\x01\x00\x00\x01\x02\x03\x04"))
	f.Fuzz(func(t *testing.T, in []byte) {
		h, size, err := ParseHead(in)
		for n := range min(size, len(in)) {
			if _, size, err := ParseHead(in[:n]); size != 0 || err != nil {
				t.Fatalf("%d of its bytes: %d, %v", n, size, err)
			}
		}
		if err != nil || size == 0 {
			return
		}
		if out := AppendHead(nil, h); !bytes.Equal(out, in[:size]) {
			t.Fatalf("%x is appended as %x", in[:size], out)
		}
	})
}

func FuzzText(f *testing.F) {
	f.Add([]byte("κόσμε"), uint8(1), uint8(4))
	f.Add([]byte("a\xed\xa0\x80b"), uint8(2), uint8(3))
	f.Fuzz(func(t *testing.T, p []byte, a, b uint8) {
		first := min(int(a), len(p))
		second := min(first+int(b), len(p))
		var text Text
		isValid := text.Feed(p[:first]) && text.Feed(p[first:second]) && text.Feed(p[second:])
		if (isValid && text.IsWhole()) != utf8.Valid(p) {
			t.Fatalf("%q: %v", p, isValid)
		}
		if isValid != mayBegin(p) {
			t.Fatalf("%q: %v, but a text can begin so: %v", p, isValid, !isValid)
		}
	})
}

// mayBegin reports whether a text can begin with p.
func mayBegin(p []byte) bool {
	for len(p) > 0 {
		r, size := utf8.DecodeRune(p)
		if r != utf8.RuneError || size != 1 {
			p = p[size:]
			continue
		}
		if utf8.FullRune(p) {
			return false
		}
		return true
	}
	return true
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("\x41\x81\x00\x00\x00\x00\xff\x80\x80\x00\x00\x00\x00"), uint8(3), int64(10))
	f.Add([]byte("\x01\x82\x00\x00\x00\x00ab\x89\x81\x00\x00\x00\x00p\x80\x81\x00\x00\x00\x00c"), uint8(3), int64(10))
	f.Add([]byte("\x82\xfe\x00\x80\x01\x02\x03\x04"+strings.Repeat("x", 128)), uint8(60), int64(0))
	f.Add([]byte("A\xfe\x000"), uint8(1), int64(129)) // two errors: the first byte's counts
	f.Fuzz(func(t *testing.T, in []byte, step uint8, limit int64) {
		r := Reader{Limit: max(limit, 0), MaxFragments: 4, FromServer: step%2 == 0, Deflates: step%3 == 0}
		var ends []int
		for at := int(step); at < len(in) && step > 0; at += int(step) {
			ends = append(ends, at)
		}
		whole, cut := readAll(r, in, len(in)), readAll(r, in, append(ends, len(in))...)
		if strings.Join(whole, "\n") != strings.Join(cut, "\n") {
			t.Fatalf("%q\nin pieces of %d: %q", whole, step, cut)
		}
	})
}

// TestReaderFindsFrames: what is appended is found.
func TestReaderFindsFrames(t *testing.T) {
	payload := bytes.Repeat([]byte("0123456789abcdef"), 5000)
	for _, size := range []int{0, 1, 125, 126, 65535, 65536, 80000} {
		p := payload[:size]
		for name, test := range map[string]struct {
			reader Reader
			frame  []byte
		}{
			"client": {Reader{}, AppendMasked(nil, OpBinary, 0x1a2b3c4d, p)},
			"server": {Reader{FromServer: true}, AppendFrame(nil, OpBinary, p)},
		} {
			if got, want := readAll(test.reader, test.frame, len(test.frame)), describe(OpBinary, p); len(got) != 1 || got[0] != want {
				t.Errorf("%s, %d bytes: %q", name, size, got)
			}
		}
	}
}

func TestClose(t *testing.T) {
	sendable := map[Code]bool{}
	for _, c := range []Code{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999} {
		sendable[c] = true
	}
	for _, c := range []Code{0, 999, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1011, 1012, 1013, 1014, 1015, 1016, 1100, 2000, 2999, 3000, 4999, 5000, 65535} {
		if got := c.MaySend(); got != (sendable[c] || c >= 3000 && c < 5000) {
			t.Errorf("%d: %v", c, got)
		}
	}
	long := strings.Repeat("é", 100)
	for _, test := range []struct {
		code         Code
		reason, want string
	}{
		{CodeNone, "dropped", ""}, {1000, "", ""}, {4999, "bye", "bye"}, {1001, long, long[:122]}, {1001, "a" + long, ("a" + long)[:123]},
	} {
		body := AppendClose(nil, test.code, test.reason)
		code, reason, err := ParseClose(body)
		if code != test.code || string(reason) != test.want || err != nil || len(body) > MaxControl {
			t.Errorf("%d %q: %d %q %v", test.code, test.reason, code, reason, err)
		}
	}
}

func FuzzClose(f *testing.F) {
	f.Add([]byte("\x03\xe8bye"))
	f.Fuzz(func(t *testing.T, body []byte) {
		code, reason, err := ParseClose(body)
		if err != nil || len(body) > MaxControl {
			return
		}
		if out := AppendClose(nil, code, string(reason)); !bytes.Equal(out, body) {
			t.Fatalf("%q is appended as %q", body, out)
		}
	})
}

func TestHandshake(t *testing.T) {
	const key = "dGhlIHNhbXBsZSBub25jZQ==" // RFC 6455 section 1.3
	if got := string(AppendAccept(nil, []byte(key))); got != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Error(got)
	}
	nonce, ok := ParseKey([]byte(key))
	if !ok || string(nonce[:]) != "the sample nonce" || string(AppendKey(nil, nonce)) != key {
		t.Errorf("%q, %v", nonce, ok)
	}
	for _, wrong := range []string{"", "dGhlIHNhbXBsZSBub25jZQ", "dGhlIHNhbXBsZSBub25jZTE=", "dGhlIHNhbXBsZSBub25j!Q==", "dGhlIHNhbXBsZSBub25jZQ==="} {
		if _, ok := ParseKey([]byte(wrong)); ok {
			t.Errorf("%q is accepted", wrong)
		}
	}
	for list, want := range map[string]bool{
		"Upgrade": true, "keep-alive, upgrade": true, " UPGRADE\t,x": true, ",,upgrade": true,
		"": false, "upgrades": false, "keep-alive": false, `"upgrade"`: false, `"x, upgrade`: false,
	} {
		if got := HasToken([]byte(list), "upgrade"); got != want {
			t.Errorf("%q: %v", list, got)
		}
	}
}

func TestDeflate(t *testing.T) {
	for value, want := range map[string]string{
		"permessage-deflate":                              "permessage-deflate",
		"PerMessage-Deflate; client_max_window_bits":      "permessage-deflate; client_max_window_bits",
		"permessage-deflate;client_max_window_bits=\"9\"": "permessage-deflate; client_max_window_bits=9",
		"x, permessage-deflate ; server_max_window_bits = 15; server_no_context_takeover; client_no_context_takeover": "permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=15",
		// Wrong offers are declined, and the next one counts.
		"permessage-deflate; server_max_window_bits, permessage-deflate; server_no_context_takeover": "permessage-deflate; server_no_context_takeover",
		"permessage-deflate; unknown":                                                "",
		"permessage-deflate; server_max_window_bits=7":                               "",
		"permessage-deflate; server_max_window_bits=16":                              "",
		"permessage-deflate; server_max_window_bits=08":                              "",
		"permessage-deflate; client_max_window_bits=":                                "",
		"permessage-deflate; server_no_context_takeover=1":                           "",
		"permessage-deflate; client_no_context_takeover; client_no_context_takeover": "",
		"permessage-deflate; client_max_window_bits; client_max_window_bits":         "",
		"permessage-deflate; server_max_window_bits=9; server_max_window_bits=9":     "",
		"permessage-deflate;":                                                        "",
		"permessage-deflate; server_no_context_takeover;":                            "",
		"permessage-deflate; ; server_no_context_takeover":                           "",
		"x-webkit-deflate-frame":                                                     "",
		"":                                                                           "",
	} {
		d, _, ok := NextDeflate([]byte(value))
		got := ""
		if ok {
			got = string(AppendDeflate(nil, d))
		}
		if got != want {
			t.Errorf("%s\n got %q\nwant %q", value, got, want)
		}
	}
}

// TestDeflateAnswer: what a server answers to an offer.
func TestDeflateAnswer(t *testing.T) {
	alone := DeflatePolicy{SendsAlone: true, ReceivesAlone: true, ReceiveBits: 12}
	keeps := DeflatePolicy{ReceiveBits: 12}
	for _, test := range []struct {
		policy      DeflatePolicy
		offer, want string
	}{
		{alone, "", "; server_no_context_takeover; client_no_context_takeover"},
		{alone, "; client_max_window_bits", "; server_no_context_takeover; client_no_context_takeover"},
		{alone, "; server_max_window_bits=9", "; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=9"},
		{keeps, "", ""},
		{keeps, "; client_max_window_bits", "; client_max_window_bits=12"},
		{keeps, "; client_max_window_bits=15", "; client_max_window_bits=12"},
		{keeps, "; client_max_window_bits=9", "; client_max_window_bits=9"},
		{keeps, "; client_max_window_bits; client_no_context_takeover", "; client_no_context_takeover"},
		{keeps, "; server_no_context_takeover; server_max_window_bits=8", "; server_no_context_takeover; server_max_window_bits=8"},
		{DeflatePolicy{SendsAlone: true, ReceiveBits: 12}, "", "; server_no_context_takeover"},
	} {
		offer, _, ok := NextDeflate([]byte(deflateName + test.offer))
		if got := string(AppendDeflate(nil, test.policy.Answer(offer))); !ok || got != deflateName+test.want {
			t.Errorf("%+v, %s: %s", test.policy, test.offer, got)
		}
	}
	d := Deflate{ServerBits: 9, ClientNoTakeover: true}
	server, client := d.Server(), d.Client()
	if server.Bits() != 9 || !server.Keeps() || client.Bits() != 15 || client.Keeps() {
		t.Errorf("%x, %x", server, client)
	}
}

// TestDeflateOffer: what a client offers, and the answers that it takes.
func TestDeflateOffer(t *testing.T) {
	alone := DeflatePolicy{SendsAlone: true, ReceivesAlone: true, ReceiveBits: 12}
	keeps := DeflatePolicy{ReceiveBits: 12}
	if got := string(alone.AppendOffer(nil)); got != "permessage-deflate; server_no_context_takeover; client_no_context_takeover; client_max_window_bits" {
		t.Error(got)
	}
	if got := string(keeps.AppendOffer(nil)); got != "permessage-deflate; server_max_window_bits=12; client_max_window_bits, permessage-deflate; client_max_window_bits" {
		t.Error(got)
	}
	for _, test := range []struct {
		policy       DeflatePolicy
		answer, want string // "": fail, "-": no compression
	}{
		{keeps, "", "-"},
		{keeps, " ", "-"},
		{keeps, "permessage-deflate", "permessage-deflate"},
		{keeps, "permessage-deflate; server_no_context_takeover", "permessage-deflate; server_no_context_takeover"},
		{keeps, "permessage-deflate; client_max_window_bits=10; server_max_window_bits=12", "permessage-deflate; server_max_window_bits=12; client_max_window_bits=10"},
		{keeps, "permessage-deflate; server_max_window_bits=15", "permessage-deflate; server_max_window_bits=15"}, // to the second offer
		{alone, "permessage-deflate; server_no_context_takeover", "permessage-deflate; server_no_context_takeover; client_no_context_takeover"},
		{alone, "permessage-deflate", ""},
		{keeps, "permessage-deflate; client_max_window_bits", ""},
		{keeps, "permessage-deflate, permessage-deflate", ""},
		{keeps, "permessage-deflate,", ""},
		{keeps, "permessage-deflate; unknown", ""},
		{keeps, "permessage-deflate; server_max_window_bits=7", ""},
		{keeps, "permessage-deflate; server_no_context_takeover; server_no_context_takeover", ""},
		{keeps, "permessage-bzip2", ""},
		{keeps, "permessage-bzip2, permessage-deflate", ""},
	} {
		d, isOn, ok := test.policy.ParseAnswer([]byte(test.answer))
		got := ""
		switch {
		case ok && isOn:
			got = string(AppendDeflate(nil, d))
		case ok:
			got = "-"
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.answer, got, test.want)
		}
	}
}

// FuzzDeflateAnswer: a client takes what a server of ours answers to its offer, and both
// then know the same.
func FuzzDeflateAnswer(f *testing.F) {
	f.Add([]byte("permessage-deflate; client_max_window_bits=9"), true, false, uint8(12))
	f.Fuzz(func(t *testing.T, value []byte, sendsAlone, receivesAlone bool, bits uint8) {
		p := DeflatePolicy{SendsAlone: sendsAlone, ReceivesAlone: receivesAlone, ReceiveBits: MinWindowBits + bits%8}
		p.ParseAnswer(value)
		if offer, _, ok := NextDeflate(value); ok {
			if answer := p.Answer(offer); answer.Client().Bits() > p.ReceiveBits && answer.AcceptsClientBits ||
				offer.ServerBits > 0 && answer.ServerBits > offer.ServerBits || answer.AcceptsClientBits && !offer.AcceptsClientBits {
				t.Fatalf("%+v is answered with %+v", offer, answer)
			}
		}
		client := DeflatePolicy{SendsAlone: receivesAlone, ReceivesAlone: sendsAlone, ReceiveBits: 10}
		offer, _, _ := NextDeflate(client.AppendOffer(nil))
		answer := p.Answer(offer)
		if d, isOn, ok := client.ParseAnswer(AppendDeflate(nil, answer)); !isOn || !ok || d != answer {
			t.Fatalf("%+v is understood as %+v", answer, d)
		}
	})
}

func FuzzDeflate(f *testing.F) {
	f.Add([]byte("permessage-deflate; client_max_window_bits; server_max_window_bits=10, x"))
	f.Fuzz(func(t *testing.T, value []byte) {
		for rest := value; ; {
			d, after, ok := NextDeflate(rest)
			if !ok {
				return
			}
			if len(after) >= len(rest) {
				t.Fatal("nothing was used")
			}
			rest = after
			if again, left, ok := NextDeflate(AppendDeflate(nil, d)); again != d || len(left) > 0 || !ok {
				t.Fatalf("%+v is appended as %s", d, AppendDeflate(nil, d))
			}
		}
	})
}

func TestAllocations(t *testing.T) {
	frame := AppendMasked(nil, OpText, 0x12345678, []byte(strings.Repeat("κόσμε", 20)))
	in, out := make([]byte, len(frame)), make([]byte, 0, 256)
	var r Reader
	if n := testing.AllocsPerRun(100, func() {
		copy(in, frame)
		_, p, err := r.Next(in)
		if err != nil || !p.IsLast {
			t.Fatal(err)
		}
		out = AppendFrame(out[:0], OpText, p.Payload)
	}); n != 0 {
		t.Errorf("%v allocations for a message", n)
	}
}

func BenchmarkMask(b *testing.B) {
	for _, size := range []int{32, 1 << 10, 16 << 10} {
		p := make([]byte, size)
		for i := range p {
			p[i] = byte(rand.IntN(128))
		}
		b.Run(sizeName(size), func(b *testing.B) {
			b.SetBytes(int64(size))
			key := Key(0x12345678)
			for b.Loop() {
				key, _ = Mask(p, key)
			}
		})
	}
}

func BenchmarkText(b *testing.B) {
	for name, sample := range map[string]string{"ascii": "Hello, world. ", "greek": "κόσμε ", "chinese": "你好世界"} {
		frame := AppendMasked(nil, OpText, 0, []byte(strings.Repeat(sample, 16<<10/len(sample))))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(frame)))
			var r Reader
			for b.Loop() {
				if _, _, err := r.Next(frame); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReader reads a message that has arrived whole.
func BenchmarkReader(b *testing.B) {
	for _, size := range []int{32, 1 << 10} {
		frame := AppendMasked(nil, OpText, 0, bytes.Repeat([]byte("a"), size))
		b.Run(sizeName(size), func(b *testing.B) {
			r := Reader{Limit: 1 << 20, MaxFragments: 1024}
			for b.Loop() {
				if _, p, err := r.Next(frame); err != nil || !p.IsLast {
					b.Fatal(err)
				}
			}
		})
	}
}

func sizeName(size int) string {
	if size < 1<<10 {
		return "32B"
	}
	return map[int]string{1 << 10: "1KiB", 16 << 10: "16KiB"}[size]
}
