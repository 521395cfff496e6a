package archtest

import (
	"go/ast"
	"path"
	"strconv"
	"strings"
)

// checkSurface refuses exported functions, methods, fields and methods of interfaces of
// public packages whose type names one of an internal package: other modules cannot use them.
// An alias in the public package (type A = internal.A) makes a type public.
func (c *checker) checkSurface(p *pkg) {
	if p.isProgram() || p.isInternal() {
		return
	}
	for _, s := range p.sources {
		internal := internalImports(s)
		if s.isTest() || len(internal) == 0 {
			continue
		}
		for _, decl := range s.file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiverType(d))) {
					c.wantPublic(s, d.Name, d.Type, internal)
				}
			case *ast.GenDecl:
				c.checkMemberSurface(s, d, internal)
			}
		}
	}
}

func (c *checker) checkMemberSurface(s *source, d *ast.GenDecl, internal map[string]bool) {
	for _, spec := range d.Specs {
		t, ok := spec.(*ast.TypeSpec)
		if !ok || !t.Name.IsExported() {
			continue
		}
		var members []*ast.Field
		switch body := t.Type.(type) {
		case *ast.StructType:
			members = body.Fields.List
		case *ast.InterfaceType:
			members = body.Methods.List
		}
		for _, m := range members {
			for _, name := range m.Names {
				if name.IsExported() {
					c.wantPublic(s, name, m.Type, internal)
				}
			}
		}
	}
}

// wantPublic reports name if its type, which is within t, names an internal package.
func (c *checker) wantPublic(s *source, name *ast.Ident, t ast.Node, internal map[string]bool) {
	ast.Inspect(t, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if from, ok := selector.X.(*ast.Ident); ok && internal[from.Name] {
			c.report(s, name.Pos(), "surface", "%s has the type %s.%s, which other modules cannot name: hide it, or make the type public", name.Name, from.Name, selector.Sel.Name)
		}
		return false
	})
}

// internalImports returns by what names s imports internal packages.
func internalImports(s *source) map[string]bool {
	names := map[string]bool{}
	for _, spec := range s.file.Imports {
		from, _ := strconv.Unquote(spec.Path.Value)
		if !strings.Contains(from, "/internal/") {
			continue
		}
		name := path.Base(from)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = true
	}
	return names
}
