package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// v2 returns a header of version 2 with any fields.
func v2(command, family byte, rest string) string {
	return signature + string([]byte{command, family}) + string(binary.BigEndian.AppendUint16(nil, uint16(len(rest)))) + rest
}

const (
	ipv4 = "\xc0\x00\x02\x01\xc6\x33\x64\x02\x04\xd2\x01\xbb" // 192.0.2.1:1234 to 198.51.100.2:443
	ipv6 = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" +
		"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x04\xd2\x01\xbb"
)

// unixPair returns the addresses of two unix sockets.
func unixPair(source, destination string) string {
	pad := func(s string) string { return s + strings.Repeat("\x00", unixName-len(s)) }
	return pad(source) + pad(destination)
}

// header returns h in comparable form.
func header(h Header) string {
	text := h.Source.String() + " " + h.Destination.String()
	if h.IsUnix {
		text = "unix " + string(h.SourceName) + " " + string(h.DestinationName)
	}
	if !h.HasAddresses() {
		text = "none"
	}
	for kind, value := range h.TLVs.All() {
		if kind == TypeChecksum {
			continue // it depends on how the rest is written
		}
		text += string([]byte{' ', kind, '='}) + string(value)
	}
	return text
}

var valid = []struct{ name, in, want string }{
	{"v1 TCP4", "PROXY TCP4 192.0.2.1 198.51.100.2 1234 443\r\n", "192.0.2.1:1234 198.51.100.2:443"},
	{"v1 TCP4, longest", "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255:65535 255.255.255.255:65535"},
	{"v1 TCP6", "PROXY TCP6 2001:db8::1 ::2 1234 443\r\n", "[2001:db8::1]:1234 [::2]:443"},
	{"v1 TCP6, longest", "PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
		"[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535 [ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"},
	{"v1 port 0", "PROXY TCP4 192.0.2.1 198.51.100.2 0 0\r\n", "192.0.2.1:0 198.51.100.2:0"},
	{"v1 UNKNOWN", "PROXY UNKNOWN\r\n", "none"},
	{"v1 UNKNOWN, longest", "PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n", "none"},
	{"v1 UNKNOWN with anything", "PROXY UNKNOWN \x00 \r what\r\n", "none"},
	{"v2 IPv4", v2(0x21, 0x11, ipv4), "192.0.2.1:1234 198.51.100.2:443"},
	{"v2 IPv4, datagrams", v2(0x21, 0x12, ipv4), "192.0.2.1:1234 198.51.100.2:443"},
	{"v2 IPv6", v2(0x21, 0x21, ipv6), "[2001:db8::1]:1234 [2001:db8::2]:443"},
	{"v2 unix", v2(0x21, 0x31, unixPair("/run/a", "/run/b")), "unix /run/a /run/b"},
	{"v2 unix, abstract", v2(0x21, 0x31, unixPair("\x00a\x00b", "")), "unix \x00a\x00b "},
	{"v2 unix, longest", v2(0x21, 0x31, unixPair(strings.Repeat("x", unixName), "y")), "unix " + strings.Repeat("x", unixName) + " y"},
	{"v2 unspecified", v2(0x21, 0x00, ""), "none"},
	{"v2 unspecified with a TLV", v2(0x21, 0x00, "\x05\x00\x02id"), "none \x05=id"},
	{"v2 local", v2(0x20, 0x00, ""), "none"},
	{"v2 local with anything", v2(0x20, 0xff, "what"), "none"},
	{"v2 local with addresses", v2(0x20, 0x11, ipv4), "none"},
	{"v2 TLVs", v2(0x21, 0x11, ipv4+"\x01\x00\x02h2\x02\x00\x03a.b\xea\x00\x01!\x04\x00\x00"), "192.0.2.1:1234 198.51.100.2:443 \x01=h2 \x02=a.b \xea=! \x04="},
	{"v2 TLS", v2(0x21, 0x11, ipv4+"\x20\x00\x0c\x07\x00\x00\x00\x00\x21\x00\x04\x31.3!"), "192.0.2.1:1234 198.51.100.2:443 \x20=\x07\x00\x00\x00\x00\x21\x00\x041.3!"},
	{"v2 largest", v2(0x21, 0x11, ipv4+"\x04"+string([]byte{0x0f, 0xe1})+strings.Repeat("p", 0xfe1)), "192.0.2.1:1234 198.51.100.2:443 \x04=" + strings.Repeat("p", 0xfe1)},
}

func TestParse(t *testing.T) {
	for _, c := range valid {
		for _, after := range []string{"", "GET / HTTP/1.1\r\n"} {
			h, n, err := Parse([]byte(c.in + after))
			if err != nil || n != len(c.in) || header(h) != c.want {
				t.Errorf("%s: %q, %d of %d bytes, %v; want %q", c.name, header(h), n, len(c.in), err, c.want)
			}
		}
		for cut := range len(c.in) {
			if _, n, err := Parse([]byte(c.in[:cut])); n != 0 || err != nil {
				t.Errorf("%s: with %d bytes: %d, %v, want more", c.name, cut, n, err)
			}
		}
	}
}

func TestParseErrors(t *testing.T) {
	cases := []struct {
		name, in string
		want     error
	}{
		{"HTTP", "GET / HTTP/1.1\r\n", ErrAbsent},
		{"HTTP, one byte", "G", ErrAbsent},
		{"TLS", "\x16\x03\x01", ErrAbsent},
		{"another name", "PROXZ TCP4", ErrAbsent},
		{"lower case", "proxy TCP4", ErrAbsent},
		{"almost version 2", "\r\n\r\n\x00\r\nQUIT\r", ErrAbsent},
		{"v1 two spaces", "PROXY  TCP4 192.0.2.1 198.51.100.2 1234 443\r\n", errLine},
		{"v1 another family", "PROXY UDP4 192.0.2.1 198.51.100.2 1234 443\r\n", errLine},
		{"v1 no family", "PROXY \r\n", errLine},
		{"v1 almost unknown", "PROXY UNKNOWNS\r\n", errLine},
		{"v1 IPv6 in TCP4", "PROXY TCP4 ::1 ::2 1234 443\r\n", errLine},
		{"v1 IPv4 in TCP6", "PROXY TCP6 192.0.2.1 198.51.100.2 1234 443\r\n", errLine},
		{"v1 zone", "PROXY TCP6 fe80::1%eth0 ::2 1234 443\r\n", errLine},
		{"v1 name", "PROXY TCP4 localhost 198.51.100.2 1234 443\r\n", errLine},
		{"v1 zeros in the address", "PROXY TCP4 192.0.02.1 198.51.100.2 1234 443\r\n", errLine},
		{"v1 zeros in the port", "PROXY TCP4 192.0.2.1 198.51.100.2 01234 443\r\n", errLine},
		{"v1 sign", "PROXY TCP4 192.0.2.1 198.51.100.2 +1 443\r\n", errLine},
		{"v1 large port", "PROXY TCP4 192.0.2.1 198.51.100.2 65536 443\r\n", errLine},
		{"v1 no port", "PROXY TCP4 192.0.2.1 198.51.100.2 1234\r\n", errLine},
		{"v1 more", "PROXY TCP4 192.0.2.1 198.51.100.2 1234 443 x\r\n", errLine},
		{"v1 line feed alone", "PROXY TCP4 192.0.2.1 198.51.100.2 1234 443\nx\r\n", errLine},
		{"v1 no end", "PROXY UNKNOWN " + strings.Repeat("x", 107-14), ErrTooLarge},
		{"v1 too long", "PROXY UNKNOWN " + strings.Repeat("x", 107-15) + "\r\n", ErrTooLarge},
		{"v2 version 1", v2(0x11, 0x11, ipv4), errVersion},
		{"v2 version 3", v2(0x31, 0x11, ipv4), errVersion},
		{"v2 command 2", v2(0x22, 0x11, ipv4), errCommand},
		{"v2 family 4", v2(0x21, 0x41, ipv4), errFamily},
		{"v2 transport 3", v2(0x21, 0x13, ipv4), errFamily},
		{"v2 short IPv4", v2(0x21, 0x11, ipv4[:11]), errTooShort},
		{"v2 short IPv6", v2(0x21, 0x21, ipv6[:35]), errTooShort},
		{"v2 short unix", v2(0x21, 0x31, unixPair("", "")[:215]), errTooShort},
		{"v2 too large", v2(0x21, 0x11, strings.Repeat("x", MaxSize-fixed2+1))[:fixed2], ErrTooLarge},
		{"v2 TLV cut in its head", v2(0x21, 0x11, ipv4+"\x01\x00"), errTLV},
		{"v2 TLV cut in its value", v2(0x21, 0x11, ipv4+"\x01\x00\x02h"), errTLV},
		{"v2 long id", v2(0x21, 0x11, ipv4+"\x05\x00\x81"+strings.Repeat("x", 129)), errTLV},
		{"v2 short TLS", v2(0x21, 0x11, ipv4+"\x20\x00\x04\x01\x00\x00\x00"), errTLV},
		{"v2 TLV cut in TLS", v2(0x21, 0x11, ipv4+"\x20\x00\x08\x01\x00\x00\x00\x00\x21\x00\x01"), errTLV},
		{"v2 short checksum", v2(0x21, 0x11, ipv4+"\x03\x00\x03abc"), errTLV},
		{"v2 wrong checksum", v2(0x21, 0x11, ipv4+"\x03\x00\x04abcd"), ErrChecksum},
	}
	for _, c := range cases {
		if h, n, err := Parse([]byte(c.in)); !errors.Is(err, c.want) || n != 0 || h.HasAddresses() {
			t.Errorf("%s: %+v, %d, %v; want %v", c.name, h, n, err, c.want)
		}
	}
}

// crc32c computes CRC-32C bit by bit (RFC 3720 section 12.1).
func crc32c(in []byte) uint32 {
	crc := ^uint32(0)
	for _, b := range in {
		crc ^= uint32(b)
		for range 8 {
			crc = crc>>1 ^ 0x82f63b78*(crc&1)
		}
	}
	return ^crc
}

func TestChecksum(t *testing.T) {
	in := []byte(v2(0x21, 0x11, ipv4+"\x04\x00\x01p\x03\x00\x04\x00\x00\x00\x00\x05\x00\x02id"))
	at := bytes.Index(in, []byte("\x03\x00\x04")) + 3
	binary.BigEndian.PutUint32(in[at:], crc32c(in))
	if _, n, err := Parse(in); n != len(in) || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	for i := range in {
		if i == at-tlvHead {
			continue // it is no checksum then
		}
		in[i] ^= 1
		if h, n, err := Parse(in); n == len(in) && err == nil && h.HasAddresses() {
			t.Errorf("byte %d is wrong, and nobody notices", i)
		}
		in[i] ^= 1
	}
}

func TestTLS(t *testing.T) {
	value := append([]byte{7, 0, 0, 0, 0}, TLVs(nil).Append(TypeTLSVersion, []byte("TLSv1.3")).Append(TypeTLSName, []byte("me"))...)
	if x, ok := ParseTLS(value); !ok || !x.IsUsed || !x.HasCertificate || !x.IsVerified ||
		string(x.TLVs.Get(TypeTLSVersion)) != "TLSv1.3" || string(x.TLVs.Get(TypeTLSName)) != "me" || x.TLVs.Get(TypeTLSCipher) != nil {
		t.Errorf("%+v, %v", x, ok)
	}
	for _, c := range []struct {
		client              byte
		verify              byte
		used, has, verified bool
	}{{0, 0, false, false, false}, {1, 0, true, false, false}, {3, 1, true, true, false}, {5, 0, true, true, true}} {
		x, ok := ParseTLS([]byte{c.client, 0, 0, 0, c.verify})
		if !ok || x.IsUsed != c.used || x.HasCertificate != c.has || x.IsVerified != c.verified {
			t.Errorf("client %d, verify %d: %+v, %v", c.client, c.verify, x, ok)
		}
	}
}

// A header that is appended is parsed to what it was.
func TestAppend(t *testing.T) {
	address := netip.MustParseAddrPort
	for _, h := range []Header{
		{Version: 1, Source: address("192.0.2.1:1"), Destination: address("192.0.2.2:65535")},
		{Version: 1, Source: address("[2001:db8::1]:1"), Destination: address("[::2]:2")},
		{Version: 1},
		{Version: 2},
		{Version: 2, Source: address("192.0.2.1:1"), Destination: address("192.0.2.2:2")},
		{Version: 2, Source: address("[2001:db8::1]:1"), Destination: address("[::2]:2"), TLVs: TLVs(nil).Append(TypeChecksum, make([]byte, 4)).Append(TypeAuthority, []byte("a"))},
		{Version: 2, IsUnix: true, SourceName: []byte("/a"), DestinationName: []byte("\x00b")},
	} {
		in := Append([]byte("before"), h)[len("before"):]
		got, n, err := Parse(in)
		if err != nil || n != len(in) || got.Version != h.Version || header(got) != header(h) {
			t.Errorf("%+v: %q is parsed to %+v, %d, %v", h, in, got, n, err)
		}
	}
	if h, n, err := Parse([]byte(Local)); n != len(Local) || err != nil || h.HasAddresses() {
		t.Errorf("Local: %+v, %d, %v", h, n, err)
	}
}

// Parsing a connection's header of version 2 allocates nothing.
func TestParseAllocations(t *testing.T) {
	in := []byte(v2(0x21, 0x21, ipv6+"\x02\x00\x03a.b"))
	if n := testing.AllocsPerRun(100, func() { _, _, _ = Parse(in) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkParse(b *testing.B) {
	for _, c := range valid {
		if c.name != "v1 TCP4" && c.name != "v2 IPv4" {
			continue
		}
		b.Run(c.name, func(b *testing.B) {
			in := []byte(c.in)
			for b.Loop() {
				_, _, _ = Parse(in)
			}
		})
	}
}

// FuzzParse: a header is found at the same place however its bytes come, what precedes its end
// wants more or is the same error, and a header that is appended is parsed to what it was.
func FuzzParse(f *testing.F) {
	for _, c := range valid {
		f.Add([]byte(c.in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		h, n, err := Parse(in)
		if n < 0 || n > len(in) || n > MaxSize || err != nil && n != 0 {
			t.Fatalf("%d of %d bytes, %v", n, len(in), err)
		}
		if n == 0 && err == nil && len(in) >= MaxSize {
			t.Fatal("it wants more than MaxSize")
		}
		for cut := range min(n, len(in)) {
			if _, m, err := Parse(in[:cut]); m != 0 || err != nil {
				t.Fatalf("%d of %d bytes: %d, %v", cut, n, m, err)
			}
		}
		if n == 0 {
			return
		}
		again := Append(nil, h)
		got, m, err := Parse(again)
		if err != nil || m != len(again) || header(got) != header(h) {
			t.Fatalf("%q is %q after Append: %q, %v", in[:n], again, header(got), err)
		}
	})
}
