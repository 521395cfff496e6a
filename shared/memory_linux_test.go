package shared

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

const canSeal = canShare

// A refused file leaves no mapping.
func TestRefusedFilesAreUnmapped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "refused")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := Attach(file); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	if bytes.Contains(maps, []byte(path)) {
		t.Error("it is still mapped")
	}
}
