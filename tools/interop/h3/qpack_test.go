package h3

import (
	"bytes"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quic-go/qpack"

	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// TestQPACK: our encoder's sections mean the same to quic-go's decoder, and its encoder's to ours.
func TestQPACK(t *testing.T) {
	names := []string{"server", "content-type", "cache-control", "x-a", "vary", "set-cookie", "authorization", "access-control-allow-headers", "x-" + strings.Repeat("n", 300), "content-encoding", "etag"}
	values := []string{"", "a", "text/html; charset=utf-8", "text/plain;charset=utf-8", "no-cache", "*", "gzip", "br", strings.Repeat("v", 127), strings.Repeat("long ", 100) + "end", "\xe2\x82\xac", "~|{}<>", "0"}
	random := rand.New(rand.NewPCG(3, 4))
	var e h3.Encoder
	d := h3.Decoder{}
	d.Limits = h1.DefaultLimits
	for range 2000 {
		want := []qpack.HeaderField{{Name: ":status", Value: "200"}}
		ours := e.AppendStatus(e.Begin(nil), 200)
		var theirs bytes.Buffer
		other := qpack.NewEncoder(&theirs)
		for range random.IntN(10) {
			name, value := names[random.IntN(len(names))], values[random.IntN(len(values))]
			want = append(want, qpack.HeaderField{Name: name, Value: value})
			ours = e.AppendField(ours, field.Lookup(name), []byte(name), []byte(value))
		}
		for _, f := range want {
			if err := other.WriteField(f); err != nil {
				t.Fatal(err)
			}
		}
		var got []qpack.HeaderField
		for next := qpack.NewDecoder().Decode(ours); ; {
			f, err := next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("quic-go reads %x: %v", ours, err)
			}
			got = append(got, f)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("quic-go reads %q, want %q", got, want)
		}
		var table field.Table
		var head fieldlist.Head
		if err := d.Decode(theirs.Bytes(), fieldlist.Response, &table, &head); err != nil {
			t.Fatalf("we read %x: %v", theirs.Bytes(), err)
		}
		got = []qpack.HeaderField{{Name: ":status", Value: "200"}}
		for i := range table.Len() {
			got = append(got, qpack.HeaderField{Name: strings.ToLower(string(table.Name(i))), Value: string(table.Value(i))})
		}
		if !slices.Equal(got, want) || head.StatusCode != 200 {
			t.Fatalf("we read %q, want %q", got, want)
		}
	}
}
