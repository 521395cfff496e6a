package shared

import "os"

// A lane is a process's place in the segment: a line of the lane table, a page of
// the scoreboard, and a separate cell in every counter, gauge and histogram. Each
// living process has its own lane, so writers need not wait for each other.
//
// Lanes are not the supervisor's slots. While a worker is being replaced, two
// processes have the same slot, but not the same lane.
const (
	lanePID   = 0 // the process id; zero if the lane is free
	laneEpoch = 1 // how many processes of this lane have died

	tokenLaneBits  = 48 // a token is lane+1 above the lane's epoch
	tokenEpochMask = 1<<tokenLaneBits - 1
)

func (s *Segment) laneWord(lane, index int) *word {
	return &s.words[s.layout.laneAt+lane*laneWords+index]
}

// takeLane claims a free lane.
func (s *Segment) takeLane() bool {
	pid := uint64(os.Getpid())
	for lane := range s.layout.lanes {
		if s.laneWord(lane, lanePID).CompareAndSwap(0, pid) {
			s.lane = lane
			s.token = uint64(lane+1)<<tokenLaneBits | s.laneWord(lane, laneEpoch).Load()&tokenEpochMask
			raise(&s.words[headerInUse], uint64(lane+1))
			return true
		}
	}
	return false
}

// raise sets w to value unless w is already higher.
func raise(w *word, value uint64) {
	for old := w.Load(); old < value && !w.CompareAndSwap(old, value); {
		old = w.Load()
	}
}

// lanesInUse returns how many lanes were ever taken.
func (s *Segment) lanesInUse() int {
	return int(min(s.words[headerInUse].Load(), uint64(s.layout.lanes)))
}

// isAlive reports whether the process of a token has not been reaped.
func (s *Segment) isAlive(token uint64) bool {
	lane := int(token>>tokenLaneBits) - 1
	if lane < 0 || lane >= s.layout.lanes {
		return false
	}
	return s.laneWord(lane, lanePID).Load() != 0 && s.laneWord(lane, laneEpoch).Load()&tokenEpochMask == token&tokenEpochMask
}

// Reap declares the process dead. Its locks and leases become free, its part of
// every gauge becomes zero, and another process can take its place. What it has
// counted remains.
//
// The supervisor calls Reap after it has waited for the process, and before it
// starts the next one. Do not reap a living process: others could then take what
// it still uses. Reap ignores a process id that is not attached.
func (s *Segment) Reap(pid int) {
	if pid <= 0 {
		return
	}
	for lane := range s.layout.lanes {
		if s.laneWord(lane, lanePID).Load() == uint64(pid) {
			s.clearLane(lane)
		}
	}
}

func (s *Segment) clearLane(lane int) {
	s.laneWord(lane, laneEpoch).Add(1) // invalidates its tokens
	for entry := range s.readyEntries() {
		if entry.kind == kindGauge {
			s.region(entry)[lane*laneWords].Store(0)
		}
	}
	s.clearPage(lane)
	s.laneWord(lane, lanePID).Store(0)
}
