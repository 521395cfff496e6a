package shared

import (
	"os"
	"sync/atomic"
	"time"
)

// A Field is a number on a process's page of the scoreboard. The fields of a group
// share a cache line. Only the process itself writes them, except Inbound, Taken and Refused,
// and ProcessState when the supervisor finds that the process hangs.
type Field int

// Fields that identify a process.
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

// Fields that show whether the process is healthy.
const (
	// Heartbeat is when the process last showed that it runs, by [Segment.Now].
	Heartbeat Field = lineWords + iota
	// Probe is the number of the last probe that the serving loop answered.
	Probe
	// Lag is how late timers fire, in nanoseconds.
	Lag
)

// Counters of connections.
const (
	// Accepted counts connections.
	Accepted Field = 2*lineWords + iota
	// Done counts the connections that have ended or were handed over.
	Done
	// Cut counts the connections that were still open at the deadline of the
	// process's end. The open connections of a process in state Stopped are added to
	// Done when it is reaped.
	Cut
)

// Fields of the present load.
const (
	// Active is the number of open connections.
	Active Field = 3*lineWords + iota
	// Idle is the number of open connections that wait for a request.
	Idle
	// InFlight is the number of requests being handled.
	InFlight
	// Oldest is when the oldest request in flight began, by [Segment.Now]; zero if
	// there is none.
	Oldest
)

// Counters of requests.
const (
	// Requests counts requests.
	Requests Field = 4*lineWords + iota
	// BytesRead counts bytes of requests.
	BytesRead
	// BytesWritten counts bytes of responses.
	BytesWritten
	// Status1xx to Status5xx count responses by the class of their status.
	Status1xx
	Status2xx
	Status3xx
	Status4xx
	Status5xx
)

// Fields of the resources that the process uses.
const (
	// ResidentBytes is the resident memory in bytes.
	ResidentBytes Field = 5*lineWords + iota
	// Goroutines is the number of goroutines.
	Goroutines
	// GarbageCollections is the number of garbage collections.
	GarbageCollections
	// CPUTime is the processor time used, in nanoseconds.
	CPUTime
)

// Fields of connections on their way from process to process. Other processes write them, too.
const (
	// Inbound is the number of connections that siblings have announced to the process
	// and that have not arrived yet. The siblings add to it.
	Inbound Field = 6*lineWords + iota
	// Taken and Refused are what other processes have answered to the last batch of
	// connections that the process has handed over or passed on. The upper 32 bits are the
	// number of the batch, and each of the lower ones stands for a connection.
	Taken
	Refused
)

// Fields of HTTP/2.
const (
	// HTTP2Connections is the number of open connections that speak HTTP/2.
	HTTP2Connections Field = 7*lineWords + iota
	// HTTP2Idle is the number of these connections without an open stream.
	HTTP2Idle
	// HTTP2Streams is the number of open streams.
	HTTP2Streams
	// HTTP2Resets counts streams that were reset by either side.
	HTTP2Resets
	// HTTP2Calmed counts connections that were ended with ENHANCE_YOUR_CALM.
	HTTP2Calmed
	// StateKinds is the set of the kinds of state with which the process takes over
	// connections; see sluice.ServerControl.StateKinds.
	StateKinds
	// Room is one more than how many connections the process has descriptors for; 0: not
	// known. It falls when a connection comes for which there is none, and rises when
	// descriptors have become free.
	Room
)

// Fields of HTTP/3.
const (
	// HTTP3Connections is the number of open connections that speak HTTP/3.
	HTTP3Connections Field = 8*lineWords + iota
	// HTTP3Idle is the number of these connections without a request.
	HTTP3Idle
	// HTTP3Streams is the number of open streams with requests.
	HTTP3Streams
	// HTTP3Resets to HTTP3Lost count what sluice.HTTP3Stats counts under these names.
	HTTP3Resets
	HTTP3Calmed
	HTTP3Retries
	HTTP3Refused
	HTTP3Lost
	fieldEnd
)

// pageBase is where the second half of a page begins. For each counter it holds
// what earlier processes of the lane have counted.
const pageBase = pageWords / 2

// counts reports whether a field is a counter: it only goes up, and continues over
// successive processes of a lane.
func (f Field) counts() bool {
	return f >= Accepted && f <= Cut || f >= Requests && f <= Status5xx || f >= HTTP2Resets && f <= HTTP2Calmed ||
		f >= HTTP3Resets && f <= HTTP3Lost
}

// A State is the state of a process.
type State uint8

// The states of a process.
const (
	// Starting means that the process does not serve yet.
	Starting State = iota
	// Ready means that it serves.
	Ready
	// Draining means that it accepts no more and finishes its requests.
	Draining
	// Stopped means that it has finished and is about to exit, or was reaped.
	Stopped
	// Hung means that the supervisor has found it to hang, and is about to kill it.
	Hung
)

// String returns the state in lower case.
func (s State) String() string {
	if s > Hung {
		return "unknown"
	}
	return [...]string{"starting", "ready", "draining", "stopped", "hung"}[s]
}

// A Page is one process's page of the scoreboard.
type Page struct{ words []word }

// Page returns the page of this process. Each process has its own page, even if
// two processes have the same slot.
func (s *Segment) Page() *Page { return &Page{s.page(s.lane)} }

func (s *Segment) page(lane int) []word {
	from := s.layout.pageAt + lane*pageWords
	return s.words[from : from+pageWords : from+pageWords]
}

// Add adds n to a field. It takes as long as [Counter.Add].
func (p *Page) Add(f Field, n uint64) { p.words[f].Add(n) }

// Sub subtracts n from a field that is not a counter.
func (p *Page) Sub(f Field, n uint64) { p.words[f].Add(-n) }

// Set sets a field to n. For a counter, n is what this process has counted.
func (p *Page) Set(f Field, n uint64) {
	if f.counts() {
		n += p.words[pageBase+f].Load()
	}
	p.words[f].Store(n)
}

// Get returns the value of a field. For a counter, it is what this process has
// counted.
func (p *Page) Get(f Field) uint64 {
	n := p.words[f].Load()
	if f.counts() {
		n -= p.words[pageBase+f].Load()
	}
	return n
}

// Word returns the word of a field, for code that does not import this package.
// The word of a counter includes what earlier processes of the page have counted,
// which [Page.Get] subtracts, so only add to it. The word of another field is the
// value of Set and Get.
func (p *Page) Word(f Field) *atomic.Uint64 { return &p.words[f] }

// resetPage initialises the page of a new process.
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

// clearPage marks the process of a page as dead. Its other values remain until
// another process takes the lane.
func (s *Segment) clearPage(lane int) {
	page := Page{s.page(lane)}
	if State(page.Get(ProcessState)) == Stopped {
		if left := int64(page.Get(Accepted) - page.Get(Done)); left > 0 {
			page.Add(Done, uint64(left))
		}
	}
	page.Set(ProcessState, uint64(Stopped))
	for _, f := range [...]Field{
		Active, Idle, InFlight, Oldest, Inbound, HTTP2Connections, HTTP2Idle, HTTP2Streams, HTTP3Connections, HTTP3Idle, HTTP3Streams,
	} {
		page.Set(f, 0)
	}
}

// A Process is a snapshot of a page; see the [Field] of each name. The values are
// read one after the other, Done before Accepted and Accepted before Active, so
// they may be of slightly different times.
type Process struct {
	// PID is the process's id.
	PID int
	// Slot, Generation, State and StartedAt identify the process.
	Slot       int
	Generation uint64
	State      State
	StartedAt  time.Time
	// Heartbeat (by [Segment.Now]) and Probe show whether it is healthy; Lag is how
	// late timers fire.
	Heartbeat int64
	Probe     uint64
	Lag       time.Duration
	// Accepted and Done count connections.
	Accepted, Done uint64
	// Active and Idle are numbers of open connections; InFlight is the number of
	// requests. Oldest is when the oldest request began, by [Segment.Now], or zero.
	Active, Idle, InFlight uint64
	Oldest                 int64
	// HTTP2Connections and HTTP2Idle are numbers of open HTTP/2 connections,
	// HTTP2Streams that of their open streams.
	HTTP2Connections, HTTP2Idle, HTTP2Streams uint64
	// HTTP3Connections, HTTP3Idle and HTTP3Streams are the same of HTTP/3.
	HTTP3Connections, HTTP3Idle, HTTP3Streams uint64
	// Traffic holds its counters.
	Traffic
	// ResidentBytes, Goroutines, GarbageCollections and CPUTime are the resources
	// that it uses.
	ResidentBytes, Goroutines, GarbageCollections uint64
	CPUTime                                       time.Duration
}

// Traffic holds the counters of one process, or of all.
type Traffic struct {
	// Requests, BytesRead and BytesWritten count requests and the bytes of
	// connections.
	Requests, BytesRead, BytesWritten uint64
	// Status counts responses by class: Status[0] is 1xx, Status[4] is 5xx.
	Status [5]uint64
	// Cut counts the connections that were still open at the deadline of their
	// process's end.
	Cut uint64
	// HTTP2Resets counts streams of HTTP/2 that were reset, HTTP2Calmed connections
	// that were ended with ENHANCE_YOUR_CALM.
	HTTP2Resets, HTTP2Calmed uint64
	// HTTP3Resets to HTTP3Lost count what sluice.HTTP3Stats counts under these names.
	HTTP3Resets, HTTP3Calmed, HTTP3Retries, HTTP3Refused, HTTP3Lost uint64
}

// Scoreboard appends the pages of all living attached processes to dst. They
// include the master.
func (s *Segment) Scoreboard(dst []Process) []Process {
	for lane := range s.lanesInUse() {
		if s.laneWord(lane, lanePID).Load() != 0 {
			dst = append(dst, readPage(Page{s.page(lane)}))
		}
	}
	return dst
}

// Process returns the page of a process. It works after the process was reaped
// too, until another process takes its place.
func (s *Segment) Process(pid int) (p Process, isFound bool) {
	for lane := range s.lanesInUse() {
		page := Page{s.page(lane)}
		if page.Get(fieldPID) == uint64(pid) && pid > 0 {
			return readPage(page), true
		}
	}
	return Process{}, false
}

// Total returns the sum of the counters of all processes, including dead ones. The
// sums never decrease.
func (s *Segment) Total() (accepted, done uint64, traffic Traffic) {
	for lane := range s.lanesInUse() {
		words := s.page(lane)
		done += words[Done].Load()
		accepted += words[Accepted].Load()
		traffic.Requests += words[Requests].Load()
		traffic.BytesRead += words[BytesRead].Load()
		traffic.BytesWritten += words[BytesWritten].Load()
		traffic.Cut += words[Cut].Load()
		traffic.HTTP2Resets += words[HTTP2Resets].Load()
		traffic.HTTP2Calmed += words[HTTP2Calmed].Load()
		traffic.HTTP3Resets += words[HTTP3Resets].Load()
		traffic.HTTP3Calmed += words[HTTP3Calmed].Load()
		traffic.HTTP3Retries += words[HTTP3Retries].Load()
		traffic.HTTP3Refused += words[HTTP3Refused].Load()
		traffic.HTTP3Lost += words[HTTP3Lost].Load()
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
	p.HTTP2Connections, p.HTTP2Idle, p.HTTP2Streams = page.Get(HTTP2Connections), page.Get(HTTP2Idle), page.Get(HTTP2Streams)
	p.HTTP2Resets, p.HTTP2Calmed = page.Get(HTTP2Resets), page.Get(HTTP2Calmed)
	p.HTTP3Connections, p.HTTP3Idle, p.HTTP3Streams = page.Get(HTTP3Connections), page.Get(HTTP3Idle), page.Get(HTTP3Streams)
	p.HTTP3Resets, p.HTTP3Calmed, p.HTTP3Retries = page.Get(HTTP3Resets), page.Get(HTTP3Calmed), page.Get(HTTP3Retries)
	p.HTTP3Refused, p.HTTP3Lost = page.Get(HTTP3Refused), page.Get(HTTP3Lost)
	for i := range p.Status {
		p.Status[i] = page.Get(Status1xx + Field(i))
	}
	p.ResidentBytes, p.Goroutines, p.GarbageCollections = page.Get(ResidentBytes), page.Get(Goroutines), page.Get(GarbageCollections)
	p.CPUTime = time.Duration(page.Get(CPUTime))
	return p
}
