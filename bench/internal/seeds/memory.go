package seeds

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluicehttp/sluice/bench/internal/report"
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
func servers(ctx context.Context, o Options, folder string) ([]report.Section, error) {
	tables, err := runCommand(ctx, folder, "ratios", "-bench", anyOf(o.of(serverPart)), "-cpu", o.CPUs,
		"-count", fmt.Sprint(o.Count), "-benchtime", o.BenchTime.String())
	if err != nil {
		return nil, err
	}
	figures, err := serverFigures(tables)
	if err != nil {
		return nil, err
	}
	s := section("In memory: servers", "seeds-server.svg", figures, publishedServers())
	s.Notes = append(s.Notes, fmt.Sprintf("Rounds of %[2]v: %[1]d. Sluice chooses its engine: connections in memory get a goroutine each.", o.Count, o.BenchTime))
	return []report.Section{s}, nil
}

func serverFigures(tables []table) (figures []figure, err error) {
	if len(tables) == 0 {
		return nil, fmt.Errorf("ratios wrote no table")
	}
	rows, err := tables[0].pick("case", "P", "ours ns", "fasthttp ns", "net/http ns", "ours/fasthttp", "allocs ours", "fasthttp", "net/http")
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		figures = append(figures, figure{
			name: row[0], procs: row[1], nanoseconds: [contenders]string(row[2:5]), ratio: row[5], allocs: [contenders]string(row[6:9]),
		})
	}
	return figures, nil
}

// withoutServer is the one client case that has none.
const withoutServer = "DoFastServer"

// clients repeats the README's table of clients.
func clients(ctx context.Context, o Options, folder string) ([]report.Section, error) {
	names := o.of(clientPart)
	for i, name := range names {
		if name != withoutServer {
			names[i] += ", own" // the server of the client's library
		}
	}
	tables, err := runCommand(ctx, folder, "client", "-case", anyOf(names), "-cpu", o.CPUs, "-rounds", fmt.Sprint(o.ClientRounds))
	if err != nil {
		return nil, err
	}
	figures, err := clientFigures(tables)
	if err != nil {
		return nil, err
	}
	s := section("In memory: clients", "seeds-client.svg", figures, publishedClients())
	s.Notes = append(s.Notes, fmt.Sprintf("Rounds of 10ms: %d. Every client talks to the server of its own library, "+
		"in one process with it: over TCP, most of the time is the kernel's.", o.ClientRounds))
	return []report.Section{s}, nil
}

func clientFigures(tables []table) (figures []figure, err error) {
	if len(tables) == 0 {
		return nil, fmt.Errorf("client wrote no table")
	}
	rows, err := tables[0].pick("case", "P", "client", "ns/op", "÷ fasthttp", "allocs/op")
	if err != nil {
		return nil, err
	}
	order := []string{"sluice", "fasthttp", "net/http"}
	for _, row := range rows {
		at := slices.Index(order, row[2])
		if at < 0 {
			continue // bytes: it is no client
		}
		i := slices.IndexFunc(figures, func(f figure) bool { return f.name == row[0] && f.procs == row[1] })
		if i < 0 {
			i = len(figures)
			figures = append(figures, figure{name: row[0], procs: row[1]})
		}
		figures[i].nanoseconds[at], figures[i].allocs[at] = row[3], row[5]
		if at == 0 {
			figures[i].ratio = row[4]
		}
	}
	return figures, nil
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
