package field

import "github.com/sluicehttp/sluice/internal/wire/ascii"

// An Owner is a part of a type that owns memory. It notices that the value was copied by
// assignment, so that the copy can take memory of its own before it changes anything. The
// zero value is ready to use.
//
// It has the lower half of an address in units of four bytes, so that it fits into a gap.
type Owner struct{ self uint32 }

// Owns reports whether o's value has claimed its memory. It is small, so that what asks it
// before each change needs a call for the first change only.
func (o *Owner) Owns() bool { return o.self == uint32(ascii.Address(o)>>2) }

// IsCopy reports whether o's value is a copy whose memory still belongs to another one.
// From then on the value counts as the owner of its memory.
func (o *Owner) IsCopy() bool { return !o.Owns() && o.claim() }

func (o *Owner) claim() bool {
	isCopy := o.self != 0
	o.Moved()
	return isCopy
}

// Moved makes a copy the owner of the memory, which the other value gives up.
func (o *Owner) Moved() { o.self = uint32(ascii.Address(o) >> 2) }
