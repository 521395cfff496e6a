package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/nginx"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// filesKinds are the servers of static files that can be compared. The first one always is.
var filesKinds = [...]string{nginxKind, nginxCache, peers.Epoll, peers.PerConn, peers.FastHTTP, peers.NetHTTP}

// filesOptions are the flags of the subcommand files.
type filesOptions struct {
	rounds int
	time   time.Duration // of one server with one file in one round
	conns  int
	kinds  []string
	sizes  []command.Size
}

// FilesCommand returns the subcommand files: the cases of wire are files of different sizes,
// and the others are compared with nginx. It fails when a target is missed.
func FilesCommand() *cobra.Command {
	return command.New("files", "Compare servers' CPU time per request for static files with nginx's", filesFlags, runFiles)
}

func filesFlags(flags *pflag.FlagSet) func() (filesOptions, error) {
	var o filesOptions
	flags.IntVar(&o.rounds, "rounds", 7, "rounds, after one to warm up")
	seconds := flags.Int("seconds", 1, "time of one server with one file in one round, in seconds")
	flags.IntVar(&o.conns, "conns", 64, "keep-alive connections")
	servers := flags.String("servers", strings.Join(filesKinds[:], ","), "servers to compare; "+nginxKind+" always is")
	sizes := flags.String("sizes", "1KiB,1MiB", "sizes of the files")
	return func() (_ filesOptions, err error) {
		o.time = time.Duration(*seconds) * time.Second
		if o.rounds < 1 || *seconds < 1 {
			return o, fmt.Errorf("--rounds %d --seconds %d: want at least one of each", o.rounds, *seconds)
		}
		if err := process.CheckConnections(o.conns); err != nil {
			return o, err
		}
		for text := range strings.SplitSeq(*sizes, ",") {
			size, err := command.ParseSize(strings.TrimSpace(text))
			if err != nil {
				return o, fmt.Errorf("--sizes: %w", err)
			}
			if !slices.Contains(o.sizes, size) {
				o.sizes = append(o.sizes, size)
			}
		}
		o.kinds, err = peers.ParseKinds(nginxKind+","+*servers, filesKinds[:])
		return o, err
	}
}

func runFiles(ctx context.Context, o filesOptions) (d report.Document, err error) {
	if _, err := nginx.Find(nginxKind); err != nil {
		return d, err
	}
	m, err := measure(ctx, o.wire())
	if err != nil {
		return d, err
	}
	d.Sections = []report.Section{measuredFiles(m), comparedFiles(m)}
	return d, missedByFiles(m)
}

// wire returns the options with a case for each size.
func (o filesOptions) wire() options {
	w := options{rounds: o.rounds, duration: o.time, kinds: o.kinds}
	for _, size := range o.sizes {
		c := &wireCase{
			name: size.String(), load: load.Load{Conns: o.conns}, target: "/" + fileName, file: text(size),
			peer: peers.Options{Answer: peers.AnswerFile},
		}
		switch size {
		case command.KiB:
			c.goal.nginx = 1
		case command.MiB:
			c.goal.nginx = 1.2
		}
		w.cases = append(w.cases, c.begin())
	}
	return w
}

// text returns lines that differ, so that parts cannot be mistaken for others.
func text(size command.Size) []byte {
	content := make([]byte, 0, size+32)
	for i := 0; len(content) < int(size); i++ {
		content = fmt.Appendf(content, "<p>Line %d of the file\n", i)
	}
	return content[:size]
}

// checkFile says what an answer lacks that servers of files give.
func checkFile(header http.Header, size int) error {
	if header.Get("Content-Length") != strconv.Itoa(size) || !strings.HasPrefix(header.Get("Content-Type"), "text/html") ||
		header.Get("Last-Modified") == "" || header.Get("Accept-Ranges") != "bytes" {
		return fmt.Errorf("header %v, want the body's length, the type text/html, a date, and ranges", header)
	}
	return nil
}

// measuredFiles is the table of absolute figures.
func measuredFiles(m *measurement) report.Section {
	s := report.Section{
		Title: fmt.Sprintf("Static files over %d keep-alive connections, medians of the rounds", m.cases[0].load.Conns),
		Head:  []string{"file", "server", "CPU µs/req", "req/s", "÷ nginx", "MiB/s", "p50 ms", "p99 ms", "errors"},
		Notes: []string{
			"CPU is the server's, with its children. The client caps the requests per second. All answers have been checked: status 200, the file's bytes, Content-Length, Last-Modified, Accept-Ranges, no Content-Encoding.",
			fieldsNote(m),
		},
	}
	for _, c := range m.cases {
		base := columnsOf(c.samples[nginxKind])
		for _, kind := range m.kinds {
			of := columnsOf(c.samples[kind])
			rate := report.Median(of.rate)
			s.Rows = append(s.Rows, []string{
				c.name, kind, fmt.Sprintf("%.2f", report.Median(of.cpu)), fmt.Sprintf("%.0f", rate),
				fmt.Sprintf("%.2f", report.Median(report.Ratios(of.rate, base.rate))), fmt.Sprintf("%.0f", rate*float64(len(c.file))/(1<<20)),
				milliseconds(of.p50), milliseconds(of.p99), fmt.Sprint(of.failures),
			})
		}
	}
	s.Notes = append(s.Notes, failureNotes(m)...)
	return s
}

// comparedFiles is the table of ratios beside the targets.
func comparedFiles(m *measurement) report.Section {
	s := report.Section{
		Title: "CPU time per request ÷ nginx",
		Head:  []string{"file", "server", "÷ nginx", "target", "÷ nginx-cache"},
		Notes: []string{"Medians of the rounds' ratios, in brackets the lowest and the highest round's. nginx-cache is nginx with open_file_cache, which is off by default."},
	}
	for _, c := range m.cases {
		base, cached := columnsOf(c.samples[nginxKind]).cpu, columnsOf(c.samples[nginxCache]).cpu
		for _, kind := range m.kinds[1:] {
			cpu, verdict := columnsOf(c.samples[kind]).cpu, "-"
			if most := c.goal.nginx; most > 0 && kind == peers.Epoll {
				verdict = report.Verdict(report.Median(report.Ratios(cpu, base)), most, "%.2f")
			}
			s.Rows = append(s.Rows, []string{c.name, kind, report.Ratio(report.Ratios(cpu, base)), verdict, report.Ratio(report.Ratios(cpu, cached))})
		}
	}
	return s
}

// missedByFiles is what makes the command fail: answers that were none, and targets that were
// missed.
func missedByFiles(m *measurement) error {
	var errs []error
	for _, c := range m.cases {
		for _, kind := range m.kinds {
			if n := columnsOf(c.samples[kind]).failures; n > 0 {
				errs = append(errs, fmt.Errorf("%s, %s: %d requests failed", kind, c.name, n))
			}
		}
		ratio := report.Median(report.Ratios(columnsOf(c.samples[peers.Epoll]).cpu, columnsOf(c.samples[nginxKind]).cpu))
		if most := c.goal.nginx; most > 0 && ratio > most {
			errs = append(errs, fmt.Errorf("epoll, %s: %.2f × nginx's CPU time per request, want at most %.2f", c.name, ratio, most))
		}
	}
	return errors.Join(errs...)
}
