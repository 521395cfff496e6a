package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// A master of root has workers of another user, who own the log and have the certificate of
// a key that only root can read.
func TestServeAsAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	folder := t.TempDir()
	cert, key := writePair(t, folder, "first.example")
	logs, err := os.MkdirTemp("/tmp", "sluice-logs") // t.TempDir is in a folder that only root may enter
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(logs)
	if err := os.Chmod(logs, 0o777); err != nil {
		t.Fatal(err)
	}
	access := filepath.Join(logs, "access")
	p := startPreforked(t, "--user", "nobody", "--group", "daemon", "--no-new-privileges", "--max-files", "500",
		"--tls-cert", cert, "--tls-key", key, "--access-log", access)
	if _, err := p.get("/plaintext"); err != nil {
		t.Fatal(err)
	}
	pid := regexp.MustCompile(`worker 0\.1 \(pid (\d+)\)`).FindStringSubmatch(p.text())[1]
	status, err := os.ReadFile("/proc/" + pid + "/status")
	for _, want := range []string{"Uid:\t65534\t65534", "Gid:\t1\t1", "NoNewPrivs:\t1"} {
		if err != nil || !strings.Contains(string(status), "\n"+want) {
			t.Errorf("%v: no %q in %s", err, want, status)
		}
	}
	if info, err := os.Stat(access); err != nil || info.Sys().(*syscall.Stat_t).Uid != 65534 {
		t.Errorf("the log: %v, %v", info, err)
	}
	p.Process.Signal(syscall.SIGTERM)
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct{ says, args string }{
		{"unknown user no-such-user", "--prefork 2 --user no-such-user"},
		{"they need --prefork", "--user nobody"},
		{"permission denied", "--prefork 2 --user nobody --access-log " + folder + "/access"},
	} {
		out, err := limited(t, binary, append([]string{"serve", "--addr", "127.0.0.1:0"}, strings.Fields(c.args)...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: %v, %s", c.args, err, out)
		}
	}
}
