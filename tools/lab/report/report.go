// Package report prints measurements the same way in every command: a header
// that says what was measured where, and tables.
package report

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Header writes the command, commit, machine and Go version: no figure means
// anything without them.
func Header(w io.Writer, command string) {
	fmt.Fprintf(w, "command: %s\n", command)
	fmt.Fprintf(w, "commit:  %s\n", Commit())
	fmt.Fprintf(w, "machine: %s\n", Machine())
	fmt.Fprintf(w, "go:      %s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	fmt.Fprintf(w, "date:    %s\n\n", time.Now().UTC().Format("2006-01-02 15:04 MST"))
}

// Machine returns the model of the CPU, the number of processors, and the kernel. The name of
// a virtual machine's model is often the maker's alone, so its family and number are there, too.
func Machine() string {
	return fmt.Sprintf("%s, %d CPUs, %s", cpuModel("/proc/cpuinfo"), runtime.NumCPU(), kernel())
}

// cpuModel returns the model that a file in the form of /proc/cpuinfo names.
func cpuModel(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return runtime.GOARCH
	}
	first, _, _ := strings.Cut(string(text), "\n\n") // processor
	of := make(map[string]string)
	for line := range strings.Lines(first) {
		name, value, _ := strings.Cut(line, ":")
		of[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	if of["model name"] == "" {
		return runtime.GOARCH
	}
	if of["cpu family"] == "" {
		return of["model name"]
	}
	return fmt.Sprintf("%s (family %s, model %s)", of["model name"], of["cpu family"], of["model"])
}

func kernel() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS
	}
	return "Linux " + strings.TrimSpace(string(release))
}

// Table writes rows under their head, in columns. The first column is aligned
// left, the others right.
func Table(w io.Writer, head []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	width := len(head[0])
	for _, row := range rows {
		width = max(width, len(row[0]))
	}
	for _, row := range slices.Concat([][]string{head}, rows) {
		fmt.Fprintf(t, "%-*s\t%s\t\n", width, row[0], strings.Join(row[1:], "\t"))
	}
	return t.Flush()
}

// Median returns the middle of values, the mean of the two middle ones if their
// number is even, 0 if there are none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Ratios returns a[i]/b[i], the comparison of what was measured side by side in
// one round. It leaves out rounds in which b is 0.
func Ratios(a, b []float64) []float64 {
	var ratios []float64
	for i := range min(len(a), len(b)) {
		if b[i] != 0 {
			ratios = append(ratios, a[i]/b[i])
		}
	}
	return ratios
}

// Ratio formats the median of ratios with their range: "0.79 (0.75–0.82)".
func Ratio(ratios []float64) string {
	if len(ratios) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", Median(ratios), slices.Min(ratios), slices.Max(ratios))
}
