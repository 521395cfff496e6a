//go:build unix

package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/prefork"
)

// The tables of docs/guide/operate.md have the signals, times and exit codes of the code.
func TestOperateTables(t *testing.T) {
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	guide := read("docs/guide/operate.md")
	named := func(text, pattern string) (names []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	const rows, signals = "(?m)^\\| `([A-Z0-9]+)` \\|", `syscall\.SIG([A-Z0-9]+)`
	if got, want := named(guide, rows), named(read("internal/process/supervise/signals_unix.go"), signals); !slices.Equal(got, want) {
		t.Errorf("signals %q, the master takes %q", got, want)
	}

	p, flags := prefork.New(&sluice.Server{}), newServeCommand().Flags()
	times := map[string]time.Duration{
		"ShutdownDelay": p.ShutdownDelay, "HangTimeout": p.HangTimeout, "RecoverInterval": p.RecoverInterval, "RecoverWindow": p.RecoverWindow,
	}
	source := read("prefork/prefork.go") + read("internal/process/supervise/config.go")
	for field, text := range map[string]string{
		"ShutdownGracePeriod": "defaultGrace", "IdleLinger": "defaultIdleLinger", "SoakTime": "defaultSoak", "BootTimeout": "orElse(c.BootTimeout,",
	} {
		m := regexp.MustCompile(regexp.QuoteMeta(text) + `[ =]+(\d+) ?\* ?time\.Second`).FindStringSubmatch(source)
		if m == nil {
			t.Fatalf("there is no default of %s", field)
		}
		times[field], _ = time.ParseDuration(m[1] + "s")
	}
	times["DrainTimeout"] = 2*times["IdleLinger"] + 2*time.Second // TestDefaultTimes has it
	seen := 0
	for _, m := range regexp.MustCompile("(?m)^\\|[^|]+\\| `([A-Za-z]+)` \\| (\\S+) \\| (\\S+) \\| (\\S+) \\|$").FindAllStringSubmatch(guide, -1) {
		seen++
		if want := times[m[1]].String(); m[2] != want {
			t.Errorf("%s is %s, not %s", m[1], want, m[2])
		}
		want := m[2]
		if flag := strings.Trim(m[3], "`-"); flag != "none" {
			d, err := time.ParseDuration(flags.Lookup(flag).Value.String())
			if err != nil {
				t.Fatal(err)
			}
			want = d.String()
		}
		if m[4] != want {
			t.Errorf("%s is %s in sluice serve, not %s", m[1], want, m[4])
		}
	}
	if seen != len(times) {
		t.Errorf("%d times, want %d", seen, len(times))
	}
	if got := named(guide, `(?m)^\| (\d+) \|`); !slices.Equal(got, []string{"0", "1", "131", "2", "3", "4"}) || quitStatus != 131 || ctlFailed != 1 || ctlNoAnswer != 3 || ctlTimedOut != 4 {
		t.Errorf("exit codes %q", got)
	}
}
