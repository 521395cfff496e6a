//go:build unix

package process

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestKibibytes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "status")
	text := "12-34 rw [rollup]\nPss_Dirty:  9 kB\nPss:      7 kB\nVmRSS:\t     12 kB\nThreads:\t3\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := kibibytes(name, "VmRSS", "Pss")
	if err != nil || !slices.Equal(got, []int64{12 << 10, 7 << 10}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"VmHWM", "Threads"} {
		if got, err := kibibytes(name, bad); err == nil {
			t.Errorf("%s: %v without an error", bad, got)
		}
	}
}
