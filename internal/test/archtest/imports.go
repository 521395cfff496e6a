package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
)

// checkImports holds every file of p to the package's rule. Test files may
// import what they like, except what is isolated.
func (c *checker) checkImports(p *pkg) {
	rule, known := c.rules.ruleFor(p.dir)
	if !known {
		c.report(p.sources[0], 0, "imports",
			"package %s has no import rule: add it to packageRules in internal/test/archtest/rules.go with the imports that it needs", p.dir)
	}
	for _, s := range p.sources {
		for _, spec := range s.file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue // the parser has refused it already
			}
			if c.breaksIsolation(p, s, spec, name) || !known || s.isTest() {
				continue
			}
			c.checkImport(p, rule, s, spec, name)
		}
	}
}

// breaksIsolation reports an import of an isolated folder from outside of it.
func (c *checker) breaksIsolation(p *pkg, s *source, spec *ast.ImportSpec, name string) bool {
	dir, own := c.rules.ownDir(name)
	if !own {
		return false
	}
	for _, isolated := range c.rules.isolated {
		if within(dir, isolated) && !within(p.dir, isolated) {
			c.report(s, spec.Pos(), "imports", "nothing may import %s, whose dependencies must not spread: move the code that is shared out of it", isolated)
			return true
		}
	}
	return false
}

func (c *checker) checkImport(p *pkg, rule packageRule, s *source, spec *ast.ImportSpec, name string) {
	dir, own := c.rules.ownDir(name)
	switch {
	case own:
		if !rule.admits(dir) {
			c.report(s, spec.Pos(), "imports",
				"%s may not import %s, only %s: move the code to where both can reach it, or pass what is needed in; widen the rule in internal/test/archtest/rules.go only with an ADR",
				p.dir, dir, list(rule.own))
		}
	case isStandard(name):
		c.checkStandardImport(p, rule, s, spec, name)
	case c.isCompressor(name) && p.dir != c.rules.compressorOwner && !rule.anyModule:
		c.report(s, spec.Pos(), "imports", "only %s imports compressors: use its functions instead of %s", c.rules.compressorOwner, name)
	case !rule.anyModule && !slices.ContainsFunc(rule.external, func(m string) bool { return within(name, m) }):
		c.report(s, spec.Pos(), "imports",
			"%s may not import %s: use the standard library, or add the module to the package's rule in internal/test/archtest/rules.go with an ADR", p.dir, name)
	}
}

func (c *checker) checkStandardImport(p *pkg, rule packageRule, s *source, spec *ast.ImportSpec, name string) {
	isAllowed := rule.usesAtomics && name == "sync/atomic" || name == "net/netip" // whose types are values
	if rule.pure && !isAllowed && slices.ContainsFunc(c.rules.impureStandard, func(root string) bool { return within(name, root) }) {
		c.report(s, spec.Pos(), "imports",
			"%s is pure (bytes in, values out) and may not import %s: take bytes, numbers or an append destination as parameters and leave I/O, clocks and locks to the caller", p.dir, name)
	}
	if name == "unsafe" && !rule.usesUnsafe {
		c.report(s, spec.Pos(), "imports", "%s may not import unsafe: use the conversions of internal/wire/ascii", p.dir)
	}
}

func (r packageRule) admits(dir string) bool {
	return slices.ContainsFunc(r.own, func(allowed string) bool {
		if tree, ok := strings.CutSuffix(allowed, "/..."); ok {
			return within(dir, tree)
		}
		return dir == allowed
	})
}

func (c *checker) isCompressor(name string) bool {
	return slices.ContainsFunc(c.rules.compressors, func(m string) bool { return within(name, m) })
}

// isStandard tells standard packages, whose paths have no dot in their first
// element, from others.
func isStandard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

func list(names []string) string {
	if len(names) == 0 {
		return "the standard library"
	}
	return strings.Join(names, ", ")
}

// checkNames refuses folders and files whose name does not say what is inside.
func (c *checker) checkNames(p *pkg) {
	folder := path.Base(p.dir)
	if slices.Contains(c.rules.vagueNames, folder) {
		c.report(p.sources[0], 0, "names", "folder %q says nothing: name it after the noun or verb that it holds", folder)
	}
	for _, s := range p.sources {
		base := strings.TrimSuffix(path.Base(s.name), ".go")
		for word := range strings.SplitSeq(base, "_") {
			if slices.Contains(c.rules.vagueNames, word) {
				c.report(s, 0, "names", "%q in a file's name says nothing: name the file after the noun or verb that it holds", word)
			}
		}
	}
}
