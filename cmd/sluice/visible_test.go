package main

import (
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"
)

func TestVisibleFiles(t *testing.T) {
	v := visibleFiles{tree(t, map[string]string{
		"a.txt": "a", ".b": "b", "c/.d/e": "e", "c/f": "f", "c/.well-known/g": "g", ".well-known/h": "h", ".well-known/.i": "i",
	})}
	if err := fstest.TestFS(v, "a.txt", "c", "c/f", ".well-known/h"); err != nil {
		t.Error(err)
	}
	for folder, want := range map[string][]string{".": {".well-known", "a.txt", "c"}, "c": {"f"}, ".well-known": {"h"}} {
		entries, err := fs.ReadDir(v, folder)
		if err != nil {
			t.Error(err)
		}
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s has %q, want %q", folder, names, want)
		}
	}
	for _, name := range []string{".b", "c/.d", "c/.d/e", "c/.well-known/g", ".well-known/.i"} {
		if _, err := v.Open(name); err == nil {
			t.Errorf("%s was opened", name)
		}
	}
}
