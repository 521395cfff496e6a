package result

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
)

// Markdown returns a run in full.
func (r *Result) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: %s\n\n%s.\n\n", r.Scenario.Name, Plural(r.Memory.After.Connections, "connection", "connections"), upperFirst(r.Scenario.Summary))
	r.writeHeader(&b)
	r.writeLoad(&b)
	r.writeBroadcasts(&b)
	r.writePings(&b)
	r.writeMemory(&b)
	return b.String()
}

func (r *Result) writeHeader(b *strings.Builder) {
	h := &r.Header
	fmt.Fprintf(b, "| | |\n|---|---|\n| command | `%s` |\n| commit | %s |\n| date | %s |\n| machine | %s |\n", h.Command, h.Commit, h.Date, h.Machine)
	fmt.Fprintf(b, "| before | load average %.2f; congestion control %s", h.LoadBefore, h.Congestion)
	if h.Buckets > 0 {
		fmt.Fprintf(b, "; %s buckets for TCP connections", Count(h.Buckets))
	}
	b.WriteString(" |\n")
	l := &r.Layout
	protocol := string(r.Scenario.Protocol)
	if r.Scenario.CompactTLS {
		protocol += " (compact)"
	}
	fmt.Fprintf(b, "| server | %s %s, %s; %s on %s%s |\n", r.Scenario.Server, protocol, r.Scenario.Workload,
		Plural(l.Servers, "process", "processes"), Plural(l.Addresses, "address", "addresses"), eachText(l.Loops, l.Processors, r.Scenario.Server == scenario.Goroutine))
	fmt.Fprintf(b, "| client | %s; %s%s |\n", r.Scenario.Client, Plural(l.Clients, "process", "processes"),
		eachText(l.ClientLoops, l.ClientProcessors, r.Scenario.Client == scenario.GoroutineClient))
	if len(l.Environment) > 0 {
		fmt.Fprintf(b, "| the servers' Go runtime | %s |\n", strings.Join(l.Environment, " "))
	}
	b.WriteByte('\n')
}

// eachText describes each process.
func eachText(loops, processors int, hasNoLoops bool) string {
	if hasNoLoops {
		return fmt.Sprintf(", each with GOMAXPROCS %d", processors)
	}
	if processors == 0 { // not of Go
		return ", each with " + Plural(loops, "event loop", "event loops")
	}
	return fmt.Sprintf(", each with %s and GOMAXPROCS %d", Plural(loops, "event loop", "event loops"), processors)
}

func (r *Result) writeLoad(b *strings.Builder) {
	c, l := &r.Connect, &r.Load
	fmt.Fprintf(b, "## Requests\n\n| | |\n|---|---:|\n| connections made | %s |\n| in | %s |\n| per second | %s |\n", Count(c.Made), Span(c.Elapsed), Count(c.PerSec))
	if c.Made > 0 && c.ClientCPU > 0 {
		fmt.Fprintf(b, "| CPU for each: server, client | %s, %s |\n", Span(c.ServerCPU/time.Duration(c.Made)), Span(c.ClientCPU/time.Duration(c.Made)))
	}
	fmt.Fprintf(b, "| mode | %s |\n| requests | %s |\n| in | %s |\n| **per second** | **%s** |\n", r.modeText(), Count(l.Completed), Span(l.Elapsed), Count(l.PerSec))
	if l.Sweeps > 0 {
		fmt.Fprintf(b, "| each connection at least | %d times |\n", l.Sweeps)
	}
	fmt.Fprintf(b, "| errors: not connected, lost, unanswered | %d, %d, %d |\n", c.Failed, l.Lost, l.Unanswered)
	if a := r.Again; a.Asked > 0 {
		fmt.Fprintf(b, "| asked again at the end, answered | %s, %s |\n", Count(a.Asked), Count(a.Answered))
	}
	if l.Backlog > 0 {
		fmt.Fprintf(b, "| due and not sent | %s |\n", Count(l.Backlog))
	}
	fmt.Fprintf(b, "| server CPU for each | %s |\n| client CPU for each | %s |\n| all CPU of the machine for each | %s |\n",
		Span(r.PerRequest(l.ServerCPU)), Span(r.PerRequest(l.ClientCPU)), Span(r.PerRequest(l.MachineCPU)))
	if r.hasLatency() {
		t := &l.Latency
		fmt.Fprintf(b, "| latency: mean, p50, p90 | %s, %s, %s |\n| p99, p99.9, max | %s, %s, %s |\n", Span(t.Mean), Span(t.P50), Span(t.P90), Span(t.P99), Span(t.P999), Span(t.Max))
	}
	if l.FirstError != "" {
		fmt.Fprintf(b, "\nFirst error: `%s`\n", l.FirstError)
	}
	b.WriteByte('\n')
}

func (r *Result) modeText() string {
	l := &r.Load
	switch l.Mode {
	case control.Sweep:
		text := fmt.Sprintf("sweep, %s in flight", Count(l.InFlight))
		if clients := r.Layout.Clients; 0 < l.AtOnce && l.AtOnce < clients {
			text += fmt.Sprintf(", of %s at a time", Plural(l.AtOnce, "client", "clients"))
		}
		return text
	case control.Loop:
		return Plural(l.Active, "connection", "connections") + " active"
	}
	if !r.Answers() {
		return fmt.Sprintf("%s per second, nothing is answered", Count(l.Rate))
	}
	return fmt.Sprintf("open loop, %s per second", Count(l.Rate))
}

// writeBroadcasts writes a row for each broadcast.
func (r *Result) writeBroadcasts(b *strings.Builder) {
	if len(r.Broadcasts) == 0 {
		return
	}
	b.WriteString("## Broadcasts\n\nA message of 32 bytes to all WebSockets. The lab orders each server process to send it to the room of all its WebSockets. " +
		"Times are from the order to the arrival in the clients. CPU is for each WebSocket.\n\n" +
		"| received by | first | p50 | p99 | last | **first to last** | server CPU | client CPU | all CPU of the machine |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, c := range r.Broadcasts {
		each := func(cpu time.Duration) string { return Span(cpu / time.Duration(max(c.Received, 1))) }
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | **%s** | %s | %s | %s |\n", Count(c.Received), Span(c.First), Span(c.Latency.P50), Span(c.Latency.P99),
			Span(c.Last), Span(c.Last-c.First), each(c.ServerCPU), each(c.ClientCPU), each(c.MachineCPU))
	}
	if n := r.missed(); n > 0 {
		fmt.Fprintf(b, "\n%s did not arrive.\n", Plural(n, "message", "messages"))
	}
	b.WriteByte('\n')
}

// writePings writes what pings have cost.
func (r *Result) writePings(b *strings.Builder) {
	p := r.Pings
	if p == nil {
		return
	}
	share := func(cpu time.Duration) string {
		return fmt.Sprintf("%s: %.3g %% of a core, %s", Span(cpu), 100*cpu.Seconds()/p.Elapsed.Seconds(), Span(cpu/time.Duration(max(p.Sent, 1))))
	}
	mean := float64(p.Sent) / p.Elapsed.Seconds()
	fmt.Fprintf(b, "## Pings\n\nThe server sends one after %s of silence (± 20 %%). CPU time includes the figures that processes send to the lab once a second.\n\n| | |\n|---|---:|\n", Span(p.After))
	fmt.Fprintf(b, "| pings | %s |\n| in | %s |\n| per second | %s |\n| most in one second | %s, %.2f × |\n", Count(p.Sent), Span(p.Elapsed), Count(mean),
		Count(p.MostPerSec), float64(p.MostPerSec)/max(mean, 1))
	fmt.Fprintf(b, "| **server CPU: in all, for each ping** | **%s** |\n| client CPU: in all, for each ping | %s |\n| all CPU of the machine: in all, for each ping | %s |\n", share(p.ServerCPU), share(p.ClientCPU), share(p.MachineCPU))
	fmt.Fprintf(b, "| servers, Pss, at the end | %s |\n\n", Bytes(float64(p.Memory.Server.Proportional)))
}

func (r *Result) writeMemory(b *strings.Builder) {
	m := &r.Memory
	b.WriteString("## Memory\n\n| | before | connected | after the load | idle, after GC | per connection when connected |\n|---|---:|---:|---:|---:|---:|\n")
	row := func(name string, of func(*MemorySample) uint64, isTotal bool) {
		before, after, worked, idle := of(&m.Before), of(&m.After), of(&m.Worked), math.NaN()
		if m.Idle.Server.RSS > 0 {
			idle = float64(of(&m.Idle))
		}
		per := r.PerConn(after)
		switch {
		case !isTotal && after < before:
			per = math.NaN()
		case !isTotal:
			per = r.PerConn(after - before)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", name, Bytes(float64(before)), Bytes(float64(after)), Bytes(float64(worked)), knownBytes(idle), knownBytes(per))
	}
	row("servers, RSS", func(s *MemorySample) uint64 { return s.Server.RSS }, true)
	row("servers, Pss (shared pages once)", func(s *MemorySample) uint64 { return s.Server.Proportional }, true)
	row("servers, anonymous", func(s *MemorySample) uint64 { return s.Server.Anon }, true)
	row("servers, Go heap objects", func(s *MemorySample) uint64 { return s.Server.Heap }, true)
	row("servers, Go stacks", func(s *MemorySample) uint64 { return s.Server.Stacks }, true)
	row("servers, anonymous, growth only", func(s *MemorySample) uint64 { return s.Server.Anon }, false)
	row("clients, RSS", func(s *MemorySample) uint64 { return s.Client.RSS }, true)
	row("kernel slabs, growth (both ends)", func(s *MemorySample) uint64 { return s.Slab }, false)
	row("socket buffers, growth", func(s *MemorySample) uint64 { return s.SockBuffer }, false)
	fmt.Fprintf(b, "\nGoroutines of all servers: %s.", Count(m.After.Server.Goroutines))
	if len(m.Caches) > 0 {
		b.WriteString(" Kernel caches that grew most, per connection:")
		for i, g := range m.Caches {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(b, " %s %s", g.Cache, Bytes(r.PerConn(g.Bytes)))
		}
		b.WriteByte('.')
	}
	b.WriteString("\n")
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
