package h2

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// receive decodes block as one frame.
func (d *Decoder) receive(kind fieldlist.Kind, block []byte) (t field.Table, h fieldlist.Head, violation *Error, err error) {
	return d.receiveTo(field.Table{}, kind, block)
}

// receiveWith is receive for a request, with Table.KeepNames.
func (d *Decoder) receiveWith(names bool, block []byte) (t field.Table, h fieldlist.Head, violation *Error, err error) {
	return d.receiveTo(field.Table{KeepNames: names}, fieldlist.Request, block)
}

func (d *Decoder) receiveTo(to field.Table, kind fieldlist.Kind, block []byte) (t field.Table, h fieldlist.Head, violation *Error, err error) {
	t = to
	d.Begin(kind, &t, &h)
	ev := Event{Kind: EventHeaders, Length: uint32(len(block)), Payload: block, Marks: FrameStart | BlockStart | EndHeaders}
	_, violation, err = d.Receive(&ev, &Budget{}, 0)
	return t, h, violation, err
}

// TestRepeatedBlocks: a block that repeats means what it would mean to a Decoder that keeps
// none, whatever comes between.
func TestRepeatedBlocks(t *testing.T) {
	blocks := [][]byte{
		requestWith(literal("a", "1")), requestWith(literal("a", "2")), requestWith(inserted("b", "1")),
		{0x82, 0x86, 0x84, 0xbe},                                               // of the table: valid while that begins with an authority
		append(requestWith(), 0xbe),                                            // the newest entry, whatever that is
		requestWith(literal("Upper", "1")),                                     // malformed
		requestWith(literal("a", string(make([]byte, 600)))),                   // malformed, and too long
		append([]byte{0x3f, 0xe1, 0x0f}, requestWith()...),                     // the size of the table is 2032
		append([]byte{0x20, 0x3f, 0xe1, 0x1f}, 0x82, 0x86, 0x84, 0x41, 1, 'h'), // it is emptied
		requestWith(inserted(":authority", "h")),
	}
	random := rand.New(rand.NewPCG(1, 2))
	var kept, plain Decoder
	for _, d := range []*Decoder{&kept, &plain} {
		d.Limits = h1.DefaultLimits
		d.Reset()
	}
	repeats, i := 0, 0
	for range 20000 {
		if random.IntN(3) == 0 {
			i = random.IntN(len(blocks))
		}
		kind := fieldlist.Request
		switch random.IntN(40) {
		case 0:
			kind = fieldlist.Unwanted
		case 1:
			kept.SetLimit(2100)
			plain.SetLimit(2100)
		case 2:
			kept.SetLimit(DefaultTableSize)
			plain.SetLimit(DefaultTableSize)
		case 3:
			kept.Reset()
			plain.Reset()
		}
		if kept.last != nil && string(kept.last.block) == string(blocks[i]) && kept.last.changes == kept.table.changes {
			repeats++
		}
		t1, h1, v1, err1 := kept.receive(kind, blocks[i])
		plain.Forget()
		t2, h2, v2, err2 := plain.receive(kind, blocks[i])
		if v1 != v2 || err1 != err2 {
			t.Fatalf("block %d: %v and %v, want %v and %v", i, v1, err1, v2, err2)
		}
		if err1 == nil && (h1 != h2 || !isSameTable(t1, t2)) {
			t.Fatalf("block %d: %+v %+v, want %+v %+v", i, h1, t1, h2, t2)
		}
		if !reflect.DeepEqual(kept.table.lines(), plain.table.lines()) || kept.low != plain.low {
			t.Fatalf("block %d: the tables differ", i)
		}
		if v1 != nil {
			kept.Reset()
			plain.Reset()
		}
	}
	if repeats < 100 {
		t.Errorf("%d blocks repeated", repeats)
	}
}

// withPath is the block of a request whose path has the encoded value wire. The path is in the
// middle; the newest entry of the table comes last.
func withPath(first byte, wire []byte) []byte {
	block := append([]byte{0x82, 0x01, 1, 'h', first}, wire...)
	return append(block, 0x86, 0x0f, 43, 1, 'x', 0xbe) // http; user-agent is number 58
}

// plainString is a string literal without Huffman codes.
func plainString(s string) []byte { return append(fieldlist.AppendInteger(nil, 0, 7, len(s)), s...) }

// TestRepeatedPaths is TestRepeatedBlocks for blocks that differ in their paths.
func TestRepeatedPaths(t *testing.T) {
	paths := [][]byte{
		fieldlist.AppendString(nil, 0, 7, []byte("/")), fieldlist.AppendString(nil, 0, 7, []byte("/articles?page=1")), fieldlist.AppendString(nil, 0, 7, []byte("/articles?page=21")),
		plainString("/a"), plainString("/%41"), plainString("/" + strings.Repeat("x", 80)), plainString("/" + strings.Repeat("x", 130)),
		plainString(""), plainString("*"), plainString("a"), plainString("/%4"), plainString("/ "), plainString("/\x00"), plainString("/\xff"), // no paths
		{0x81, 0xff}, {0x82, 0x60, 0xff}, {0x84, 0x60, 0x75, 0x99}, // faults of Huffman codes, and a code whose text differs
		{0x7f, 0x00}, {0x7f, 0xff, 0xff, 0xff, 0xff, 0xff}, {0x05, '/'}, {0x01, '/', '/'}, {}, // faults of lengths
	}
	var blocks [][]byte
	for _, path := range paths {
		blocks = append(blocks, withPath(0x04, path), withPath(0x14, path), withPath(0x44, path))
		blocks = append(blocks, append(append([]byte{0x04}, path...), 0x82, 0x86, 0x01, 1, 'h')) // the path comes first
		last := append([]byte{0x82, 0x86, 0x01, 1, 'h', 0x00, 5, ':', 'p', 'a', 't', 'h'}, path...)
		blocks = append(blocks, append(last, 0x0f, 43, 1, 'x')) // a value follows at once
	}
	blocks = append(blocks, requestWith(inserted("b", "1")), requestWith(inserted("content-length", "5")))
	random := rand.New(rand.NewPCG(3, 4))
	for _, names := range []bool{false, true} {
		repeats := 0
		var kept, plain Decoder
		for _, d := range []*Decoder{&kept, &plain} {
			d.Limits = h1.Limits{MaxLine: 100, MaxHead: 300, MaxFields: 10}
			d.Reset()
		}
		form := 0
		for range 40000 {
			if random.IntN(6) == 0 {
				form = random.IntN(5)
			}
			i := (random.IntN(len(paths))*5 + form) % len(blocks)
			if random.IntN(2) == 0 { // often paths are valid
				i = (random.IntN(5)*5 + form) % len(blocks)
			}
			if random.IntN(50) == 0 {
				i = len(blocks) - 1 - random.IntN(2)
			}
			before := kept.mark
			t1, h1, v1, err1 := kept.receiveWith(names, blocks[i])
			if kept.mark == before && kept.last != nil && string(kept.last.block) != string(blocks[i]) {
				repeats++
			}
			plain.Forget()
			t2, h2, v2, err2 := plain.receiveWith(names, blocks[i])
			if v1 != v2 || err1 != err2 {
				t.Fatalf("block %x: %v and %v, want %v and %v", blocks[i], v1, err1, v2, err2)
			}
			if err1 == nil && v1 == nil && (h1 != h2 || !isSameTable(t1, t2)) {
				t.Fatalf("block %x: %+v %+v, want %+v %+v", blocks[i], h1, t1, h2, t2)
			}
			if !reflect.DeepEqual(kept.table.lines(), plain.table.lines()) || kept.low != plain.low {
				t.Fatalf("block %x: the tables differ", blocks[i])
			}
			if v1 != nil {
				kept.Reset()
				plain.Reset()
			}
		}
		if repeats < 100 {
			t.Errorf("%d blocks repeated with another path", repeats)
		}
	}
}

// FuzzRepeatedPath: a block after one that was kept means what it would mean alone.
func FuzzRepeatedPath(f *testing.F) {
	f.Add(withPath(0x04, plainString("/a")), withPath(0x04, plainString("/bc")))
	f.Add([]byte("\x04\x01/\x82\x86\x01\x01h"), []byte("\x04\x82\x60\xff\x82\x86\x01\x01h"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var kept, plain Decoder
		for _, d := range []*Decoder{&kept, &plain} {
			d.Limits = h1.Limits{MaxLine: 40, MaxHead: 200, MaxFields: 10}
			d.Reset()
			for range 2 {
				if _, _, violation, _ := d.receive(fieldlist.Request, first); violation != nil {
					return
				}
			}
		}
		plain.Forget()
		t1, h1, v1, err1 := kept.receive(fieldlist.Request, second)
		t2, h2, v2, err2 := plain.receive(fieldlist.Request, second)
		if v1 != v2 || err1 != err2 || err1 == nil && v1 == nil && (h1 != h2 || !isSameTable(t1, t2)) {
			t.Fatalf("%+v %+v %v %v, want %+v %+v %v %v", h1, t1, v1, err1, h2, t2, v2, err2)
		}
		if !reflect.DeepEqual(kept.table.lines(), plain.table.lines()) || kept.low != plain.low {
			t.Fatal("the tables differ")
		}
	})
}

// TestRepeatedBlocksAreBounded: long blocks are not kept.
func TestRepeatedBlocksAreBounded(t *testing.T) {
	d := Decoder{List: fieldlist.List{Limits: h1.DefaultLimits}}
	d.Reset()
	for _, size := range []int{maxRepeated, maxRepeated / 2} {
		block := requestWith(literal("a", strings.Repeat("x", size)))
		for range 3 {
			if _, _, violation, err := d.receive(fieldlist.Request, block); violation != nil || err != nil {
				t.Fatal(violation, err)
			}
		}
		if isKept := d.last != nil; isKept != (len(block) <= maxRepeated) {
			t.Errorf("%d bytes: kept %v", len(block), isKept)
		}
	}
}

// isSameTable compares tables that have nothing in common but their content.
func isSameTable(a, b field.Table) bool {
	var at field.Table // both were here: a table knows its place
	at = a
	at.Moved()
	a = at
	at = b
	at.Moved()
	return reflect.DeepEqual(a, at)
}
