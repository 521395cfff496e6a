package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// portableModule is the name of a copy of fasthttp's tests.
const portableModule = "portable"

// portableList says why tests of fasthttp do not pass with Sluice.
const portableList = "tools/interop/ecosystem/portable.txt"

// nowAndThen begins the reason of a test that may pass.
const nowAndThen = "now and then: "

// A portable is a copy of fasthttp's tests, outside of the package they belong to.
// Declarations that need more than exported names are dropped, until the rest compiles.
type portable struct {
	folder string
	module string // whose exported names the tests use
}

// runPortable runs fasthttp's own tests that need exported names only, each in a
// process of its own, with the newest fasthttp and with Sluice. It fails if one that
// passes with fasthttp does not pass with Sluice and is not in the list, or is in the
// list and passes.
func (r *runner) runPortable(ctx context.Context) error {
	download, err := command(ctx, "", "go", "mod", "download", "-json", shimModule+"@"+newest)
	if err != nil {
		return err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(download, &module); err != nil {
		return err
	}
	reasons, err := readReasons(filepath.Join(r.source, filepath.FromSlash(portableList)))
	if err != nil {
		return err
	}
	var found [2]results
	for i, p := range []portable{
		{folder: filepath.Join(r.work, portableModule, "fasthttp"), module: shimModule},
		{folder: filepath.Join(r.work, portableModule, "sluice"), module: ourModule},
	} {
		if err := p.prepare(ctx, module.Dir, r.source); err != nil {
			return err
		}
		if found[i], err = r.testEach(ctx, &p); err != nil {
			return err
		}
	}
	return comparePortable(found[0], found[1], reasons)
}

// comparePortable prints what differs without a reason, and the counts.
func comparePortable(theirs, ours results, reasons map[string]string) error {
	passed, wrong := 0, 0
	for _, test := range sortedKeys(theirs) {
		result := ours[test]
		if result == "" {
			result = "does not compile"
		}
		reason := reasons[test]
		switch {
		case result == "pass" && reason != "" && !strings.HasPrefix(reason, nowAndThen):
			wrong++
			fmt.Printf("pass: %s is in %s\n", test, portableList)
		case result != "pass" && theirs[test] == "pass" && reason == "":
			wrong++
			fmt.Printf("%s: %s\n", result, test)
		}
		if result == "pass" && theirs[test] == "pass" {
			passed++
		}
	}
	fmt.Printf("%d tests need exported names only, %d of them pass with fasthttp %s, %d of these with Sluice\n",
		len(theirs), theirs.passed(), newest, passed)
	if wrong > 0 {
		return fmt.Errorf("%d differences from %s", wrong, portableList)
	}
	return nil
}

// readReasons reads lines of a package's folder, a test and a reason. Lines that begin with # are comments.
func readReasons(name string) (map[string]string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	reasons := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		test, reason, ok := strings.Cut(line, ": ")
		if !ok {
			return nil, fmt.Errorf("%s: no reason: %s", name, line)
		}
		reasons[test] = reason
	}
	return reasons, nil
}

// prepare copies the tests from a folder of fasthttp and moves them out of their packages. The
// other sources stay as files, which tests read, and are not compiled.
func (p *portable) prepare(ctx context.Context, from, source string) error {
	if err := os.RemoveAll(p.folder); err != nil {
		return err
	}
	if err := os.MkdirAll(p.folder, 0o755); err != nil {
		return err
	}
	if err := copyFolder(from, p.folder); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(p.folder, "examples")); err != nil {
		return err
	}
	if err := p.moveOut(); err != nil {
		return err
	}
	edit := []string{"mod", "edit", "-module=" + portableModule, "-toolchain=none", "-require=" + shimModule + "@" + newest}
	if p.module == ourModule {
		edit = append(edit[:4:4], "-require="+ourModule+"@v0.1.0", "-replace="+ourModule+"="+source)
	}
	if _, err := command(ctx, p.folder, "go", edit...); err != nil {
		return err
	}
	folders, err := p.packages()
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if err := p.compile(ctx, folder); err != nil {
			return err
		}
	}
	return nil
}

func (p *portable) moveOut() error {
	return filepath.WalkDir(p.folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") {
			return err
		}
		if strings.HasSuffix(name, "_test.go") {
			return p.moveTest(name)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte("//go:build "), []byte("// go:build "))
		return os.WriteFile(name, append([]byte("//go:build ignore\n\n"), text...), 0o644)
	})
}

// moveTest moves a file into the package of external tests, with the names of the tested package.
func (p *portable) moveTest(name string) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, spec := range file.Imports {
		if spec.Path.Value == strconv.Quote(shimModule) && spec.Name == nil {
			spec.Name = ast.NewIdent("fasthttp")
		}
		spec.Path.Value = strings.Replace(spec.Path.Value, shimModule, p.module, 1)
	}
	if tested := file.Name.Name; !strings.HasSuffix(tested, "_test") {
		relative, err := filepath.Rel(p.folder, filepath.Dir(name))
		if err != nil {
			return err
		}
		file.Name.Name += "_test"
		path := filepath.ToSlash(filepath.Join(p.module, relative))
		file.Decls = append([]ast.Decl{&ast.GenDecl{Tok: token.IMPORT, Specs: []ast.Spec{&ast.ImportSpec{
			Name: ast.NewIdent("."), Path: &ast.BasicLit{Kind: token.STRING, Value: strconv.Quote(path)},
		}}}}, file.Decls...)
	}
	return writeTest(name, set, file)
}

func writeTest(name string, set *token.FileSet, file *ast.File) error {
	var text bytes.Buffer
	if err := format.Node(&text, set, file); err != nil {
		return err
	}
	return os.WriteFile(name, text.Bytes(), 0o644)
}

// packages returns the folders with tests.
func (p *portable) packages() ([]string, error) {
	var folders []string
	err := filepath.WalkDir(p.folder, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, "_test.go") {
			folders = append(folders, filepath.Dir(name))
		}
		return err
	})
	return slices.Compact(folders), err
}

// compile makes the folder's test program. What cannot be compiled is dropped.
func (p *portable) compile(ctx context.Context, folder string) error {
	compileError := regexp.MustCompile(`(?m)^(?:\./)?(\S+_test\.go):(\d+):`)
	for {
		out, err := command(ctx, folder, "go", "test", "-c", "-vet=off", "-gcflags=-e", "-o", "tests", ".")
		if err == nil {
			return nil
		}
		lines := map[string][]int{}
		for _, match := range compileError.FindAllStringSubmatch(err.Error()+string(out), -1) {
			line, _ := strconv.Atoi(match[2])
			lines[filepath.Base(match[1])] = append(lines[filepath.Base(match[1])], line)
		}
		if len(lines) == 0 {
			return err
		}
		for name, lines := range lines {
			if err := drop(filepath.Join(folder, name), lines); err != nil {
				return err
			}
		}
	}
}

// drop removes what is declared or imported in these lines of a file.
func drop(name string, lines []int) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	type span struct{ from, to token.Pos }
	var gone []span
	holds := func(doc *ast.CommentGroup, node ast.Node) bool {
		s := span{node.Pos(), node.End()}
		if doc != nil {
			s.from = doc.Pos()
		}
		first, last := set.Position(s.from).Line, set.Position(s.to).Line
		if !slices.ContainsFunc(lines, func(line int) bool { return first <= line && line <= last }) {
			return false
		}
		gone = append(gone, s)
		return true
	}
	file.Decls = slices.DeleteFunc(file.Decls, func(decl ast.Decl) bool {
		if function, ok := decl.(*ast.FuncDecl); ok {
			return holds(function.Doc, function)
		}
		group := decl.(*ast.GenDecl)
		if group.Tok == token.CONST || len(group.Specs) == 1 {
			return holds(group.Doc, group)
		}
		group.Specs = slices.DeleteFunc(group.Specs, func(spec ast.Spec) bool { return holds(nil, spec) })
		return false
	})
	file.Comments = slices.DeleteFunc(file.Comments, func(group *ast.CommentGroup) bool {
		return slices.ContainsFunc(gone, func(s span) bool { return s.from <= group.Pos() && group.End() <= s.to })
	})
	if len(gone) == 0 {
		return fmt.Errorf("%s: nothing is declared in lines %v", name, lines)
	}
	return writeTest(name, set, file)
}

// testEach runs each test in a process of its own, two at a time.
func (r *runner) testEach(ctx context.Context, p *portable) (results, error) {
	folders, err := p.packages()
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(p.folder + "-logs"); err != nil {
		return nil, err
	}
	if err := os.Mkdir(p.folder+"-logs", 0o755); err != nil {
		return nil, err
	}
	found := results{}
	var mu sync.Mutex
	var group sync.WaitGroup
	free := make(chan struct{}, 2)
	for _, folder := range folders {
		if err := r.give(ctx, folder); err != nil {
			return nil, err
		}
		names, err := r.guarded(ctx, folder, "./tests", "-test.list=^(Test|Fuzz|Example)")
		if err != nil {
			return nil, err
		}
		list, err := names.Output()
		if err != nil {
			return nil, err
		}
		relative, err := filepath.Rel(p.folder, folder)
		if err != nil {
			return nil, err
		}
		for _, test := range strings.Fields(string(list)) {
			free <- struct{}{}
			group.Go(func() {
				result := r.testOne(ctx, folder, test, p.folder+"-logs")
				if result == "fail" { // some fail now and then
					result = r.testOne(ctx, folder, test, p.folder+"-logs")
				}
				<-free
				mu.Lock()
				found[relative+" "+test] = result
				mu.Unlock()
			})
		}
	}
	group.Wait()
	return found, ctx.Err()
}

// testOne leaves the output in a folder for logs.
func (r *runner) testOne(ctx context.Context, folder, test, logs string) string {
	ctx, cancel := context.WithTimeout(ctx, r.timeout+time.Minute)
	defer cancel()
	run, err := r.guarded(ctx, folder, "./tests", "-test.run=^"+test+"$", "-test.v", "-test.timeout="+r.timeout.String())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return "fail"
	}
	out, err := run.CombinedOutput()
	result := "pass"
	switch {
	case err != nil:
		result = "fail"
	case bytes.Contains(out, []byte("--- SKIP: "+test+" ")):
		result = "skip"
	}
	if err := os.WriteFile(filepath.Join(logs, filepath.Base(folder)+"."+test+"."+result), out, 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return result
}
