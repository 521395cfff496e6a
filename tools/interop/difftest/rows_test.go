package difftest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	rowPattern  = regexp.MustCompile(`(?m)^\| ([A-Z]\d+) \|.*\| ([^|]*) \|$`)
	namePattern = regexp.MustCompile("`((?:Test|Fuzz)\\w+)")
	testPattern = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	rowMention  = regexp.MustCompile(`\b[DFHLMPS]\d+\b`)
)

// TestRowsNameTheirTests: the last column of every row of docs/compatibility.md
// names a test that there is, and every row that this package speaks of is
// there.
func TestRowsNameTheirTests(t *testing.T) {
	text, err := os.ReadFile("../../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	tests, rows := testsOfRepository(t), map[string]bool{}
	for _, row := range rowPattern.FindAllStringSubmatch(string(text), -1) {
		rows[row[1]] = true
		names := namePattern.FindAllStringSubmatch(row[2], -1)
		if len(names) == 0 {
			t.Errorf("%s names no test: %s", row[1], row[2])
		}
		for _, name := range names {
			if !tests[name[1]] {
				t.Errorf("%s: there is no %s", row[1], name[1])
			}
		}
	}
	if len(rows) < 150 {
		t.Fatalf("only %d rows were found", len(rows))
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rowMention.FindAllString(string(source), -1) {
			if !rows[row] {
				t.Errorf("%s speaks of %s, which is no row", file, row)
			}
		}
	}
}

// testsOfRepository returns the names of all tests.
func testsOfRepository(t *testing.T) map[string]bool {
	tests := map[string]bool{}
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != "..":
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range testPattern.FindAllSubmatch(source, -1) {
			tests[string(match[1])] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}
