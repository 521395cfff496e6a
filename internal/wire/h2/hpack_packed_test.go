package h2

import (
	"bytes"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// TestPackedFlaws: entries of malformed requests, which cost no more than their streams, do not
// keep a decoder from being packed and unpacked.
func TestPackedFlaws(t *testing.T) {
	for _, name := range []string{"Host", "Content-Length", "Te", "x y", ":Path", ":x", ""} {
		var d Decoder
		d.Limits = h1.Limits{MaxHead: 1 << 10, MaxLine: 1 << 10, MaxFields: 10}
		d.Reset()
		d.Begin(fieldlist.Unwanted, nil, nil)
		block := fieldlist.AppendInteger([]byte{0x40}, 0, 7, len(name))
		block = append(fieldlist.AppendInteger(append(block, name...), 0, 7, 1), 'v')
		if err := d.Push(block); err != nil {
			t.Fatal(err)
		}
		if err := d.End(); err != nil {
			t.Fatal(err)
		}
		packed := d.AppendPacked(nil)
		var again Decoder
		if err := again.Unpack(packed); err != nil || again.table.count != 1 || !bytes.Equal(again.AppendPacked(nil), packed) {
			t.Errorf("%q: %v, %d entries", name, err, again.table.count)
			continue
		}
		if was, is := *d.table.get(0), *again.table.get(0); was.fieldName != is.fieldName {
			t.Errorf("%q: %+v became %+v", name, was, is)
		}
	}
}
