package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMovedOut: a test of package a uses exported names of another module, and what does
// not compile is dropped with its comment.
func TestMovedOut(t *testing.T) {
	p := portable{folder: t.TempDir(), module: ourModule}
	name := filepath.Join(p.folder, "a", "a_test.go")
	if err := os.Mkdir(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	text := "package a\n\nimport (\n\t\"io\"\n\t\"github.com/valyala/fasthttp\"\n\t\"github.com/valyala/fasthttp/fasthttputil\"\n)\n\n" +
		"// one is first.\nfunc one() {}\n\n// two is second.\nfunc two() { hidden() }\n\nvar (\n\tx = 1\n\ty = hidden\n)\n"
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := p.moveTest(name); err != nil {
		t.Fatal(err)
	}
	if err := drop(name, []int{8, 15, 19}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	want := "package a_test\n\nimport . \"github.com/sluicehttp/sluice/a\"\n\nimport (\n\tfasthttp \"github.com/sluicehttp/sluice\"\n\t\"github.com/sluicehttp/sluice/fasthttputil\"\n)\n\n" +
		"// one is first.\nfunc one() {}\n\nvar (\n\tx = 1\n)\n"
	if string(got) != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestReasonsOfPortableTests: the list is complete for each test, and says nothing about
// one that passes.
func TestReasonsOfPortableTests(t *testing.T) {
	theirs := results{". TestA": "pass", ". TestB": "pass", ". TestC": "fail", ". TestD": "pass"}
	for _, c := range []struct {
		ours    results
		reasons map[string]string
		isRight bool
	}{
		{results{". TestA": "pass", ". TestB": "pass", ". TestD": "pass"}, nil, true},
		{results{". TestA": "pass", ". TestB": "fail", ". TestD": "pass"}, nil, false},
		{results{". TestA": "pass", ". TestB": "fail"}, map[string]string{". TestB": "b", ". TestD": "d"}, true},
		{results{". TestA": "pass", ". TestB": "pass", ". TestD": "pass"}, map[string]string{". TestB": "b"}, false},
		{results{". TestA": "pass", ". TestB": "pass", ". TestD": "pass"}, map[string]string{". TestB": nowAndThen + "b"}, true},
	} {
		if err := comparePortable(theirs, c.ours, c.reasons); (err == nil) != c.isRight {
			t.Errorf("%v, %v: %v", c.ours, c.reasons, err)
		}
	}
	if reasons, err := readReasons("portable.txt"); err != nil || len(reasons) == 0 {
		t.Errorf("%d reasons, %v", len(reasons), err)
	}
}
