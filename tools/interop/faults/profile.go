package main

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
)

// A block is a part of a file: the statements of it run together.
type block struct {
	file     string // without its folder
	from, to place  // to is after its end
	isRun    bool
}

// A place is where in a file something is. Both numbers begin with 1.
type place struct{ line, column int }

func (p place) before(q place) bool {
	return p.line < q.line || p.line == q.line && p.column < q.column
}

// parseProfile reads a profile that a test writes with -test.coverprofile. A line of it is
//
//	module/folder/file.go:12.34,15.2 3 1
//
// with the line and column of both ends, the number of statements, and how often they ran.
func parseProfile(text string) ([]block, error) {
	var blocks []block
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "mode: ") {
			continue
		}
		var b block
		var statements, count int
		at := strings.LastIndexByte(line, ':')
		if _, err := fmt.Sscanf(line[at+1:], "%d.%d,%d.%d %d %d", &b.from.line, &b.from.column, &b.to.line, &b.to.column, &statements, &count); err != nil {
			return nil, fmt.Errorf("line %q of a profile: %w", line, err)
		}
		b.file, b.isRun = path.Base(line[:max(at, 0)]), count > 0
		blocks = append(blocks, b)
	}
	return blocks, nil
}

// isRun reports whether a fault is run, as far as a profile says: what is in no block, such as a
// constant or the expression of a case, has effects elsewhere.
func isRun(blocks []block, f *fault) bool {
	isKnown := false
	for _, b := range blocks {
		if b.file == filepath.Base(f.file) && !f.before(b.from) && f.before(b.to) {
			if b.isRun {
				return true
			}
			isKnown = true
		}
	}
	return !isKnown
}
