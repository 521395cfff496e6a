package command

import (
	"os"
	"path/filepath"
	"runtime/debug"
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

// The tables name the versions that were measured.
func TestModuleVersion(t *testing.T) {
	info := &debug.BuildInfo{Deps: []*debug.Module{
		{Path: "example.com/a", Version: "v1.2.3"},
		{Path: "example.com/b", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.0.1"}},
	}}
	for path, want := range map[string]string{
		"example.com/a": "v1.2.3", "example.com/b": "example.com/fork v1.0.1", "example.com/c": "of an unknown version",
	} {
		if got := versionIn(info, path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	if got := versionIn(nil, "example.com/a"); got != "of an unknown version" {
		t.Errorf("without information %q", got)
	}
}
