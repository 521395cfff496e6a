package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// serveIn is "sluice serve" with a folder of its own for temporary files.
func serveIn(t *testing.T, temporary string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := limited(t, binary, append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary, "TMP="+temporary, "TEMP="+temporary)
	return cmd
}

// checkEmpty fails if there is something in a folder.
func checkEmpty(t *testing.T, folder string) {
	t.Helper()
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestFailures: what is wrong is said, with exit status 2 if it is in the command, before
// anything listens, and nothing is left behind.
// long: a table
func TestFailures(t *testing.T) {
	dir := tree(t, map[string]string{"file": "x"})
	file := filepath.Join(dir, "file")
	pair := t.TempDir()
	cert, key := writePair(t, pair, "localhost")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	const free = "127.0.0.1:0"
	socket, long := filepath.Join(t.TempDir(), "admin"), "/tmp/"+strings.Repeat("x", 195)
	listening, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listening.Close()
	for _, c := range []struct {
		name   string
		args   []string
		says   string
		status int
	}{
		{"no folder", []string{dir + "/none"}, "none: there is no such folder", 2},
		{"a file", []string{file}, "it is a file, and serve takes a folder: sluice serve " + dir + "\n", 2},
		{"a device", []string{os.DevNull}, "it is not a folder", 2},
		{"below a file", []string{file + "/x"}, "cannot serve " + file + "/x: not a directory", 2},
		{"negative time", []string{dir, "--read-timeout", "-5"}, "cannot be negative", 2},
		{"no duration", []string{dir, "--idle-timeout", "5x"}, "5x is no duration", 2},
		{"empty", []string{""}, "DIR is empty", 2},
		{"two", []string{dir, dir}, "one DIR only", 2},
		{"no number of workers", []string{"--prefork", "many"}, "--prefork takes a number of workers, or auto", 2},
		{"no number of workers, and a folder", []string{dir, "--prefork", "many"}, "--prefork takes a number of workers, or auto", 2},
		{"a port alone", []string{dir, "--addr", "8080"}, ":8080 is that port on all addresses", 2},
		{"too many colons", []string{dir, "--addr", "::1:8080"}, "--addr takes HOST:PORT", 2},
		{"a port alone for the master", []string{dir, "--prefork", "--admin", "9090"}, ":9090 is that port", 2},
		{"a socket without its path", []string{dir, "--admin", "unix:"}, "--admin unix: needs the path of a socket", 2},
		{"a path alone", []string{dir, "--admin", "/run/x"}, "unix:/run/x is the socket with this path", 2},
		{"admin in use", []string{dir, "--addr", free, "--admin", taken.Addr().String()}, "cannot listen on --admin " + taken.Addr().String() + ": another server does", 1},
		{"admin in use, with workers", []string{dir, "--addr", free, "--admin", taken.Addr().String(), "--prefork", "1"}, "cannot listen on --admin " + taken.Addr().String() + ": another server does", 1},
		{"admin's socket in use", []string{dir, "--addr", free, "--admin", "unix:" + socket, "--prefork", "1"}, "cannot listen on --admin unix:" + socket + ": another server does", 1},
		{"admin is a file", []string{dir, "--addr", free, "--admin", "unix:" + file}, file + "\" exists and is not a socket", 1},
		{"admin in no folder", []string{dir, "--addr", free, "--admin", "unix:" + dir + "/none/x", "--prefork", "1"}, "no such file or directory", 1},
		{"admin's path is long", []string{dir, "--addr", free, "--admin", "unix:" + long}, "the path has 200 bytes, and all systems take 103", 1},
		{"no number", []string{dir, "--max-body", "abc"}, "--max-body takes a whole number, not \"abc\"\n", 2},
		{"too large a number", []string{dir, "--max-body", "99999999999999999999"}, "--max-body takes a number of a usual size", 2},
		{"no truth", []string{dir, "--http2=maybe"}, "--http2 takes true or false, not \"maybe\"\n", 2},
		{"no flag", []string{dir, "--nosuch"}, "unknown flag: --nosuch", 2},
		{"port in use", []string{dir, "--addr", taken.Addr().String()}, "another program does", 1},
		{"bad port", []string{dir, "--addr", "127.0.0.1:notaport"}, "there is no port \"notaport\"", 2},
		{"cert alone", []string{dir, "--tls-cert", cert}, "--tls-cert needs --tls-key", 2},
		{"key alone", []string{dir, "--tls-key", key}, "--tls-key needs --tls-cert", 2},
		{"compact without TLS", []string{dir, "--compact-tls"}, "needs --tls-cert, --tls-self-signed or --acme", 2},
		{"HTTP/3 without TLS", []string{dir, "--http3"}, "--http3 needs --tls-cert, --tls-self-signed or --acme", 2},
		{"HTTP/3 and headers of proxies", []string{dir, "--http3", "--tls-self-signed", "--proxy-protocol", "accept", "--proxy-trusted", "127.0.0.1"}, "--http3 and --proxy-protocol exclude each other", 2},
		{"both kinds", []string{dir, "--tls-key", key, "--tls-cert", cert, "--tls-self-signed"}, "exclude each other", 2},
		{"no cert", []string{dir, "--tls-key", key, "--tls-cert", cert + "x"}, "no such file", 1},
		{"no pair", []string{dir, "--tls-key", cert, "--tls-cert", cert}, "cannot use", 1},
		{"key below", []string{pair, "--tls-key", key, "--tls-cert", cert}, "the private key would be served", 2},
		{"ACME and a cert", []string{dir, "--tls-key", key, "--tls-cert", cert, "--acme", "a.example"}, "--tls-cert and --tls-self-signed exclude it", 2},
		{"ACME without a host", []string{dir, "--acme-email", "me@a.example"}, "need --acme", 2},
		{"ACME for no host", []string{dir, "--acme", "a.example:443"}, "--acme takes names of hosts", 2},
		{"ACME with a cache that is a file", []string{dir, "--acme", "a.example", "--acme-cache", key}, "choose another folder with --acme-cache", 1},
		{"the same with workers", []string{dir, "--prefork", "2", "--acme", "a.example", "--acme-cache", key}, "choose another folder with --acme-cache", 1},
		{"ACME with a cache that is served", []string{dir, "--acme", "a.example", "--acme-cache", dir + "/acme"}, "the private keys would be served", 2},
		{"copies below", []string{dir, "--compress-root", dir + "/new"}, "would be served as files", 2},
		{"copies in it", []string{dir, "--compress-root", dir}, "would be served as files", 2},
		{"copies in a file", []string{pair, "--compress-root", file}, "cannot use --compress-root", 1},
		{"copies without compression", []string{dir, "--compress=false", "--compress-root", pair}, "--compress-root needs --compress", 2},
		{"two cache policies", []string{dir, "--max-age", "1h", "--cache-control", "no-store"}, "exclude each other", 2},
		{"a policy in two lines", []string{dir, "--cache-control", "private\r\nX: y"}, "--cache-control: there is a control character in it", 2},
		{"profiles without --admin", []string{dir, "--profiles"}, "--profiles is about --admin", 2},
		{"no room for bodies", []string{dir, "--max-body", "0"}, "--max-body takes a number from 1 on", 2},
		{"less than none", []string{dir, "--max-body", "-1"}, "--max-body takes a number from 1 on", 2},
		{"negative age", []string{dir, "--max-age", "-1s"}, "cannot be negative", 2},
		{"index with a path", []string{dir, "--index", "a/b.html"}, "--index takes names", 2},
		{"spa without index", []string{dir, "--spa", "--index", ""}, "--spa needs an --index", 2},
		{"log without a file", []string{dir, "--access-log-slow", "1"}, "--access-log-slow is about --access-log", 2},
		{"log of no format", []string{dir, "--access-log", "-", "--access-log-format", "xml"}, "takes combined, json or text, not \"xml\"", 2},
		{"log of less than none", []string{dir, "--access-log", "-", "--access-log-every", "-1"}, "a number from 0 on", 2},
		{"log in no folder", []string{dir, "--access-log", dir + "/none/log"}, "cannot open the access log", 1},
		{"files without folder", []string{"--spa"}, "--spa needs DIR", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			temporary := t.TempDir()
			out, err := serveIn(t, temporary, c.args...).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != c.status || !strings.Contains(string(out), c.says) {
				t.Errorf("%v: %s", err, out)
			}
			if lines := bytes.Count(out, []byte("\n")); lines != 1 || !bytes.HasPrefix(out, []byte("sluice: ")) || bytes.Contains(out, []byte("serves")) {
				t.Errorf("it says %q", out)
			}
			checkEmpty(t, temporary)
		})
	}
}

// TestErrorsOfManager: the process that was started says once what the one that manages has met.
func TestErrorsOfManager(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct{ addr, admin, says string }{
		{"127.0.0.1:0", taken.Addr().String(), "cannot listen on --admin " + taken.Addr().String() + ": another server does; choose another address"},
		{taken.Addr().String(), "", "cannot listen on " + taken.Addr().String() + ": another program does; choose another port"},
	} {
		out, err := serveIn(t, t.TempDir(), "--addr", c.addr, "--admin", c.admin, "--prefork", "1", "--upgrade").CombinedOutput()
		if want := "sluice: " + c.says + "\n"; err == nil || string(out) != want {
			t.Errorf("%v: %q, want %q", err, out, want)
		}
	}
}

// TestUnreadableFolder runs as another user, because root may read everything.
func TestUnreadableFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(dir, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadDir(dir); err == nil {
		t.Skip("this user may read everything")
	}
	out, err := limited(t, binary, "serve", dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "permission denied") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestTemporaryFolder: the encoded copies are gone however the server ends.
func TestTemporaryFolder(t *testing.T) {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			temporary := t.TempDir()
			dir := tree(t, map[string]string{"style.css": strings.Repeat("p { margin: 0 }\n", 100)})
			p := startCommand(t, serveIn(t, temporary, dir))
			p.ask(t, "GET", "/style.css", "Accept-Encoding", "gzip")
			if left, err := os.ReadDir(temporary); err != nil || len(left) != 1 {
				t.Fatalf("there is no temporary folder: %v, %v", left, err)
			}
			if err := p.interrupt(t, s); err != nil {
				t.Errorf("exit: %v", err)
			}
			checkEmpty(t, temporary)
		})
	}
}

// TestTemporaryFolderOfSecondInterrupt: also when requests are cut off.
func TestTemporaryFolderOfSecondInterrupt(t *testing.T) {
	temporary := t.TempDir()
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 256<<20); err != nil {
		t.Fatal(err)
	}
	p := startCommand(t, serveIn(t, temporary, dir))
	resp, err := client().Get(p.url + "/large")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.logLine(t, "stopping")
	var exit *exec.ExitError
	if err := p.interrupt(t, os.Interrupt); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("exit: %v", err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("the download that was cut off is complete")
	}
	checkEmpty(t, temporary)
}
