package archtest

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
)

const longMarker = "// long: "

// checkSize bounds the file's and its functions' lines.
func (c *checker) checkSize(s *source) {
	if n := len(s.lines); n > c.rules.maxFileLines && !isTable(s) {
		c.report(s, 0, "size", "%d lines, more than %d: split the file by noun or verb (tables go to a file named x_table.go)", n, c.rules.maxFileLines)
	}
	if ast.IsGenerated(s.file) {
		return
	}
	for _, decl := range s.file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		first, last := c.fset.Position(f.Pos()).Line, c.fset.Position(f.End()).Line
		if n := last - first + 1; n > c.rules.maxFuncLines && !saysWhyLong(s, first) {
			c.report(s, f.Pos(), "size",
				"%s has %d lines, more than %d: keep the control flow here and move its leaves into functions, or put a line `%sreason` directly before func",
				f.Name.Name, n, c.rules.maxFuncLines, longMarker)
		}
	}
}

// isTable tells files whose length is data: generated ones and tables.
func isTable(s *source) bool {
	base := strings.TrimSuffix(path.Base(s.name), ".go")
	return ast.IsGenerated(s.file) || strings.HasSuffix(base, "_table") || strings.HasSuffix(base, "_tables") || strings.HasSuffix(base, "_table_test")
}

// saysWhyLong reports whether the line before the function on line first gives a
// reason for its length.
func saysWhyLong(s *source, first int) bool {
	if first < 2 {
		return false
	}
	reason, ok := strings.CutPrefix(s.lines[first-2], longMarker)
	return ok && strings.TrimSpace(reason) != ""
}

// checkNolint wants a reason behind every directive that silences a linter.
func (c *checker) checkNolint(s *source) {
	reasoned := regexp.MustCompile(`^//nolint(:[\w,-]+)? //\s*\S`)
	for _, group := range s.file.Comments {
		for _, comment := range group.List {
			text := strings.TrimSpace(strings.TrimPrefix(comment.Text, "//"))
			if strings.HasPrefix(text, "nolint") && !reasoned.MatchString(comment.Text) {
				c.report(s, comment.Pos(), "nolint", "say why the linter is wrong: //nolint:name // reason")
			}
		}
	}
}
