// Command platforms type-checks packages and their tests as they are on other
// systems. That takes seconds where the compiler takes minutes, because it
// generates nothing, and skips the bodies of functions in what is only imported.
//
//	go -C tools/interop run ./platforms -C .. -on linux/arm,windows/amd64 ./... ./lab/...
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

func main() {
	folder := flag.String("C", ".", "folder that the patterns start from")
	platforms := flag.String("on", "windows/amd64", "systems and processors, with commas between them")
	flag.Parse()
	all := strings.Split(*platforms, ",")
	failures := make([]error, len(all))
	var wg sync.WaitGroup
	for i, platform := range all {
		wg.Go(func() { failures[i] = check(*folder, platform, flag.Args()) })
	}
	wg.Wait()
	if err := errors.Join(failures...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A listed is what go list says of a package.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	ImportMap  map[string]string // of names in import declarations to paths, where they differ
	DepOnly    bool              // no pattern names it
	Module     *struct {
		Main      bool
		GoVersion string
	}
}

// isOurs reports whether the package is one that is to be checked.
func (l *listed) isOurs() bool { return l.Module != nil && l.Module.Main && !l.DepOnly }

// list returns the packages of the patterns, their tests and all that they import,
// each after those that it imports.
func list(folder, system, processor string, patterns []string) ([]listed, error) {
	args := append([]string{"list", "-deps", "-test", "-json=ImportPath,Dir,GoFiles,ImportMap,DepOnly,Module"}, patterns...)
	cmd := exec.Command("go", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, complaint.String())
	}
	var all []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var one listed
		if err := decoder.Decode(&one); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
}

// A checker checks the packages of one platform.
type checker struct {
	platform string
	sizes    types.Sizes
	files    *token.FileSet
	checked  map[string]*types.Package
	failures []error
}

// check checks the patterns' packages on a platform, and says how many of ours there are.
func check(folder, platform string, patterns []string) error {
	system, processor, _ := strings.Cut(platform, "/")
	c := &checker{
		platform: platform,
		sizes:    types.SizesFor("gc", processor),
		files:    token.NewFileSet(),
		checked:  map[string]*types.Package{"unsafe": types.Unsafe},
	}
	if c.sizes == nil {
		return fmt.Errorf("%s: there is no such processor", platform)
	}
	all, err := list(folder, system, processor, patterns)
	if err != nil {
		return fmt.Errorf("%s: %w", platform, err)
	}
	ours := 0
	for i := range all {
		if l := &all[i]; c.checked[l.ImportPath] == nil && !strings.HasSuffix(l.ImportPath, ".test") { // those are generated
			c.check(l)
			if l.isOurs() {
				ours++
			}
		}
	}
	if ours == 0 {
		return fmt.Errorf("%s: there are no packages of ours in %v", platform, patterns)
	}
	fmt.Printf("%s: %d packages, with variants for tests\n", platform, ours)
	return errors.Join(c.failures...)
}

func (c *checker) fail(err error) {
	c.failures = append(c.failures, fmt.Errorf("%s: %w", c.platform, err))
}

func (c *checker) check(l *listed) {
	var files []*ast.File
	for _, name := range l.GoFiles {
		file, err := parser.ParseFile(c.files, filepath.Join(l.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			c.fail(err)
		}
		files = append(files, file)
	}
	config := types.Config{
		Importer:         importer{c, l.ImportMap},
		Sizes:            c.sizes,
		IgnoreFuncBodies: !l.isOurs(),
		Error:            c.fail,
	}
	if l.Module != nil {
		config.GoVersion = "go" + l.Module.GoVersion
	}
	path, _, _ := strings.Cut(l.ImportPath, " ") // without the test that it is a variant for
	c.checked[l.ImportPath], _ = config.Check(path, c.files, files, nil)
}

// An importer finds what a package imports.
type importer struct {
	*checker
	paths map[string]string
}

// Import implements types.Importer.
func (i importer) Import(name string) (*types.Package, error) {
	path := name
	if mapped, ok := i.paths[name]; ok {
		path = mapped
	}
	if p := i.checked[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s is not among the packages that are listed", path)
}
