package h3

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
)

// TestKeptLines: an Encoder that has encoded other fields encodes a field as a new one does,
// also fields that share a place, and it does not keep the caller's bytes.
func TestKeptLines(t *testing.T) {
	names := []string{"Server", "content-type", "Content-Type", "ETag", "x-a", "X-A", "x-b", "x-ab", "Vary", "x-frame-options", "Link", "Authorization", "x-" + strings.Repeat("n", maxKeptText)}
	values := []string{"", "a", "sluice", "text/html", "text/html; charset=utf-8", "ab", "-a", strings.Repeat("v", maxKeptText), strings.Repeat("v", maxKeptText+1)}
	var e Encoder
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		name, value := []byte(names[random.IntN(len(names))]), []byte(values[random.IntN(len(values))])
		id := field.Lookup(name)
		var fresh Encoder
		got, want := e.AppendField(nil, id, name, value), fresh.AppendField(nil, id, name, value)
		if !bytes.Equal(got, want) {
			t.Fatalf("%s: %.40q is %x, want %x", name, value, got, want)
		}
		clear(name)
		clear(value)
	}
}

// TestKeptLinesAreBounded, whatever a handler sends; secrets are not among them.
func TestKeptLinesAreBounded(t *testing.T) {
	var e Encoder
	for i := range 5000 {
		name := []byte("x-" + strconv.Itoa(i%300))
		e.AppendField(nil, field.Other, name, bytes.Repeat([]byte{'~'}, i))
		e.AppendRequest(nil, fieldlist.RequestFields{Authority: bytes.Repeat([]byte{'a'}, i)})
	}
	e.AppendField(nil, field.Authorization, []byte("authorization"), []byte("hidden"))
	e.AppendField(nil, field.Other, []byte("proxy-authorization"), []byte("hidden"))
	size := 0
	for i := range e.lines {
		l := &e.lines[i]
		size += cap(l.text) + cap(l.line)
		if bytes.Contains(l.text, []byte("hidden")) {
			t.Errorf("%q is kept", l.text)
		}
	}
	if limit := keptLines * 4 * maxKeptText; size > limit {
		t.Errorf("%d bytes are kept, want at most %d", size, limit)
	}
	if size == 0 {
		t.Error("nothing is kept")
	}
}
