package interop_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"flag"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// h1cases holds raw HTTP/1.1 cases and their runner, beside the repository.
const h1cases = "../../../shared/h1cases"

// allTLS has more run over TLS than two files with compact connections. It takes minutes: each
// of the 3,406 connections of the largest file costs a handshake.
var allTLS = flag.Bool("tls.all", false, "TestH1Cases: run all files over TLS, with crypto/tls too")

// idleTLS is how many milliseconds of silence say that no more comes over TLS. The runner's own
// value, 700, is less than a handshake takes on a busy machine.
const idleTLS = "3000"

// raceEnv names the variable that has h1target built with the race detector;
// CI runs the tests once without and once with it.
const raceEnv = "SLUICE_H1_RACE"

// TestH1Cases runs the raw HTTP/1.1 cases against h1target: no case that the
// RFCs call for may fail, and the server must be alive and free of races
// afterwards. TLS changes no verdict; with the race detector compact connections
// release their ciphers after milliseconds.
func TestH1Cases(t *testing.T) {
	if testing.Short() {
		t.Skip("the raw HTTP/1.1 cases take a minute")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skipf("the runner of the raw HTTP/1.1 cases needs python3: %v", err)
	}
	runner := filepath.Join(h1cases, "run.py")
	if _, err := os.Stat(runner); err != nil {
		t.Skipf("the raw HTTP/1.1 cases are not part of this repository: %v", err)
	}
	binary := buildTarget(t)
	for _, mode := range []struct {
		name string
		args []string
	}{{"buffered", nil}, {"streamed", []string{"-stream"}}} {
		verdicts := map[string]string{} // of each file, by the server that was the first
		for _, server := range h1servers() {
			t.Run(mode.name+"/"+server.name, func(t *testing.T) {
				addr := startTarget(t, binary, append(mode.args, server.args...)...)
				files := []string{"cases.json", "corpora_cases.json", "smuggler_cases.json"}
				command := []string{python, runner, addr}
				if slices.Contains(server.args, "-tls") {
					command = []string{python, runner, bridgeToTLS(t, addr), "--idle", idleTLS}
					if !*allTLS {
						files = files[:2]
					}
				}
				for _, file := range files {
					t.Run(file, func(t *testing.T) {
						got := runCases(t, command, file)
						if want, ok := verdicts[file]; ok && got != want {
							t.Errorf("the servers differ:\n%s\nand with %s\n%s", want, server.name, got)
						}
						verdicts[file] = got
					})
				}
			})
		}
	}
}

// An h1server is a way to start h1target.
type h1server struct {
	name string
	args []string
}

func h1servers() (all []h1server) {
	for _, engine := range engines() {
		all = append(all, h1server{engine, []string{"-engine", engine}})
		if *allTLS {
			all = append(all, h1server{engine + "/tls", []string{"-engine", engine, "-tls"}})
		}
	}
	if slices.Contains(engines(), "epoll") {
		all = append(all, h1server{"epoll/compact", []string{"-engine", "epoll", "-tls", "-compact"}})
	}
	return all
}

// bridgeToTLS returns an address where the runner, which speaks no TLS, finds the server at
// addr, which speaks nothing else. The ends of input are passed on both ways.
func bridgeToTLS(t *testing.T, addr string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			go bridge(c.(*net.TCPConn), addr)
		}
	}()
	return ln.Addr().String()
}

func bridge(plain *net.TCPConn, addr string) {
	defer plain.Close()
	secure, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err != nil {
		return
	}
	defer secure.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := io.Copy(secure, plain); err == nil {
			_ = secure.CloseWrite()
			return
		}
		_, _ = io.Copy(io.Discard, plain) // the server has gone, or the runner
		_ = secure.Close()
	}()
	_, _ = io.Copy(plain, secure)
	_ = plain.CloseWrite()
	<-done
}

// engines are the engines that this system serves TCP with.
func engines() []string {
	if runtime.GOOS == "linux" {
		return []string{"perconn", "epoll"}
	}
	return []string{"perconn"}
}

func buildTarget(t *testing.T) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "h1target")
	args := []string{"build", "-buildvcs=false", "-o", binary}
	if os.Getenv(raceEnv) != "" {
		args = append(args, "-race")
	}
	out, err := exec.CommandContext(t.Context(), "go", append(args, "./h1target")...).CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return binary
}

// startTarget runs the server and returns its address. At the end of the test
// it asks the server to stop and fails if that does not end well: so also if
// the race detector found something, which it says on standard error.
func startTarget(t *testing.T, binary string, args ...string) (addr string) {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"-addr", "127.0.0.1:0"}, args...)...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr lockedBuffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // Wait tells if it was gone
		if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
			t.Errorf("h1target ended with %v:\n%s", err, stderr.String())
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("h1target says nothing: %v", err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
}

// lockedBuffer collects what another goroutine writes.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// Len is the number of bytes collected.
func (b *lockedBuffer) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Len()
}

// String returns what was collected.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// deliberate are the cases whose verdict we don't share, with the reason. They
// are of level ROBUST: other projects' opinions, not the RFCs' text. A case that
// passes must leave the list.
var deliberate = map[string]string{
	"GU-valid-005":                                    "a fragment in a target is refused",
	"GU-valid-009":                                    "Transfer-Encoding: identity is refused",
	"LL-uri-Fragment-in-URI":                          "a fragment in a target is refused",
	"GU-invalid-007":                                  "a field line may be as long as a head",
	"LL-uri--host-port-and-basic-auth":                "userinfo in a target is refused",
	"GU-valid-rfc9112_target_absolute_userinfo_01":    "userinfo in a target is refused",
	"GU-valid-rfc9112_smuggle_te_identity_chunked_01": "Transfer-Encoding: identity is refused",
	"GU-invalid-rfc9110_trailer_forbidden_cl_01":      "a field that may not trail is dropped (RFC 9110 section 6.5.1)",
	"GU-invalid-rfc9110_trailer_forbidden_host_01":    "a field that may not trail is dropped (RFC 9110 section 6.5.1)",
	"GU-invalid-rfc9110_trailer_forbidden_te_01":      "a field that may not trail is dropped (RFC 9110 section 6.5.1)",
}

// runCases runs one file of cases. The runner exits with 1 if a case of level
// MUST fails or the server does not answer afterwards; here, no case at all may
// fail but the deliberate ones. It returns what must not depend on the engine:
// which cases did not pass, and how many did what.
func runCases(t *testing.T, command []string, file string) (verdicts string) {
	args := append(command[1:len(command):len(command)], "--cases", filepath.Join(h1cases, file), "-j", "24")
	out, err := runPython(t, command[0], args)
	t.Logf("%s: %s", file, tallies(string(out)))
	if err != nil {
		t.Errorf("%s: %v\n%s", file, err, out)
	}
	// The exit status says nothing about a runner that found no cases to run.
	if !bytes.Contains(out, []byte("alive after run: True")) || !passedSome.Match(out) {
		t.Errorf("%s: nothing ran, or the server is not alive:\n%s", file, out)
	}
	failed := failures(string(out))
	for id, line := range failed {
		if deliberate[id] == "" {
			t.Errorf("%s: %s", file, line)
		}
	}
	for id, reason := range deliberate {
		if file == "corpora_cases.json" && failed[id] == "" {
			t.Errorf("%s passes now or is gone; take it off the list of deliberate ones (%s)", id, reason)
		}
	}
	return verdictsOf(string(out))
}

// verdictsOf returns the runner's verdicts on the cases that did not pass, by
// their names, and its tallies.
func verdictsOf(out string) string {
	var lines []string
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) > 2 && slices.Contains([]string{"FAIL", "ERROR", "WARN"}, words[0]) {
			lines = append(lines, strings.Join(words[:3], " "))
		}
	}
	slices.Sort(lines)
	return strings.Join(append(lines, tallies(out)), "\n")
}

// runPython runs the runner, and does so again where the machine had no port
// left for a connection: that is the fault of what else runs on it.
func runPython(t *testing.T, python string, args []string) (out []byte, err error) {
	t.Helper()
	for range 3 {
		out, err = exec.CommandContext(t.Context(), python, args...).CombinedOutput()
		if !bytes.Contains(out, []byte("Cannot assign requested address")) {
			break
		}
		t.Log("no ports left; running the cases again")
	}
	return out, err
}

var passedSome = regexp.MustCompile(`(?m)^[1-9][0-9]* passed, `)

// failures returns the runner's lines about cases that failed, by their names.
// Such a line is "FAIL LEVEL NAME what it was about".
func failures(out string) map[string]string {
	lines := map[string]string{}
	for _, line := range strings.Split(out, "\n") {
		words := strings.Fields(line)
		if len(words) > 2 && (words[0] == "FAIL" || words[0] == "ERROR") {
			lines[words[2]] = line
		}
	}
	return lines
}

// tallies returns the end of what the runner says, in one line.
func tallies(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "alive after run") })
	return strings.Join(lines[max(at, 0):], "; ")
}
