package seeds

import (
	"strings"

	"github.com/sluicehttp/sluice/tools/bench/internal/ratios"

	"context"
	"fmt"

	"github.com/sluicehttp/sluice/tools/lab/report"
)

// A figure is what a case takes here.
type figure struct {
	name, procs string
	nanoseconds [contenders]string // sluice, fasthttp, net/http
	ratio       string             // sluice ÷ fasthttp
	allocs      [contenders]string
}

const contenders = 3

// servers repeats the README's table of servers.
func servers(ctx context.Context, o Options) ([]report.Section, error) {
	figures, err := measureMemory(ctx, o, ratios.Servers, anyOf(o.of(serverPart)), o.Count)
	if err != nil {
		return nil, err
	}
	s := section("In memory: servers", "seeds-server.svg", figures, publishedServers())
	s.Notes = append(s.Notes, fmt.Sprintf("Rounds of %[2]v: %[1]d. Sluice chooses its engine: connections in memory get a goroutine each.", o.Count, o.BenchTime))
	return []report.Section{s}, nil
}

// withoutServer is the one client case that has none.
const withoutServer = "DoFastServer"

// clients repeats the README's table of clients.
func clients(ctx context.Context, o Options) ([]report.Section, error) {
	names := o.of(clientPart)
	for i, name := range names {
		if name != withoutServer {
			names[i] += "/own" // the server of the client's library
		}
	}
	figures, err := measureMemory(ctx, o, ratios.Clients, anyOf(names), o.ClientRounds)
	if err != nil {
		return nil, err
	}
	s := section("In memory: clients", "seeds-client.svg", figures, publishedClients())
	s.Notes = append(s.Notes, fmt.Sprintf("Rounds of %v: %d. Every client talks to the server of its own library, "+
		"in one process with it: over TCP, most of the time is the kernel's.", o.BenchTime, o.ClientRounds))
	return []report.Section{s}, nil
}

// anyOf returns a regular expression of names, which have nothing special in
// them.
func anyOf(names []string) string { return "^(" + strings.Join(names, "|") + ")$" }

func measureMemory(ctx context.Context, o Options, t ratios.Table, bench string, rounds int) ([]figure, error) {
	cases, err := ratios.Measure(ctx, ratios.Options{Table: t, Bench: bench, CPUs: o.CPUs, Rounds: rounds, BenchTime: o.BenchTime})
	return figuresOf(cases), err
}

func figuresOf(cases []*ratios.Case) (figures []figure) {
	order := [contenders]string{"sluice", "fasthttp", "nethttp"}
	for _, c := range cases {
		name, _, _ := strings.Cut(c.Title(), "/")
		f := figure{name: name, procs: fmt.Sprint(c.CPU), ratio: report.Ratio(report.Ratios(c.Column(order[0], "ns/op"), c.Column(order[1], "ns/op")))}
		for i, by := range order {
			f.nanoseconds[i] = fmt.Sprintf("%.0f", report.Median(c.Column(by, "ns/op")))
			f.allocs[i] = fmt.Sprintf("%.0f", report.Median(c.Column(by, "allocs/op")))
		}
		figures = append(figures, f)
	}
	return figures
}

// section is a table of figures beside the published ones, with a plot of those
// at GOMAXPROCS 1.
func section(title, file string, figures []figure, published []publication) report.Section {
	s := report.Section{
		Title: title,
		Head: []string{
			"case", "P", "Sluice ns", "fasthttp ns", "net/http ns", "Sluice ÷ fasthttp", "allocs Sluice", "fasthttp", "net/http",
			"published: fasthttp ns", "net/http ns", "fasthttp ÷ net/http", "here",
		},
		Notes: []string{
			publishedSource,
			"Medians of interleaved rounds; ratios are medians of the rounds' ratios. The published figures are of another machine, years ago: compare the last two columns, fasthttp ÷ net/http there and here, not nanoseconds. P is GOMAXPROCS; on fewer CPUs than that, Go's threads share them.",
		},
	}
	plot := report.Plot{File: file, Title: title + ", ns per request at GOMAXPROCS 1", Unit: "ns"}
	for _, f := range figures {
		there := timesOf(published, f)
		s.Rows = append(s.Rows, []string{
			f.name, f.procs, f.nanoseconds[0], f.nanoseconds[1], f.nanoseconds[2], f.ratio, f.allocs[0], f.allocs[1], f.allocs[2],
			orDash(there.fasthttp), orDash(there.netHTTP), quotient(float64(there.fasthttp), float64(there.netHTTP)),
			quotient(number(f.nanoseconds[1]), number(f.nanoseconds[2])),
		})
		if f.procs == "1" {
			plot.Panels = append(plot.Panels, f.panel(there))
		}
	}
	if len(plot.Panels) > 0 {
		s.Plots = []report.Plot{plot}
	}
	return s
}

func timesOf(published []publication, f figure) times {
	for _, p := range published {
		if p.name == f.name {
			return p.at(f.procs)
		}
	}
	return times{}
}

func (f figure) panel(there times) report.Panel {
	p := report.Panel{Title: f.name}
	for i, name := range [contenders]string{"Sluice", "fasthttp", "net/http"} {
		emphasis := report.Others
		if i == 0 {
			emphasis = report.Ours
		}
		p.Bars = append(p.Bars, report.Bar{Name: name, Value: number(f.nanoseconds[i]), Emphasis: emphasis})
	}
	for _, bar := range []struct {
		name  string
		value int
	}{{"fasthttp, pub.", there.fasthttp}, {"net/http, pub.", there.netHTTP}} {
		if bar.value > 0 {
			p.Bars = append(p.Bars, report.Bar{Name: bar.name, Value: float64(bar.value), Emphasis: report.Reference})
		}
	}
	return p
}

// number reads a cell; 0 if it is none.
func number(cell string) (n float64) {
	if _, err := fmt.Sscan(cell, &n); err != nil {
		return 0
	}
	return n
}

func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func quotient(a, b float64) string {
	if a == 0 || b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", a/b)
}
