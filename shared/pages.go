package shared

import "iter"

// Others iterates over the pages of the other attached processes, including the
// master's. [Page.Get] of [ProcessState] tells which of them serve. It takes a few
// nanoseconds for each process and allocates nothing. Use a page only during its
// step of the iteration; later it may belong to another process.
func (s *Segment) Others() iter.Seq[*Page] {
	return func(yield func(*Page) bool) {
		for lane := range s.lanesInUse() {
			if lane == s.lane || s.laneWord(lane, lanePID).Load() == 0 {
				continue
			}
			page := Page{s.page(lane)}
			if !yield(&page) {
				return
			}
		}
	}
}

// PID returns the id of the page's process.
func (p *Page) PID() int { return int(p.Get(fieldPID)) }
