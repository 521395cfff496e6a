// Package archtest holds the repository to its architecture: which package may
// import which, how long files and functions get, what is documented, what
// state a package may keep. Its test runs with every `go test ./...`; rules.go
// is the table to edit when a package is added.
package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// A violation is one broken rule at one place.
type violation struct {
	file string // relative to the repository's root
	line int    // 0: the file as a whole
	rule string // one word, for grep
	text string // what is wrong and what to do about it
}

// String formats v as compilers do, so that editors can jump to it.
func (v violation) String() string {
	if v.line == 0 {
		return fmt.Sprintf("%s: [%s] %s", v.file, v.rule, v.text)
	}
	return fmt.Sprintf("%s:%d: [%s] %s", v.file, v.line, v.rule, v.text)
}

// A source is one parsed Go file.
type source struct {
	name  string // path relative to the repository's root
	lines []string
	file  *ast.File
}

// isTest reports whether s is a test, or what tests share.
func (s *source) isTest() bool {
	return strings.HasSuffix(s.name, "_test.go") || strings.HasPrefix(s.name, "test/")
}

// A pkg is the Go files of one folder, tests included.
type pkg struct {
	dir     string // relative to the repository's root; "." is the root package
	sources []*source
}

// isProgram reports whether the package is a command: nobody imports it, so its
// names need no documentation.
func (p *pkg) isProgram() bool {
	return slices.ContainsFunc(p.sources, func(s *source) bool { return s.file.Name.Name == "main" })
}

func (p *pkg) isInternal() bool { return slices.Contains(strings.Split(p.dir, "/"), "internal") }

// A checker collects violations of one repository.
type checker struct {
	rules rules
	fset  *token.FileSet
	found []violation
}

// check parses every Go file of repo and returns the broken rules in the order
// of the file names. An error means that a file could not be read or parsed.
func check(repo fs.FS, r rules) ([]violation, error) {
	c := &checker{rules: r, fset: token.NewFileSet()}
	packages, err := c.load(repo)
	if err != nil {
		return nil, err
	}
	for _, p := range packages {
		c.checkNames(p)
		c.checkImports(p)
		c.checkState(p)
		c.checkDocs(p)
		c.checkSurface(p)
		for _, s := range p.sources {
			c.checkSize(s)
			c.checkNolint(s)
		}
	}
	c.checkUnusedAllowances(packages)
	if err := c.checkModules(repo); err != nil {
		return nil, err
	}
	if err := c.checkPages(repo); err != nil {
		return nil, err
	}
	slices.SortStableFunc(c.found, func(a, b violation) int {
		if order := strings.Compare(a.file, b.file); order != 0 {
			return order
		}
		return a.line - b.line
	})
	return c.found, nil
}

// load parses the Go files below the root, all build tags alike, grouped by
// folder.
func (c *checker) load(repo fs.FS) ([]*pkg, error) {
	byDir := map[string]*pkg{}
	var dirs []string
	err := walk(repo, func(name string) error {
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		s, err := c.parse(repo, name)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		if byDir[dir] == nil {
			byDir[dir] = &pkg{dir: dir}
			dirs = append(dirs, dir)
		}
		byDir[dir].sources = append(byDir[dir].sources, s)
		return nil
	})
	packages := make([]*pkg, 0, len(dirs))
	for _, dir := range dirs {
		packages = append(packages, byDir[dir])
	}
	return packages, err
}

// walk calls visit with every file below the root, but not with files and
// folders that the go command ignores.
func walk(repo fs.FS, visit func(name string) error) error {
	return fs.WalkDir(repo, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		base := path.Base(name)
		isIgnored := base[0] == '.' || base[0] == '_'
		switch {
		case entry.IsDir() && (isIgnored || base == "testdata" || base == "vendor"):
			return fs.SkipDir
		case entry.IsDir() || isIgnored:
			return nil
		}
		return visit(name)
	})
}

func (c *checker) parse(repo fs.FS, name string) (*source, error) {
	text, err := fs.ReadFile(repo, name)
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(c.fset, name, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	text = bytes.TrimSuffix(text, []byte("\n"))
	return &source{name: name, lines: strings.Split(string(text), "\n"), file: file}, nil
}

func (c *checker) report(s *source, at token.Pos, rule, format string, args ...any) {
	line := 0
	if at.IsValid() {
		line = c.fset.Position(at).Line
	}
	c.found = append(c.found, violation{s.name, line, rule, fmt.Sprintf(format, args...)})
}
