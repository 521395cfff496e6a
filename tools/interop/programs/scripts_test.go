package programs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// checks are what a script must have found good.
var checks = []string{"get", "post of 1 KB", "post of 5 MB", "head", "204", "304", "large", "stream", "trailers", "hints", "reset", "parallel"}

// TestScripts: clients of HTTP/2 in other languages make the checks. node then makes some
// hundred requests while the server is replaced by another one. The others cannot: httpx
// and Java 17 fail all open requests at the first GOAWAY, whatever its last stream.
func TestScripts(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T) []string{
		"node": func(t *testing.T) []string { return []string{find(t, "node"), "testdata/client.mjs"} },
		"httpx": func(t *testing.T) []string {
			python := find(t, "python3", os.Getenv("SLUICE_PYTHON"))
			if out, err := exec.Command(python, "-c", "import httpx, h2").CombinedOutput(); err != nil {
				t.Skipf("%s has no httpx with HTTP/2: %s", python, out)
			}
			return []string{python, "testdata/client.py"}
		},
		"java": func(t *testing.T) []string {
			java, compiler := find(t, "java"), find(t, "javac")
			classes := t.TempDir()
			if out, err := exec.Command(compiler, "-d", classes, "testdata/Client.java").CombinedOutput(); err != nil {
				t.Fatalf("javac: %v: %s", err, out)
			}
			return []string{java, "-Djdk.internal.httpclient.disableHostnameVerification=true", "-cp", classes, "Client"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := prepare(t)
			onTargets(t, func(t *testing.T, g *target) { runScript(g, command, name == "node") })
		})
	}
}

// loadCount is how many requests a script makes while the server is replaced.
const loadCount = 600

func runScript(g *target, command []string, hasLoad bool) {
	restarted := make(chan struct{})
	go func() {
		defer close(restarted)
		if hasLoad {
			g.restart(loadCount / 4)
		}
	}()
	out := run(g.t, command[0], append(command[1:], g.url(), upload(g.t), strconv.Itoa(loadCount))...)
	<-restarted
	good := make(map[string]bool)
	failed, again := 0, 0
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		what, rest, _ := strings.Cut(line, " ")
		switch what {
		case "ok":
			good[rest] = true
		case "failed":
			failed++
			if n, _, _ := strings.Cut(rest, " "); !g.wasServed(n) {
				again++
				continue
			}
			g.t.Errorf("served and lost: %s", line)
		case "end":
			good["end"] = true
		default:
			g.t.Error(line)
		}
	}
	for _, name := range append(checks, "end") {
		if !good[name] {
			g.t.Errorf("not good: %s", name)
		}
	}
	g.expectCanceled(1)
	g.t.Logf("%d of %d requests failed when the server was replaced; %d of them were not processed", failed, loadCount, again)
}

// find returns the path of a program: wanted if it is set, else the one in PATH. It skips
// the test if there is none.
func find(t *testing.T, name string, wanted ...string) string {
	t.Helper()
	for _, other := range wanted {
		if other != "" {
			return other
		}
	}
	for _, candidate := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	t.Skipf("skipped: %s is not installed", name)
	return ""
}

// run returns what a program prints.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %v: %v", filepath.Base(program), args, err)
	}
	return string(out)
}

// upload returns the name of a file of largeSize bytes.
func upload(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "upload")
	if err := os.WriteFile(name, make([]byte, largeSize), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
