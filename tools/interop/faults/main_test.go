package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A package with functions that its test looks at, and one that it does not.
var sample = map[string]string{
	"go.mod":         "module sample\n\ngo 1.26\n",
	"a.go":           "package sample\n\nfunc Seen(a, b int) bool { return a < b }\n\nfunc Unseen(a, b int) bool { return a > b }\n\nfunc Index(i int) int { return []int{7}[i-1] }\n\nfunc End() int { return 1 }\n\nfunc Loops(n int) {\n\tfor n > 0 {\n\t\tn--\n\t}\n}\n\nfunc IsBig(n int) bool {\n\tswitch {\n\tcase n > 9:\n\t\treturn true\n\t}\n\treturn false\n}\n",
	"other_plan9.go": "package sample\n\nfunc Elsewhere(a int) bool { return a == 1 }\n",
	"a_test.go": `package sample

import (
	"testing"
	"time"
)

// TestEnd is first in the file and runs last, because it is slow.
func TestEnd(t *testing.T) {
	time.Sleep(100 * time.Millisecond)
	if Seen(2, 1) || End() != 1 {
		t.Fatal("wrong")
	}
}

func TestSeen(t *testing.T) {
	if Seen(1, 1) || !Seen(1, 2) || Seen(2, 1) {
		t.Fatal("wrong")
	}
	if IsBig(9) {
		t.Fatal("wrong")
	}
	Index(1)
	Loops(1)
}
`,
}

// writeModule writes files to a folder, and returns that.
func writeModule(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	return root
}

func TestRunTellsWhatTheTestsNotice(t *testing.T) {
	root := writeModule(t, sample)
	var out strings.Builder
	if err := run(t.Context(), &out, []string{"-root", root, "-n", "100", "-timeout", "5s", "."}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`noticed    ./a.go:3  "<=", not "<"  TestSeen`,
		`noticed    ./a.go:3  ">=", not "<"  TestSeen`,
		`UNNOTICED  ./a.go:5  ">=", not ">"  no test runs it`,
		`UNNOTICED  ./a.go:5  "<=", not ">"  no test runs it`,
		`noticed    ./a.go:9  "2", not "1"  TestEnd`,
		`noticed    ./a.go:13  without "n--"  no end within 5s`,
		`noticed    ./a.go:19  ">=", not ">"  TestSeen`,
		`UNNOTICED  ./a.go:20  "false", not "true"  no test runs it`,
		`.: seed 1, 9 of 17 noticed (0 more did not compile)`,
	} {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("no line %q in\n%s", line, out.String())
		}
	}
	if strings.Contains(out.String(), "plan9") {
		t.Error("a fault in a file that is not built here")
	}
	out.Reset()
	if err := run(t.Context(), &out, []string{"-root", root, "-at", "a.go:5"}); err != nil {
		t.Fatal(err)
	}
	if want := ".: seed 1, 0 of 2 noticed (0 more did not compile)\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("got %s", out.String())
	}
}

func TestRunRefusesTestsThatFailByThemselves(t *testing.T) {
	wrong := maps.Clone(sample)
	wrong["a.go"] = strings.Replace(wrong["a.go"], "a < b", "a <= b", 1)
	root := writeModule(t, wrong)
	err := run(t.Context(), &strings.Builder{}, []string{"-root", root, "."})
	if err == nil || !strings.Contains(err.Error(), "without a fault") {
		t.Errorf("got %v", err)
	}
}

// spread is a root package, with a test of its own and tests in two folders, and a package
// below it, which the tests of root call too. Each test needs its folder.
var spread = map[string]string{
	"go.mod":                   "module spread\n\ngo 1.26\n",
	"a.go":                     "package spread\n\nfunc Own(a, b int) bool { return a < b }\n\nfunc First(a, b int) bool { return a < b }\n\nfunc Second(a, b int) bool { return a < b }\n\nfunc None(a, b int) bool { return a < b }\n",
	"a_test.go":                spreadTest("spread_test", "Own", "spread", "0"),
	"below/b.go":               "package below\n\nfunc Below(a, b int) bool { return a < b }\n",
	"below/b_test.go":          "package below\n\nimport \"testing\"\n\nfunc TestNothing(*testing.T) {}\n",
	"test/shared/s.go":         "package shared\n",
	"test/first/f_test.go":     spreadTest("first", "First", "spread", "0"),
	"test/second/s_test.go":    spreadTest("second", "Second", "spread", "100 * time.Millisecond"),
	"test/second/more_test.go": spreadTest("second", "Below", "spread/below", "0"),
}

// spreadTest returns a test of a function of package path, which also looks for the file
// that it is in.
func spreadTest(name, function, path, wait string) string {
	return strings.NewReplacer("NAME", name, "FUNCTION", function, "PATH", path, "WAIT", wait).Replace(`package NAME

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	tested "PATH"
)

func TestFUNCTION(t *testing.T) {
	time.Sleep(WAIT)
	_, file, _, _ := runtime.Caller(0)
	if _, err := os.Stat(filepath.Base(file)); err != nil {
		t.Fatal(err)
	}
	if tested.FUNCTION(1, 1) || !tested.FUNCTION(1, 2) {
		t.Fatal("wrong")
	}
}
`)
}

// TestRunAsksAllTestsOfRoot: the folders below test belong to the root package, and only
// to that.
func TestRunAsksAllTestsOfRoot(t *testing.T) {
	root := writeModule(t, spread)
	var out strings.Builder
	if err := run(t.Context(), &out, []string{"-root", root, "-n", "100", ".", "below"}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`noticed    ./a.go:3  "<=", not "<"  TestOwn`,
		`noticed    ./a.go:5  "<=", not "<"  test/first TestFirst`,
		`noticed    ./a.go:7  "<=", not "<"  test/second TestSecond`,
		`UNNOTICED  ./a.go:9  "<=", not "<"  no test runs it`,
		`.: seed 1, 6 of 8 noticed (0 more did not compile)`,
		`UNNOTICED  below/b.go:3  "<=", not "<"  no test runs it`,
		`below: seed 1, 0 of 2 noticed (0 more did not compile)`,
	} {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("no line %q in\n%s", line, out.String())
		}
	}
	wrong := maps.Clone(spread)
	wrong["a.go"] = strings.Replace(wrong["a.go"], "Second(a, b int) bool { return a < b", "Second(a, b int) bool { return a > b", 1)
	err := run(t.Context(), &out, []string{"-root", writeModule(t, wrong), "."})
	if err == nil || !strings.Contains(err.Error(), "without a fault: test/second TestSecond") {
		t.Errorf("got %v", err)
	}
}

// TestIsRun: what a profile does not know may have effects elsewhere. A block begins and ends
// within a line.
func TestIsRun(t *testing.T) {
	blocks, err := parseProfile("mode: set\nm/p/a.go:3.20,9.4 2 1\nm/p/a.go:5.2,7.3 1 0\nm/p/b.go:3.12,4.3 1 0\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		file string
		place
		want bool
	}{
		{"p/a.go", place{2, 30}, true}, {"p/a.go", place{3, 20}, true}, {"p/a.go", place{6, 1}, true}, {"p/a.go", place{10, 1}, true},
		{"p/b.go", place{3, 11}, true}, {"p/b.go", place{3, 12}, false}, {"p/b.go", place{4, 2}, false}, {"p/b.go", place{4, 3}, true},
		{"p/c.go", place{3, 12}, true},
	} {
		if got := isRun(blocks, &fault{file: test.file, place: test.place}); got != test.want {
			t.Errorf("%s:%v: %v", test.file, test.place, got)
		}
	}
	if _, err := parseProfile("mode: set\nhalf"); err == nil {
		t.Error("half a line is taken")
	}
}
