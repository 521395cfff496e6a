package shared

import "os"

// A lane is a process's place in the segment: it has a line of the lane table, a
// page of the scoreboard, and a cell of its own in every counter, gauge and
// histogram. No two living processes have the same one, so that nobody needs to
// wait for anybody to write.
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

// raise sets w to value unless it is higher already.
func raise(w *word, value uint64) {
	for old := w.Load(); old < value && !w.CompareAndSwap(old, value); {
		old = w.Load()
	}
}

// lanesInUse returns how many lanes somebody ever had.
func (s *Segment) lanesInUse() int {
	return int(min(s.words[headerInUse].Load(), uint64(s.layout.lanes)))
}

// isAlive tells whether the process of a token has not been reaped.
func (s *Segment) isAlive(token uint64) bool {
	lane := int(token>>tokenLaneBits) - 1
	if lane < 0 || lane >= s.layout.lanes {
		return false
	}
	return s.laneWord(lane, lanePID).Load() != 0 && s.laneWord(lane, laneEpoch).Load()&tokenEpochMask == token&tokenEpochMask
}

// Reap declares the process dead: what it had locked or leased is free, its part
// of every gauge is zero, and its place can be taken by another process. What it
// counted stays.
//
// The supervisor calls it after it has waited for the process, and before it
// starts the next one. Reaping a process that is alive lets others take what it
// still uses. A process id that is not attached is ignored.
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
	s.laneWord(lane, laneEpoch).Add(1) // its tokens are dead from here on
	for entry := range s.readyEntries() {
		if entry.kind == kindGauge {
			s.region(entry)[lane*laneWords].Store(0)
		}
	}
	s.clearPage(lane)
	s.laneWord(lane, lanePID).Store(0)
}
