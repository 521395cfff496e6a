package main

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What the Containerfile builds is static. It serves as process 1, as a user without a name,
// in a root file system that has nothing else and cannot be written to, and ends in order.
func TestContainer(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("builds, and needs root")
	}
	text, err := os.ReadFile(filepath.Join(deployed, "container", "Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	build := regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0 go build .*) -o /sluice \./cmd/sluice$`).FindSubmatch(text)
	command := regexp.MustCompile(`(?m)^CMD \["(.*)"\]$`).FindSubmatch(text)
	if build == nil || command == nil {
		t.Fatalf("no build or no command in %s", text)
	}
	args := strings.Split(string(command[1]), `", "`)
	// Of podman stop and docker stop.
	if longest := ends(t, parsed(t, args...)); longest >= 10*time.Second {
		t.Errorf("the command may need %v, and is killed after 10 s", longest)
	}
	root, err := os.MkdirTemp("/tmp", "sluice-root")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	c := exec.Command("sh", "-c", string(build[1])+` -o "$0"/sluice ./cmd/sluice`, root)
	c.Dir = "../.."
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("ldd", root+"/sluice").CombinedOutput(); err == nil || !bytes.Contains(out, []byte("not a dynamic executable")) {
		t.Errorf("it is not static: %v, %s", err, out)
	}
	if err := furnish(root); err != nil {
		t.Fatal(err)
	}
	line := strings.NewReplacer(":8080", "127.0.0.1:0", ":9090", "127.0.0.1:0", "auto", "2").Replace(strings.Join(args, " "))
	script := `mount --bind "$0" "$0" && mount -t proc proc "$0"/proc && mount -t tmpfs -o mode=1777 tmp "$0"/tmp &&
mount --bind /dev/null "$0"/dev/null && mount -o remount,bind,ro "$0" &&
exec env TMPDIR= chroot --userspec=65532:65532 --groups= "$0" /sluice ` + line
	probe := exec.Command("unshare", "--mount", "--pid", "--fork", "true")
	if out, err := probe.CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v, %s", err, out)
	}
	p := startCommand(t, exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, root))
	resp, err := client().Get(p.url + "/file")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
	pid := strconv.Itoa(p.Process.Pid)
	children, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	if err != nil {
		t.Skip(err)
	}
	master, err := strconv.Atoi(strings.TrimSpace(string(children)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(master, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.logLine(t, "stopped")
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}

// furnish makes what a container runtime gives to an image, and a file to serve.
func furnish(root string) error {
	err := os.Chmod(root, 0o755)
	for _, dir := range []string{"/proc", "/srv", "/tmp", "/dev"} {
		err = errors.Join(err, os.Mkdir(root+dir, 0o755))
	}
	return errors.Join(err, os.WriteFile(root+"/dev/null", nil, 0o644), os.WriteFile(root+"/srv/file", []byte("content"), 0o644))
}
