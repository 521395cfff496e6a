package archtest

import (
	"go/ast"
	"go/token"
)

// findChange returns where a non-test file of p changes the package-level
// variable that v declares as name, or takes its address; NoPos if nowhere. It
// goes by names: a local variable of the same name is told apart where the
// parser resolved it, which it does within a file.
func findChange(p *pkg, v *ast.ValueSpec, name string) token.Pos {
	var at token.Pos
	refers := func(e ast.Expr) bool {
		id := rootOf(e)
		if id == nil || id.Name != name {
			return false
		}
		return id.Obj == nil || id.Obj.Decl == v
	}
	for _, s := range p.sources {
		if s.isTest() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if !at.IsValid() && changes(n, refers) {
				at = n.Pos()
			}
			return !at.IsValid()
		})
	}
	return at
}

// changes reports whether n writes through, or takes the address of, an
// expression that refers to the variable.
func changes(n ast.Node, refers func(ast.Expr) bool) bool {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			return false
		}
		for _, left := range n.Lhs {
			if refers(left) {
				return true
			}
		}
	case *ast.IncDecStmt:
		return refers(n.X)
	case *ast.UnaryExpr:
		// &table[i] is how large elements are read without a copy.
		_, element := n.X.(*ast.IndexExpr)
		return n.Op == token.AND && !element && refers(n.X)
	case *ast.CallExpr:
		// The built-ins that write to their first argument.
		f, ok := n.Fun.(*ast.Ident)
		if !ok || len(n.Args) == 0 {
			return false
		}
		switch f.Name {
		case "append", "clear", "copy", "delete":
			return refers(n.Args[0])
		}
	}
	return false
}

// rootOf returns the variable at the left of x, x[i], x[i:j], x.f and *x.
func rootOf(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return nil
		}
	}
}
