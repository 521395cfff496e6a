package main

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// makeWWW makes a temporary folder with what the contract asks a file server
// for: the root www/ and, beside it, a file that must never be served. It
// returns the folder, which is the caller's to remove.
func makeWWW() (dir string, err error) {
	dir, err = os.MkdirTemp("", "h1target-")
	if err != nil {
		return "", err
	}
	files := map[string]string{
		"www/file.txt":       strings.Repeat("abcdefghijklmnopqrstuvwxyz", 40),
		"www/empty.txt":      "",
		"www/sub/index.html": "<p>sub</p>",
		"www/sp ace.txt":     "space",
		"www/pct%41.txt":     "pct",
		"secret.txt":         "TOPSECRET",
	}
	for name, content := range files {
		if err := writeFile(filepath.Join(dir, filepath.FromSlash(name)), content); err != nil {
			os.RemoveAll(dir)
			return "", err
		}
	}
	return dir, nil
}

// writeFile writes a file with the time of change that the cases expect.
func writeFile(name, content string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
		return err
	}
	changed := time.Date(2024, time.January, 2, 3, 4, 5, 0, time.UTC)
	return os.Chtimes(name, changed, changed)
}
