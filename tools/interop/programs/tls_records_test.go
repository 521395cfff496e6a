package programs

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestTLSRecords: a client that breaks the rules of the record layer gets what
// testdata/tls/records.txt says, from a server with compact TLS and from one without. The
// connections of the first suite have cooled down before.
func TestTLSRecords(t *testing.T) {
	t.Parallel()
	python := find(t, "python3", os.Getenv("SLUICE_PYTHON"))
	if out, err := exec.Command(python, "-c", "import tlslite").CombinedOutput(); err != nil {
		t.Skipf("skipped: %s has no tlslite-ng: %.300s", python, out)
	}
	table, err := os.ReadFile("testdata/tls/records.txt")
	if err != nil {
		t.Fatal(err)
	}
	for column, isCompact := range []bool{true, false} {
		want := make(map[string]string)
		for line := range strings.Lines(string(table)) {
			if fields := strings.Split(line, "|"); len(fields) == 4 {
				want[strings.TrimSpace(fields[0])] = strings.TrimSpace(fields[1+column])
			}
		}
		for i, suite := range []string{"aes128gcm", "aes256gcm", "chacha20-poly1305"} {
			t.Run(map[bool]string{true: "compact/", false: "crypto/tls/"}[isCompact]+suite, func(t *testing.T) {
				t.Parallel()
				addr := serveTLS(t, isCompact)
				host, port, _ := strings.Cut(addr, ":")
				pause := "pause=0"
				if i == 0 {
					pause = "pause=" + coolingTime.String()[:len(coolingTime.String())-1]
				}
				out, err := exec.CommandContext(t.Context(), python, "testdata/tls/records.py", host, port, "suite="+suite, pause).CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %.3000s", err, out)
				}
				seen := 0
				for line := range strings.Lines(string(out)) {
					name, got, _ := strings.Cut(strings.TrimSpace(line), "\t")
					seen++
					if got != want[name] {
						t.Errorf("%s: %s, want %s", name, got, want[name])
					}
				}
				if seen != len(want) {
					t.Errorf("%d cases of %d", seen, len(want))
				}
			})
		}
	}
}
