package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/prefork"
)

// environment returns what a process was started with.
func environment(t *testing.T, pid int) (names map[string]bool) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Fatal(err)
	}
	names = make(map[string]bool)
	for entry := range strings.SplitSeq(strings.TrimRight(string(text), "\x00"), "\x00") {
		names[entry] = true
	}
	return names
}

// certificate returns the server's.
func (p *preforked) certificate(t *testing.T) string {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(p.url, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return string(conn.ConnectionState().PeerCertificates[0].Raw)
}

// All workers have one self-signed certificate, those that come later too. Its key
// is in no environment and in no file.
func TestPreforkSelfSigned(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	p := startPreforked(t, "--tls-self-signed")
	first := p.certificate(t)
	same := func() {
		t.Helper()
		for range 16 { // several workers, most likely
			if p.certificate(t) != first {
				t.Fatal("workers have different certificates")
			}
		}
	}
	started := regexp.MustCompile(`worker \d\.\d \(pid (\d+)\): started`)
	check := func() {
		t.Helper()
		masters := environment(t, p.Process.Pid)
		for _, m := range started.FindAllStringSubmatch(p.text(), -1) {
			pid, err := strconv.Atoi(m[1])
			if err != nil || syscall.Kill(pid, 0) != nil {
				continue // it has ended
			}
			for entry := range environment(t, pid) {
				if !masters[entry] && entry != "FASTHTTP_PREFORK_CHILD=1" {
					t.Errorf("a worker was started with %.60s", entry)
				}
			}
		}
	}
	check()
	same()
	victim, err := strconv.Atoi(started.FindStringSubmatch(p.text())[1])
	if err != nil {
		t.Fatal(err)
	}
	nettest.Signal(t, victim, syscall.SIGKILL)
	eventually(t, "a successor", func() bool { return strings.Count(p.text(), ": ready after") == 3 })
	same()
	p.Process.Signal(syscall.SIGHUP)
	eventually(t, "end of the rolling restart", func() bool { return strings.Contains(p.text(), "rolling restart is done") })
	same()
	check()
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("temporary files: %v, %v", left, err)
	}
}

// A certificate file that breaks changes nothing: the restart is refused, a worker
// that takes the place of a dead one has the certificate that was right, and one
// that is mended is taken up.
func TestPreforkBrokenCertificate(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	folder := t.TempDir()
	cert, key := writePair(t, folder, "first.example")
	p := startPreforked(t, "--tls-cert", cert, "--tls-key", key)
	first := p.certificate(t)
	pids := regexp.MustCompile(`worker \d\.\d \(pid (\d+)\): ready`)
	crash := func() {
		t.Helper()
		ready := pids.FindAllStringSubmatch(p.text(), -1)
		victim, err := strconv.Atoi(ready[len(ready)-1][1])
		if err != nil {
			t.Fatal(err)
		}
		nettest.Signal(t, victim, syscall.SIGKILL)
		eventually(t, "a successor", func() bool { return len(pids.FindAllString(p.text(), -1)) == len(ready)+1 })
	}
	serves := func(isFirst bool) {
		t.Helper()
		for range 16 { // both workers, most likely
			if (p.certificate(t) == first) != isFirst {
				t.Fatalf("the first certificate is wanted: %v", isFirst)
			}
			if _, err := p.get("/plaintext"); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, broken := range []string{"nonsense", ""} {
		if err := os.WriteFile([]string{cert, key}[i], []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		p.Process.Signal(syscall.SIGHUP)
		eventually(t, "the restart is refused", func() bool { return strings.Count(p.text(), "reload failed") == i+1 })
		serves(true)
		crash()
		serves(true)
	}
	os.Remove(key)
	crash()
	serves(true)
	writePair(t, folder, "second.example")
	p.Process.Signal(syscall.SIGHUP)
	eventually(t, "end of the rolling restart", func() bool { return strings.Contains(p.text(), "rolling restart is done") })
	serves(false)
	crash()
	serves(false)
	p.Process.Signal(syscall.SIGTERM)
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}

// TestManagerDiesBesideWrongFiles: another manager follows one that dies, whatever the files of
// certificates and routes, and the folder, are by then. Only a restart needs them.
func TestManagerDiesBesideWrongFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir, site := t.TempDir(), t.TempDir()
	cert, key := writePair(t, dir, "localhost")
	routes := filepath.Join(dir, "routes.toml")
	if err := os.WriteFile(routes, []byte("[[route]]\npath = \"/\"\nto = [\"http://127.0.0.1:1\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	common := []string{"--prefork", "1", "--upgrade", "--admin", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key}
	for name, args := range map[string][]string{
		"serve": {"serve", site, "--addr", "127.0.0.1:0"},
		"proxy": {"proxy", "--listen", "127.0.0.1:0", "--config", routes},
	} {
		if err := os.MkdirAll(site, 0o700); err != nil {
			t.Fatal(err)
		}
		p := startPreforkedCommand(t, limited(t, binary, append(args, common...)...))
		admin := p.admin(t)
		before := make(map[string][]byte)
		for _, file := range []string{cert, routes} {
			before[file], _ = os.ReadFile(file)
			if err := os.WriteFile(file, []byte("wrong"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		status := func() (s prefork.Status) {
			text, _ := admin.get("/status?format=json")
			_ = json.Unmarshal([]byte(text), &s) // no answer: an empty one
			return s
		}
		if err := os.RemoveAll(site); err != nil {
			t.Fatal(err)
		}
		first := status().Master.PID
		syscall.Kill(first, syscall.SIGKILL)
		eventually(t, name+": another manager", func() bool { now := status().Master.PID; return now != 0 && now != first })
		p.Process.Signal(syscall.SIGHUP)
		eventually(t, name+": the restart is refused", func() bool { return status().RestartError != "" })
		for file, text := range before {
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p.Process.Signal(syscall.SIGTERM)
		if err := p.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTooFewDescriptors: a fleet that cannot be started for want of descriptors says what to do.
func TestTooFewDescriptors(t *testing.T) {
	for _, args := range []string{"", " --upgrade"} {
		out, err := limited(t, "sh", "-c", "ulimit -n 12 && exec "+binary+" serve --addr 127.0.0.1:0 --prefork 2"+args).CombinedOutput()
		if err == nil || !strings.HasSuffix(string(out), "; raise the limit of this process: ulimit -n, LimitNOFILE= of systemd\n") {
			t.Errorf("%s: %v: %s", args, err, out)
		}
	}
}
