package h2

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// entries returns the dynamic table as "name: value" lines, the newest first.
func (t *dynamicTable) lines() (lines []string) {
	for i := range t.count {
		e := t.get(i)
		lines = append(lines, fmt.Sprintf("%s: %s", t.appendName(nil, e), t.appendValue(nil, e)))
	}
	return lines
}

// TestAppendixC: the examples of RFC 7541 appendix C, lists and tables.
//
// long: a table
func TestAppendixC(t *testing.T) {
	type block struct {
		wire  string
		list  string // "name value" lines, pseudo-fields sorted
		table string
		size  int
	}
	requests := [3]block{
		{"", ":authority www.example.com\n:method GET\n:path /\n:scheme http", ":authority: www.example.com", 57},
		{"", ":authority www.example.com\n:method GET\n:path /\n:scheme http\ncache-control no-cache",
			"cache-control: no-cache\n:authority: www.example.com", 110},
		{"", ":authority www.example.com\n:method GET\n:path /index.html\n:scheme https\ncustom-key custom-value",
			"custom-key: custom-value\ncache-control: no-cache\n:authority: www.example.com", 164},
	}
	const (
		date1  = "Mon, 21 Oct 2013 20:13:21 GMT"
		date2  = "Mon, 21 Oct 2013 20:13:22 GMT"
		where  = "https://www.example.com"
		cookie = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"
	)
	responses := [3]block{
		{"", ":status 302\ncache-control private\ndate " + date1 + "\nlocation " + where,
			"location: " + where + "\ndate: " + date1 + "\ncache-control: private\n:status: 302", 222},
		{"", ":status 307\ncache-control private\ndate " + date1 + "\nlocation " + where,
			":status: 307\nlocation: " + where + "\ndate: " + date1 + "\ncache-control: private", 222},
		{"", ":status 200\ncache-control private\ndate " + date2 + "\nlocation " + where + "\ncontent-encoding gzip\nset-cookie " + cookie,
			"set-cookie: " + cookie + "\ncontent-encoding: gzip\ndate: " + date2, 215},
	}
	for section, c := range map[string]struct {
		kind   fieldlist.Kind
		size   int
		blocks [3]block
		wires  [3]string
	}{
		"C.3": {fieldlist.Request, 4096, requests, [3]string{
			"828684410f7777772e6578616d706c652e636f6d",
			"828684be58086e6f2d6361636865",
			"828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
		}},
		"C.4": {fieldlist.Request, 4096, requests, [3]string{
			"828684418cf1e3c2e5f23a6ba0ab90f4ff",
			"828684be5886a8eb10649cbf",
			"828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
		}},
		"C.5": {fieldlist.Response, 256, responses, [3]string{
			"4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d",
			"4803333037c1c0bf",
			"88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31",
		}},
		"C.6": {fieldlist.Response, 256, responses, [3]string{
			"488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
			"4883640effc1c0bf",
			"88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
		}},
	} {
		r := newBlockReader()
		r.d.table.resize(c.size)
		for i, b := range c.blocks {
			if err := r.read(c.kind, unhex(t, c.wires[i])); err != nil {
				t.Fatalf("%s block %d: %v", section, i, err)
			}
			var list []string
			for _, f := range r.list() {
				list = append(list, f[0]+" "+f[1])
			}
			if got := strings.Join(list, "\n"); got != b.list {
				t.Errorf("%s block %d:\n%s\nwant\n%s", section, i, got, b.list)
			}
			if got := strings.Join(r.d.table.lines(), "\n"); got != b.table || r.d.table.size != b.size {
				t.Errorf("%s block %d: table of %d bytes\n%s\nwant %d\n%s", section, i, r.d.table.size, got, b.size, b.table)
			}
		}
	}
}

// literal is a literal field without indexing and without Huffman codes.
func literal(name, value string) []byte {
	b := fieldlist.AppendInteger([]byte{0}, 0, 7, len(name))
	b = fieldlist.AppendInteger(append(b, name...), 0, 7, len(value))
	return append(b, value...)
}

// inserted is literal with incremental indexing.
func inserted(name, value string) []byte {
	b := literal(name, value)
	b[0] = 0x40
	return b
}

func TestCompressionErrors(t *testing.T) {
	for wire, want := range map[string]error{
		"80":               ErrIndex,
		"be":               ErrIndex,
		"7e0161":           ErrIndex, // the name of entry 62
		"0f2f0161":         ErrIndex,
		"ffffffffff7f":     ErrInteger,
		"0082ffff00":       ErrHuffman,
		"0001618100":       ErrHuffman, // padding of zeros
		"00016182ffff":     ErrHuffman, // more padding than 7 bits
		"00016181ff":       ErrHuffman, // 8 bits of padding
		"00016184ffffffff": ErrHuffman, // EOS
		"000161857fffffff": ErrTruncated,
		"00":               ErrTruncated,
		"000161":           ErrTruncated,
		"0001610261":       ErrTruncated,
		"0f":               ErrTruncated,
		"3fe21f":           ErrSizeUpdate, // 4,097
		"202020":           ErrSizeUpdateAt,
		"8220":             ErrSizeUpdateAt,
	} {
		r := newBlockReader()
		if err := r.read(fieldlist.Request, unhex(t, wire)); err != want {
			t.Errorf("%s: %v, want %v", wire, err, want)
		}
		if err := r.d.Push([]byte{0x82}); want != ErrTruncated && err != ErrTruncated {
			t.Errorf("%s: after an error: %v", wire, err)
		}
	}
}

// TestSizeUpdates: what a smaller limit asks of the next block.
func TestSizeUpdates(t *testing.T) {
	request := unhex(t, "828684410161")
	for _, c := range []struct {
		limits []int
		wire   string
		want   error
	}{
		{nil, "", nil},
		{nil, "203fe11f", nil}, // 0, 4,096
		{[]int{100}, "", ErrNoSizeUpdate},
		{[]int{100}, "3f45", nil},
		{[]int{100}, "3f46", ErrSizeUpdate},
		{[]int{100}, "20", nil},
		{[]int{100}, "203f45", nil},
		{[]int{100, 4096}, "", ErrNoSizeUpdate},
		{[]int{100, 4096}, "3f46", ErrSizeUpdate},
		{[]int{100, 4096}, "3f453fe11f", nil},
		{[]int{0}, "", ErrNoSizeUpdate},
		{[]int{8192}, "", nil},
		{[]int{8192}, "3fe13f", nil},
		{[]int{8192}, "3fe23f", ErrSizeUpdate},
		{[]int{1 << 20}, "3fe1ff03", nil},
		{[]int{1 << 20}, "3fe2ff03", ErrSizeUpdate}, // above MaxTableSize
	} {
		r := newBlockReader()
		for _, limit := range c.limits {
			r.d.SetLimit(limit)
		}
		wire := append(unhex(t, c.wire), request...)
		if err := r.read(fieldlist.Request, wire); err != c.want {
			t.Errorf("%v, %q: %v, want %v", c.limits, c.wire, err, c.want)
		}
		if c.want == nil {
			if err := r.read(fieldlist.Request, request); err != nil {
				t.Errorf("%v, %q: the next block: %v", c.limits, c.wire, err)
			}
		}
	}
}

// requestWith is a request with more fields.
func requestWith(fields ...[]byte) []byte {
	b := []byte{0x82, 0x86, 0x84, 0x01, 1, 'a'}
	return append(b, bytes.Join(fields, nil)...)
}

// TestLimits: a list that exceeds a limit is refused, but keeps the table in step.
func TestLimits(t *testing.T) {
	const base = (7 + 3) + (7 + 4) + (5 + 1) + (10 + 1) + 4*fieldlist.FieldOverhead // of requestWith
	long := strings.Repeat("v", 300)
	for name, c := range map[string]struct {
		limits h1.Limits
		wire   []byte
		want   error
		beyond int64
	}{
		"all": {h1.Limits{MaxLine: 10, MaxHead: base + 2 + 32, MaxFields: 1}, requestWith(literal("a", "b")), nil, 0},
		"list": {h1.Limits{MaxLine: 10, MaxHead: base + 1 + 32, MaxFields: 9}, requestWith(literal("a", "b"), literal("c", "")),
			h1.ErrHeadTooLarge, 2 + 32 + 1 + 32},
		"fields":      {h1.Limits{MaxLine: 10, MaxHead: 1000, MaxFields: 1}, requestWith(literal("a", "b"), literal("c", "d")), h1.ErrTooManyFields, 34},
		"crumbs":      {h1.Limits{MaxLine: 10, MaxHead: 1000, MaxFields: 1}, requestWith(literal("cookie", "b"), literal("cookie", "d")), h1.ErrTooManyFields, 39},
		"path":        {h1.Limits{MaxLine: 10, MaxHead: 1000, MaxFields: 1}, append([]byte{0x82, 0x86, 0x41, 1, 'a', 0x04, 11}, "/0123456789"...), h1.ErrLineTooLong, 5 + 11 + 32},
		"long path":   {h1.Limits{MaxLine: 10, MaxHead: 200, MaxFields: 1}, append([]byte{0x82, 0x86, 0x41, 1, 'a'}, literal(":path", "/"+long)...), h1.ErrLineTooLong, 5 + 301 + 32},
		"long value":  {h1.Limits{MaxLine: 10, MaxHead: 200, MaxFields: 9}, requestWith(literal("a", long), literal("b", "")), h1.ErrHeadTooLarge, 1 + 300 + 32 + 33},
		"long name":   {h1.Limits{MaxLine: 10, MaxHead: 200, MaxFields: 9}, requestWith(literal(long, "v")), h1.ErrHeadTooLarge, 301 + 32},
		"long both":   {h1.Limits{MaxLine: 10, MaxHead: 200, MaxFields: 9}, requestWith(literal(long, long)), h1.ErrHeadTooLarge, 600 + 32},
		"no value":    {h1.Limits{MaxLine: 10, MaxHead: 200, MaxFields: 9}, requestWith(literal(long, "")), h1.ErrHeadTooLarge, 300 + 32},
		"over, wrong": {h1.Limits{MaxLine: 10, MaxHead: 200, MaxFields: 0}, requestWith(literal("a", "b"), literal("A", "b")), h1.ErrTooManyFields, 34 + 34},
	} {
		for cut := range c.wire {
			r := newBlockReader()
			r.d.Limits = c.limits
			r.d.table.resize(50) // so that 300 bytes are long
			wire := append(bytes.Clone(c.wire), inserted("x", "y")...)
			err := r.read(fieldlist.Request, wire[:cut], wire[cut:])
			if name == "all" {
				err = r.read(fieldlist.Request, c.wire[:cut], c.wire[cut:])
			}
			beyond := r.d.Beyond - 34 // the field that was inserted
			if name == "all" {
				if err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err != c.want || beyond != c.beyond {
				t.Fatalf("%s, cut at %d: %v, %d bytes beyond, want %v, %d", name, cut, err, beyond, c.want, c.beyond)
			}
			if got := r.d.table.lines(); !slices.Equal(got, []string{"x: y"}) {
				t.Fatalf("%s, cut at %d: the table has %q", name, cut, got)
			}
		}
	}
}

// TestLongStringEmptiesTheTable: so does every entry that is larger than the table.
func TestLongStringEmptiesTheTable(t *testing.T) {
	for _, wire := range [][]byte{
		inserted("a", strings.Repeat("v", 5000)), inserted("a", strings.Repeat("v", 70000)),
		inserted(strings.Repeat("n", 70000), "v"), inserted(strings.Repeat("n", 70000), ""),
	} {
		r := newBlockReader()
		r.d.Limits.MaxHead = 20000
		if err := r.read(fieldlist.Request, requestWith(inserted("a", "b"))); err != nil {
			t.Fatal(err)
		}
		err := r.read(fieldlist.Request, requestWith(wire, inserted("c", "d")))
		if isSmall := len(wire) < 20000; isSmall != (err == nil) {
			t.Errorf("%d bytes: %v", len(wire), err)
		}
		if got := r.d.table.lines(); !slices.Equal(got, []string{"c: d"}) {
			t.Errorf("%d bytes: the table has %q", len(wire), got)
		}
	}
}

// TestTableBounds: whatever is inserted, the memory of a table follows from its limit.
func TestTableBounds(t *testing.T) {
	for _, limit := range []int{0, 100, 4096, 65536} {
		r := newBlockReader()
		r.d.SetLimit(limit)
		update := fieldlist.AppendInteger(nil, 0x20, 5, limit)
		for i := range 3000 {
			block := requestWith(inserted("", ""), inserted("x", strings.Repeat("v", i*7%500)), inserted(fmt.Sprint("name", i), ""))
			if err := r.read(fieldlist.Unwanted, append(update, block...)); err != nil {
				t.Fatal(err)
			}
			update = nil
			table := &r.d.table
			if table.size > limit || len(table.bytes) > max(256, limit) || len(table.entries) > max(8, 2*limit/fieldlist.FieldOverhead) {
				t.Fatalf("limit %d: %d bytes, %d in the ring, %d entries", limit, table.size, len(table.bytes), len(table.entries))
			}
		}
	}
}

// TestPartialBound: pieces of a field are kept only up to the limit of the list.
func TestPartialBound(t *testing.T) {
	for _, wire := range [][]byte{
		literal(strings.Repeat("n", 1<<20), strings.Repeat("v", 1<<20)), literal("a", strings.Repeat("v", 1<<20)),
		literal(strings.Repeat("n", 7000), strings.Repeat("v", 8000)),
	} {
		r := newBlockReader()
		r.d.Limits.MaxHead = 8000
		r.d.table.resize(100)
		r.d.Begin(fieldlist.Request, &r.table, &r.head)
		for i, c := range wire {
			if err := r.d.Push([]byte{c}); err != nil {
				t.Fatal(err)
			}
			if len(r.d.partial) > 2*8000+16 {
				t.Fatalf("%d of %d bytes are kept", len(r.d.partial), i)
			}
		}
		if err := r.d.End(); err != h1.ErrHeadTooLarge {
			t.Error(err)
		}
		if n := cap(r.d.partial) + cap(r.d.scratch); n > maxKept {
			t.Errorf("%d bytes are kept after the block", n)
		}
		if n := cap(r.table.Raw()); n > 4*8000 {
			t.Errorf("the table of fields has %d bytes", n)
		}
	}
}

// TestCookies: crumbs become one field.
func TestCookies(t *testing.T) {
	for _, keepNames := range []bool{false, true} {
		for _, c := range []struct {
			fields [][]byte
			want   string
		}{
			{[][]byte{literal("cookie", "a=1"), literal("cookie", "b=2"), literal("cookie", "c=3"), literal("x", "y")}, "cookie=a=1; b=2; c=3|x=y"},
			{[][]byte{literal("cookie", ""), literal("cookie", "")}, "cookie="},
			{[][]byte{literal("cookie", "a=1"), literal("x", "y"), literal("cookie", "b=2"), literal("z", ""), literal("cookie", "c=3")}, "x=y|z=|cookie=a=1; b=2; c=3"},
			{[][]byte{inserted("cookie", "a=1"), {0xbe}, {0xbe}}, "cookie=a=1; a=1; a=1"},
		} {
			r := newBlockReader()
			r.table.KeepNames = keepNames
			if err := r.read(fieldlist.Trailer, bytes.Join(c.fields, nil)); err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range r.table.Len() {
				name := string(r.table.Name(i))
				if !keepNames {
					name = strings.ToLower(name)
				}
				got = append(got, fmt.Sprintf("%s=%s", name, r.table.Value(i)))
			}
			want := strings.Split(c.want, "|")
			if keepNames {
				slices.Sort(got)
				slices.Sort(want)
			}
			if !slices.Equal(got, want) {
				t.Errorf("KeepNames %v: %q, want %q", keepNames, got, c.want)
			}
			if i := r.table.FindID(field.Cookie, r.table.Index(field.Cookie)+1); i >= 0 {
				t.Errorf("a second cookie at %d", i)
			}
		}
	}
}

// TestKnownNamesCostNoBytes: the table of fields holds values only.
func TestKnownNamesCostNoBytes(t *testing.T) {
	r := newBlockReader()
	if err := r.read(fieldlist.Request, requestWith(inserted("user-agent", "u"), literal("accept", "a"), []byte{0xbe})); err != nil {
		t.Fatal(err)
	}
	if got := string(r.table.Raw()); got != "GET"+"http"+"/"+"a"+"u"+"a"+"u" {
		t.Errorf("%q", got)
	}
}

// The rest of a discarded block changes the tables, and nothing that Begin was given.
func TestDiscard(t *testing.T) {
	blocks := [2][]byte{[]byte("\x88\x40\x03x-a\x0asome value"), {0x88, 0xbe}}
	for cut := range blocks[0] {
		d := Decoder{List: fieldlist.List{Limits: h1.DefaultLimits}}
		d.Reset()
		var given, next field.Table
		var head fieldlist.Head
		d.Begin(fieldlist.Response, &given, &head)
		if err := d.Push(blocks[0][:cut]); err != nil {
			t.Fatal(err)
		}
		d.Discard()
		given.Reset()
		given.Set(field.Server, []byte("mine"))
		if err := errors.Join(d.Push(blocks[0][cut:]), d.End()); err != nil {
			t.Fatal(err)
		}
		if given.Len() != 1 || string(given.Value(0)) != "mine" {
			t.Errorf("cut at %d: the table of the discarded block has changed", cut)
		}
		d.Begin(fieldlist.Response, &next, &head)
		if err := errors.Join(d.Push(blocks[1]), d.End()); err != nil {
			t.Fatal(err)
		}
		if next.Len() != 1 || string(next.Value(0)) != "some value" {
			t.Errorf("cut at %d: the next block is wrong", cut)
		}
	}
}
