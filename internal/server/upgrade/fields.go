package upgrade

import (
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
