package interop_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// bothDecoders decodes the blocks of one connection with both implementations.
type bothDecoders struct {
	ours   h2.Decoder
	table  field.Table
	theirs *hpack.Decoder
	list   []string // what theirs has decoded
}

func newBothDecoders() *bothDecoders {
	r := &bothDecoders{ours: h2.Decoder{List: fieldlist.List{Limits: h1.Limits{MaxLine: 1 << 20, MaxHead: 1 << 20, MaxFields: 1 << 12}}}}
	r.ours.Reset()
	r.table.KeepNames = true
	r.theirs = hpack.NewDecoder(h2.DefaultTableSize, func(f hpack.HeaderField) {
		if !strings.HasPrefix(f.Name, ":") && f.Name != "cookie" {
			r.list = append(r.list, f.Name+"="+f.Value)
		}
	})
	return r
}

// read decodes a block with both. It returns the fields, without pseudo-fields and
// cookies, or ok is false: both refuse the block, and the connection is over.
func (r *bothDecoders) read(t *testing.T, block []byte) (fields []string, ok bool) {
	t.Helper()
	r.list = r.list[:0]
	_, theirError := r.theirs.Write(block)
	if theirError == nil {
		theirError = r.theirs.Close()
	}
	r.table.Reset()
	var head fieldlist.Head
	r.ours.Begin(fieldlist.Request, &r.table, &head)
	ourError := r.ours.Push(block)
	if ourError == nil {
		ourError = r.ours.End()
	}
	if e, isOurs := ourError.(*h2.Error); isOurs && e.Scope == h2.ConnectionScope {
		isStricter := e == h2.ErrInteger || e == h2.ErrSizeUpdateAt
		if theirError == nil && !isStricter {
			t.Fatalf("%x: ours has %v, theirs none", block, ourError)
		}
		return nil, false
	}
	if theirError != nil && strings.Contains(theirError.Error(), "size update") && beginsWithTwoUpdates(block) {
		return nil, false // which RFC 7541 section 4.2 allows
	}
	if theirError != nil {
		t.Fatalf("%x: ours has no error of the connection (%v), theirs %v", block, ourError, theirError)
	}
	for i := range r.table.Len() {
		isAdded := r.table.ID(i) == field.Host && i == r.table.Len()-1 && ourError == nil && head.Authority.End > 0
		if r.table.ID(i) != field.Cookie && !isAdded {
			fields = append(fields, fmt.Sprintf("%s=%s", r.table.Name(i), r.table.Value(i)))
		}
	}
	if !slices.Equal(fields, r.list) {
		t.Fatalf("%x:\n  ours %q\ntheirs %q", block, fields, r.list)
	}
	return fields, true
}

// beginsWithTwoUpdates reports whether a block begins with two updates of the table's
// size. Their decoder refuses them if the table has entries.
func beginsWithTwoUpdates(block []byte) bool {
	if len(block) == 0 || block[0]&0xe0 != 0x20 {
		return false
	}
	i := 1
	if block[0] == 0x3f {
		for i < len(block) && block[i] >= 0x80 {
			i++
		}
		i++
	}
	return i < len(block) && block[i]&0xe0 == 0x20
}

// FuzzDecoders: both decoders read the same in any bytes, in two blocks.
func FuzzDecoders(f *testing.F) {
	for _, block := range randomBlocks(rand.New(rand.NewPCG(1, 1)), 8) {
		f.Add(block, len(block)/2)
	}
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		if len(in) > 1<<12 || cut < 0 || cut > len(in) {
			t.Skip()
		}
		r := newBothDecoders()
		if _, ok := r.read(t, in[:cut]); ok {
			r.read(t, in[cut:])
		}
	})
}

// randomBlockFields returns fields of which some repeat.
func randomBlockFields(random *rand.Rand) (fields []hpack.HeaderField) {
	names := []string{"x-a", "server", "content-type", "cookie", "set-cookie", "accept-charset", "x-long-name-" + strings.Repeat("n", 40), "date", "origin"}
	for range random.IntN(12) {
		value := fmt.Sprint("value ", random.IntN(8))
		switch random.IntN(10) {
		case 0:
			value = ""
		case 1:
			value = strings.Repeat(string(rune('!'+random.IntN(90))), random.IntN(300))
		case 2:
			value = "\xff" + string([]byte{byte(0x80 + random.IntN(128))}) + "~"
		}
		fields = append(fields, hpack.HeaderField{Name: names[random.IntN(len(names))], Value: value, Sensitive: random.IntN(10) == 0})
	}
	return fields
}

// randomBlocks are blocks of one connection, written by their encoder.
func randomBlocks(random *rand.Rand, n int) (blocks [][]byte) {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for range n {
		b.Reset()
		if random.IntN(4) == 0 {
			e.SetMaxDynamicTableSize(uint32(random.IntN(h2.DefaultTableSize + 1)))
		}
		for _, f := range randomBlockFields(random) {
			_ = e.WriteField(f)
		}
		blocks = append(blocks, bytes.Clone(b.Bytes()))
	}
	return blocks
}

// TestTheirEncoder: what theirs writes, and what becomes of it when bytes change.
func TestTheirEncoder(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	for range 300 {
		r := newBothDecoders()
		for _, block := range randomBlocks(random, 20) {
			if _, ok := r.read(t, block); !ok && !beginsWithTwoUpdates(block) {
				t.Fatalf("%x is refused", block)
			} else if !ok {
				break
			}
		}
	}
	for range 3000 {
		r := newBothDecoders()
		for _, block := range randomBlocks(random, 4) {
			for range random.IntN(3) {
				if len(block) > 0 {
					block[random.IntN(len(block))] = byte(random.Uint32())
				}
			}
			if _, ok := r.read(t, block); !ok {
				break
			}
		}
	}
}

// TestOurEncoder: theirs reads what ours writes, whatever the limit of the table.
func TestOurEncoder(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	var pairs h2.Pairs
	for range 300 {
		var e h2.Encoder
		var got []hpack.HeaderField
		e.Reset(&pairs)
		theirs := hpack.NewDecoder(h2.DefaultTableSize, func(f hpack.HeaderField) { got = append(got, f) })
		for range 30 {
			if random.IntN(4) == 0 {
				limit := random.IntN(h2.DefaultTableSize + 1)
				e.SetLimit(limit)
				theirs.SetAllowedMaxDynamicTableSize(uint32(limit))
			}
			block := e.Begin(nil)
			fields := randomBlockFields(random)
			for i, f := range fields {
				block = e.AppendField(block, field.Lookup(f.Name), []byte(f.Name), []byte(f.Value))
				fields[i].Sensitive = f.Name == "cookie" || f.Name == "set-cookie"
			}
			got = got[:0]
			if _, err := theirs.Write(block); err != nil {
				t.Fatalf("%x: %v", block, err)
			}
			if err := theirs.Close(); err != nil || !slices.Equal(got, fields) {
				t.Fatalf("%x: %v\n got %v\nwant %v", block, err, got, fields)
			}
		}
	}
}
