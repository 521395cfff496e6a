package load

import "time"

// A collector adds up what threads record.
type collector struct {
	run      *run
	all      latencies
	recent   latencies
	counts   Counts
	errs     examples
	answered int64 // up to the last interval's end
	since    time.Duration
	rates    []float64
}

func newCollector(r *run) *collector {
	isOpen := r.Rate > 0
	return &collector{run: r, all: newLatencies(isOpen), recent: newLatencies(isOpen)}
}

// follow collects until ended is closed.
func (c *collector) follow(ended <-chan struct{}) {
	ticker := time.NewTicker(c.run.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.interval(time.Duration(c.run.now()))
		case <-ended:
			c.last(time.Duration(c.run.now()))
			return
		}
	}
}

// collect gets the counts, and the latencies since it was last called.
func (c *collector) collect() {
	c.counts = Counts{}
	for _, r := range c.run.recorders {
		r.collect(&c.counts, &c.errs, c.recent)
	}
}

// interval ends one interval and tells of it.
func (c *collector) interval(now time.Duration) {
	c.collect()
	rate := float64(c.counts.Answered-c.answered) / max(now-c.since, 1).Seconds()
	c.rates = append(c.rates, rate)
	c.answered, c.since = c.counts.Answered, now
	if c.run.Progress != nil {
		c.run.Progress(Progress{Elapsed: now, Counts: &c.counts, Rate: rate, Latency: c.recent.total})
	}
	c.all.merge(c.recent)
}

// last ends the run. What is left of an interval is told of if it is long enough
// for a rate.
func (c *collector) last(now time.Duration) {
	if now-c.since > c.run.Every/2 {
		c.interval(now)
	} else {
		c.collect()
		c.all.merge(c.recent)
	}
	c.since = now
}

func (c *collector) result() *Result {
	return &Result{
		Elapsed: c.since, Counts: c.counts, Latency: c.all.total, Service: c.all.service,
		Rates: c.rates, Examples: c.errs,
	}
}
