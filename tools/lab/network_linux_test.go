package lab

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluicehttp/sluice/tools/lab/internal/result"
)

// A run moves to a network namespace of its own if that has a larger table of
// connections. The test does this below a namespace, because the setting is of the system.
func TestLabOwnNetwork(t *testing.T) {
	const buckets = 1 << 19
	folder := t.TempDir()
	run := exec.Command("unshare", "--net", "sh", "-c", `echo 524288 >/proc/sys/net/ipv4/tcp_child_ehash_entries && exec "$@"`, "sh",
		binary, "lab", "run", "6", "--conns", "100", "--duration", "100ms", "--out", folder)
	if err := exec.Command("unshare", "--net", "test", "-w", "/proc/sys/net/ipv4/tcp_child_ehash_entries").Run(); err != nil {
		t.Skip("needs root and Linux 6.1: ", err)
	}
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(folder, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r result.Result
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if r.Header.Buckets != buckets || r.Connect.Made != 100 || r.Errors() != 0 {
		t.Errorf("%d buckets, %d connections, %d errors", r.Header.Buckets, r.Connect.Made, r.Errors())
	}
}
