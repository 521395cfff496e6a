package proxies

import (
	"fmt"
	"slices"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/latency"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// columns are what was measured of one proxy, round by round.
type columns struct {
	cpu, rate, p50, p99 []float64 // µs per request, requests per second, µs
	busy                []float64 // part of a CPU
	failures            int
	first               string // failure
}

func columnsOf(samples []sample) (c columns) {
	for _, s := range samples {
		c.cpu = append(c.cpu, float64(s.cpu.Nanoseconds())/1e3/float64(s.Requests))
		c.rate = append(c.rate, s.Rate())
		c.busy = append(c.busy, s.cpu.Seconds()/s.Elapsed.Seconds())
		c.p50 = append(c.p50, float64(s.Latency.Percentile(50).Microseconds()))
		c.p99 = append(c.p99, float64(s.Latency.Percentile(99).Microseconds()))
		if c.failures += s.Failures; c.first == "" {
			c.first = s.FirstFailure
		}
	}
	return c
}

func requestTable(o options, all []measured) report.Section {
	var absent []map[string]string
	for _, m := range all {
		absent = append(absent, m.absent)
	}
	kinds, notes := present(o.kinds, absent)
	s := report.Section{
		Title: "CPU µs of the proxy per request, medians of the rounds",
		Head:  []string{"load", "proxy", "CPU µs/req", "CPU ÷ " + baseline, "goal", "req/s", "CPU busy", "p50 ms", "p99 ms", "errors"},
		Notes: append([]string{
			fmt.Sprintf("Rounds of %v for each proxy, in random order: %d, after one to warm up. CPU is the proxy's, with all of its processes; ratios are medians of the rounds' ratios, in brackets the lowest and the highest round's. Gaps under 15 %% are ties. "+
				"The client and the upstream share the other CPU, which caps the requests per second; where the proxy's CPU is not busy, so do they.", o.duration, o.rounds),
			"The upstream is nginx, and for uploads fasthttp, which reads the body before it answers and checks its length. All proxies keep connections to it, send X-Forwarded-For, -Host and -Proto, and write no log. Statuses and lengths of bodies are checked.",
			"sluice is the command, sluice proxy, as go build makes it, with its profile for the compiler; it sends Forwarded, too. " + notesOnProxies(),
		}, notes...),
		Plots: []report.Plot{plot(kinds, all)},
	}
	for _, m := range all {
		base := columnsOf(m.samples[baseline])
		for _, kind := range kinds {
			s.Rows = append(s.Rows, m.row(kind, base.cpu))
		}
	}
	for _, m := range all {
		for _, kind := range kinds {
			if c := columnsOf(m.samples[kind]); c.failures > 0 {
				s.Notes = append(s.Notes, fmt.Sprintf("%s, %s: %d errors, the first one: %s", m.name, kind, c.failures, c.first))
			}
		}
	}
	return s
}

// row is one proxy's figures; dashes if it cannot do the case.
func (m measured) row(kind string, base []float64) []string {
	c := columnsOf(m.samples[kind])
	if c.cpu == nil {
		return []string{m.name, kind, "-", "-", "-", "-", "-", "-", "-", "-"}
	}
	ratios, goal := report.Ratios(c.cpu, base), "-"
	if kind == ours {
		goal = report.Verdict(report.Median(ratios), most, "%.2f")
	}
	return []string{
		m.name, kind, fmt.Sprintf("%.2f", report.Median(c.cpu)), report.Ratio(ratios), goal, fmt.Sprintf("%.0f", report.Median(c.rate)),
		fmt.Sprintf("%.0f %%", 100*report.Median(c.busy)), latency.Microseconds(report.Median(c.p50)), latency.Microseconds(report.Median(c.p99)), fmt.Sprint(c.failures),
	}
}

// notesOnProxies says what the other proxies are, after a sentence on ours.
func notesOnProxies() string {
	return fmt.Sprintf("It has event loops with one P. nginx has one worker, haproxy one thread; nginx buffers responses, which is its default, and streams requests (proxy_request_buffering off). "+
		"net/http is httputil.ReverseProxy with a pool of buffers and idle connections enough, fiber BalancerForward of Fiber %s, which keeps bodies in memory; both have one P. A dash: the proxy cannot do this, or is not there.",
		command.ModuleVersion("github.com/gofiber/fiber/v3"))
}

// present returns the kinds that a table has, and notes on those that can do none of its cases,
// which absent has by kind, case by case.
func present(kinds []string, absent []map[string]string) (rows, notes []string) {
	for _, kind := range kinds {
		if slices.ContainsFunc(absent, func(of map[string]string) bool { return of[kind] == "" }) {
			rows = append(rows, kind)
		} else {
			notes = append(notes, fmt.Sprintf("%s is left out: %s.", kind, absent[0][kind]))
		}
	}
	return rows, notes
}

func plot(kinds []string, all []measured) report.Plot {
	p := report.Plot{File: "proxy-cpu.svg", Title: "CPU of a reverse proxy per request (less is better)", Unit: "µs"}
	for _, m := range all {
		panel := report.Panel{Title: m.name}
		for _, kind := range kinds {
			cpu := columnsOf(m.samples[kind]).cpu
			if cpu == nil {
				continue
			}
			bar := report.Bar{Name: kind, Value: report.Median(cpu), Low: slices.Min(cpu), High: slices.Max(cpu)}
			if kind == ours {
				bar.Emphasis = report.Ours
			}
			panel.Bars = append(panel.Bars, bar)
		}
		p.Panels = append(p.Panels, panel)
	}
	return p
}

func idleTable(o options, all []measuredIdle) report.Section {
	var absent []map[string]string
	for _, m := range all {
		absent = append(absent, m.absent)
	}
	kinds, notes := present(o.kinds, absent)
	s := report.Section{
		Title: fmt.Sprintf("Anonymous memory of a proxy for each of %d connections that are idle", o.conns),
		Head:  []string{"connections", "proxy", "bytes", "after GC", "MiB before"},
		Notes: append([]string{fmt.Sprintf("By how much the proxy's memory has grown %v after the last message, divided by the connections, for both sides together, without the kernel's; then again after garbage collections, for programs in Go that the command can ask for them. "+
			"%d more have been open before, so that what a proxy has but once does not count. Each WebSocket has had two messages and their echoes, each stream an event.", o.untilIdle, firstConns),
			"sluice is package proxy, in a process of this program, which collects its garbage when it is told to. " + notesOnProxies()}, notes...),
	}
	for _, m := range all {
		for _, kind := range kinds {
			f, settled := m.figures[kind], "-"
			if f.collects {
				settled = fmt.Sprintf("%.0f", f.settled)
			}
			s.Rows = append(s.Rows, []string{m.name, kind, fmt.Sprintf("%.0f", f.held), settled, fmt.Sprintf("%.1f", float64(f.before)/(1<<20))})
		}
	}
	return s
}
