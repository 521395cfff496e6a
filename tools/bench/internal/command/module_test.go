package command

import (
	"os"
	"path/filepath"
	"testing"
)

func TestModuleFolder(t *testing.T) {
	if folder, err := ModuleFolder(t.Context()); err != nil || folder != "" {
		t.Errorf("in a working tree %q, %v, want none", folder, err)
	}
	// A version that this module requires is in the cache.
	folder, err := cachedFolder(t.Context(), "github.com/HdrHistogram/hdrhistogram-go@v1.4.0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "go.mod")); folder == "" || err != nil {
		t.Errorf("%q is no module: %v", folder, err)
	}
}
