package h2

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/field"
	"github.com/sluicehttp/sluice/internal/h1"
)

// receive decodes block as one frame.
func (d *Decoder) receive(kind FieldBlock, block []byte) (t field.Table, h Head, violation *Error, err error) {
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
		kind := RequestBlock
		switch random.IntN(40) {
		case 0:
			kind = UnwantedBlock
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
		if err1 == nil && (h1 != h2 || !reflect.DeepEqual(t1, t2)) {
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

// TestRepeatedBlocksAreBounded: long blocks are not kept.
func TestRepeatedBlocksAreBounded(t *testing.T) {
	d := Decoder{Limits: h1.DefaultLimits}
	d.Reset()
	for _, size := range []int{maxRepeated, maxRepeated / 2} {
		block := requestWith(literal("a", strings.Repeat("x", size)))
		for range 3 {
			if _, _, violation, err := d.receive(RequestBlock, block); violation != nil || err != nil {
				t.Fatal(violation, err)
			}
		}
		if isKept := d.last != nil; isKept != (len(block) <= maxRepeated) {
			t.Errorf("%d bytes: kept %v", len(block), isKept)
		}
	}
}
