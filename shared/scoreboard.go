package shared

import (
	"os"
	"sync/atomic"
	"time"
)

// A Field is a number on a process's page of the scoreboard. Those of a group
// share cache lines, on which only the process itself writes.
type Field int

// What a process is.
const (
	// Slot is the supervisor's number of the worker.
	Slot Field = iota
	// Generation counts the processes of a slot.
	Generation
	// ProcessState is a [State].
	ProcessState
	// StartedAt is when the process was attached, in nanoseconds of Unix time.
	StartedAt
	fieldPID
)

// Whether it is well.
const (
	// Heartbeat is when the process last showed that it runs, by [Segment.Now].
	Heartbeat Field = lineWords + iota
	// Probe is the number of the last question that the serving loop answered.
	Probe
	// Lag is how late timers fire, in nanoseconds.
	Lag
)

// The connections it has accepted and finished with. These fields count.
const (
	// Accepted counts connections.
	Accepted Field = 2*lineWords + iota
	// Done counts the connections that have ended or were handed over.
	Done
	// Cut counts those that the process still had when its time to end was over. What
	// a process in state Stopped has left is Done when it is reaped.
	Cut
)

// What it has to do now.
const (
	// Active is the number of connections that are open.
	Active Field = 3*lineWords + iota
	// Idle is how many of them wait for a request.
	Idle
	// InFlight is the number of requests being handled.
	InFlight
	// Oldest is when the oldest of them began, by [Segment.Now]; zero if there is
	// none.
	Oldest
)

// What it has done. These fields count.
const (
	// Requests counts requests.
	Requests Field = 4*lineWords + iota
	// BytesRead counts bytes of requests.
	BytesRead
	// BytesWritten counts bytes of responses.
	BytesWritten
	// Status1xx and those below count responses by the class of their status.
	Status1xx
	Status2xx
	Status3xx
	Status4xx
	Status5xx
)

// What it takes.
const (
	// ResidentBytes is the memory that the process has in use.
	ResidentBytes Field = 5*lineWords + iota
	// Goroutines is how many there are.
	Goroutines
	// GarbageCollections is how often the collector has run.
	GarbageCollections
	// CPUTime is the processor time used, in nanoseconds.
	CPUTime
)

// Inbound is the number of connections that siblings have sent it and that it
// has not got yet. The siblings write it.
const (
	Inbound Field = 6*lineWords + iota
	fieldEnd
)

// pageBase is where a page has, for each field that counts, what earlier
// processes of the lane have counted.
const pageBase = pageWords / 2

// counts tells whether a field only goes up, so that it is added up over
// processes that follow each other.
func (f Field) counts() bool {
	return f >= Accepted && f <= Cut || f >= Requests && f <= Status5xx
}

// A State is where a process is in its life.
type State uint8

// The states of a process.
const (
	// Starting is a process that does not serve yet.
	Starting State = iota
	// Ready is one that serves.
	Ready
	// Draining is one that finishes what it has.
	Draining
	// Stopped is one that has finished and is about to end, or was reaped.
	Stopped
)

// String returns the state in lower case.
func (s State) String() string {
	if s > Stopped {
		return "unknown"
	}
	return [...]string{"starting", "ready", "draining", "stopped"}[s]
}

// A Page is a process's own page of the scoreboard.
type Page struct{ words []word }

// Page returns the page of this process. Processes have different pages, also
// those of the same slot.
func (s *Segment) Page() *Page { return &Page{s.page(s.lane)} }

func (s *Segment) page(lane int) []word {
	from := s.layout.pageAt + lane*pageWords
	return s.words[from : from+pageWords : from+pageWords]
}

// Add adds n to a field. It takes as long as [Counter.Add].
func (p *Page) Add(f Field, n uint64) { p.words[f].Add(n) }

// Sub takes n from a field that does not count.
func (p *Page) Sub(f Field, n uint64) { p.words[f].Add(-n) }

// Set makes a field n. Of fields that count, n is what this process has counted.
func (p *Page) Set(f Field, n uint64) {
	if f.counts() {
		n += p.words[pageBase+f].Load()
	}
	p.words[f].Store(n)
}

// Get returns a field.
func (p *Page) Get(f Field) uint64 {
	n := p.words[f].Load()
	if f.counts() {
		n -= p.words[pageBase+f].Load()
	}
	return n
}

// Word returns the word of a field, for code that counts without knowing this
// package. Only add to the word of a field that counts: it holds what earlier
// processes of the page have counted too, which [Page.Get] takes off. Otherwise
// it is what Set and Get have.
func (p *Page) Word(f Field) *atomic.Uint64 { return &p.words[f] }

// resetPage begins the page of a new process.
func (s *Segment) resetPage() {
	page := Page{s.page(s.lane)}
	for f := Field(0); f < fieldEnd; f++ {
		if f.counts() {
			page.words[pageBase+f].Store(page.words[f].Load())
		} else {
			page.words[f].Store(0)
		}
	}
	page.Set(fieldPID, uint64(os.Getpid()))
	page.Set(StartedAt, uint64(time.Now().UnixNano()))
	page.Set(Heartbeat, uint64(s.Now()))
}

// clearPage says that the process of a page is dead. The numbers stay until
// another process takes the lane.
func (s *Segment) clearPage(lane int) {
	page := Page{s.page(lane)}
	if State(page.Get(ProcessState)) == Stopped {
		if left := int64(page.Get(Accepted) - page.Get(Done)); left > 0 {
			page.Add(Done, uint64(left))
		}
	}
	page.Set(ProcessState, uint64(Stopped))
	for _, f := range [...]Field{Active, Idle, InFlight, Oldest, Inbound} {
		page.Set(f, 0)
	}
}

// A Process is what a page says at a moment; see the [Field] of each name. Each
// number is right by itself; they are read one after the other, Done before
// Accepted and Accepted before Active.
type Process struct {
	// PID is the process's id.
	PID int
	// Slot, Generation, State and StartedAt say what the process is.
	Slot       int
	Generation uint64
	State      State
	StartedAt  time.Time
	// Heartbeat and Probe say whether it is well; Lag is how late timers fire.
	// Heartbeat is by [Segment.Now].
	Heartbeat int64
	Probe     uint64
	Lag       time.Duration
	// Accepted and Done count connections.
	Accepted, Done uint64
	// Active, Idle and InFlight are connections and requests there are now.
	// Oldest is when the oldest request began, by [Segment.Now], or zero.
	Active, Idle, InFlight uint64
	Oldest                 int64
	// Traffic is what it has done.
	Traffic
	// ResidentBytes, Goroutines, GarbageCollections and CPUTime are what it
	// takes.
	ResidentBytes, Goroutines, GarbageCollections uint64
	CPUTime                                       time.Duration
}

// Traffic is what one process, or all of them, have done.
type Traffic struct {
	// Requests, BytesRead and BytesWritten count what went through.
	Requests, BytesRead, BytesWritten uint64
	// Status counts responses by class: Status[0] is 1xx, Status[4] is 5xx.
	Status [5]uint64
	// Cut counts the connections that were open when their process's time to end was
	// over.
	Cut uint64
}

// Scoreboard appends what all living processes that are attached say to dst. The
// master is one of them.
func (s *Segment) Scoreboard(dst []Process) []Process {
	for lane := range s.lanesInUse() {
		if s.laneWord(lane, lanePID).Load() != 0 {
			dst = append(dst, readPage(Page{s.page(lane)}))
		}
	}
	return dst
}

// Process returns what the page of a process says, also after it was reaped, as
// long as no other process has its place.
func (s *Segment) Process(pid int) (p Process, isFound bool) {
	for lane := range s.lanesInUse() {
		page := Page{s.page(lane)}
		if page.Get(fieldPID) == uint64(pid) && pid > 0 {
			return readPage(page), true
		}
	}
	return Process{}, false
}

// Total returns what all processes have accepted, finished and done, dead ones
// too. It never decreases.
func (s *Segment) Total() (accepted, done uint64, traffic Traffic) {
	for lane := range s.lanesInUse() {
		words := s.page(lane)
		done += words[Done].Load()
		accepted += words[Accepted].Load()
		traffic.Requests += words[Requests].Load()
		traffic.BytesRead += words[BytesRead].Load()
		traffic.BytesWritten += words[BytesWritten].Load()
		traffic.Cut += words[Cut].Load()
		for i := range traffic.Status {
			traffic.Status[i] += words[Status1xx+Field(i)].Load()
		}
	}
	return accepted, done, traffic
}

func readPage(page Page) Process {
	p := Process{
		PID:        int(page.Get(fieldPID)),
		Slot:       int(page.Get(Slot)),
		Generation: page.Get(Generation),
		State:      State(page.Get(ProcessState)),
		StartedAt:  time.Unix(0, int64(page.Get(StartedAt))),
		Heartbeat:  int64(page.Get(Heartbeat)),
		Probe:      page.Get(Probe),
		Lag:        time.Duration(page.Get(Lag)),
	}
	p.Done = page.Get(Done)
	p.Accepted = page.Get(Accepted)
	p.Active, p.Idle, p.InFlight, p.Oldest = page.Get(Active), page.Get(Idle), page.Get(InFlight), int64(page.Get(Oldest))
	p.Requests, p.BytesRead, p.BytesWritten, p.Cut = page.Get(Requests), page.Get(BytesRead), page.Get(BytesWritten), page.Get(Cut)
	for i := range p.Status {
		p.Status[i] = page.Get(Status1xx + Field(i))
	}
	p.ResidentBytes, p.Goroutines, p.GarbageCollections = page.Get(ResidentBytes), page.Get(Goroutines), page.Get(GarbageCollections)
	p.CPUTime = time.Duration(page.Get(CPUTime))
	return p
}
