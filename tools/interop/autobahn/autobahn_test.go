// Package autobahn runs the Autobahn test suite against an echo Endpoint, and against
// websocket.Dial.
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

var (
	rewrite = flag.Bool("rewrite", false, "write what the suite reports into index.txt")
	all     = flag.Bool("all", false, "run cases 12 and 13 with all sizes of messages; those that are not in index.txt must be OK")
	some    = flag.String("cases", "", "run these cases only, as `9.*,12.1.18`; those that are not in index.txt must be OK")
)

// sizes is how many cases of each group of 12 and 13 run without -all: messages of up to 8
// KiB, a thousand in each case. The cases after them have up to 128 KiB, and take long.
const sizes = 6

// TestServer runs the suite with both engines, and with a kind of compression on each, which
// does not depend on the engine. It needs wstest of autobahntestsuite 0.8.2, in PATH or named
// by WSTEST. To install it:
//
//	python2.7 -m pip install virtualenv && python2.7 -m virtualenv DIR
//	DIR/bin/pip install autobahntestsuite==0.8.2
//	WSTEST=DIR/bin/wstest go -C tools/interop test -timeout 30m ./autobahn
func TestServer(t *testing.T) {
	testServer(t, false, func(addr string) string { return addr })
}

// TestServerTLS is TestServer over TLS: epoll has compact connections, perconn crypto/tls. With
// the race detector compact connections release their ciphers after milliseconds.
func TestServerTLS(t *testing.T) {
	testServer(t, true, func(addr string) string { return bridgeToTLS(t, addr) })
}

// TestServerHTTP2 is TestServer over HTTP/2 (RFC 8441).
func TestServerHTTP2(t *testing.T) {
	testServer(t, false, func(addr string) string { return bridgeToServer(t, addr) })
}

// testServer runs the suite at the addresses that reach returns for those of the servers.
func testServer(t *testing.T, isSecure bool, reach func(addr string) string) {
	wstest := findSuite(t)
	t.Parallel()
	dir := t.TempDir()
	var servers []map[string]any
	for engine, compression := range map[sluice.Engine]websocket.Compression{
		sluice.EngineEpoll: websocket.CompressionTakeover, sluice.EnginePerConn: websocket.CompressionShared,
	} {
		servers = append(servers, map[string]any{"agent": engine.String(), "url": "ws://" + reach(serve(t, engine, compression, isSecure))})
	}
	spec, err := json.Marshal(map[string]any{
		"outdir": filepath.Join(dir, "report"), "servers": servers,
		"cases": caseNames(),
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

// caseNames returns the cases to run.
func caseNames() []string {
	if *some != "" {
		return strings.Split(*some, ",")
	}
	cases := []string{"1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "9.*", "10.*"}
	if *all {
		return append(cases, "12.*", "13.*")
	}
	for _, group := range []string{"12.1", "12.2", "12.3", "12.4", "12.5", "13.1", "13.2", "13.3", "13.4", "13.5", "13.6", "13.7"} {
		for n := range sizes {
			cases = append(cases, fmt.Sprintf("%s.%d", group, n+1))
		}
	}
	return cases
}

// isPartOrMore reports whether other cases run than those of index.txt.
func isPartOrMore() bool { return *all || *some != "" }

// serve starts an echo server and returns its address.
func serve(t *testing.T, engine sluice.Engine, compression websocket.Compression, isSecure bool) string {
	echo := &websocket.Endpoint{
		ReadLimit: 32 << 20, Compression: compression,
		OnMessage: func(c *websocket.Conn, m websocket.Message) error {
			return c.Write(t.Context(), m.Kind, m.Data)
		},
	}
	isCompact := isSecure && engine == sluice.EngineEpoll
	s := &sluice.Server{Engine: engine, CompactTLS: isCompact, Handler: func(ctx *sluice.RequestCtx) {
		if isSecure {
			// crypto/tls exports keys, a compact connection does not.
			if _, err := ctx.TLSConnectionState().ExportKeyingMaterial("autobahn", nil, 16); (err != nil) != isCompact {
				t.Errorf("the connection is not what was asked for: %v", err)
			}
		}
		_ = echo.Upgrade(ctx, nil)
	}}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve := s.Serve
	if isSecure {
		cert, key, err := sluice.GenerateTestCertificate("localhost")
		if err != nil {
			t.Fatal(err)
		}
		serve = func(ln net.Listener) error { return s.ServeTLSEmbed(ln, cert, key) }
	}
	go func() { _ = serve(ln) }()
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
	if len(results) != 2 {
		t.Errorf("there are reports of %d servers", len(results))
	}
	want, err := os.ReadFile("index.txt")
	if err != nil && !*rewrite {
		t.Fatal(err)
	}
	for engine, cases := range results {
		var got strings.Builder
		counts := map[string]int{}
		for _, name := range slices.Sorted(maps.Keys(cases)) {
			fmt.Fprintln(&got, name, cases[name].Behavior, cases[name].BehaviorClose)
			counts[cases[name].Behavior+" "+cases[name].BehaviorClose]++
		}
		t.Logf("%s: %v", engine, counts)
		if *rewrite {
			if err := os.WriteFile("index.txt", []byte(got.String()), 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		lines := strings.Split(string(want), "\n")
		for line := range strings.Lines(got.String()) {
			isNew := isPartOrMore() && strings.HasSuffix(line, " OK OK\n")
			if !isNew && !slices.Contains(lines, strings.TrimSuffix(line, "\n")) {
				t.Errorf("%s: %s", engine, line)
			}
		}
		if n := strings.Count(got.String(), "\n"); n != len(lines)-1 && !isPartOrMore() {
			t.Errorf("%s: %d cases, want %d", engine, n, len(lines)-1)
		}
	}
}
