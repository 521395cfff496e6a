package prefork

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// String returns the status as a few lines and two tables, for people. The format
// may change.
func (s Status) String() string {
	var b strings.Builder
	s.writeSummary(&b)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	s.writeWorkers(t)
	t.Flush()
	b.WriteByte('\n')
	s.writeSlots(t)
	t.Flush()
	return b.String()
}

// writeSummary writes what concerns all workers together.
func (s *Status) writeSummary(w io.Writer) {
	ready := 0
	for i := range s.Workers {
		if s.Workers[i].Phase == "ready" {
			ready++
		}
	}
	fmt.Fprintf(w, "workers: %d wanted, %d ready", s.Wanted, ready)
	for _, is := range []struct {
		so   bool
		what string
	}{{s.Rolling, "being replaced"}, {s.Soaking, "soaking"}, {s.Degraded, "degraded"}, {s.Paused, "paused"}, {s.Stopping, "stopping"}} {
		if is.so {
			fmt.Fprintf(w, ", %s", is.what)
		}
	}
	fmt.Fprintf(w, "; version %d", s.Version)
	if s.GoodVersion != s.Version {
		fmt.Fprintf(w, ", or %d if it fails", s.GoodVersion)
	}
	fmt.Fprintf(w, "; crashes %d (hangs %d), rolling restarts %d\n", s.Crashes, s.Hangs, s.Restarts)
	if s.RestartError != "" {
		fmt.Fprintf(w, "the last restart failed, one of %d: %s\n", s.RestartsFailed, s.RestartError)
	}
	if s.LogDropped > 0 {
		fmt.Fprintf(w, "log: %d lines were dropped, it is not read fast enough\n", s.LogDropped)
	}
	if m := s.Master; m.PID != 0 {
		fmt.Fprintf(w, "master: process %d, up %s, heard of %s ago, %s of memory, %s of CPU time\n",
			m.PID, uptime(m.Started), short(m.HeartbeatAge), size(m.ResidentBytes), short(m.CPUTime))
	}
	t := s.Total
	fmt.Fprintf(w, "connections: %d accepted, %d done (%d cut), %d refused, %d open, %d of them idle\n", t.Accepted, t.Done, t.Cut, s.Refused, t.Active, t.Idle)
	fmt.Fprintf(w, "requests: %d, in progress %d, the oldest for %s; by class of status", t.Requests, t.InFlight, short(t.OldestRequest))
	for class, n := range t.Responses {
		fmt.Fprintf(w, " %dxx %d", class+1, n)
	}
	fmt.Fprintf(w, "; %d timed out; %s read, %s written\n", s.TimedOut, size(t.BytesRead), size(t.BytesWritten))
	l := s.Latency
	fmt.Fprintf(w, "latency: 50%% %s, 90%% %s, 99%% %s, 99.9%% %s\n\n", brief(l.P50), brief(l.P90), brief(l.P99), brief(l.P999))
}

// writeWorkers writes a line for each process.
func (s *Status) writeWorkers(w io.Writer) {
	fmt.Fprintln(w, "slot\tgen\tversion\tpid\tphase\tup\topen\tidle\tin progress\toldest\taccepted\trequests\t4xx\t5xx\tread\twritten\tmemory\tcpu\tgoroutines\tgc\theard\t")
	for i := range s.Workers {
		p := &s.Workers[i]
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%s\t%s\t", p.Slot, p.Generation, p.Version, p.PID, p.Phase, uptime(p.Started))
		fmt.Fprintf(w, "%d\t%d\t%d\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t", p.Active, p.Idle, p.InFlight, short(p.OldestRequest),
			p.Accepted, p.Requests, p.Responses[3], p.Responses[4], size(p.BytesRead), size(p.BytesWritten))
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t\n", size(p.ResidentBytes), short(p.CPUTime), p.Goroutines, p.GarbageCollections, short(p.HeartbeatAge))
	}
}

// writeSlots writes a line for each slot.
func (s *Status) writeSlots(w io.Writer) {
	fmt.Fprintln(w, "slot\tgen\tqueue\tversion\tsince\tcause\trestarts\tcrashes\thangs\tserved by\t")
	for _, p := range s.Slots {
		by := "itself"
		switch {
		case p.Adopter >= 0:
			by = fmt.Sprint(p.Adopter)
		case p.Retired:
			by = "nobody"
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%s\t%s\t%d\t%d\t%d\t%s\t\n", p.Slot, p.Generation, p.Queue, p.Version, uptime(p.VersionSince), p.VersionCause, p.Restarts, p.Crashes, p.Hangs, by)
	}
}

// uptime is the time since then, in short.
func uptime(then time.Time) string {
	if then.IsZero() {
		return "0s"
	}
	return short(max(time.Since(then), 0))
}

// short rounds a duration to about three digits.
func short(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// brief is short, to the microsecond.
func brief(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(time.Microsecond).String()
	}
	return short(d)
}

// size is a number of bytes, in short.
func size(n uint64) string {
	const units = "BKMGTPE"
	unit, value := 0, float64(n)
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	if unit == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%.1f%c", value, units[unit])
}
