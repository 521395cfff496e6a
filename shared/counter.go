package shared

// A Counter only goes up. Each process adds to a word of its own, on a cache line
// of its own.
//
// Crash rule: what a process has added stays when it dies.
type Counter struct {
	segment *Segment
	own     *word
	cells   []word
}

// Counter returns the counter of that name. Errors: [ErrName], [ErrFull],
// [ErrMismatch], [ErrBusy].
func (s *Segment) Counter(name string) (*Counter, error) {
	cells, err := s.open(name, kindCounter, parameters{}, s.layout.lanes*laneWords)
	if err != nil {
		return nil, err
	}
	return &Counter{segment: s, own: &cells[s.lane*laneWords], cells: cells}, nil
}

// Add adds n.
func (c *Counter) Add(n uint64) { c.own.Add(n) }

// Inc adds one.
func (c *Counter) Inc() { c.own.Add(1) }

// Value returns what all processes, dead ones too, have added. Additions that are
// made while it reads may be in it or not; of two calls, one after the other, the
// second never returns less. It reads a cache line for each process.
func (c *Counter) Value() uint64 { return c.segment.sum(c.cells) }

// sum adds up the cells of all processes.
func (s *Segment) sum(cells []word) (total uint64) {
	for lane := range s.lanesInUse() {
		total += cells[lane*laneWords].Load()
	}
	return total
}

// A Gauge goes up and down: connections that are open, jobs that wait. Each
// process has a part of it, and the value is the sum.
//
// Crash rule: the part of a process becomes zero when it is reaped.
type Gauge struct {
	segment *Segment
	own     *word
	cells   []word
}

// Gauge returns the gauge of that name. Errors: [ErrName], [ErrFull],
// [ErrMismatch], [ErrBusy].
func (s *Segment) Gauge(name string) (*Gauge, error) {
	cells, err := s.open(name, kindGauge, parameters{}, s.layout.lanes*laneWords)
	if err != nil {
		return nil, err
	}
	return &Gauge{segment: s, own: &cells[s.lane*laneWords], cells: cells}, nil
}

// Add adds n, which may be negative, to this process's part.
func (g *Gauge) Add(n int64) { g.own.Add(uint64(n)) }

// Inc adds one.
func (g *Gauge) Inc() { g.own.Add(1) }

// Dec takes one away.
func (g *Gauge) Dec() { g.own.Add(^uint64(0)) }

// Set makes n this process's part.
func (g *Gauge) Set(n int64) { g.own.Store(uint64(n)) }

// Own returns this process's part.
func (g *Gauge) Own() int64 { return int64(g.own.Load()) }

// Value returns the sum over all living processes. It reads a cache line for each
// process.
func (g *Gauge) Value() int64 { return int64(g.segment.sum(g.cells)) }
