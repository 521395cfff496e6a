package archtest

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// coverage says of each folder which of its blocks of statements a test has run.
type coverage map[string]map[string]block

type block struct {
	statements int
	isCovered  bool
}

// checkCoverage wants every package covered by its own tests, as the profiles *.cover of
// go test say. Root's own tests are its white-box tests and those of its public API, which
// are below test: together they reach 98 % of root, the white-box tests alone 73 %. The
// profiles have what both reach.
func checkCoverage(repo, profiles fs.FS, r rules) ([]violation, error) {
	c := &checker{rules: r, fset: token.NewFileSet()}
	packages, err := c.load(repo)
	if err != nil {
		return nil, err
	}
	reached := coverage{}
	names, err := fs.Glob(profiles, "*.cover")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := reached.read(profiles, name, r.module); err != nil {
			return nil, err
		}
	}
	for _, p := range packages {
		covered, all := reached.of(p.dir)
		_, isException := keyFor(r.uncovered, p.dir)
		if isException || all == 0 && !hasStatements(p) || all > 0 && 100*covered >= r.minCoverage*all {
			continue
		}
		c.found = append(c.found, violation{file: p.dir, rule: "coverage", text: fmt.Sprintf("its own tests reach %d of %d statements, less than %d %%: write tests beside the code", covered, all, r.minCoverage)})
	}
	return c.found, nil
}

// hasStatements reports whether a profile of p has a block on every platform.
func hasStatements(p *pkg) bool {
	isConstraint := func(line string) bool { return strings.HasPrefix(line, "//go:build ") }
	return slices.ContainsFunc(p.sources, func(s *source) bool {
		return !s.isTest() && !slices.ContainsFunc(s.lines, isConstraint) && slices.ContainsFunc(s.file.Decls, func(d ast.Decl) bool {
			f, ok := d.(*ast.FuncDecl)
			return ok && f.Body != nil && len(f.Body.List) > 0
		})
	})
}

// read adds a profile. A block has a line for each test program that could reach it.
func (c coverage) read(profiles fs.FS, name, module string) error {
	profile, err := profiles.Open(name)
	if err != nil {
		return err
	}
	defer profile.Close()
	lines := bufio.NewScanner(profile)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "mode: ") {
			continue
		}
		var place string
		var statements, count int
		if _, err := fmt.Sscanf(lines.Text(), "%s %d %d", &place, &statements, &count); err != nil {
			return fmt.Errorf("%s: %q: %w", name, lines.Text(), err)
		}
		place = strings.TrimPrefix(place, module+"/")
		file, _, _ := strings.Cut(place, ":")
		dir := path.Dir(file)
		if c[dir] == nil {
			c[dir] = map[string]block{}
		}
		c[dir][place] = block{statements, count > 0 || c[dir][place].isCovered}
	}
	return lines.Err()
}

// of returns how many statements the package in dir has, and how many are covered.
func (c coverage) of(dir string) (covered, all int) {
	for _, b := range c[dir] {
		all += b.statements
		if b.isCovered {
			covered += b.statements
		}
	}
	return covered, all
}
