package wire

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/latency"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// columns are what was measured of one server, round by round.
type columns struct {
	cpu, rate []float64     // µs per request, requests per second
	usage     process.Usage // of all rounds
	p50, p99  []float64     // µs
	p999      []float64     // µs
	resident  []float64     // bytes
	failures  int
}

func columnsOf(samples []sample) (c columns) {
	for _, s := range samples {
		c.usage.Add(process.Usage{}, s.usage)
		c.cpu = append(c.cpu, float64(s.usage.CPU.Nanoseconds())/1e3/float64(s.Requests))
		c.rate = append(c.rate, s.Rate())
		c.p50 = append(c.p50, float64(s.Latency.Percentile(50).Microseconds()))
		c.p99 = append(c.p99, float64(s.Latency.Percentile(99).Microseconds()))
		c.p999 = append(c.p999, float64(s.Latency.Percentile(99.9).Microseconds()))
		c.resident = append(c.resident, float64(s.resident))
		c.failures += s.Failures
	}
	return c
}

// user returns the user time per request, in µs.
func (c *columns) user() float64 { return report.Median(c.cpu) * c.usage.UserShare() }

func document(m *measurement) report.Document {
	return report.Document{Title: "Over the wire", Sections: []report.Section{measured(m), divided(m)}}
}

// measured is the table of absolute figures.
func measured(m *measurement) report.Section {
	s := report.Section{
		Title: "Medians of the rounds",
		Head:  []string{"load", "head", "server", "CPU µs/req", "CPU ÷ fasthttp", "req/s", "÷ fasthttp", "p50 ms", "p99 ms", "p99.9 ms", "RSS MiB", "idle B/conn", "errors"},
		Notes: []string{
			fmt.Sprintf("Rounds of %[2]v for each server, in random order: %[1]d, after one to warm up. CPU is the server's, with all of its processes; ratios are medians of the rounds' ratios, in brackets the lowest and the highest round's. Gaps under 15 %% are ties. The client, one thread, caps the requests per second.", m.rounds, m.duration),
			machineNote(), headsNote(m),
			"epoll and perconn are Sluice's engines. floor is a C program with epoll that parses nothing and writes constant responses. " + notesOnPeers(),
		},
		Plots: plots(m),
	}
	for _, note := range []string{fieldsNote(m), gzipNote(m)} {
		if note != "" {
			s.Notes = append(s.Notes, note)
		}
	}
	for _, c := range m.cases {
		base := columnsOf(c.samples[baseline])
		for _, kind := range m.kinds {
			s.Rows = append(s.Rows, c.row(kind, base))
		}
	}
	s.Notes = append(s.Notes, failureNotes(m)...)
	return s
}

func notesOnPeers() string {
	version := command.ModuleVersion
	return fmt.Sprintf("fasthttp is %[1]s. Fiber %[2]s runs on it; hertz is %[3]s with its netpoll (with the standard library's network for TLS). "+
		"gnet %[4]s has no HTTP: a handler of ours looks for the path, the argument and the agent in the bytes, and writes a head that is made once a second. "+
		"nginx has one worker for each CPU of the server, and answers constants and files; the 100 KiB are a file to it, which it sends without copying. "+
		"A dash: the server cannot do this, or not without a package of others.",
		version("github.com/valyala/fasthttp"), version("github.com/gofiber/fiber/v3"), version("github.com/cloudwego/hertz"), version("github.com/panjf2000/gnet/v2"))
}

// machineNote says where the figures of a table come from: they are another machine's nowhere.
func machineNote() string {
	return fmt.Sprintf("Machine: %s. A server has one of the CPUs and the client another; in the rows \"all CPUs\" they share all, and servers have as many Ps or processes (nginx, floor, prefork) as there are CPUs, as in the rows \"all Ps on one CPU\". Half load is an open loop at half of the rate that fasthttp reaches in a closed one; its latencies count from when a request was due.", report.Machine())
}

// headsNote says what the requests' heads are.
func headsNote(m *measurement) string {
	parts := make(map[load.Head]string)
	for _, c := range m.cases {
		if parts[c.head] == "" {
			parts[c.head] = fmt.Sprintf("%s: %d bytes of request in %q", c.head, len(c.request()), c.name)
		}
	}
	return "Heads: two fields are Host and User-Agent, a browser's are 12 fields; each with what the load needs. " +
		strings.Join(slices.Sorted(maps.Values(parts)), "; ") + "."
}

// row is one server's figures; dashes if it cannot do the case.
func (c *wireCase) row(kind string, base columns) []string {
	samples := c.samples[kind]
	if len(samples) == 0 {
		return append([]string{c.name, c.head.String(), kind}, strings.Split(strings.Repeat("-", 10), "")...)
	}
	of, idle := columnsOf(samples), "-"
	if c.idle > 0 {
		idle = fmt.Sprintf("%.0f", c.perIdle[kind])
	}
	return []string{
		c.name, c.head.String(), kind, fmt.Sprintf("%.2f", report.Median(of.cpu)), report.Ratio(report.Ratios(of.cpu, base.cpu)),
		fmt.Sprintf("%.0f", report.Median(of.rate)), fmt.Sprintf("%.2f", report.Median(report.Ratios(of.rate, base.rate))),
		milliseconds(of.p50), milliseconds(of.p99), milliseconds(of.p999), fmt.Sprintf("%.1f", report.Median(of.resident)/(1<<20)), idle, fmt.Sprint(of.failures),
	}
}

func milliseconds(microseconds []float64) string {
	return latency.Microseconds(report.Median(microseconds))
}

// fieldsNote says what header fields the servers send in the first case.
func fieldsNote(m *measurement) string {
	var parts []string
	for _, kind := range m.kinds {
		if m.fields[kind] != "" {
			parts = append(parts, kind+" "+m.fields[kind])
		}
	}
	if parts == nil {
		return ""
	}
	return "Header fields of the answers in the first case: " + strings.Join(parts, "; ") + "."
}

// gzipNote says how long compressed responses are: at the same level, libraries
// try hard in different measure.
func gzipNote(m *measurement) string {
	for _, c := range m.cases {
		if c.peer.Answer != peers.AnswerGzip {
			continue
		}
		var parts []string
		for _, kind := range m.kinds {
			if c.sizes[kind] > 0 {
				parts = append(parts, fmt.Sprintf("%s %d", kind, c.sizes[kind]))
			}
		}
		return fmt.Sprintf("Bytes of a response of %q, all at level %d, which is not the same effort in every library: %s.", c.name, peers.GzipLevel, strings.Join(parts, ", "))
	}
	return ""
}

// failureNotes say what went wrong, and which servers are not there.
func failureNotes(m *measurement) (notes []string) {
	for _, c := range m.cases {
		for _, kind := range m.kinds {
			for _, s := range c.samples[kind] {
				if s.Failures > 0 {
					notes = append(notes, fmt.Sprintf("%s, %s: %d connections failed in a round, the first one: %s", c.label(), kind, s.Failures, s.FirstFailure))
				}
			}
		}
	}
	for _, kind := range m.kinds {
		without := func(c *wireCase) bool { return len(c.samples[kind]) == 0 }
		if !slices.ContainsFunc(m.cases, func(c *wireCase) bool { return !without(c) }) {
			notes = append(notes, fmt.Sprintf("%s is left out: %s.", kind, m.cases[0].absent[kind]))
		}
	}
	return notes
}

// divided is the table of where the CPU time goes, with the goals.
func divided(m *measurement) report.Section {
	s := report.Section{
		Title: "CPU time per request: user and system, and beside the floor",
		Head:  []string{"load", "head", "server", "user µs", "system µs", "user ÷ fasthttp", "CPU ÷ fasthttp", "CPU ÷ floor", "CPU ÷ before"},
		Notes: []string{
			machineNote(),
			"User time is that share of the median CPU time which the kernel's ticks have found in user mode, in all rounds together.",
			"÷ floor: the kernel alone costs that much, so no server can cost less. ≤: the project's goals for epoll. ÷ before: epoll in the program of --before, if there is one.",
		},
	}
	for _, c := range m.cases {
		base, least, old := columnsOf(c.samples[baseline]), columnsOf(c.samples[floorKind]), columnsOf(c.samples[before])
		for _, kind := range m.kinds {
			of := columnsOf(c.samples[kind])
			if len(of.cpu) == 0 {
				continue
			}
			var most goal
			if kind == peers.Epoll {
				most = c.goal
			}
			s.Rows = append(s.Rows, []string{
				c.name, c.head.String(), kind, fmt.Sprintf("%.2f", of.user()), fmt.Sprintf("%.2f", report.Median(of.cpu)-of.user()),
				beside([]float64{of.user() / base.user()}, most.user),
				beside(report.Ratios(of.cpu, base.cpu), most.cpu), beside(report.Ratios(of.cpu, least.cpu), most.floor),
				beside(report.Ratios(of.cpu, old.cpu), 0),
			})
		}
	}
	return s
}

// beside writes a ratio, and whether it reaches its goal; 0: there is none.
func beside(ratios []float64, most float64) string {
	if len(ratios) == 0 {
		return "-"
	}
	text := fmt.Sprintf("%.2f", report.Median(ratios))
	if most > 0 {
		text += ", " + report.Verdict(report.Median(ratios), most, "%.2f")
	}
	return text
}
