package shared

import "sync/atomic"

// A Counter only goes up. Each process adds to a separate word, on a separate
// cache line.
//
// Crash rule: what a process has added remains when it dies.
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

// Word returns the word of this process, for code that does not import this package.
// Only add to it.
func (c *Counter) Word() *atomic.Uint64 { return c.own }

// Value returns the sum of what all processes, including dead ones, have added. It
// may or may not include concurrent additions. A later call never returns less
// than an earlier one. Value reads one cache line for each process.
func (c *Counter) Value() uint64 { return c.segment.sum(c.cells) }

// sum adds up the cells of all processes.
func (s *Segment) sum(cells []word) (total uint64) {
	for lane := range s.lanesInUse() {
		total += cells[lane*laneWords].Load()
	}
	return total
}

// A Gauge goes up and down, for example with the number of open connections or of
// waiting jobs. Each process has its own part; the value is the sum of the parts.
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

// Dec subtracts one.
func (g *Gauge) Dec() { g.own.Add(^uint64(0)) }

// Set sets this process's part to n.
func (g *Gauge) Set(n int64) { g.own.Store(uint64(n)) }

// Own returns this process's part.
func (g *Gauge) Own() int64 { return int64(g.own.Load()) }

// Value returns the sum over all living processes. It reads one cache line for
// each process.
func (g *Gauge) Value() int64 { return int64(g.segment.sum(g.cells)) }
