package archtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// fixtureRules is a small repository's table.
func fixtureRules() rules {
	r := repositoryRules()
	r.module = "example.com/m"
	r.maxFileLines = 30
	r.maxFuncLines = 10
	r.mutableVars = map[string]string{"allowed": "the fixture needs it"}
	r.pages = []string{"ARCHITECTURE.md", "docs/adr/*.md"}
	r.packages = map[string]packageRule{
		".":                 {own: []string{"internal/pure", "internal/engine/fast"}},
		"internal/pure":     {pure: true, own: []string{"internal/leaf"}},
		"internal/leaf":     {pure: true, usesUnsafe: true, usesAtomics: true},
		"internal/compress": {external: []string{zstd}},
		"internal/buf":      {},
		"internal/engine/...": {
			external: []string{xSys},
		},
		"satellite":       {own: []string{"."}},
		"tools/bench":     {anyModule: true, own: []string{".", "tools/bench/..."}},
		"tools/bench/...": {anyModule: true, own: []string{".", "tools/bench/..."}},
		"cmd":             {},
	}
	return r
}

// goodRepository keeps every rule.
func goodRepository() fstest.MapFS {
	files := map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n\nrequire golang.org/x/sys v0.1.0 // indirect\n\nrequire (\n\tgolang.org/x/net v0.1.0\n)\n",
		"root.go": `// Package m is the root.
package m

import (
	"errors"
	_ "example.com/m/internal/engine/fast"
	_ "example.com/m/internal/pure"
)

// ErrBad is a sentinel.
var ErrBad = errors.New("bad")

var allowed int

var _ error = ErrBad
`,
		"pools.go":                      "package m\n\nimport \"sync\"\n\nvar pool = sync.Pool{}\n\nvar sized [4]sync.Pool\n",
		"tables.go":                     "package m\n\nvar (\n\tclass = [2]bool{true}\n\tnames = map[string]int{}\n\tword = []byte(\"GET\")\n\tbuilt = build()\n)\n\nfunc build() [4]int { var class [4]int; class[0] = 1; return class }\n",
		"root_test.go":                  "package m\n\nimport _ \"os\"\n\nvar testState int\n",
		"internal/pure/pure.go":         "// Package pure is pure.\npackage pure\n\nimport _ \"example.com/m/internal/leaf\"\n",
		"internal/leaf/leaf.go":         "// Package leaf is a leaf.\npackage leaf\n\nimport _ \"unsafe\"\n",
		"internal/buf/sizes.go":         "// Package buf has pools.\npackage buf\n\nimport \"sync\"\n\nvar small sync.Pool\n",
		"internal/compress/compress.go": "// Package compress compresses.\npackage compress\n\nimport _ \"github.com/klauspost/compress/zstd\"\n",
		"internal/engine/fast/fast.go":  "// Package fast is fast.\npackage fast\n\nimport (\n\t_ \"net\"\n\n\t_ \"golang.org/x/sys/unix\"\n)\n",
		"satellite/satellite.go":        "// Package satellite is one.\npackage satellite\n\nimport _ \"example.com/m\"\n",
		"tools/bench/bench.go":          "// Package bench may use anything.\npackage bench\n\nimport (\n\t_ \"example.com/m\"\n\t_ \"example.com/m/tools/bench/sub\"\n\t_ \"github.com/else/where\"\n)\n",
		"tools/bench/sub/sub.go":        "// Package sub is measured.\npackage sub\n",
		"cmd/main.go":                   "package main\n\nfunc main() {}\n\nfunc Exported() {}\n",
		"ARCHITECTURE.md":               "`root.go` is in `cmd/main.go` or `internal/pure/`, not in `golang.org/x/net` or `m.Root`.\n",
		"docs/adr/0001-x.md":            "# X\nStatus: accepted.\n`pure.go` is in `internal/pure`.\n",
		"testdata/broken.go":            "this is not Go",
		".hidden/x.go":                  "neither",
	}
	repo := fstest.MapFS{}
	for name, text := range files {
		repo[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return repo
}

func TestGoodRepositoryPasses(t *testing.T) {
	found, err := check(goodRepository(), fixtureRules())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Error(v)
	}
}

// Each fixture adds or replaces one file of the good repository and must give
// exactly one violation, whose text holds want; "" wants none.
func TestEachRuleFails(t *testing.T) {
	for _, c := range slices.Concat(importFixtures(), stateFixtures(), sizeFixtures(), docFixtures(), surfaceFixtures(), moduleFixtures(), pageFixtures()) {
		t.Run(c.name, func(t *testing.T) {
			repo := goodRepository()
			repo[c.file] = &fstest.MapFile{Data: []byte(c.text)}
			found, err := check(repo, fixtureRules())
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case c.want == "" && len(found) != 0:
				t.Fatalf("found %v, want nothing", found)
			case c.want != "" && (len(found) != 1 || !strings.Contains(found[0].String(), c.want)):
				t.Fatalf("found %v, want one violation with %q", found, c.want)
			}
		})
	}
}

type fixture struct{ name, file, text, want string }

func importFixtures() []fixture {
	pure := "package pure\n\nimport _ %q\n"
	fixtures := []fixture{
		{"package without a rule", "internal/new/new.go", "// Package new is new.\npackage new\n", "has no import rule: add it to packageRules"},
		{"own package that is not allowed", "satellite/x.go", "package satellite\n\nimport _ \"example.com/m/internal/leaf\"\n", "satellite/x.go:3: [imports] satellite may not import internal/leaf, only ."},
		{"upward import", "internal/leaf/x.go", "package leaf\n\nimport _ \"example.com/m/internal/pure\"\n", "only the standard library"},
		{"root imported by an engine", "internal/engine/fast/x.go", "package fast\n\nimport _ \"example.com/m\"\n", "may not import ."},
		{"module that is not allowed", "x.go", "package m\n\nimport _ \"github.com/else/where\"\n", "may not import github.com/else/where"},
		{"compressor outside compress", "x.go", "package m\n\nimport _ \"github.com/andybalholm/brotli\"\n", "only internal/compress imports compressors"},
		{"bench imported", "x.go", "package m\n\nimport _ \"example.com/m/tools/bench/sub\"\n", "nothing may import tools/bench"},
		{"bench imported by a test", "x_test.go", "package m\n\nimport _ \"example.com/m/tools/bench\"\n", "nothing may import tools/bench"},
		{"unsafe", "x.go", "package m\n\nimport _ \"unsafe\"\n", "may not import unsafe"},
		{"impure test of a pure package", "internal/pure/x_test.go", fmt.Sprintf(pure, "os"), ""},
		{"pure package with bytes", "internal/pure/x.go", fmt.Sprintf(pure, "bytes"), ""},
		{"atomics of a pure package that may", "internal/leaf/x.go", "package leaf\n\nimport _ \"sync/atomic\"\n", ""},
		{"locks of a pure package with atomics", "internal/leaf/x.go", "package leaf\n\nimport _ \"sync\"\n", "may not import sync: take bytes"},
		{"vague file name", "conn_util.go", "package m\n", `"util" in a file's name says nothing`},
		{"vague folder name", "tools/bench/misc/x.go", "// Package misc is vague.\npackage misc\n", `folder "misc" says nothing`},
	}
	for _, impure := range []string{"net", "net/url", "os", "io", "io/fs", "bufio", "sync", "sync/atomic", "time", "fmt", "log", "log/slog"} {
		fixtures = append(fixtures, fixture{"pure package imports " + impure, "internal/pure/x.go", fmt.Sprintf(pure, impure), "may not import " + impure + ": take bytes"})
	}
	return fixtures
}

func surfaceFixtures() []fixture {
	head := "package m\n\nimport \"example.com/m/internal/pure\"\n\n"
	want := "which other modules cannot name"
	return []fixture{
		{"function that takes an internal type", "x.go", head + "// F is.\nfunc F(p *pure.P) {}\n", want},
		{"function that returns one", "x.go", head + "// F is.\nfunc F() (p []pure.P, err error) { return }\n", want},
		{"method that takes one within a function", "x.go", head + "// T is.\ntype T int\n\n// M is.\nfunc (t *T) M(f func(pure.P)) {}\n", want},
		{"field", "x.go", head + "// T is.\ntype T struct {\n\t// F is.\n\tF map[string]pure.P\n}\n", want},
		{"method of an interface", "x.go", head + "// T is.\ntype T interface {\n\t// M is.\n\tM(p pure.P)\n}\n", want},
		{"name of the import", "x.go", "package m\n\nimport other \"example.com/m/internal/pure\"\n\n// F is.\nfunc F(p other.P) {}\n", want},
		{"alias, and what is not exported", "x.go", head + "// A is.\ntype A = pure.A\n\n// T is.\ntype T struct{ f pure.P }\n\ntype u int\n\n// M is.\nfunc (u) M(p pure.P) {}\n\nfunc f(p pure.P) {}\n", ""},
		{"internal package", "internal/pure/x.go", "package pure\n\nimport \"example.com/m/internal/leaf\"\n\n// F is.\nfunc F(p leaf.P) {}\n", ""},
	}
}

func stateFixtures() []fixture {
	head := "package m\n\n"
	return []fixture{
		{"init", "x.go", head + "func init() {}\n", "x.go:3: [state] no init()"},
		{"init in a test", "x_test.go", head + "func init() {}\n", "no init()"},
		{"method called init", "x.go", head + "type t struct{}\n\nfunc (t) init() {}\n", ""},
		{"counter", "x.go", head + "var counter int\n", "package-level variable counter can change"},
		{"hook", "x.go", head + "var hook = func() {}\n", "variable hook can change"},
		{"struct", "x.go", head + "type config struct{ n int }\n\nvar defaults = config{n: 1}\n", "variable defaults can change"},
		{"pointer", "x.go", head + "type config struct{ n int }\n\nvar shared = &config{n: 1}\n", "variable shared can change"},
		{"result of a call", "x.go", head + "import \"os\"\n\nvar host = os.Getenv(\"HOST\")\n", "variable host can change"},
		{"error without a value", "x.go", head + "var errLast error\n", "variable errLast can change"},
		{"sentinel by constructor", "x.go", head + "type failure struct{}\n\nfunc fail(string) *failure { return nil }\n\nvar errFailed = fail(\"failed\")\n", ""},
		{"sentinel by address", "x.go", head + "type timeoutError struct{}\n\nvar errTimeout = &timeoutError{}\n", ""},
		{"sentinel from elsewhere", "x.go", head + "import \"io\"\n\nvar errEnd = io.EOF\n", ""},
		{"sentinel replaced", "x.go", head + "func f() { ErrBad = nil }\n", "variable ErrBad is a constant in spirit but is changed at x.go:3"},
		{"pool outside pools.go", "x.go", head + "import \"sync\"\n\nvar pool2 = sync.Pool{}\n", "declare it in pools.go"},
		{"pool in pools_x.go", "pools_x.go", head + "import \"sync\"\n\nvar pool2 = sync.Pool{}\n", ""},
		{"array of pools outside pools.go", "x.go", head + "import \"sync\"\n\nvar pool2 [3]sync.Pool\n", "declare it in pools.go"},
		{"table assigned", "x.go", head + "func f() { class[1] = true }\n", "variable class is a constant in spirit but is changed"},
		{"table replaced", "x.go", head + "func f() { names = nil }\n", "variable names is"},
		{"table incremented", "x.go", head + "func f() { built[0]++ }\n", "variable built is"},
		{"table deleted from", "x.go", head + "func f() { delete(names, \"a\") }\n", "variable names is"},
		{"table appended to", "x.go", head + "func f() []byte { return append(word, 'x') }\n", "variable word is"},
		{"table copied into", "x.go", head + "func f() { copy(word[1:], \"x\") }\n", "variable word is"},
		{"address of a table", "x.go", head + "func f() *[2]bool { return &class }\n", "variable class is"},
		{"table appended", "x.go", head + "func f(dst []byte) []byte { return append(dst, word...) }\n", ""},
		{"local of a table's name", "x.go", head + "func f() { class := [2]bool{}; class[0] = true }\n", ""},
		{"table of a named type", "x.go", head + "type list []int\n\nvar primes = list{2, 3}\n", ""},
		{"table by literal function", "x.go", head + "var squares = func() (t [9]int) { return }()\n", ""},
		{"embedded file", "x.go", head + "import _ \"embed\"\n\n//go:embed x.txt\nvar page string\n", ""},
		{"allowance that is gone", "root.go", "// Package m is the root.\npackage m\n", "mutableVars lists allowed, which is gone"},
	}
}

func sizeFixtures() []fixture {
	long := strings.Repeat("\tprintln()\n", 9)
	function := "func f() {\n" + long + "}\n"
	return []fixture{
		{"file at the limit", "x.go", "package m\n" + strings.Repeat("\n", 28) + "const x = 1\n", ""},
		{"file too long", "x.go", "package m\n" + strings.Repeat("\n", 29) + "const x = 1\n", "x.go: [size] 31 lines, more than 30"},
		{"test file too long", "x_test.go", "package m\n" + strings.Repeat("\n", 29) + "const x = 1\n", "31 lines"},
		{"long table", "x_table.go", "package m\n" + strings.Repeat("\n", 29) + "const x = 1\n", ""},
		{"long generated file", "x.go", "// Code generated by hand. DO NOT EDIT.\n\npackage m\n" + strings.Repeat("\n", 29) + "const x = 1\n", ""},
		{"function too long", "x.go", "package m\n\n" + function, "x.go:3: [size] f has 11 lines, more than 10"},
		{"long method", "x.go", "package m\n\ntype t struct{}\n\n" + strings.Replace(function, "f()", "(t) f()", 1), "f has 11 lines"},
		{"function at the limit", "x.go", "package m\n\nfunc f() {\n" + long[:len(long)-len("\tprintln()\n")] + "}\n", ""},
		{"long with a reason", "x.go", "package m\n\n// f is long.\n//\n// long: one state machine\n" + function, ""},
		{"long without a reason", "x.go", "package m\n\n// long: \n" + function, "f has 11 lines"},
		{"reason too far away", "x.go", "package m\n\n// long: one state machine\n\n" + function, "f has 11 lines"},
		{"nolint alone", "x.go", "package m\n\nconst x = 1 //nolint\n", "x.go:3: [nolint] say why"},
		{"nolint without a reason", "x.go", "package m\n\nconst x = 1 //nolint:unused\n", "say why"},
		{"nolint with a reason", "x.go", "package m\n\nconst x = 1 //nolint:unused // kept for the format\n", ""},
	}
}

func docFixtures() []fixture {
	head := "package m\n\n"
	return []fixture{
		{"function", "x.go", head + "func F() {}\n", "x.go:3: [docs] F has no comment"},
		{"method", "x.go", head + "type t struct{}\n\nfunc (t) M() {}\n", "M has no comment"},
		{"Error of an unexported type", "x.go", head + "type t struct{}\n\nfunc (*t) Error() string { return \"\" }\n", ""},
		{"Error of an exported type", "x.go", head + "// T is one.\ntype T[P any] struct{}\n\nfunc (*T[P]) Error() string { return \"\" }\n", "Error has no comment"},
		{"type", "x.go", head + "type T int\n", "T has no comment"},
		{"constant", "x.go", head + "const C = 1\n", "C has no comment"},
		{"variable", "x.go", head + "var V = []byte(\"v\")\n", "V has no comment"},
		{"directive is no comment", "x.go", head + "//go:noinline\nfunc F() {}\n", "F has no comment"},
		{"long marker is no comment", "x.go", head + "// long: much to do\nfunc F() {}\n", "F has no comment"},
		{"group with a comment", "x.go", head + "// Methods.\nconst (\n\tA = 1\n\tB = 2\n)\n", ""},
		{"comment behind", "x.go", head + "const (\n\tA = 1 // one\n)\n", ""},
		{"field", "x.go", head + "// T is one.\ntype T struct {\n\tField int\n}\n", "T.Field has no comment"},
		{"field covered from above", "x.go", head + "// T is one.\ntype T struct {\n\t// A and B are a pair.\n\tA int\n\tB int\n}\n", ""},
		{"field behind an empty line", "x.go", head + "// T is one.\ntype T struct {\n\t// A is one.\n\tA int\n\n\tB int\n}\n", "T.B has no comment"},
		{"interface method", "x.go", head + "// T is one.\ntype T interface {\n\tDo()\n}\n", "T.Do has no comment"},
		{"field in an internal package", "internal/leaf/x.go", "package leaf\n\n// T is one.\ntype T struct{ Field int }\n", ""},
		{"unexported", "x.go", head + "func f() {}\n", ""},
		{"package", "internal/leaf/leaf.go", "package leaf\n", "package internal/leaf has no package comment"},
	}
}

func moduleFixtures() []fixture {
	return []fixture{
		{"required in a line", "go.mod", "module example.com/m\n\nrequire example.com/dep v1.0.0\n", "go.mod:3: [modules] the root module may not require example.com/dep"},
		{"required in a block", "go.mod", "module example.com/m\n\nrequire (\n\tgolang.org/x/sys v0.1.0\n\texample.com/dep v1.0.0 // indirect\n)\n", "go.mod:5: [modules]"},
		{"replaced", "go.mod", "module example.com/m\n\nreplace golang.org/x/sys => ../sys\n", "go.mod:3: [modules] no module may replace golang.org/x/sys"},
		{"replaced in a nested module", "nested/go.mod", "module example.com/m/nested\n\nrequire example.com/dep v1.0.0\n\nreplace (\n\texample.com/m => ../\n)\n", "nested/go.mod:6: [modules] no module may replace example.com/m"},
		{"replaced in testdata", "testdata/m/go.mod", "module example.com/user\n\nreplace example.com/m => ../\n", ""},
	}
}

func pageFixtures() []fixture {
	return []fixture{
		{"file that is gone", "ARCHITECTURE.md", "A row.\n\nSee `internal/pure/gone.go`.\n", "ARCHITECTURE.md:3: [pages] there is no internal/pure/gone.go"},
		{"file of root that is gone", "ARCHITECTURE.md", "`gone.go`\n", "there is no gone.go"},
		{"folder that is gone", "ARCHITECTURE.md", "`root.go`, `cmd/gone/`\n", "there is no cmd/gone"},
		{"record of what is gone", "docs/adr/0001-x.md", "Status: accepted.\n`gone.go` `cmd/gone`\n", "docs/adr/0001-x.md:2: [pages] there is no cmd/gone"},
		{"record of a file without its folder", "docs/adr/0001-x.md", "`gone.go`\n", ""},
		{"record that is superseded", "docs/adr/0001-x.md", "# X\nStatus: superseded by 0002.\n`cmd/gone`\n", ""},
	}
}

func TestUnreadableRepository(t *testing.T) {
	for name, change := range map[string]func(fstest.MapFS){
		"go file that does not parse": func(repo fstest.MapFS) { repo["x.go"] = &fstest.MapFile{Data: []byte("package")} },
		"no go.mod":                   func(repo fstest.MapFS) { delete(repo, "go.mod") },
		"no page":                     func(repo fstest.MapFS) { delete(repo, "ARCHITECTURE.md") },
	} {
		repo := goodRepository()
		change(repo)
		if _, err := check(repo, fixtureRules()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestAllowanceNeedsAReason(t *testing.T) {
	r := fixtureRules()
	r.mutableVars["allowed"] = " "
	found, err := check(goodRepository(), r)
	if err != nil || len(found) != 1 || !strings.Contains(found[0].text, "gives no reason") {
		t.Errorf("found %v, %v", found, err)
	}
}
