package upgrade

import (
	"context"
	"iter"
	"slices"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// Values returns the values of those fields whose name is name in any spelling. The methods
// of a header find one spelling only if the server keeps names as they were sent.
//
// A field that is absent costs no memory of its own: each connection of a million makes this
// search, and what one leaves lies between objects that stay.
func Values(fields iter.Seq2[[]byte, []byte], name string) [][]byte {
	s := searchPool.Get().(*search)
	defer searchPool.Put(s)
	s.name = name
	fields(s.visit)
	found := slices.Clone(s.found)
	clear(s.found)
	s.found = s.found[:0]
	return found
}

// A search is a function for a header to call, and what it has found.
type search struct {
	name  string
	found [][]byte
	visit func(key, value []byte) bool
}

func newSearch() any {
	s := new(search)
	s.visit = func(key, value []byte) bool {
		if ascii.EqualFold(key, s.name) {
			s.found = append(s.found, value)
		}
		return true
	}
	return s
}

// A header is a *sluice.RequestHeader.
type header interface {
	Peek(name string) []byte
	PeekAll(name string) [][]byte
}

// Peek is h.Peek(name) for any spelling of the name, where h is the head of the request of ctx, which
// is a sluice.RequestCtx. It costs a search through all fields only if the server keeps names as they
// were sent: over HTTP/2 that is in lower case.
func Peek(ctx context.Context, h header, name string) []byte {
	if value := h.Peek(name); len(value) > 0 {
		return value
	}
	if head := TakerOf(ctx).RequestHead(h); head.Table.KeepNames {
		var room [1][]byte
		if found := head.AppendAny(room[:0], name); len(found) > 0 {
			return found[0]
		}
	}
	return nil
}

// PeekAll is to h.PeekAll what Peek is to h.Peek. The result is valid until the next call of a method
// of h that returns several values.
func PeekAll(ctx context.Context, h header, name string) [][]byte {
	if head := TakerOf(ctx).RequestHead(h); head.Table.KeepNames {
		return head.AppendAny(nil, name)
	}
	return h.PeekAll(name)
}
