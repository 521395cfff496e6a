//go:build linux

package run

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/internal/plan"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
	"github.com/sluicehttp/sluice/tools/lab/internal/system"
)

// TestCheck: options that make no sense are refused before anything begins.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		options Options
		says    string
	}{
		{Options{Rate: 5}, "duration"},
		{Options{Scenario: scenario.Scenario{Workload: scenario.Workload{Kind: scenario.Discard}}}, "duration"},
		{Options{Duration: -time.Second}, "duration"},
		{Options{Duration: time.Second, Active: -1}, "active"},
		{Options{Duration: time.Second, InFlight: -1}, "on their way"},
		{Options{Duration: time.Second, AtOnce: -1}, "at the same time"},
		{Options{Duration: time.Second, AtOnce: 1, Active: 1}, "for a sweep"},
		{Options{Duration: time.Second, InFlight: 1, Rate: 1}, "for a sweep"},
		{Options{Duration: math.MaxInt64}, "too long"},
		{Options{Duration: time.Second, Dialers: -1}, "made at the same time"},
		{Options{Duration: time.Second, Broadcasts: -1}, "broadcasts"},
		{Options{Duration: time.Second, Broadcasts: 1}, "for WebSockets"},
		{Options{Duration: time.Second, Scenario: scenario.Scenario{Pings: time.Minute}}, "for WebSockets"},
		{Options{Duration: time.Second, Scenario: scenario.Scenario{Protocol: scenario.WebSocket, Pings: time.Second}}, "after 2s"},
		{Options{Duration: time.Second, Rate: -1}, "rate"},
		{Options{Duration: time.Second, Rate: math.NaN()}, "rate"},
		{Options{Duration: time.Second, Rate: math.Inf(1)}, "rate"},
	} {
		c.options.Program, c.options.Progress = "/none", silent{}
		_, err := Run(t.Context(), c.options)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.options, err)
		}
	}
}

// TestTakePort: two runs that begin together do not get the same port, on which
// servers of prefork would get connections of each other's clients.
func TestTakePort(t *testing.T) {
	var ports []int
	for range 3 {
		port, hold, err := takePort(0)
		if err != nil {
			t.Fatal(err)
		}
		defer hold.Close()
		if slices.Contains(ports, port) {
			t.Errorf("port %d after %v", port, ports)
		}
		ports = append(ports, port)
		ln, err := net.Listen("tcp4", fmt.Sprintf("127.1.0.1:%d", port))
		if err != nil {
			t.Errorf("nobody can listen there: %v", err)
			continue
		}
		defer ln.Close()
	}
}

// TestConnectOrder: a client does not get more dialers than it has connections.
func TestConnectOrder(t *testing.T) {
	for _, c := range []struct{ dialers, want int }{{0, defaultDialers}, {3, 3}, {1_000_000, 10}} {
		s := &session{Options: &Options{Dialers: c.dialers}, plan: plan.Plan{Clients: []plan.Client{{Conns: 10}}}}
		if got := s.connectOrder(0).Dialers; got != c.want {
			t.Errorf("%d dialers: %d, not %d", c.dialers, got, c.want)
		}
	}
}

// silent shows nothing.
type silent struct{}

func (silent) Phase(string, int) {}
func (silent) Set(int, string)   {}
func (silent) Close()            {}

// TestBlocked: what does not fit is refused with what stops it.
func TestBlocked(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"proc/self/limits":                          "Max open files 20000 20000 files\n",
		"proc/sys/fs/file-max":                      "1000\n",
		"proc/sys/net/ipv4/ip_local_port_range":     "32768 60999\n",
		"proc/meminfo":                              "MemAvailable: 1000 kB\n",
		"proc/sys/net/ipv4/tcp_congestion_control":  "cubic\n",
		"proc/sys/net/netfilter/nf_conntrack_count": "0\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := scenario.Find("6")
	if err != nil {
		t.Fatal(err)
	}
	s.Conns = 1_000_000
	_, err = Run(t.Context(), Options{Scenario: s, Duration: time.Second, Program: "/none", Progress: silent{}, System: system.Files{Root: root}})
	if !errors.Is(err, ErrBlocked) {
		t.Fatal(err)
	}
	for _, want := range []string{"fs.file-max", "there are 1,000", "memory"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("there is no %q in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "somaxconn") {
		t.Errorf("what would only be better is named as if it stopped it: %v", err)
	}
}
