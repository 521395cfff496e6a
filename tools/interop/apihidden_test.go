package interop_test

import (
	"go/importer"
	"go/token"
	"go/types"
	"sort"
	"strings"
	"testing"
)

// TestHiddenAPI: exported functions and methods of fasthttp return unexported
// types, too, whose methods and fields users can reach. Ours have the same. TestAPI
// sees exported types alone.
func TestHiddenAPI(t *testing.T) {
	if testing.Short() {
		t.Skip("type-checks fasthttp")
	}
	load := importer.ForCompiler(token.NewFileSet(), "source", nil)
	found := 0
	for _, sub := range []string{"", "/expvarhandler", "/fasthttpadaptor", "/fasthttpproxy", "/fasthttputil", "/pprofhandler", "/prefork",
		"/reuseport", "/stackless"} {
		var facts [2][]string
		for i, module := range []string{"github.com/valyala/fasthttp", "github.com/sluicehttp/sluice"} {
			pkg, err := load.Import(module + sub)
			if err != nil {
				t.Fatal(err)
			}
			facts[i] = hiddenFacts(pkg)
		}
		found += len(facts[0])
		for _, fact := range difference(facts[0], facts[1]) {
			t.Errorf("%s: missing or different: %s", sub, fact)
		}
	}
	if found == 0 {
		t.Fatal("nothing was found: the check is broken")
	}
}

// hiddenFacts lists what can be reached of unexported types that exported
// functions, methods, variables and fields of a package give. The result is sorted.
func hiddenFacts(pkg *types.Package) []string {
	var facts []string
	add := func(from string, typ types.Type) {
		for _, fact := range reachable(pkg, typ) {
			facts = append(facts, from+" gives "+fact)
		}
	}
	results := func(from string, f types.Object) {
		signature := f.Type().(*types.Signature)
		for i := range signature.Results().Len() {
			add(from, signature.Results().At(i).Type())
		}
	}
	for _, name := range pkg.Scope().Names() {
		switch object := pkg.Scope().Lookup(name).(type) {
		case *types.Func:
			if object.Exported() {
				results(name, object)
			}
		case *types.Var:
			if object.Exported() {
				add(name, object.Type())
			}
		case *types.TypeName:
			if !object.Exported() {
				continue
			}
			methods := types.NewMethodSet(types.NewPointer(object.Type()))
			for method := range methods.Methods() {
				if method.Obj().Exported() {
					results(name+"."+method.Obj().Name(), method.Obj())
				}
			}
			if fields, ok := object.Type().Underlying().(*types.Struct); ok {
				for field := range fields.Fields() {
					if field.Exported() {
						add(name+"."+field.Name(), field.Type())
					}
				}
			}
		}
	}
	sort.Strings(facts)
	return facts
}

// reachable lists the exported methods and fields of an unexported type of pkg.
func reachable(pkg *types.Package, typ types.Type) (facts []string) {
	base := typ
	if pointer, ok := types.Unalias(typ).(*types.Pointer); ok {
		base = pointer.Elem()
	}
	named, ok := types.Unalias(base).(*types.Named)
	if !ok || named.Obj().Pkg() != pkg || named.Obj().Exported() {
		return nil
	}
	inside := func(p *types.Package) string {
		if p == pkg {
			return ""
		}
		return strings.Replace(p.Name(), "fasthttp", "sluice", 1)
	}
	for method := range types.NewMethodSet(types.NewPointer(named)).Methods() {
		if method.Obj().Exported() {
			facts = append(facts, method.Obj().Name()+strings.TrimPrefix(types.TypeString(method.Obj().Type(), inside), "func"))
		}
	}
	if fields, ok := named.Underlying().(*types.Struct); ok {
		for field := range fields.Fields() {
			if field.Exported() && !field.Embedded() {
				facts = append(facts, field.Name()+" "+types.TypeString(field.Type(), inside))
			}
		}
	}
	return facts
}
