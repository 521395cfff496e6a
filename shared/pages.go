package shared

import "iter"

// Others iterates over the pages of the other processes that are attached, the
// master's among them: [Page.Get] of [ProcessState] tells who serves. It takes
// some nanoseconds for each process and allocates nothing. A page is of use for
// as long as the iteration stays at it; another process may have it later.
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

// PID returns the number of the process whose page it is.
func (p *Page) PID() int { return int(p.Get(fieldPID)) }
