package archtest

import (
	"go/ast"
	"go/token"
	"strings"
)

// checkDocs wants a comment on every exported name: what a caller may rely on.
// Fields and interface methods count in public packages, where `go doc` shows
// them. Programs and tests are exempt.
func (c *checker) checkDocs(p *pkg) {
	if p.isProgram() || within(p.dir, "examples") {
		return
	}
	for _, s := range p.sources {
		if s.isTest() || ast.IsGenerated(s.file) {
			continue
		}
		for _, decl := range s.file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if !explainsItself(d) {
					c.wantDoc(s, d.Name, d.Doc)
				}
			case *ast.GenDecl:
				c.checkDeclDocs(p, s, d)
			}
		}
	}
	c.checkPackageDoc(p)
}

// explainsItself tells methods by which an unexported type satisfies an
// interface that everybody knows. Other methods of unexported types want a
// comment: they are promoted to the exported types that embed them.
func explainsItself(f *ast.FuncDecl) bool {
	if f.Recv == nil || ast.IsExported(receiverType(f)) {
		return false
	}
	switch f.Name.Name {
	case "Error", "Unwrap", "Is", "As", "Timeout", "Temporary", "Network", "String", "Len", "Less", "Swap", "Lock", "Unlock":
		return true
	}
	return false
}

// receiverType returns the name of the type that the method f belongs to.
func receiverType(f *ast.FuncDecl) string {
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// checkDeclDocs accepts a comment before a name, behind it, or before its group.
func (c *checker) checkDeclDocs(p *pkg, s *source, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			c.wantDoc(s, spec.Name, spec.Doc, spec.Comment, d.Doc)
			if spec.Name.IsExported() && !p.isInternal() {
				c.checkMemberDocs(s, spec)
			}
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				c.wantDoc(s, name, spec.Doc, spec.Comment, d.Doc)
			}
		}
	}
}

// checkMemberDocs wants a comment on every exported field or interface method.
// A comment covers the members that follow it without an empty line between.
func (c *checker) checkMemberDocs(s *source, spec *ast.TypeSpec) {
	var members *ast.FieldList
	switch t := spec.Type.(type) {
	case *ast.StructType:
		members = t.Fields
	case *ast.InterfaceType:
		members = t.Methods
	default:
		return
	}
	covered, previousEnd := false, token.NoPos
	for _, m := range members.List {
		start := m.Pos()
		if m.Doc != nil {
			start = m.Doc.Pos()
		}
		adjacent := previousEnd.IsValid() && c.fset.Position(start).Line == c.fset.Position(previousEnd).Line+1
		covered = hasText(m.Doc, m.Comment) || covered && adjacent
		previousEnd = m.End()
		for _, name := range m.Names {
			if name.IsExported() && !covered {
				c.report(s, name.Pos(), "docs", "%s.%s has no comment: say what it means, its unit and its zero value", spec.Name.Name, name.Name)
			}
		}
	}
}

// checkPackageDoc wants one package comment.
func (c *checker) checkPackageDoc(p *pkg) {
	var first *source
	for _, s := range p.sources {
		if s.isTest() {
			continue
		}
		if first == nil {
			first = s
		}
		if hasText(s.file.Doc) {
			return
		}
	}
	if first != nil {
		c.report(first, 0, "docs", "package %s has no package comment: say what it is for in one of its files", p.dir)
	}
}

func (c *checker) wantDoc(s *source, name *ast.Ident, comments ...*ast.CommentGroup) {
	if name.IsExported() && !hasText(comments...) {
		c.report(s, name.Pos(), "docs", "%s has no comment: say what a caller may rely on (lifetime of returned bytes, units, zero value, errors)", name.Name)
	}
}

// hasText reports whether one of the comments says something; directives such as
// //go:noinline and the long marker alone do not.
func hasText(comments ...*ast.CommentGroup) bool {
	for _, group := range comments {
		for line := range strings.SplitSeq(group.Text(), "\n") {
			if line != "" && !strings.HasPrefix("// "+line, longMarker) {
				return true
			}
		}
	}
	return false
}
