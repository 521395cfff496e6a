// Package autobahn runs the fuzzing client of the Autobahn test suite against an echo
// Endpoint.
package autobahn

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/websocket"
)

var rewrite = flag.Bool("rewrite", false, "write what the suite reports into index.txt")

// TestServer runs the suite with both engines. It needs wstest of autobahntestsuite 0.8.2,
// which needs Python 2.7, in PATH or named by WSTEST.
func TestServer(t *testing.T) {
	wstest := os.Getenv("WSTEST")
	if wstest == "" {
		var err error
		if wstest, err = exec.LookPath("wstest"); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	var servers []map[string]any
	for _, engine := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		servers = append(servers, map[string]any{"agent": engine.String(), "url": "ws://" + serve(t, engine)})
	}
	spec, err := json.Marshal(map[string]any{
		"outdir": filepath.Join(dir, "report"), "servers": servers,
		"cases": []string{"1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "9.*", "10.*"},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "spec.json")
	if err := os.WriteFile(file, spec, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(wstest, "-m", "fuzzingclient", "-s", file)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	compare(t, filepath.Join(dir, "report", "index.json"))
}

// serve starts an echo server and returns its address.
func serve(t *testing.T, engine sluice.Engine) string {
	echo := &websocket.Endpoint{
		ReadLimit: 32 << 20,
		OnMessage: func(c *websocket.Conn, m websocket.Message) error {
			return c.Write(t.Context(), m.Kind, m.Data)
		},
	}
	s := &sluice.Server{Engine: engine, Handler: func(ctx *sluice.RequestCtx) { _ = echo.Upgrade(ctx, nil) }}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(func() { _ = s.Shutdown() })
	return ln.Addr().String()
}

// compare compares the suite's results with index.txt: a line for each case, with what the
// suite says of the messages, and of the closing.
func compare(t *testing.T, index string) {
	text, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	var results map[string]map[string]struct{ Behavior, BehaviorClose string }
	if err := json.Unmarshal(text, &results); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("index.txt")
	if err != nil && !*rewrite {
		t.Fatal(err)
	}
	for engine, cases := range results {
		var got strings.Builder
		for _, name := range slices.Sorted(maps.Keys(cases)) {
			fmt.Fprintln(&got, name, cases[name].Behavior, cases[name].BehaviorClose)
		}
		if *rewrite {
			if err := os.WriteFile("index.txt", []byte(got.String()), 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		lines := strings.Split(string(want), "\n")
		for line := range strings.Lines(got.String()) {
			if !slices.Contains(lines, strings.TrimSuffix(line, "\n")) {
				t.Errorf("%s: %s", engine, line)
			}
		}
		if n := strings.Count(got.String(), "\n"); n != len(lines)-1 {
			t.Errorf("%s: %d cases, want %d", engine, n, len(lines)-1)
		}
	}
}
