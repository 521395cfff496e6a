package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestMakeWWW(t *testing.T) {
	dir, err := makeWWW()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for name, size := range map[string]int64{
		"www/file.txt": 1040, "www/empty.txt": 0, "www/sub/index.html": 10, "www/sp ace.txt": 5, "www/pct%41.txt": 3, "secret.txt": 9,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if got := info.ModTime().UTC().Format(time.RFC3339); got != "2024-01-02T03:04:05Z" || info.Size() != size {
			t.Errorf("%s: changed %s, %d bytes", name, got, info.Size())
		}
	}
}
