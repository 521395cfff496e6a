package h3

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// A sectionReader decodes sections for tests.
type sectionReader struct {
	d     Decoder
	table field.Table
	head  fieldlist.Head
}

func newSectionReader() *sectionReader {
	r := &sectionReader{}
	r.d.Limits, r.d.AcceptsConnect = h1.DefaultLimits, true
	return r
}

func (r *sectionReader) read(kind fieldlist.Kind, section []byte) error {
	r.table.Reset()
	return r.d.Decode(section, kind, &r.table, &r.head)
}

// text lists the fields that were decoded.
func (r *sectionReader) text() string {
	var b strings.Builder
	for i := range r.table.Len() {
		b.WriteString(strings.ToLower(string(r.table.Name(i))) + ": " + string(r.table.Value(i)) + "\n")
	}
	return b.String()
}

// TestSections: field lines of every kind (RFC 9204 section 4.5), and what refers to a dynamic
// table.
func TestSections(t *testing.T) {
	const get = "d1 d7 c1 50 01 61" // GET, https, /, authority a
	for name, c := range map[string]struct {
		wire string
		want error
		text string
	}{
		"RFC 9204 appendix B.1":       {"0000 510b 2f69 6e64 6578 2e68 746d 6c" + "d1d7 500161", nil, "host: a\n"},
		"indexed":                     {"0000" + get, nil, "host: a\n"},
		"a base above zero":           {"0005" + get, nil, "host: a\n"},
		"name of the table":           {"0000" + get + "5f50 01 75", nil, "user-agent: u\nhost: a\n"},
		"name of the table, secret":   {"0000" + get + "7f45 01 78", nil, "authorization: x\nhost: a\n"},
		"own name":                    {"0000" + get + "22 7879 01 7a", nil, "xy: z\nhost: a\n"},
		"own name, secret":            {"0000" + get + "32 7879 01 7a", nil, "xy: z\nhost: a\n"},
		"own name, Huffman codes":     {"0000" + get + "2a18c7 8218c7", nil, "aaa: aaa\nhost: a\n"},
		"no value":                    {"0000" + get + "22 7879 00", nil, "xy: \nhost: a\n"},
		"two cookies":                 {"0000" + get + "55 01 61 55 01 62", nil, "cookie: a; b\nhost: a\n"},
		"an empty cookie":             {"0000" + get + "55 01 61 c5 55 01 62 c5", nil, "cookie: a; b\nhost: a\n"},
		"empty cookies":               {"0000" + get + "c5 ff20 c5", nil, "user-agent: \ncookie: \nhost: a\n"},
		"last of the table":           {"0000" + get + "ff23", nil, "x-frame-options: sameorigin\nhost: a\n"},
		"nothing":                     {"", ErrSectionTruncated, ""},
		"half a prefix":               {"00", ErrSectionTruncated, ""},
		"a long count":                {"ff", ErrSectionTruncated, ""},
		"a base that does not end":    {"007f", ErrSectionTruncated, ""},
		"insertions":                  {"0100" + get, ErrDynamicTable, ""},
		"a base below zero":           {"0080" + get, ErrBase, ""},
		"indexed, dynamic":            {"000080", ErrDynamicTable, ""},
		"indexed after the base":      {"000010", ErrDynamicTable, ""},
		"name, dynamic":               {"000040 00", ErrDynamicTable, ""},
		"name after the base":         {"000000 00", ErrDynamicTable, ""},
		"index beyond the table":      {"0000ff24", ErrIndex, ""},
		"name beyond the table":       {"00005f5400", ErrIndex, ""},
		"half an index":               {"0000ff", ErrSectionTruncated, ""},
		"an index that is too large":  {"0000ffffffffffff", ErrInteger, ""},
		"a name that is too long":     {"000027ffffffffff", ErrInteger, ""},
		"half a name":                 {"000023 7879", ErrSectionTruncated, ""},
		"no value of its own":         {"000022 7879", ErrSectionTruncated, ""},
		"half a value":                {"000022 7879 02 7a", ErrSectionTruncated, ""},
		"half a value's length":       {"000022 7879 7f", ErrSectionTruncated, ""},
		"a value that is too long":    {"000022 7879 7fffffffffff", ErrInteger, ""},
		"padding of zeros":            {"000022 7879 8118", ErrHuffman, ""},
		"EOS in a name":               {"00002c ffffffff 00", ErrHuffman, ""},
		"capitals":                    {"0000" + get + "22 5879 01 7a", malformed[fieldlist.ErrFieldName], ""},
		"te":                          {"0000" + get + "22 7465 01 7a", malformed[fieldlist.ErrTE], ""},
		"connection":                  {"0000" + get + "27 03 636f6e6e656374696f6e 01 7a", malformed[fieldlist.ErrConnectionOnly], ""},
		"status":                      {"0000" + get + "d9", malformed[fieldlist.ErrPseudoForbidden], ""},
		"method twice":                {"0000" + get + "d1", malformed[fieldlist.ErrPseudoRepeated], ""},
		"no path":                     {"0000 d1 d7 50 01 61", malformed[fieldlist.ErrPseudoMissing], ""},
		"pseudo-field after a field":  {"0000 d1 d7 50 01 61 55 01 61 c1", malformed[fieldlist.ErrPseudoOrder], ""},
		"two lengths":                 {"0000" + get + "c4c4", malformed[fieldlist.ErrLength], ""},
		"what HTTP/1.1 answers":       {"0000" + get + "26 657870656374 01 7a", h1.ErrExpectation, ""},
		"a field that exceeds limits": {"0000" + get + strings.Repeat("22 7879 01 7a", 300), h1.ErrTooManyFields, ""},
	} {
		for _, keepNames := range []bool{false, true} {
			r := newSectionReader()
			r.table.KeepNames = keepNames
			if err := r.read(fieldlist.Request, unhex(t, c.wire)); err != c.want {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			} else if err == nil && r.text() != c.text {
				t.Errorf("%s: %q, want %q", name, r.text(), c.text)
			}
		}
	}
}

// TestLimitsOfSections: nothing is stored of what exceeds a limit.
func TestLimitsOfSections(t *testing.T) {
	r := newSectionReader()
	r.d.Limits = h1.Limits{MaxLine: 20, MaxHead: 300, MaxFields: 4}
	var e Encoder
	section := e.AppendRequest(e.Begin(nil), fieldlist.RequestFields{Method: []byte("GET"), Scheme: []byte("https"), Authority: []byte("a"), Path: []byte("/" + strings.Repeat("a", 30))})
	if err := r.read(fieldlist.Request, section); err != h1.ErrLineTooLong {
		t.Error(err)
	}
	section = e.AppendStatus(e.Begin(nil), 200)
	for range 3 {
		section = e.AppendField(section, field.Other, []byte("x-a"), bytes.Repeat([]byte("~"), 100))
	}
	if err := r.read(fieldlist.Response, section); err != h1.ErrHeadTooLarge {
		t.Error(err)
	}
	if n := len(r.table.Raw()); n > 300 {
		t.Errorf("%d bytes are stored", n)
	}
	section = e.Begin(nil)
	for range 5 {
		section = e.AppendField(section, field.Other, []byte("x-a"), nil)
	}
	if err := r.read(fieldlist.Trailer, section); err != h1.ErrTooManyFields {
		t.Error(err)
	}
}

func TestEncoder(t *testing.T) {
	var e Encoder
	r := newSectionReader()
	for _, c := range []fieldlist.RequestFields{
		{Method: []byte("GET"), Scheme: []byte("https"), Authority: []byte("a.b"), Path: []byte("/")},
		{Method: []byte("POST"), Scheme: []byte("http"), Authority: []byte("a.b"), Path: []byte("/index.html?a=b")},
		{Method: []byte("PATCH"), Scheme: []byte("https"), Authority: []byte("a.b"), Path: []byte("/x")},
		{Method: []byte("CONNECT"), Authority: []byte("a.b:1")},
		{Method: []byte("CONNECT"), Scheme: []byte("https"), Authority: []byte("a.b"), Path: []byte("/x"), Protocol: []byte("websocket")},
	} {
		if err := r.read(fieldlist.Request, e.AppendRequest(e.Begin(nil), c)); err != nil {
			t.Fatal(err)
		}
		raw, isPlain := r.table.Raw(), len(c.Path) == 0
		if string(r.head.Method.In(raw)) != string(c.Method) || string(r.head.Authority.In(raw)) != string(c.Authority) || string(r.head.Scheme.In(raw)) != string(c.Scheme) ||
			!isPlain && string(r.head.Target.In(raw)) != string(c.Path) || string(r.head.Connect.In(raw)) != string(c.Protocol) {
			t.Errorf("%q became %q", c, raw)
		}
	}
	for status := 100; status < 1000; status++ {
		section := e.AppendStatus(e.Begin(nil), status)
		if err := r.read(fieldlist.Response, section); status != 101 && (err != nil || r.head.StatusCode != status) {
			t.Fatalf("%d became %d, %v", status, r.head.StatusCode, err)
		}
	}
	const date = "Sun, 06 Nov 1994 08:49:37 GMT"
	for _, length := range []int64{0, 0, 1, 1 << 62, 0} {
		section := e.AppendDate(e.AppendLength(e.AppendStatus(e.Begin(nil), 200), length), []byte(date))
		if err := r.read(fieldlist.Response, section); err != nil || r.head.ContentLength != length || string(r.table.Get(field.Date)) != date {
			t.Errorf("%d became %d, %v, %s", length, r.head.ContentLength, err, r.table.Get(field.Date))
		}
	}
	section := e.AppendField(e.Begin(nil), field.Connection, []byte("Connection"), []byte("close"))
	section = e.AppendField(section, field.Other, []byte("Proxy-Connection"), []byte("close"))
	if len(section) != 2 {
		t.Errorf("a field of the connection is sent: %x", section)
	}
	for name, first := range map[string]byte{"Authorization": 0x7f, "Cookie": 0x75, "Proxy-Authorization": 0x3f, "User-Agent": 0x5f, "X-Y": 0x23} {
		section := e.AppendField(nil, field.Lookup([]byte(strings.ToLower(name))), []byte(name), []byte("x"))
		if section[0] != first && section[0]|8 != first {
			t.Errorf("%s begins with %x, want %x", name, section[0], first)
		}
	}
}

// TestEncoderUsesTheTable: each field of the static table is sent as its index.
func TestEncoderUsesTheTable(t *testing.T) {
	var e Encoder
	for i, text := range staticText {
		code := staticFields[i].code
		if code.IsPseudo() || fieldlist.IsSecret(code, []byte(text[0])) {
			continue
		}
		section := e.AppendField(nil, field.ID(code), []byte(text[0]), []byte(text[1]))
		if i == 75 { // its name is at two places
			continue
		}
		if want := appendIndexed(nil, byte(i)); !bytes.Equal(section, want) {
			t.Errorf("%q is %x, want %x", text, section, want)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	r, section := newSectionReader(), unhex(t, "0000 d1 d7 c1 50 01 61 5f50 01 75 22 7879 01 7a 55 01 61")
	var e Encoder
	buf := make([]byte, 0, 1<<10)
	head := fieldlist.RequestFields{Method: []byte("GET"), Scheme: []byte("https"), Authority: []byte("a.b"), Path: []byte("/x")}
	name, value := []byte("X-Request-Id"), []byte("12345")
	if n := testing.AllocsPerRun(100, func() {
		if err := r.read(fieldlist.Request, section); err != nil {
			t.Fatal(err)
		}
		buf = e.AppendField(e.AppendRequest(e.Begin(buf[:0]), head), field.Other, name, value)
		buf = appendHello(e.Begin(buf), &e)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzDecoder: a section that is accepted is encoded and decoded to the same fields, and no
// input makes a Decoder keep more than its limits.
func FuzzDecoder(f *testing.F) {
	for _, s := range []string{"0000d1d7c1500161", "0000d1d7c15001612278790 17a55016155016 2", "0000d95f5001 75c4", "00002278790 17a", "0000d1d7c150016132787901 7aff23"} {
		f.Add(unhex(f, s), uint8(0), false)
		f.Add(unhex(f, s), uint8(1), true)
	}
	limits := h1.Limits{MaxLine: 100, MaxHead: 600, MaxFields: 8}
	f.Fuzz(func(t *testing.T, section []byte, kind uint8, keepNames bool) {
		k := fieldlist.Kind(kind % 3)
		r := newSectionReader()
		r.d.Limits, r.table.KeepNames = limits, keepNames
		section = section[:min(len(section), r.d.MaxSection())]
		err := r.read(k, section)
		if n := len(r.table.Raw()); n > 3*limits.MaxHead {
			t.Fatalf("%d bytes are stored", n)
		}
		if err != nil {
			return
		}
		var e Encoder
		again := e.Begin(nil)
		raw := r.table.Raw()
		switch k {
		case fieldlist.Request:
			fields := fieldlist.RequestFields{Method: r.head.Method.In(raw), Scheme: r.head.Scheme.In(raw), Authority: r.head.Authority.In(raw), Path: r.head.Target.In(raw), Protocol: r.head.Connect.In(raw)}
			if !r.head.HasPseudo(fieldlist.PseudoPath) {
				fields.Path = nil
			}
			again = e.AppendRequest(again, fields)
		case fieldlist.Response:
			again = e.AppendStatus(again, r.head.StatusCode)
		}
		for i := range r.table.Len() {
			again = e.AppendField(again, r.table.ID(i), r.table.Name(i), r.table.Value(i))
		}
		other := newSectionReader()
		other.table.KeepNames = keepNames
		if err := other.read(k, again); err != nil || other.text() != r.text() {
			t.Fatalf("%v\n%q\n%q", err, other.text(), r.text())
		}
	})
}

func BenchmarkDecodeBrowser(b *testing.B) {
	var e Encoder
	section := e.AppendRequest(e.Begin(nil), fieldlist.RequestFields{Method: []byte("GET"), Scheme: []byte("https"), Authority: []byte("www.example.com"), Path: []byte("/articles?page=21")})
	for _, f := range [][2]string{{"user-agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"}, {"accept", "text/html,application/xhtml+xml,*/*;q=0.8"}, {"accept-encoding", "gzip, deflate, br"}, {"accept-language", "en-US,en;q=0.9"}, {"cookie", "session=0123456789abcdef"}} {
		section = e.AppendField(section, field.Lookup([]byte(f[0])), []byte(f[0]), []byte(f[1]))
	}
	r := newSectionReader()
	b.ReportAllocs()
	for b.Loop() {
		if err := r.read(fieldlist.Request, section); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeHello(b *testing.B) {
	var e Encoder
	buf := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		buf = appendHello(e.Begin(buf[:0]), &e)
	}
	b.ReportMetric(float64(len(buf)), "wire-bytes")
}

var helloServer, helloDate, helloType = []byte("sluice"), []byte("Sun, 06 Nov 1994 08:49:37 GMT"), []byte("text/plain; charset=utf-8")

// appendHello appends the fields of a small response.
func appendHello(dst []byte, e *Encoder) []byte {
	dst = e.AppendStatus(dst, 200)
	dst = e.AppendField(dst, field.Server, []byte("Server"), helloServer)
	dst = e.AppendDate(dst, helloDate)
	dst = e.AppendField(dst, field.ContentType, []byte("Content-Type"), helloType)
	return e.AppendLength(dst, 13)
}
