package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// origin is a module with what the generator meets: names of parameters and
// symbols that are those of packages, types of other packages, variadic
// functions, several results, methods on what is aliased, symbols that are not
// exported, and a package in a folder.
var origin = map[string]string{
	"go.mod": "module example.org/origin\n\ngo 1.26.0\n",
	"origin.go": `package origin

import (
	"errors"
	"io"
	"net/url"
	"strings"
)

const Limit = 7

const hidden = 1

var ErrEnd = errors.New("end")

var Table = map[string]int{"a": 1}

type Kind uint8

const First Kind = iota + 1

func (k Kind) Name() string { return "kind" }

type Handler func(url *url.URL) io.Reader

type secret struct{ Word string }

func Secret() *secret { return &secret{Word: "open"} }

func Join(io string, strings_ ...string) (string, error) {
	return io + strings.Join(strings_, "+"), ErrEnd
}

func Parse(url *url.URL) (path string, reader io.Reader) { return url.Path, strings.NewReader(url.Host) }

func Count() { Table["a"]++ }
`,
	"inner/inner.go": `package inner

import "example.org/origin"

func Handle(h origin.Handler) bool { return h != nil }
`,
}

// user is a module that uses the origin by the shim's name.
var user = map[string]string{
	"go.mod": `module example.org/user

go 1.26.0

require example.org/stand/shim v0.0.0

require example.org/origin v0.0.0

replace example.org/stand/shim => ../shim

replace example.org/origin => ../origin
`,
	"main.go": `package main

import (
	"fmt"
	"io"
	"net/url"

	"example.org/stand/shim"
	"example.org/stand/shim/inner"
	real "example.org/origin"
)

func main() {
	const limit uint8 = shim.Limit // still without a type
	text, err := shim.Join("a", "b", "c")
	path, host := shim.Parse(&url.URL{Path: "/p", Host: "h"})
	read, _ := io.ReadAll(host)
	var handler real.Handler = shim.Handler(func(*url.URL) io.Reader { return nil })
	shim.Count()
	fmt.Println(limit, text, err == real.ErrEnd, err == shim.ErrEnd, path, string(read),
		inner.Handle(handler), shim.First.Name(), shim.Table["a"], shim.Secret().Word)
}
`,
}

func TestShim(t *testing.T) {
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOWORK", "off")
	place := t.TempDir()
	lay(t, filepath.Join(place, "origin"), origin)
	lay(t, filepath.Join(place, "user"), user)
	s := shim{module: "example.org/stand/shim", origin: "example.org/origin", source: filepath.Join(place, "origin"), packages: []string{"", "inner"}}
	lay(t, filepath.Join(place, "shim"), map[string]string{"go.mod": `module example.org/stand/shim

go 1.26.0

require example.org/origin v0.0.0
`})
	if err := s.write(filepath.Join(place, "shim")); err != nil {
		t.Fatal(err)
	}
	program := exec.CommandContext(t.Context(), "go", "run", ".")
	program.Dir = filepath.Join(place, "user")
	out, err := program.CombinedOutput()
	if want := "7 ab+c true true /p h true kind 2 open\n"; err != nil || string(out) != want {
		t.Errorf("the program printed %q, %v, want %q", out, err, want)
	}
}

func TestShimGeneric(t *testing.T) {
	for _, declaration := range []string{"func F[T any](T) {}", "type F[T any] struct{ V T }"} {
		place := t.TempDir()
		lay(t, place, map[string]string{"go.mod": origin["go.mod"], "f.go": "package origin\n\n" + declaration + "\n"})
		s := shim{module: "example.org/shim", origin: "example.org/origin", source: place, packages: []string{""}}
		if err := s.write(t.TempDir()); !errors.Is(err, errGeneric) {
			t.Errorf("%s: %v, want %v", declaration, err, errGeneric)
		}
	}
}

// TestShimIsCurrent: the shim in the repository passes on everything that Sluice
// exports, and nothing else.
func TestShimIsCurrent(t *testing.T) {
	source, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	s := shim{module: shimModule, origin: ourModule, source: source, packages: shimPackages}
	if err := s.write(folder); err != nil {
		t.Fatal(err)
	}
	want, got := goFiles(t, folder), goFiles(t, filepath.Join(source, filepath.FromSlash(shimFolder)))
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s/%s is not what Sluice exports: %s\n\trun go -C tools/interop run ./ecosystem -shim",
				shimFolder, name, firstDifference(got[name], want[name]))
		}
	}
	for name := range got {
		if want[name] == "" {
			t.Errorf("%s/%s is not made by the generator", shimFolder, name)
		}
	}
}

// goFiles returns the Go files below the folder by their relative names, without
// testdata.
func goFiles(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "testdata":
			return fs.SkipDir
		case filepath.Ext(name) != ".go":
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(folder, name)
		files[filepath.ToSlash(relative)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// firstDifference returns the first line that only one of the texts has at its
// place.
func firstDifference(got, want string) string {
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i, line := range wantLines {
		if i >= len(gotLines) || gotLines[i] != line {
			return fmt.Sprintf("line %d must be %q", i+1, line)
		}
	}
	return fmt.Sprintf("it has lines after line %d", len(wantLines))
}

// lay writes the files into the folder.
func lay(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := writeFile(filepath.Join(folder, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestParse(t *testing.T) {
	out := strings.Join([]string{
		`{"Action":"run","Package":"m/a","Test":"TestGood"}`,
		`{"Action":"pass","Package":"m/a","Test":"TestGood"}`,
		`{"Action":"run","Package":"m/a","Test":"TestBad"}`,
		`{"Action":"fail","Package":"m/a","Test":"TestBad/sub"}`,
		`{"Action":"fail","Package":"m/a","Test":"TestBad"}`,
		`{"Action":"fail","Package":"m/a"}`,
		`not JSON`,
		`{"Action":"fail","Package":"m/unbuilt"}`,
		`{"Action":"run","Package":"m/panics","Test":"TestPanics"}`,
		`{"Action":"fail","Package":"m/panics"}`,
		`{"Action":"skip","Package":"m/none"}`,
	}, "\n")
	want := map[string]string{
		"m/a TestGood": "pass", "m/a TestBad/sub": "fail", "m/a TestBad": "fail",
		"m/unbuilt": "broken", "m/panics": "broken",
	}
	got := parse([]byte(out))
	if len(got) != len(want) {
		t.Errorf("%v, want %v", got, want)
	}
	for name, result := range want {
		if got[name] != result {
			t.Errorf("%s is %q, want %q", name, got[name], result)
		}
	}
}

func TestDifferences(t *testing.T) {
	o := outcome{
		suite: suite{Module: "m", Differences: map[string]string{"m TestKnown": "decided"}},
		real: results{
			"m TestBoth": "pass", "m TestKnown": "pass", "m TestKnown/sub": "pass", "m TestNew": "pass",
			"m TestOlder": "pass", "m TestNeither": "fail", "m/broken TestX": "pass",
		},
		ours: results{
			"m TestBoth": "pass", "m TestKnown": "fail", "m TestKnown/sub": "fail", "m TestOlder": "fail",
			"m TestNeither": "fail", "m/broken": "broken",
		},
		newest: results{"m TestOlder": "fail", "m TestNew": "pass"},
	}
	want := []string{"m TestKnown", "m TestKnown/sub", "m TestNew", "m TestOlder", "m/broken"}
	if got := o.different(); !slices.Equal(got, want) {
		t.Errorf("different are %q, want %q", got, want)
	}
	var notes strings.Builder
	if got := o.explain(&notes, false); got != 2 {
		t.Errorf("%d are without a reason, want TestNew and m/broken:\n%s", got, &notes)
	}
	if strings.Contains(notes.String(), "TestKnown") || !strings.Contains(notes.String(), "missing: m TestNew: ") {
		t.Errorf("the notes are\n%s", &notes)
	}
}
