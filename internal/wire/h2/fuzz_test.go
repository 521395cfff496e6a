package h2

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

var fuzzLimits = h1.Limits{MaxLine: 100, MaxHead: 600, MaxFields: 8}

// outcome returns all that decoding a block has led to.
func (r *blockReader) outcome(err error) string {
	if err != nil {
		return fmt.Sprintf("%v, %d beyond, %x", err, r.d.Beyond, r.d.AppendPacked(nil))
	}
	return fmt.Sprintf("%q %+v %d %x", r.list(), r.head, r.d.Beyond, r.d.AppendPacked(nil))
}

// FuzzDecoder: however a block is cut, the result is the same, and a packed table is
// as good as the one that it was made from.
func FuzzDecoder(f *testing.F) {
	for i, block := range append(browserBlocks(f), requestWith(inserted("cookie", "a"), inserted("te", "x"), []byte{0x20, 0x3f, 0x45}),
		[]byte("\x20\x3f\xe1\x1f\x88\x7f\x80\x80\x01"), literal(string(make([]byte, 700)), "v"), fieldLines(plainGet+"a: b\nA: c")) {
		f.Add(block, uint16(i), uint16(3*i), uint8(i), i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, in []byte, a, b uint16, kind uint8, keepNames bool) {
		if len(in) > 4096 {
			t.Skip()
		}
		block := fieldlist.Kind(kind % 4)
		whole := newBlockReader()
		whole.d.Limits, whole.table.KeepNames = fuzzLimits, keepNames
		for range 2 { // the second time with what the first has put into the table
			whole.d.SetLimit(300 + int(kind))
			before := whole.d.AppendPacked(nil)
			cut := [][]byte{in[:min(a, b, uint16(len(in)))], nil, nil}
			cut[1] = in[len(cut[0]):max(len(cut[0]), min(int(max(a, b)), len(in)))]
			cut[2] = in[len(cut[0])+len(cut[1]):]
			err := whole.read(block, in)
			want := whole.outcome(err)
			for _, pieces := range [][][]byte{cut, slices.Collect(slices.Chunk(in, 1))} {
				r := newBlockReader()
				r.d.Limits, r.table.KeepNames = fuzzLimits, keepNames
				if err := r.d.Unpack(before); err != nil {
					t.Fatal(err)
				}
				if got := r.outcome(r.read(block, pieces...)); got != want {
					t.Fatalf("cut at %d, %d:\n  got %s\nwhole %s", len(cut[0]), len(cut[1]), got, want)
				}
			}
			checkBounds(t, whole)
			if fatal, ok := err.(*Error); ok && fatal.Scope == ConnectionScope {
				return
			}
		}
	})
}

// checkBounds: nothing is larger than the limits say.
func checkBounds(t *testing.T, r *blockReader) {
	t.Helper()
	d, size := &r.d, 0
	for i := range r.table.Len() {
		size += len(r.table.Name(i)) + len(r.table.Value(i))
	}
	if size > 3*fuzzLimits.MaxHead || r.table.Len() > fuzzLimits.MaxFields+2 {
		t.Fatalf("%d bytes in %d fields", size, r.table.Len())
	}
	size = 0
	for i := range d.table.count {
		size += d.table.get(i).size()
	}
	if d.table.size != size || size > d.table.max {
		t.Fatalf("table of %d bytes, counted %d, of %d", size, d.table.size, d.table.max)
	}
}

// FuzzPackedDecoder: what is unpacked is packed to the same bytes; anything else is an
// error.
func FuzzPackedDecoder(f *testing.F) {
	r := newBlockReader()
	f.Add(r.d.AppendPacked(nil))
	for _, block := range browserBlocks(f) {
		if err := r.read(fieldlist.Request, block); err != nil {
			f.Fatal(err)
		}
		f.Add(r.d.AppendPacked(nil))
	}
	f.Fuzz(func(t *testing.T, packed []byte) {
		var d Decoder
		if err := d.Unpack(packed); err != nil {
			if err != ErrPackedDecoder {
				t.Fatal(err)
			}
			return
		}
		if got := d.AppendPacked(nil); !bytes.Equal(got, packed) {
			t.Fatalf("%x became %x", packed, got)
		}
		if d.table.size > d.table.max {
			t.Fatal(d.table.size)
		}
	})
}

// FuzzPackedEncoder: the same for encoders.
func FuzzPackedEncoder(f *testing.F) {
	var pairs Pairs
	e := newEncoder(&pairs)
	f.Add(e.AppendPacked(nil))
	for range 10 {
		appendHello(nil, e, helloServer, helloType, helloDate)
	}
	e.SetLimit(1000)
	f.Add(e.AppendPacked(nil))
	f.Fuzz(func(t *testing.T, packed []byte) {
		var pairs Pairs
		e := new(Encoder)
		if err := e.Unpack(packed, &pairs); err != nil {
			if err != ErrPackedEncoder {
				t.Fatal(err)
			}
			return
		}
		if got := e.AppendPacked(nil); !bytes.Equal(got, packed) {
			t.Fatalf("%x became %x", packed, got)
		}
		e.Begin(nil)
	})
}

// FuzzPackedIndices: the same for encoders that share a list of pairs.
func FuzzPackedIndices(f *testing.F) {
	var pairs Pairs
	e := newEncoder(&pairs)
	f.Add(e.AppendIndices(nil))
	for range 10 {
		appendHello(nil, e, helloServer, helloType, helloDate)
	}
	f.Add(e.AppendIndices(nil))
	f.Fuzz(func(t *testing.T, packed []byte) {
		e := new(Encoder)
		if err := e.UnpackIndices(packed, &pairs); err != nil {
			if err != ErrPackedEncoder {
				t.Fatal(err)
			}
			return
		}
		if got := e.AppendIndices(nil); !bytes.Equal(got, packed) {
			t.Fatalf("%x became %x", packed, got)
		}
		e.Begin(nil)
	})
}

// FuzzEncoder: what is encoded by commands is decoded to the same fields, with any
// limit, and also after the state has moved to another process.
func FuzzEncoder(f *testing.F) {
	f.Add([]byte("\x10server\x10server\x10server\x10server\x10server\x10server\x01\x80\x10date\x10date\x10date\x02"))
	f.Add([]byte("\x04\x00\x11cookie\x30x-a\x04\xff\x02\x30x-a"))
	f.Add([]byte("0000007C10101010107C")) // a cookie, and an empty one
	names := []string{"Server", "x-a", "X-A", "cookie", "Accept-Charset", "proxy-authorization", "content-type", "x"}
	f.Fuzz(func(t *testing.T, commands []byte) {
		commands = commands[:min(len(commands), wideLimits.MaxFields)]
		e, r := newEncoder(new(Pairs)), newBlockReader()
		var block []byte
		var want [][2]string
		begun := false
		begin := func() {
			if !begun {
				block, begun = e.Begin(block[:0]), true
			}
		}
		end := func() {
			begin()
			if err := r.read(fieldlist.Trailer, block); err != nil {
				t.Fatal(err)
			}
			if got := r.list(); !slices.Equal(got, sortedList(want)) {
				t.Fatalf("%q\n want %q", got, sortedList(want))
			}
			want, begun = want[:0], false
		}
		for len(commands) > 1 {
			c, n := commands[0], int(commands[1])
			commands = commands[2:]
			switch c % 8 {
			case 0: // end of the block
				end()
			case 1: // another limit
				if !begun {
					e.SetLimit(n * 17)
					r.d.SetLimit(n * 17)
				}
			case 2: // another process
				if !begun {
					packed := e.AppendPacked(nil)
					if err := e.Unpack(packed, new(Pairs)); err != nil {
						t.Fatal(err)
					}
				}
			case 3: // a date
				begin()
				text := date[:27] + fmt.Sprint(n%2) + date[28:]
				block = e.AppendDate(block, []byte(text))
				want = append(want, [2]string{"date", text})
			case 4: // a length
				begin()
				block = e.AppendLength(block, int64(n))
				want = append(want, [2]string{"content-length", fmt.Sprint(n)})
			default:
				begin()
				name := names[n%len(names)]
				value := string(commands[:min(int(c)>>5, len(commands))])
				if !h1.IsFieldValue([]byte(value)) {
					value = "v"
				}
				block = e.add(block, name, value)
				want = append(want, [2]string{string(bytes.ToLower([]byte(name))), value})
			}
		}
		end()
	})
}
