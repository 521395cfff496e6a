package result

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
	"github.com/sluicehttp/sluice/tools/lab/internal/system"
)

// sample returns a result that has something everywhere.
func sample(t *testing.T, name string) *Result {
	t.Helper()
	s, err := scenario.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	memory := func(conns int) MemorySample {
		n := uint64(conns)
		return MemorySample{
			Connections: conns, Slab: 700e6 + 8300*n, SockBuffer: 1e6,
			Server: ProcessMemory{RSS: 14e6 + 150*n, Anon: 2e6 + 100*n, Proportional: 4e6 + 120*n, Heap: 1e6 + 30*n, Stacks: 4e5, Goroutines: 20},
			Client: ProcessMemory{RSS: 20e6 + 1000*n, Anon: 3e6 + 900*n, Heap: 1e6 + 500*n},
		}
	}
	r := &Result{
		Scenario: s,
		Header:   Header{Date: "2026-01-02", Machine: "2 cores (a processor), 25.3 GB, Linux 6.18", Commit: "0123456789ab", Command: "sluice lab run " + name, Congestion: "bbr", Buckets: 262_144, LoadBefore: 0.25},
		Layout:   Layout{Servers: 1, Clients: 2, Addresses: 1, Loops: 2, ClientLoops: 1, Processors: 2, ClientProcessors: 1, Environment: []string{"GOGC=25"}},
		Connect:  Connect{Made: 10_000, Elapsed: 250 * time.Millisecond, PerSec: 40_000, ServerCPU: 200 * time.Millisecond, ClientCPU: 300 * time.Millisecond},
		Memory:   Memory{Before: memory(0), After: memory(10_000), Worked: memory(10_000), Idle: memory(9_000), Growing: []MemorySample{memory(5_000), memory(10_000)}, Caches: []system.Growth{{Cache: "TCP", Bytes: 47e6}}},
		Load: Load{Mode: control.Sweep, Active: 10_000, InFlight: 512, Completed: 750_000, Served: 750_000, Elapsed: 10 * time.Second,
			PerSec: 75_000, Sweeps: 74, ServerCPU: 5 * time.Second, ClientCPU: 6 * time.Second, MachineCPU: 15 * time.Second},
	}
	if !r.Answers() {
		return r
	}
	h := hdrhistogram.New(1, int64(time.Hour/time.Microsecond), 3)
	for i := int64(1); i <= 10_000; i++ {
		_ = h.RecordValue(i * 10)
	}
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	if r.Load.Latency, err = MergeLatencies([][]byte{text, text}); err != nil {
		t.Fatal(err)
	}
	return r
}

// broadcasts returns a sample with two broadcasts, of which one message is missing, and pings.
func broadcasts(t *testing.T) *Result {
	r := sample(t, "ws-epoll")
	b := Broadcast{Received: 10_000, First: time.Millisecond, Last: 100 * time.Millisecond, ServerCPU: 60 * time.Millisecond,
		ClientCPU: 70 * time.Millisecond, MachineCPU: 140 * time.Millisecond, Latency: r.Load.Latency}
	other := b
	other.Received--
	r.Broadcasts = []Broadcast{b, other}
	r.Pings = &Pings{After: 45 * time.Second, Elapsed: 54 * time.Second, Sent: 12_150, MostPerSec: 300, ServerCPU: 120 * time.Millisecond,
		ClientCPU: 130 * time.Millisecond, MachineCPU: 300 * time.Millisecond, Memory: r.Memory.Worked}
	return r
}

// writes has TestGolden write the files that it compares with.
var writes = flag.Bool("write", false, "write the golden files")

// golden compares got with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *writes {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("%s: %v; got\n%s", name, err, got)
	}
}

func TestGolden(t *testing.T) {
	one, silent, bad := sample(t, "6"), sample(t, "1"), sample(t, "http-prefork")
	one.Again = Again{2000, 2000}
	bad.Again = Again{2000, 1996}
	bad.Connect.Failed, bad.Load.Lost, bad.Load.Unanswered, bad.Load.FirstError = 1, 2, 3, "connection reset"
	bad.Load.Mode, bad.Load.Rate, bad.Load.Backlog = control.Rate, 5000, 17
	golden(t, "run.md", one.Markdown())
	golden(t, "silent.md", silent.Markdown())
	golden(t, "errors.md", bad.Markdown())
	golden(t, "broadcasts.md", broadcasts(t).Markdown())
	golden(t, "comparison.md", Compare([]*Result{one, silent, bad}))
	if bad.Errors() != 10 || one.Errors() != 0 || broadcasts(t).Errors() != 1 {
		t.Errorf("%d, %d and %d errors", bad.Errors(), one.Errors(), broadcasts(t).Errors())
	}
}

// TestSave: what was saved is read again, and plots are XML.
func TestSave(t *testing.T) {
	folder := t.TempDir()
	one := broadcasts(t)
	if err := one.Save(filepath.Join(folder, "a", "b")); err != nil {
		t.Fatal(err)
	}
	again, err := LoadAll([]string{filepath.Join(folder, "a", "b")})
	if err != nil {
		t.Fatal(err)
	}
	before, _ := json.Marshal(one)
	after, _ := json.Marshal(again[0])
	if string(before) != string(after) {
		t.Errorf("saved %s\nread  %s", before, after)
	}
	if err := SaveComparison(folder, append(again, sample(t, "1"))); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(filepath.Join(folder, reportName))
	for _, name := range []string{throughputPlot, comparedPlot, latencyPlot, perConnPlot} {
		checkXML(t, filepath.Join(folder, name))
		if !strings.Contains(string(text), name) {
			t.Errorf("the report does not show %s", name)
		}
	}
	checkXML(t, filepath.Join(folder, "a", "b", memoryPlot))
	checkXML(t, filepath.Join(folder, "a", "b", latencyPlot))
	checkXML(t, filepath.Join(folder, "a", "b", broadcastPlot))
}

func checkXML(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Error(err)
		return
	}
	defer file.Close()
	d := xml.NewDecoder(file)
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
	}
}

func TestLoadAllFails(t *testing.T) {
	folder := t.TempDir()
	if _, err := LoadAll([]string{folder}); err == nil {
		t.Error("a result was read where there is none")
	}
	if err := os.WriteFile(filepath.Join(folder, resultName), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadAll([]string{folder}); err == nil {
		t.Error("half a result was read")
	}
}

// TestLoadAllForeign: what is no result is refused, and not a row without
// anything in it.
func TestLoadAllForeign(t *testing.T) {
	for _, text := range []string{"", "{}", "null", "[1]", `{"scenario":{"name":"6"},"load":{"mode":"sweep"}}`, `{"tool":"sluice bench","schema":1}`} {
		folder := t.TempDir()
		path := filepath.Join(folder, resultName)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if all, err := LoadAll([]string{folder}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v, %v", text, all, err)
		}
	}
}

// TestLoadAllOld: results that were saved before there were histograms are read.
func TestLoadAllOld(t *testing.T) {
	folder := t.TempDir()
	old := sample(t, "6")
	old.Load.Latency.Histogram = ""
	if err := old.Save(folder); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(filepath.Join(folder, resultName))
	if strings.Contains(string(text), "histogram") {
		t.Error("a histogram is saved that is not there")
	}
	if all, err := LoadAll([]string{folder}); err != nil || all[0].Load.Latency.P99 != old.Load.Latency.P99 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestCheckFolder: what Save could not write to is told before, and nothing is left
// of the question.
func TestCheckFolder(t *testing.T) {
	folder := t.TempDir()
	within := func(names ...string) string { return filepath.Join(append([]string{folder}, names...)...) }
	if err := os.WriteFile(within("file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(within("taken", resultName), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		folder string
		isBad  bool
	}{{within("new", "deep"), false}, {within("new"), false}, {within("file"), true}, {within("file", "below"), true}, {within("taken"), true}, {"/proc/none", true}} {
		if err := CheckFolder(c.folder); (err != nil) != c.isBad {
			t.Errorf("%s: %v", c.folder, err)
		}
	}
	if left, err := os.ReadDir(within("new", "deep")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := sample(t, "6").Save(within("new")); err != nil || CheckFolder(within("new")) != nil {
		t.Errorf("what was saved cannot be saved again: %v, %v", err, CheckFolder(within("new")))
	}
	again, err := LoadAll([]string{within("new")})
	if err != nil || again[0].Load.Completed == 0 {
		t.Errorf("the question has changed what was there: %v", err)
	}
}

// TestKernelUnknown: slabs that shrink meanwhile do not make connections free.
func TestKernelUnknown(t *testing.T) {
	r := sample(t, "6")
	r.Memory.After.Slab = r.Memory.Before.Slab - 1
	if got := r.Markdown(); !strings.Contains(got, "| kernel slabs, growth (both ends) | 700 MB | 700 MB | 783 MB | 775 MB | not known |") {
		t.Error(got)
	}
	if got := Compare([]*Result{r}); !strings.Contains(got, "| 520 B | not known |") {
		t.Error(got)
	}
	if plot := string(comparisonPlots([]*Result{r})[perConnPlot]); strings.Contains(plot, "NaN") || strings.Contains(plot, ">0 B<") {
		t.Error(plot)
	}
}

// TestLabels: no two bars of a plot have the same label.
func TestLabels(t *testing.T) {
	sweep, active, again, other, more := sample(t, "6"), sample(t, "6"), sample(t, "6"), sample(t, "7"), sample(t, "7")
	active.Load.Mode, active.Load.Active = control.Loop, 640
	again.Load = active.Load
	more.Memory.After.Connections *= 2
	results := []*Result{sweep, active, again, other, more}
	labels := labelsOf(results)
	for i, label := range labels {
		if slices.Index(labels, label) != i || !strings.HasPrefix(label, results[i].Scenario.Name) {
			t.Errorf("label %d of %q", i, labels)
		}
	}
	if !strings.HasSuffix(labels[1], ", 640 connections active") || strings.Contains(labels[4], "sweep (2)") {
		t.Errorf("labels are %q", labels)
	}
	if plot := string(comparisonPlots(results)[throughputPlot]); strings.Count(plot, ">"+labels[0]+"<") != 1 {
		t.Error(plot)
	}
}

// TestSaveAgain: no plot is left of a result that was in the folder before.
func TestSaveAgain(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"mine.svg", "report.md"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []*Result{broadcasts(t), sample(t, "1")} {
		if err := r.Save(folder); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "memory.svg mine.svg report.md result.json result.md" {
		t.Errorf("in the folder are %s", got)
	}
}

// TestCompareMachines: each run has the machine, commit and date that it is from.
func TestCompareMachines(t *testing.T) {
	one, same, other := sample(t, "6"), sample(t, "7"), sample(t, "http-prefork")
	other.Header.Commit, other.Header.Machine = "fedcba987654", "64 cores"
	text := Compare([]*Result{one, same, other})
	for _, want := range []string{
		"\n6_multiple_server, 7_server_prefork: 2 cores (a processor), 25.3 GB, Linux 6.18; commit 0123456789ab; 2026-01-02.\n",
		"\nhttp-prefork: 64 cores; commit fedcba987654; 2026-01-02.\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}

func TestMergeLatencies(t *testing.T) {
	l := sample(t, "6").Load.Latency
	near := func(name string, got, want time.Duration) {
		t.Helper()
		if got < want*998/1000 || got > want*1002/1000 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	near("mean", l.Mean, 50005*time.Microsecond)
	near("p50", l.P50, 50*time.Millisecond)
	near("p99", l.P99, 99*time.Millisecond)
	near("p99.9", l.P999, 99900*time.Microsecond)
	near("max", l.Max, 100*time.Millisecond)
	for i := 1; i < len(l.Curve); i++ {
		if l.Curve[i].Percentile <= l.Curve[i-1].Percentile || l.Curve[i].Latency < l.Curve[i-1].Latency {
			t.Errorf("the curve goes from %v to %v", l.Curve[i-1], l.Curve[i])
		}
	}
	if last := l.Curve[len(l.Curve)-1]; last.Percentile != 100 || last.Latency != l.Max {
		t.Errorf("the curve ends with %v", last)
	}
	whole, err := hdrhistogram.Decode([]byte(l.Histogram))
	if err != nil || whole.TotalCount() != 20_000 || time.Duration(whole.ValueAtPercentile(99))*time.Microsecond != l.P99 {
		t.Errorf("the histogram is not the whole of it: %v", err)
	}
	if none, err := MergeLatencies(nil); err != nil || none.Max != 0 || len(none.Curve) != 0 {
		t.Errorf("of nothing: %+v, %v", none, err)
	}
	if _, err := MergeLatencies([][]byte{[]byte("x")}); err == nil {
		t.Error("a broken histogram was read")
	}
}

func TestFormat(t *testing.T) {
	for got, want := range map[string]string{
		Count(0): "0", Count(999): "999", Count(1000): "1,000", Count(-1234567): "-1,234,567", Count(1999.6): "2,000",
		Bytes(0): "0 B", Bytes(999): "999 B", Bytes(1000): "1 kB", Bytes(8300): "8.3 kB", Bytes(123456): "123 kB", Bytes(2.5e9): "2.5 GB", Bytes(5e12): "5000 GB",
		Span(0): "0", Span(1500): "1.5 µs", Span(time.Millisecond): "1 ms", Span(1234 * time.Millisecond): "1.23 s",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
