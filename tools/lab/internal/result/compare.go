package result

import (
	"fmt"
	"strings"
)

// Compare returns a table of several runs, beside what the seed's authors
// published.
func Compare(results []*Result) string {
	var b strings.Builder
	b.WriteString("| scenario | connections | connects/s | mode | requests/s | latency mean | p50 | p99 | errors | server CPU | client CPU | server memory/conn | kernel memory/conn | published requests/s | published latency |\n")
	b.WriteString("|---|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, r := range results {
		b.WriteString(r.row())
	}
	b.WriteString("\nPublished: 1m-go-tcp-server, a million connections, 40 logical cores, 32 GB. ")
	b.WriteString("CPU is for each request. Server memory is Pss of all server processes after the load, kernel memory is for both ends.\n")
	writeOrigins(&b, results)
	return b.String()
}

// writeOrigins says where figures come from: once, if from the same machine,
// commit and day.
func writeOrigins(b *strings.Builder, results []*Result) {
	var origins []string
	names := make(map[string][]string)
	for _, r := range results {
		h := &r.Header
		origin := fmt.Sprintf("%s; commit %s; %s", h.Machine, h.Commit, h.Date)
		if names[origin] == nil {
			origins = append(origins, origin)
		}
		names[origin] = append(names[origin], r.Scenario.Name)
	}
	for _, origin := range origins {
		if len(origins) > 1 {
			fmt.Fprintf(b, "\n%s: %s.\n", strings.Join(names[origin], ", "), origin)
		} else {
			fmt.Fprintf(b, "\n%s.\n", origin)
		}
	}
}

func (r *Result) row() string {
	l := &r.Load
	mean, p50, p99 := "", "", ""
	if r.hasLatency() {
		mean, p50, p99 = Span(l.Latency.Mean), Span(l.Latency.P50), Span(l.Latency.P99)
	}
	perSec, latency := "", ""
	if p := r.Scenario.Published; p != nil {
		perSec, latency = Count(p.PerSec), Span(p.Latency)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s | %d | %s | %s | %s | %s | %s | %s |\n",
		r.Scenario.Name, Count(r.Memory.After.Connections), Count(r.Connect.PerSec), r.modeText(), Count(l.PerSec), mean, p50, p99, r.Errors(),
		Span(r.PerRequest(l.ServerCPU)), Span(r.PerRequest(l.ClientCPU)),
		Bytes(r.PerConn(r.Memory.Worked.Server.Proportional)), knownBytes(r.KernelPerConn()), perSec, latency)
}
