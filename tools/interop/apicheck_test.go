package interop_test

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	// apiTool compares a module's exported API with a list of facts, apiList is
	// fasthttp's list. Both live beside the repository where they exist.
	apiTool = "../../../shared/tools/apicheck"
	apiList = "../../../shared/api/fasthttp-v1.78.0.api.txt"
	// apiMissing holds what of the list we don't have yet, as apiTool prints it.
	apiMissing = "api_missing.txt"
)

var update = flag.Bool("update", false, "remove from "+apiMissing+" what is no longer missing")

// TestAPI: every fact of fasthttp's exported API is true of ours, except those
// in api_missing.txt, and that list only shrinks.
func TestAPI(t *testing.T) {
	for _, needed := range []string{apiTool, apiList} {
		if _, err := os.Stat(needed); err != nil {
			t.Skipf("the API check needs %s, which is not part of this repository: %v", needed, err)
		}
	}
	facts, err := os.ReadFile(apiList)
	if err != nil {
		t.Fatal(err)
	}
	missing := expandPackages(runAPITool(t), string(facts))
	allowed := readAllowed(t, missing)
	added, gone := difference(missing, allowed), difference(allowed, missing)
	if *update {
		writeAllowed(t, difference(allowed, gone))
		gone = nil
	}
	for _, line := range added {
		t.Errorf("%s\n\tmust not be missing or different: implement it as fasthttp declares it; %s may only shrink", line, apiMissing)
	}
	for _, line := range gone {
		t.Errorf("%s\n\tis there now, and %s may only shrink: remove this line (go -C tools/interop test -run TestAPI -update)", line, apiMissing)
	}
	t.Logf("%d facts of fasthttp's API, %d missing or different", strings.Count(string(facts), "\npkg "), len(missing))
}

// runAPITool returns the lines "missing …" and "differs …" of the root module
// on Linux, whatever the system that the test runs on.
func runAPITool(t *testing.T) []string {
	t.Helper()
	tool := filepath.Join(t.TempDir(), "apicheck")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", tool, ".")
	build.Dir = apiTool
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build %s: %v\n%s", apiTool, err, out)
	}
	run := exec.CommandContext(t.Context(), tool, "-goos", "linux", apiList, "../..")
	var stderr bytes.Buffer
	run.Stderr = &stderr
	out, err := run.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("%s failed: %v\n%s", tool, err, stderr.Bytes())
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "missing ") || strings.HasPrefix(line, "differs ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// expandPackages replaces the one line of a package that is missing as a whole
// by the lines of its facts, so that a package may arrive piece by piece. The
// result is sorted.
func expandPackages(lines []string, facts string) []string {
	var expanded []string
	for _, line := range lines {
		label, whole := strings.CutPrefix(line, "missing  package ")
		if !whole {
			expanded = append(expanded, line)
			continue
		}
		for fact := range strings.SplitSeq(facts, "\n") {
			if holdsOn(fact, label, "linux") {
				expanded = append(expanded, "missing  "+fact)
			}
		}
	}
	slices.Sort(expanded)
	return slices.Compact(expanded)
}

// holdsOn reports whether a line of the list is about the package and true on the
// system: "pkg LABEL, …" holds everywhere, "pkg LABEL (SYSTEM), …" on one.
func holdsOn(line, label, system string) bool {
	head, _, ok := strings.Cut(line, ", ")
	return ok && (head == "pkg "+label || head == "pkg "+label+" ("+system+")")
}

// readAllowed reads the list of what may be missing. Where there is none yet,
// -update starts it with what is missing now.
func readAllowed(t *testing.T, missing []string) []string {
	t.Helper()
	text, err := os.ReadFile(apiMissing)
	if errors.Is(err, fs.ErrNotExist) && *update {
		return missing
	}
	if err != nil {
		t.Fatal(err)
	}
	var allowed []string
	for line := range strings.SplitSeq(string(text), "\n") {
		if line != "" && !strings.HasPrefix(line, "#") {
			allowed = append(allowed, line)
		}
	}
	slices.Sort(allowed)
	return allowed
}

func writeAllowed(t *testing.T, lines []string) {
	t.Helper()
	text := "# What of fasthttp's exported API sluice does not have yet. This list only shrinks:\n" +
		"# go -C tools/interop test -run TestAPI -update\n" + strings.Join(append(lines, ""), "\n")
	if err := os.WriteFile(apiMissing, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// difference returns the elements of a that are not in b; both are sorted.
func difference(a, b []string) []string {
	var only []string
	for _, line := range a {
		if _, found := slices.BinarySearch(b, line); !found {
			only = append(only, line)
		}
	}
	return only
}

func TestAPIExpandPackages(t *testing.T) {
	facts := "# label m\npkg m, func Root()\npkg m/sub, func B()\npkg m/sub (linux), func A()\npkg m/sub (darwin), func C()\npkg m/subway, func D()\n"
	got := expandPackages([]string{"differs  pkg m, type T struct", "missing  package m/sub"}, facts)
	want := []string{"differs  pkg m, type T struct", "missing  pkg m/sub (linux), func A()", "missing  pkg m/sub, func B()"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAPIDifference(t *testing.T) {
	a, b := []string{"a", "b", "d"}, []string{"b", "c"}
	if got := difference(a, b); !slices.Equal(got, []string{"a", "d"}) {
		t.Errorf("a-b = %q", got)
	}
	if got := difference(b, a); !slices.Equal(got, []string{"c"}) {
		t.Errorf("b-a = %q", got)
	}
}
