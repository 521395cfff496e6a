package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/internal/result"
	"github.com/sluicehttp/sluice/tools/lab/internal/run"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
	"github.com/sluicehttp/sluice/tools/lab/internal/system"
)

// runLabCommand runs "sluice lab run" and returns its result.
func runLabCommand(t *testing.T, args ...string) *result.Result {
	t.Helper()
	folder := t.TempDir()
	var out, progress bytes.Buffer
	cmd := exec.Command(binary, append([]string{"lab", "run"}, append(args, "--out", folder)...)...)
	cmd.Stdout, cmd.Stderr = &out, &progress
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, progress.String(), out.String())
	}
	text, err := os.ReadFile(filepath.Join(folder, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	r := &result.Result{}
	if err := json.Unmarshal(text, r); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"result.md", "memory.svg"} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !strings.Contains(out.String(), "# "+r.Scenario.Name) {
		t.Errorf("it prints %s", out.String())
	}
	return r
}

// checkResult checks what every run must have measured.
func checkResult(t *testing.T, r *result.Result, conns int) {
	t.Helper()
	l := &r.Load
	if r.Connect.Made != conns || r.Errors() != 0 || l.FirstError != "" {
		t.Errorf("%d connections, %d errors: %s", r.Connect.Made, r.Errors(), l.FirstError)
	}
	if l.Completed == 0 || l.PerSec <= 0 || l.Served < l.Completed*9/10 || l.ServerCPU <= 0 || l.ClientCPU <= 0 {
		t.Errorf("load: %+v", l)
	}
	if r.Answers() {
		if r.Again.Asked != conns {
			t.Errorf("%d connections are asked again", r.Again.Asked)
		}
		if l.Served != l.Completed {
			t.Errorf("servers count %d requests, clients %d", l.Served, l.Completed)
		}
		if l.Latency.Histogram == "" {
			t.Error("there is no histogram")
		}
		if p := l.Latency; p.P50 <= 0 || p.P99 < p.P50 || p.Max < p.P99 || len(p.Curve) < 10 {
			t.Errorf("latency: %+v", p)
		}
	}
	if m := r.Memory; m.After.Server.RSS == 0 || m.After.Client.Heap == 0 || m.After.Slab == 0 || m.After.Connections != conns || len(m.Growing) == 0 {
		t.Errorf("memory: %+v", m)
	}
}

// TestLabScenarios runs all scenarios.
func TestLabScenarios(t *testing.T) {
	folder := t.TempDir()
	out, err := exec.Command(binary, "lab", "run", "all", "--conns", "200", "--duration", "200ms", "--out", folder).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, s := range scenario.All() {
		t.Run(s.Name, func(t *testing.T) {
			results, err := result.LoadAll([]string{filepath.Join(folder, s.Name)})
			if err != nil {
				t.Fatal(err)
			}
			r := results[0]
			checkResult(t, r, 200)
			if !strings.Contains(string(out), "| "+s.Name+" |") {
				t.Error("the table does not have it")
			}
			if r.Answers() && r.Load.Sweeps < 1 {
				t.Error("not every connection was asked")
			}
			if r.Scenario.Server == scenario.Prefork && r.Layout.Servers < 2 {
				t.Errorf("%d worker processes", r.Layout.Servers)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(folder, "report.md")); err != nil {
		t.Error(err)
	}
}

// ratedLoops reports whether there was a rate, and no goroutine for a connection.
func ratedLoops(r *result.Result) bool {
	return r.Load.Mode == "rate" && r.Memory.After.Server.Goroutines < 100 && r.Memory.After.Client.Goroutines < 100
}

// TestLabModes runs what flags change.
func TestLabModes(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want func(r *result.Result) bool
	}{
		{"active", []string{"6", "--active", "10"}, func(r *result.Result) bool { return r.Load.Mode == "loop" && r.Load.Active == 10 }},
		{"turns", []string{"6", "--at-once", "1"}, func(r *result.Result) bool {
			return r.Load.AtOnce == 1 && r.Load.Sweeps > 0 && r.Load.Completed == uint64(100*r.Load.Sweeps)
		}},
		{"rate", []string{"http-epoll", "--rate", "500"}, func(r *result.Result) bool {
			return r.Load.Mode == "rate" && r.Load.Completed > 50 && r.Load.Completed < 400
		}},
		{"goroutine client", []string{"7", "--client", "goroutine"}, func(r *result.Result) bool { return r.Memory.After.Client.Goroutines >= 100 }},
		{"shared socket", []string{"7", "--shared-socket", "--workers", "3"}, func(r *result.Result) bool { return r.Layout.Servers == 3 }},
		{"custom", []string{"custom", "--server", "http-prefork", "--workload", "io=1ms", "--in-flight", "7"}, func(r *result.Result) bool {
			return r.Scenario.Protocol == "http" && r.Load.InFlight == 7
		}},
		{"TLS", []string{"https-epoll", "--rate", "500"}, ratedLoops},
		{"TLS, compact", []string{"custom", "--server", "https-prefork", "--compact-tls", "--workers", "3"}, func(r *result.Result) bool {
			return r.Scenario.CompactTLS && r.Layout.Servers == 3 && r.Load.Sweeps > 0
		}},
		{"TLS, not compact", []string{"https-compact", "--compact-tls=false", "--active", "10"}, func(r *result.Result) bool { return !r.Scenario.CompactTLS }},
		{"TLS, goroutines", []string{"custom", "--server", "https-prefork", "--client", "goroutine", "--active", "10"}, func(r *result.Result) bool {
			return r.Scenario.Protocol == "https" && r.Scenario.Client == "goroutine" && r.Memory.After.Client.Goroutines >= 100
		}},
		{"WebSocket", []string{"ws-epoll", "--rate", "500", "--workload", "pow=4"}, ratedLoops},
		{"WebSocket, goroutines", []string{"ws-goroutine", "--client", "goroutine", "--active", "10", "--broadcasts", "1"}, func(r *result.Result) bool {
			b := r.Broadcasts[0]
			return b.Received == 100 && 0 < b.First && b.First <= b.Last && r.Memory.Idle.Server.RSS > 0 &&
				r.Memory.After.Server.Goroutines >= 100 && r.Memory.After.Client.Goroutines >= 100
		}},
		{"events", []string{"sse-epoll", "--rate", "500", "--workload", "pow=4"}, ratedLoops},
		{"events, goroutines", []string{"sse-goroutine", "--client", "goroutine", "--active", "10"}, func(r *result.Result) bool {
			return r.Memory.After.Server.Goroutines >= 100 && r.Memory.After.Client.Goroutines >= 100
		}},
		{"no events", []string{"sse-epoll", "--rate", "500", "--workload", "discard"}, func(r *result.Result) bool { return r.Load.Completed > 50 }},
		{"WebSocket, prefork", []string{"6", "--server", "ws-prefork", "--workers", "3", "--broadcasts", "2"}, func(r *result.Result) bool {
			return r.Layout.Servers == 3 && len(r.Broadcasts) == 2 && r.Broadcasts[1].Received == 100
		}},
		{"WebSocket, pings", []string{"ws-epoll", "--pings", "2s"}, func(r *result.Result) bool {
			p := r.Pings
			return p.After == 2*time.Second && p.Elapsed >= 2400*time.Millisecond && p.Sent <= 200 && p.MostPerSec <= p.Sent && p.Memory.Server.RSS > 0
		}},
		{"HTTP/2", []string{"h2-epoll", "--rate", "500"}, ratedLoops},
		{"HTTP/2, goroutines", []string{"h2-goroutine", "--client", "goroutine", "--active", "10"}, func(r *result.Result) bool {
			return r.Memory.After.Server.Goroutines >= 100 && r.Memory.After.Client.Goroutines >= 100
		}},
		{"HTTP/2, prefork", []string{"6", "--server", "h2-prefork", "--workers", "3"}, func(r *result.Result) bool { return r.Layout.Servers == 3 }},
		{"workers of HTTP", []string{"http-workerpool", "--loops", "1", "--workers", "2", "--workload", "io=10ms"}, func(r *result.Result) bool {
			return r.Layout.MaxWorkers == 2 && r.Load.PerSec <= 200 // two in 10 ms
		}},
		{"workers of HTTPS", []string{"https-epoll", "--server", "https-workerpool", "--loops", "1", "--workers", "2", "--workload", "io=10ms"}, func(r *result.Result) bool {
			return r.Layout.MaxWorkers == 2 && r.Load.PerSec <= 200
		}},
		{"goroutine server", []string{"6", "--server", "goroutine"}, func(r *result.Result) bool { return r.Memory.After.Server.Goroutines >= 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := runLabCommand(t, append(c.args, "--conns", "100", "--duration", "500ms")...)
			checkResult(t, r, 100)
			if !c.want(r) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestLabSplit has a limit of descriptors call for many processes.
func TestLabSplit(t *testing.T) {
	for _, name := range []string{"6", "7"} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			out, err := exec.Command("sh", "-c", `ulimit -n 250 && exec "$0" "$@"`,
				binary, "lab", "run", name, "--conns", "400", "--duration", "200ms", "--out", folder).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			results, err := result.LoadAll([]string{folder})
			if err != nil {
				t.Fatal(err)
			}
			checkResult(t, results[0], 400)
			if l := results[0].Layout; l.Servers < 3 || l.Clients < 3 {
				t.Errorf("%d servers, %d clients", l.Servers, l.Clients)
			}
		})
	}
}

// TestLabSays: wrong flags are said to be wrong, and preflight says what is in
// the way, without starting anything.
func TestLabSays(t *testing.T) {
	for _, c := range []struct {
		args, says string
		isError    bool
	}{
		{"run 14", "there is no scenario", true},
		{"run 6 --server x", "there is no server", true},
		{"run 6 --client x", "there is no client", true},
		{"run 6 --workload x", "there is no workload", true},
		{"run 6 --conns -1", "at least one connection", true},
		{"run 6 --conns 0", "at least one connection", true},
		{"preflight --conns 0", "at least one connection", true},
		{"preflight --conns 9223372036854775807", "at most 100000000", true},
		{"preflight --conns 1000000000000", "at most 100000000", true},
		{"preflight 7 --workers 9223372036854775807", "at most 1000000", true},
		{"run 6 --conns 10 --loops 900000", "its event loops included", true},
		{"run 6 --conns 10 --client-loops 1000000", "preflight", true},
		{"run 6 --active 5 --at-once 2", "exclude --active", true},
		{"run 6 --rate 5 --in-flight 2", "exclude --active", true},
		{"rnu 7", "unknown command \"rnu\"", true},
		{"", "Available Commands", false},
		{"run http-epoll --workload discard", "cannot discard", true},
		{"run https-goroutine --compact-tls", "event loops and https", true},
		{"preflight https-epoll --conns 2000000", "memory", true},
		{"run 6 --conns 90000000", "preflight", true},
		{"run seeds --conns 90000000", "1_simple_tcp_server: ", true},
		{"preflight 6 --conns 90000000", "does not fit", true},
		{"preflight --conns 10", "Nothing is in the way", false},
		{"preflight 4 --conns 1", "1 server process on 1 address, from", false},
		{"report /no/such/folder", "no such file", true},
		{"list", "12_cpu_intensive_epoll_server", false},
		{"list", "ws-goroutine", false},
	} {
		out, err := exec.Command(binary, append([]string{"lab"}, strings.Fields(c.args)...)...).CombinedOutput()
		if (err != nil) != c.isError || !strings.Contains(string(out), c.says) {
			t.Errorf("lab %s: %v, %s", c.args, err, out)
		}
	}
}

// TestLabOut: where the result cannot be written, nothing is measured.
func TestLabOut(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(folder, "6_multiple_server", "result.json"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"6", "--out", file}, {"seeds", "--out", folder}} {
		args = append([]string{"lab", "run", "--conns", "10", "--duration", "50ms"}, args...)
		out, err := exec.Command(binary, args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "sluice: cannot write the report: ") || strings.Contains(string(out), "servers") {
			t.Errorf("%v: %v, %s", args, err, out)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "report.md")); err == nil {
		t.Error("there is a report of nothing")
	}
}

// TestPreflightApply: what settings lift is lifted, and what is left in the way is
// told.
func TestPreflightApply(t *testing.T) {
	for _, c := range []struct{ name, memory, says string }{
		{"lifted", "90000000", ""},
		{"memory left", "1000", "it does still not fit: 1,000,000 connections of 6_multiple_server; what is in the way: memory"},
	} {
		root := t.TempDir()
		for name, text := range map[string]string{
			"proc/self/limits":                      "Max open files 20000 20000 files\n",
			"proc/sys/fs/file-max":                  "1000\n",
			"proc/sys/net/core/somaxconn":           "10\n",
			"proc/sys/net/ipv4/ip_local_port_range": "32768 60999\n",
			"proc/meminfo":                          "MemAvailable: " + c.memory + " kB\n",
		} {
			path := filepath.Join(root, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		o := run.Options{System: system.Files{Root: root}}
		var err error
		if o.Scenario, err = scenario.Find("6"); err != nil {
			t.Fatal(err)
		}
		o.Scenario.Conns = 1_000_000
		var out strings.Builder
		if err := preflight(o, false, &out); err == nil || !strings.Contains(err.Error(), "fs.file-max") {
			t.Errorf("%s: before: %v", c.name, err)
		}
		err = preflight(o, true, &out)
		if (err == nil) != (c.says == "") || err != nil && !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%s: %v\n%s", c.name, err, out.String())
		}
	}
}
