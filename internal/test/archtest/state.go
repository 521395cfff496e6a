package archtest

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// checkState refuses init functions and package-level variables that can
// change: what a server does must follow from its options, and two servers in a
// process must not meet. Accepted by rule: sentinel errors, pools in pools.go,
// tables that nothing in the package changes, interface assertions, embedded
// files. Everything else needs an entry in the allow-list.
func (c *checker) checkState(p *pkg) {
	for _, s := range p.sources {
		for _, decl := range s.file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					c.report(s, d.Pos(), "state", "no init(): make the table at compile time or in a constructor; what runs before main cannot be tested or left out")
				}
			case *ast.GenDecl:
				if d.Tok == token.VAR && !s.isTest() {
					c.checkVars(p, s, d)
				}
			}
		}
	}
}

func (c *checker) checkVars(p *pkg, s *source, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		v := spec.(*ast.ValueSpec)
		for i, name := range v.Names {
			if _, listed := c.rules.mutableVars[varKey(p, name)]; listed || name.Name == "_" || isEmbedded(d, v) {
				continue
			}
			var value ast.Expr
			if i < len(v.Values) {
				value = v.Values[i]
			}
			if problem := c.varProblem(p, s, v, name, value); problem != "" {
				c.report(s, name.Pos(), "state", "package-level variable %s %s", name.Name, problem)
			}
		}
	}
}

// varProblem returns what is wrong with the variable and what to do, "" if
// nothing is.
func (c *checker) varProblem(p *pkg, s *source, v *ast.ValueSpec, name *ast.Ident, value ast.Expr) string {
	switch {
	case holdsPool(v, value):
		if isPoolFile(s) || slices.Contains(c.rules.poolFiles, p.dir) {
			return ""
		}
		return "is a pool: declare it in pools.go (or pools_x.go), beside the functions that acquire and release"
	case isSentinelError(name.Name, value), isTableVar(p, v, value):
		if at := findChange(p, v, name.Name); at.IsValid() {
			return "is a constant in spirit but is changed at " + c.fset.Position(at).String() + ": keep it in a struct that its users own"
		}
		return ""
	default:
		return "can change: make it a const, a field of a struct that its users own, or a parameter; " +
			"if it is really needed, list it with a reason in mutableVars of internal/test/archtest/rules.go"
	}
}

func isEmbedded(d *ast.GenDecl, v *ast.ValueSpec) bool {
	for _, group := range []*ast.CommentGroup{d.Doc, v.Doc} {
		if group == nil {
			continue
		}
		for _, comment := range group.List {
			if strings.HasPrefix(comment.Text, "//go:embed ") {
				return true
			}
		}
	}
	return false
}

// holdsPool tells sync.Pool and arrays of it, by the declared type or the value.
func holdsPool(v *ast.ValueSpec, value ast.Expr) bool {
	t := v.Type
	if t == nil {
		lit, ok := value.(*ast.CompositeLit)
		if !ok {
			return false
		}
		t = lit.Type
	}
	if array, ok := t.(*ast.ArrayType); ok {
		t = array.Elt
	}
	selector, ok := t.(*ast.SelectorExpr)
	return ok && isName(selector.X, "sync") && selector.Sel.Name == "Pool"
}

// isPoolFile tells pools.go and, where one file would hold too much, pools_x.go.
func isPoolFile(s *source) bool {
	base := path.Base(s.name)
	return base == "pools.go" || strings.HasPrefix(base, "pools_")
}

// isSentinelError tells errors that are compared by identity: a name beginning
// with err and a value made on the spot.
func isSentinelError(name string, value ast.Expr) bool {
	if !strings.HasPrefix(name, "Err") && !strings.HasPrefix(name, "err") {
		return false
	}
	switch value := value.(type) {
	case *ast.CallExpr, *ast.CompositeLit:
		return true
	case *ast.UnaryExpr:
		_, ok := value.X.(*ast.CompositeLit)
		return ok && value.Op == token.AND
	case *ast.SelectorExpr:
		// An alias of another package's sentinel.
		return strings.HasPrefix(value.Sel.Name, "Err") || value.Sel.Name == "EOF"
	default:
		return false
	}
}

// isTableVar tells data that is written down: an array, slice or map literal, a
// []byte("…"), or what a function of the package returns as an array, slice or
// map.
func isTableVar(p *pkg, v *ast.ValueSpec, value ast.Expr) bool {
	switch value := value.(type) {
	case *ast.CompositeLit:
		return isCollection(p, value.Type)
	case *ast.CallExpr:
		if isCollection(p, v.Type) || isCollection(p, value.Fun) {
			return true
		}
		if literal, ok := value.Fun.(*ast.FuncLit); ok {
			return returnsCollection(p, literal.Type)
		}
		name, ok := value.Fun.(*ast.Ident)
		if !ok {
			return false
		}
		f := findFunc(p, name.Name)
		return f != nil && returnsCollection(p, f.Type)
	default:
		return false
	}
}

func returnsCollection(p *pkg, f *ast.FuncType) bool {
	return f.Results != nil && len(f.Results.List) == 1 && isCollection(p, f.Results.List[0].Type)
}

// isCollection tells arrays, slices and maps, also by a name that the package
// declares.
func isCollection(p *pkg, t ast.Expr) bool {
	switch t := t.(type) {
	case *ast.ArrayType, *ast.MapType:
		return true
	case *ast.ParenExpr:
		return isCollection(p, t.X)
	case *ast.Ident:
		spec := findType(p, t.Name)
		return spec != nil && !isName(spec.Type, t.Name) && isCollection(p, spec.Type)
	default:
		return false
	}
}

func findFunc(p *pkg, name string) *ast.FuncDecl {
	for _, s := range p.sources {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == name {
				return f
			}
		}
	}
	return nil
}

func findType(p *pkg, name string) *ast.TypeSpec {
	for _, s := range p.sources {
		for _, decl := range s.file.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range d.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok && t.Name.Name == name {
					return t
				}
			}
		}
	}
	return nil
}

func isName(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// checkUnusedAllowances keeps the allow-list short.
func (c *checker) checkUnusedAllowances(packages []*pkg) {
	for key, reason := range c.rules.mutableVars {
		if strings.TrimSpace(reason) == "" {
			c.found = append(c.found, violation{file: "internal/test/archtest/rules.go", rule: "state", text: "mutableVars[" + key + "] gives no reason: say why the variable must be one"})
		}
		if !slices.ContainsFunc(packages, func(p *pkg) bool { return declares(p, key) }) {
			c.found = append(c.found, violation{file: "internal/test/archtest/rules.go", rule: "state", text: "mutableVars lists " + key + ", which is gone: remove the entry"})
		}
	}
}

// varKey names a variable in mutableVars: "folder.name", or the name alone in
// the root package.
func varKey(p *pkg, name *ast.Ident) string {
	if p.dir == "." {
		return name.Name
	}
	return p.dir + "." + name.Name
}

// declares reports whether key, as in mutableVars, is a variable of p.
func declares(p *pkg, key string) bool {
	for _, s := range p.sources {
		for _, decl := range s.file.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.VAR {
				continue
			}
			for _, spec := range d.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					if varKey(p, name) == key {
						return true
					}
				}
			}
		}
	}
	return false
}
