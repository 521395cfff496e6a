package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A package with functions that its test looks at, and one that it does not.
var sample = map[string]string{
	"go.mod":         "module sample\n\ngo 1.26\n",
	"a.go":           "package sample\n\nfunc Seen(a, b int) bool { return a < b }\n\nfunc Unseen(a, b int) bool { return a > b }\n\nfunc Index(i int) int { return []int{7}[i-1] }\n\nfunc End() int { return 1 }\n\nfunc Loops(n int) {\n\tfor n > 0 {\n\t\tn--\n\t}\n}\n",
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
	Index(1)
	Loops(1)
}
`,
}

func TestRunTellsWhatTheTestsNotice(t *testing.T) {
	root := t.TempDir()
	for name, text := range sample {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	var out strings.Builder
	if err := run(t.Context(), &out, []string{"-root", root, "-n", "100", "-timeout", "5s", "."}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`noticed    ./a.go:3  "<=", not "<"  TestSeen`,
		`noticed    ./a.go:3  ">=", not "<"  TestSeen`,
		`UNNOTICED  ./a.go:5  ">=", not ">"`,
		`UNNOTICED  ./a.go:5  "<=", not ">"`,
		`noticed    ./a.go:9  "2", not "1"  TestEnd`,
		`noticed    ./a.go:13  without "n--"  no end within 5s`,
		`.: seed 1, 6 of 12 noticed (0 more did not compile)`,
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
	root := t.TempDir()
	for name, text := range sample {
		text = strings.Replace(text, "a < b", "a <= b", 1)
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	err := run(t.Context(), &strings.Builder{}, []string{"-root", root, "."})
	if err == nil || !strings.Contains(err.Error(), "without a fault") {
		t.Errorf("got %v", err)
	}
}
