package wire

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/nginx"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
)

func TestParseFilesFlags(t *testing.T) {
	o, err := command.Parse(filesFlags, "--rounds", "2", "--seconds", "3", "--servers", "epoll", "--sizes", "512B,1MiB,1MiB")
	if err != nil || o.rounds != 2 || o.time != 3*time.Second || !slices.Equal(o.kinds, []string{nginxKind, peers.Epoll}) {
		t.Errorf("options %+v, %v", o, err)
	}
	if !slices.Equal(o.sizes, []command.Size{512, command.MiB}) {
		t.Errorf("sizes %v", o.sizes)
	}
	for _, bad := range [][]string{{"--rounds", "0"}, {"--seconds", "0"}, {"--conns", "0"}, {"--sizes", "1KiB,many"}, {"--servers", "gopher"}} {
		if _, err := command.Parse(filesFlags, bad...); err == nil {
			t.Errorf("%v: no error", strings.Join(bad, " "))
		}
	}
}

// Every kind of server that is installed serves the files, as they have to be answered, and
// says what CPU time it used.
func TestFiles(t *testing.T) {
	if err := command.Require("taskset"); err != nil {
		t.Skip(err)
	}
	w := filesOptions{rounds: 1, conns: 4, kinds: filesKinds[:], sizes: []command.Size{command.KiB, 100 * command.KiB}}.wire()
	for _, c := range w.cases {
		c.load.Requests = 40
	}
	m, err := measure(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	_, noNginx := nginx.Find(nginxKind)
	for _, c := range m.cases {
		for _, kind := range filesKinds {
			if strings.HasPrefix(kind, nginxKind) && noNginx != nil {
				continue
			}
			s := c.samples[kind]
			if len(s) != 1 || s[0].Requests != 40 || s[0].Failures != 0 || s[0].usage.CPU <= 0 || !strings.Contains(m.fields[kind], "Last-Modified") {
				t.Errorf("%s, %s: %+v, fields %q", c.name, kind, s, m.fields[kind])
			}
		}
	}
}

func TestCheckFile(t *testing.T) {
	good := http.Header{"Content-Length": {"4"}, "Content-Type": {"text/html; charset=utf-8"}, "Last-Modified": {"x"}, "Accept-Ranges": {"bytes"}}
	if err := checkFile(good, 4); err != nil {
		t.Error(err)
	}
	for name, value := range map[string]string{"Content-Length": "5", "Content-Type": "text/plain", "Last-Modified": "", "Accept-Ranges": "none"} {
		bad := good.Clone()
		bad.Set(name, value)
		if err := checkFile(bad, 4); err == nil {
			t.Errorf("another %s: no error", name)
		}
	}
}

func TestFilesTables(t *testing.T) {
	w := filesOptions{conns: 64, kinds: []string{nginxKind, nginxCache, peers.Epoll}, sizes: []command.Size{command.KiB, command.MiB}}.wire()
	m := &measurement{options: w}
	// The second round ran on a machine of half the speed.
	for _, slow := range []time.Duration{1, 2} {
		for i, epoll := range []time.Duration{9, 14} {
			for kind, cpu := range map[string]time.Duration{nginxKind: 10, nginxCache: 8, peers.Epoll: epoll} {
				samples := m.cases[i].samples
				samples[kind] = append(samples[kind], used(cpu*slow*time.Microsecond))
			}
		}
	}
	var got []string
	for _, row := range comparedFiles(m).Rows {
		got = append(got, strings.Join(row, "; "))
	}
	want := []string{
		"1KiB; nginx-cache; 0.80 (0.80–0.80); -; 1.00 (1.00–1.00)",
		"1KiB; epoll; 0.90 (0.90–0.90); ≤ 1.00 met; 1.12 (1.12–1.12)",
		"1MiB; nginx-cache; 0.80 (0.80–0.80); -; 1.00 (1.00–1.00)",
		"1MiB; epoll; 1.40 (1.40–1.40); ≤ 1.20 missed; 1.75 (1.75–1.75)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
	if rows := measuredFiles(m).Rows; len(rows) != 6 || rows[0][2] != "15.00" || rows[3][5] != "1000" {
		t.Errorf("rows %q", rows)
	}
	if err := missedByFiles(m); err == nil || err.Error() != "epoll, 1MiB: 1.40 × nginx's CPU time per request, want at most 1.20" {
		t.Errorf("failure %v", err)
	}
	m.cases[0].samples[nginxKind][0].Failures = 2
	if err := missedByFiles(m); err == nil || !strings.Contains(err.Error(), "nginx, 1KiB: 2 requests failed") {
		t.Errorf("failure %v", err)
	}
}
