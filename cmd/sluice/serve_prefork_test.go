//go:build unix

package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// preforked is "sluice serve --prefork 2", logging to a file.
type preforked struct {
	*exec.Cmd
	log string
	url string
}

func startPreforked(t *testing.T, args ...string) *preforked {
	t.Helper()
	return startPreforkedBinary(t, binary, args...)
}

func startPreforkedBinary(t *testing.T, binary string, args ...string) *preforked {
	t.Helper()
	return startPreforkedCommand(t, limited(t, binary, append([]string{"serve", "--addr", "127.0.0.1:0", "--prefork", "2"}, args...)...))
}

func startPreforkedCommand(t *testing.T, cmd *exec.Cmd) *preforked {
	t.Helper()
	p := &preforked{Cmd: cmd, log: filepath.Join(t.TempDir(), "log")}
	file, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p.Stderr = file
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Process.Kill()
		p.Wait()
		if t.Failed() {
			t.Log(p.text())
		}
	})
	eventually(t, "line that says it serves", func() bool {
		for _, line := range strings.Split(p.text(), "\n") {
			if m := serving.FindStringSubmatch(line); m != nil {
				p.url = m[1]
				return true
			}
		}
		return false
	})
	return p
}

// text is the log so far.
func (p *preforked) text() string {
	text, _ := os.ReadFile(p.log)
	return string(text)
}

// get asks on a connection of its own.
func (p *preforked) get(path string) (string, error) {
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: 20 * time.Second}
	resp, err := c.Get(p.url + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s", resp.Status)
	}
	return string(body), err
}

// admin returns what answers on --admin, a TCP address.
func (p *preforked) admin(t *testing.T) *preforked {
	t.Helper()
	m := regexp.MustCompile(`status and metrics: (\S+)`)
	eventually(t, "the admin's address", func() bool { return m.MatchString(p.text()) })
	return &preforked{url: "http://" + m.FindStringSubmatch(p.text())[1]}
}

func TestPreforkServesFolder(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := tree(t, map[string]string{"file": "content"})
	access := filepath.Join(t.TempDir(), "access")
	p := startPreforked(t, dir, "--tls-self-signed", "--access-log", access)
	ask := func() {
		t.Helper()
		if body, err := p.get("/file"); body != "content" || err != nil {
			t.Errorf("%q, %v", body, err)
		}
	}
	ask()
	p.Process.Signal(syscall.SIGHUP)
	for range 20 {
		ask()
	}
	eventually(t, "end of the rolling restart", func() bool { return strings.Contains(p.text(), "rolling restart is done") })
	lines := func(name string) int {
		text, _ := os.ReadFile(name)
		return strings.Count(string(text), "\n")
	}
	eventually(t, "line for each request", func() bool { return lines(access) == 21 })
	if err := os.Rename(access, access+".1"); err != nil {
		t.Fatal(err)
	}
	p.Process.Signal(syscall.SIGUSR1)
	eventually(t, "new log", func() bool { return lines(access) >= 0 && exists(access) })
	eventually(t, "line in the new log", func() bool {
		ask()
		return lines(access) > 4
	})
	p.Process.Signal(syscall.SIGTERM)
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}

func TestPreforkAdmin(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	p := startPreforked(t, "--admin", "127.0.0.1:0", "--profiles")
	if _, err := p.get("/plaintext"); err != nil {
		t.Fatal(err)
	}
	admin := p.admin(t)
	if text, err := admin.get("/status?format=json"); err != nil || !strings.Contains(text, `"wanted":2`) {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := admin.get("/metrics"); err != nil || !strings.Contains(text, "\nsluice_requests_total{code=\"2xx\"} 1\n") {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := admin.get("/workers/1/pprof/goroutine?debug=2"); err != nil || !strings.Contains(text, "goroutine 1 [") {
		t.Errorf("%q, %v", text, err)
	}
	for _, path := range []string{"/healthz", "/readyz", "/startupz"} {
		if text, err := admin.get(path); err != nil || text != "ok\n" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	resp, err := client().Post(admin.url+"/restart", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("/restart: %s", resp.Status)
	}
	if text, err := admin.get("/status?format=json"); err != nil || !strings.Contains(text, `"restarts":1`) {
		t.Errorf("%q, %v", text, err)
	}
	p.Process.Signal(syscall.SIGTERM)
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}

// Requests that do not finish in time make it fail, as they do without workers.
func TestPreforkCutsOff(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Run("alone", func(t *testing.T) { cutOff(t) })
	if runtime.GOOS == "linux" {
		t.Run("upgrade", func(t *testing.T) { cutOff(t, "--upgrade") })
	}
}

func cutOff(t *testing.T, args ...string) {
	p := startPreforked(t, append(args, "--admin", "127.0.0.1:0", "--drain", "0.2")...)
	admin := p.admin(t)
	failed := make(chan error, 1)
	go func() {
		_, err := p.get("/sleep?ms=60000")
		failed <- err
	}()
	eventually(t, "the request is in progress", func() bool {
		status, err := admin.get("/status?format=json")
		return err == nil && strings.Contains(status, `"in_flight":1`)
	})
	p.Process.Signal(syscall.SIGTERM)
	if p.Wait(); p.ProcessState.ExitCode() != 1 || !strings.Contains(p.text(), errCutOff.Error()) {
		t.Errorf("exit: %v", p.ProcessState)
	}
	if err := <-failed; err == nil {
		t.Error("the request was answered")
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// Requests in flight are answered when it ends; the log says who speaks.
func TestPreforkDrains(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	onEachEngine(t, func(t *testing.T, engine ...string) {
		p := startPreforked(t, append([]string{"--access-log", "-"}, engine...)...)
		answer := make(chan error, 1)
		go func() {
			body, err := p.get("/stream?n=4&ms=100")
			if err == nil && strings.Count(body, "\n") != 4 {
				err = fmt.Errorf("%q", body)
			}
			answer <- err
		}()
		if _, err := p.get("/plaintext"); err != nil {
			t.Error(err)
		}
		if err := <-answer; err != nil {
			t.Error(err)
		}
		p.Process.Signal(syscall.SIGQUIT)
		if err := p.Wait(); p.ProcessState.ExitCode() != quitStatus {
			t.Error(err)
		}
		if !regexp.MustCompile(`worker [01]\.1 \(pid \d+\): ready`).MatchString(p.text()) {
			t.Error("the log does not say which worker is ready")
		}
	})
}

func TestPreforkFailures(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	p := startPreforked(t)
	addr := strings.TrimPrefix(p.url, "http://")
	for _, c := range []struct {
		says string
		args []string
	}{
		{"another program does", []string{"--prefork", "2", "--addr", addr}},
		{"there is no such folder", []string{"--prefork", "auto", "/no/such/folder"}},
		{"no such file", []string{"--prefork", "2", "--tls-cert", "/none", "--tls-key", "/none"}},
		{"cannot open the access log", []string{"--prefork", "2", "--access-log", "/no/such/folder/log"}},
		{"a number of processes", []string{"--prefork=many"}},
		{"a number of processes", []string{"--prefork=-1"}},
	} {
		out, err := limited(t, binary, append([]string{"serve", "--addr", "127.0.0.1:0"}, c.args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.says) || strings.Contains(string(out), "started") {
			t.Errorf("%v: %v, %s", c.args, err, out)
		}
	}
}

// TestWarnings: only a folder can have the access log in it, and only one that is served lacks an index.
func TestWarnings(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		folder string
		want   int
	}{{dir, 1}, {filepath.Join(dir, "other"), 0}, {"", 0}} {
		var text strings.Builder
		o := serveOptions{accessLog: accessLogOptions{name: filepath.Join(dir, "log")}, files: fileOptions{dir: c.folder}}
		o.warn(log.New(&text, "", 0))
		if got := strings.Count(text.String(), "warning"); got != c.want {
			t.Errorf("%q: %s", c.folder, text.String())
		}
	}
}
