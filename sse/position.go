package sse

import (
	"slices"
	"strconv"
	"strings"
)

// maxMarks is how many processes a position names. What others have published is not
// known to be missing or not.
const maxMarks = 64

// A mark is an event of one process: the process has a random number, and counts its events
// from 1.
type mark struct {
	run    uint32
	number uint64
}

// A position says which events a client has: those of each process up to a number. The
// first mark is the last event that it got. Events of two processes may reach other
// processes in another order, so one number is not enough.
//
// The ID of an event is the position after it. The text of a mark is its run in base 36, a
// dot and its number; "-" separates marks.
type position []mark

// find returns the number of a run. ok is false if p does not name it.
func (p position) find(run uint32) (number uint64, ok bool) {
	for _, m := range p {
		if m.run == run {
			return m.number, true
		}
	}
	return 0, false
}

// with returns the position after m. It may change p.
func (p position) with(m mark) position {
	for i := range p {
		if p[i].run == m.run {
			copy(p[1:], p[:i])
			p[0] = m
			return p
		}
	}
	if len(p) < maxMarks {
		p = append(p, mark{})
	}
	copy(p[1:], p)
	p[0] = m
	return p
}

// and returns the position of a client that has what p and what other says. It may change p.
func (p position) and(other position) position {
	for _, m := range other {
		switch i := slices.IndexFunc(p, func(in mark) bool { return in.run == m.run }); {
		case i >= 0:
			p[i].number = max(p[i].number, m.number)
		case len(p) < maxMarks:
			p = append(p, m)
		}
	}
	return p
}

func appendMark(dst []byte, m mark) []byte {
	dst = append(strconv.AppendUint(dst, uint64(m.run), 36), '.')
	return strconv.AppendUint(dst, m.number, 10)
}

func appendPosition(dst []byte, p position) []byte {
	for i, m := range p {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = appendMark(dst, m)
	}
	return dst
}

// parsePosition is the reverse of appendPosition. A text that no Hub has made is none.
func parsePosition(text string) (p position, ok bool) {
	for part := range strings.SplitSeq(text, "-") {
		run, number, _ := strings.Cut(part, ".")
		r, err := strconv.ParseUint(run, 36, 32)
		if err != nil {
			return nil, false
		}
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil || len(p) == maxMarks {
			return nil, false
		}
		p = append(p, mark{uint32(r), n})
	}
	return p, true
}
