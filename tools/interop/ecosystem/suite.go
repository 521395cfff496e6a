package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// newest is the newest version of fasthttp that differences are looked at with.
const newest = "v1.78.0"

// A suite is a module whose own tests are run with fasthttp and with Sluice.
type suite struct {
	Module  string
	Version string
	// Packages are what is tested, ./... if there are none.
	Packages []string
	// Fasthttp is the version to compare with if the one that the module
	// requires is too old for what it uses, or if it requires none.
	Fasthttp string
	// Without are files that are left out: what they import is not to be had.
	Without []string
	// Edits are made in the module's tests, in both copies.
	Edits []edit
	// Server is a folder of testdata for a module that is for net/http. Its files replace
	// those of the copy for Sluice, and serve with fasthttpadaptor. It has the Edits alone.
	// The other copy is as it was, and uses net/http.
	Server string
	// Skip matches tests that end the test program or hang with Sluice, for a
	// reason that is known, so that the others would not be run. They are run with
	// neither.
	Skip string
	// Differences says why a test, or a package, does not pass with Sluice though
	// it does with fasthttp. The keys are as in results.
	Differences map[string]string
}

// An edit replaces what a regular expression matches.
type edit struct{ pattern, replacement string }

// A runner has what all suites share.
type runner struct {
	shim    string        // folder of the shim
	source  string        // folder of Sluice, which the shim needs
	work    string        // folder for the copies
	timeout time.Duration // for one package
	isolate bool          // run the tests without rights, in a network of their own
}

// results has the outcome of each test, "pass", "fail" or "skip", by
// "package Test/Subtest"; and of each package that does not pass as a whole, by
// its path.
type results map[string]string

// An outcome is what one suite gave.
type outcome struct {
	suite    suite
	fasthttp string // version, or what it was instead
	real     results
	ours     results
	newest   results // with the newest fasthttp, if there are differences
	err      error
}

// run runs the tests of the suite twice. Tests that pass with fasthttp only are
// run again: twice at most, as many suites have tests that now and then fail, and
// then with the newest fasthttp, which may have changed in the same way.
func (r *runner) run(ctx context.Context, s suite) outcome {
	o := outcome{suite: s}
	download, err := command(ctx, "", "go", "mod", "download", "-json", s.Module+"@"+s.Version)
	if err != nil {
		o.err = err
		return o
	}
	var module struct{ Dir string }
	if o.err = json.Unmarshal(download, &module); o.err != nil {
		return o
	}
	place := filepath.Join(r.work, strings.NewReplacer("/", "_", "@", "_").Replace(s.Module))
	required, ours := filepath.Join(place, "fasthttp"), filepath.Join(place, "sluice")
	if o.err = r.prepare(ctx, s.original(), module.Dir, required); o.err != nil {
		return o
	}
	if o.err = r.prepare(ctx, s, module.Dir, ours, "-replace="+shimModule+"="+r.shim, "-replace="+ourModule+"="+r.source); o.err != nil {
		return o
	}
	if o.fasthttp, o.err = s.comparedWith(ctx, required); o.err != nil {
		return o
	}
	o.real = r.test(ctx, required, s, s.packages(), "")
	o.ours = r.test(ctx, ours, s, s.packages(), "")
	for range 2 {
		maps.Copy(o.ours, r.testAgain(ctx, ours, s, o.different()))
	}
	if tests := o.different(); len(tests) > 0 && o.fasthttp != newest && s.Server == "" {
		folder := filepath.Join(place, "newest")
		if o.err = r.prepare(ctx, s, module.Dir, folder, "-require="+shimModule+"@"+newest); o.err == nil {
			o.newest = r.testAgain(ctx, folder, s, tests)
		}
	}
	return o
}

// original is the suite of the copy that Sluice's is compared with.
func (s suite) original() suite {
	if s.Server != "" {
		s.Server, s.Fasthttp, s.Edits = "", "", nil
	}
	return s
}

// comparedWith returns the version of fasthttp, or that it is net/http.
func (s *suite) comparedWith(ctx context.Context, folder string) (string, error) {
	if s.Server != "" {
		return "(net/http)", nil
	}
	version, err := command(ctx, folder, "go", "list", "-m", "-f", "{{.Version}}", shimModule)
	return string(bytes.TrimSpace(version)), err
}

// testAgain runs these tests alone.
func (r *runner) testAgain(ctx context.Context, folder string, s suite, tests []string) results {
	functions := map[string][]string{}
	for _, test := range tests {
		name, function, _ := strings.Cut(test, " ")
		function, _, _ = strings.Cut(function, "/")
		functions[name] = append(functions[name], function)
	}
	found := results{}
	for _, name := range sortedKeys(functions) {
		maps.Copy(found, r.test(ctx, folder, s, []string{name}, pattern(functions[name])))
	}
	return found
}

// pattern is for -run: these functions, or all if one has no name because it is
// the package as a whole.
func pattern(functions []string) string {
	if slices.Contains(functions, "") {
		return ""
	}
	slices.Sort(functions)
	return "^(" + strings.Join(slices.Compact(functions), "|") + ")$"
}

func (s *suite) packages() []string {
	if len(s.Packages) == 0 {
		return []string{"./..."}
	}
	return s.Packages
}

// different returns the tests that pass with fasthttp and not with Sluice, and
// the packages whose tests could not be run to their end.
func (o *outcome) different() []string {
	var tests []string
	for test, result := range o.real {
		name, _, _ := strings.Cut(test, " ")
		if _, ran := o.ours[test]; !ran && o.ours[name] == "broken" {
			continue
		}
		if result == "pass" && o.ours[test] != "pass" {
			tests = append(tests, test)
		}
	}
	for test, result := range o.ours {
		if result == "broken" && o.real[test] != "broken" {
			tests = append(tests, test)
		}
	}
	slices.Sort(tests)
	return tests
}

// prepare makes a copy of the module that can be changed. Both copies are of the
// same language version, that of Sluice, which may be newer than the module's.
func (r *runner) prepare(ctx context.Context, s suite, from, to string, changes ...string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := copyFolder(from, to); err != nil {
		return err
	}
	if s.Server != "" {
		if err := copyFolder(filepath.Join(r.source, "tools", "interop", "ecosystem", "testdata", s.Server), to); err != nil {
			return err
		}
	}
	for _, name := range s.Without {
		if err := os.Remove(filepath.Join(to, name)); err != nil {
			return err
		}
	}
	if err := editTests(to, s.Edits); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(to, "go.mod")); err != nil {
		if _, err := command(ctx, to, "go", "mod", "init", s.Module); err != nil {
			return err
		}
	}
	edit := []string{"mod", "edit", "-go=1.26.0", "-toolchain=none"}
	dropped, err := foldersReplaced(ctx, to)
	if err != nil {
		return err
	}
	edit = append(edit, dropped...)
	if s.Fasthttp != "" {
		edit = append(edit, "-require="+shimModule+"@"+s.Fasthttp)
	}
	edit = append(edit, changes...)
	if _, err := command(ctx, to, "go", edit...); err != nil {
		return err
	}
	// Everything is downloaded here, and nothing while the tests run.
	_, err = command(ctx, to, "go", append([]string{"list", "-deps", "-test"}, s.packages()...)...)
	return err
}

// editTests makes the edits in all tests below the folder.
func editTests(folder string, edits []edit) error {
	return filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, "_test.go") || len(edits) == 0 {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, e := range edits {
			text = regexp.MustCompile(e.pattern).ReplaceAll(text, []byte(e.replacement))
		}
		return os.WriteFile(name, text, 0o644)
	})
}

// foldersReplaced returns the arguments of go mod edit that end the replacing of
// modules by folders beside this one, which are not there.
func foldersReplaced(ctx context.Context, folder string) ([]string, error) {
	text, err := command(ctx, folder, "go", "mod", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var module struct {
		Replace []struct {
			Old struct{ Path string }
			New struct{ Path, Version string }
		}
	}
	if err := json.Unmarshal(text, &module); err != nil {
		return nil, err
	}
	var arguments []string
	for _, replace := range module.Replace {
		if replace.New.Version == "" {
			arguments = append(arguments, "-dropreplace="+replace.Old.Path)
		}
	}
	return arguments, nil
}

// copyFolder copies without the vendored packages: fasthttp may be among them.
func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if entry.Name() == "vendor" {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, relative), 0o755)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, relative), text, 0o644)
	})
}

// test runs the tests of the packages, of functions that match if a pattern is
// given. A package that cannot be built or does not come to its end is "broken".
func (r *runner) test(ctx context.Context, folder string, s suite, packages []string, match string) results {
	arguments := []string{"go", "test", "-json", "-count=1", "-p=1", "-vet=off", "-timeout=" + r.timeout.String()}
	if match != "" {
		arguments = append(arguments, "-run="+match)
	}
	if s.Skip != "" {
		arguments = append(arguments, "-skip="+s.Skip)
	}
	arguments = append(arguments, packages...)
	if err := r.give(ctx, folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return results{}
	}
	tests, err := r.guarded(ctx, folder, arguments...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return results{}
	}
	var out bytes.Buffer
	tests.Stdout = &out
	tests.Stderr = &out
	_ = tests.Run() // failed tests are in the output
	log := fmt.Sprintf("%s.%d.json", folder, time.Now().UnixMilli())
	if err := os.WriteFile(log, out.Bytes(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return parse(out.Bytes())
}

// confine gets the user, the folders of the module cache and its place, and a command. It
// shows the modules, which may be in root's home, to the user, and runs the command as that.
const confine = `ip link set lo up && mount --bind -o ro "$2" "$3" &&
user=$1 && shift 3 &&
exec setpriv --reuid="$user" --regid="$user" --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all "$@"`

// guest is the user that runs the tests, which are programs of others.
const guest = 65534

// give makes guest own the folder and what else the tests write to, if they run as guest.
func (r *runner) give(ctx context.Context, folder string) error {
	if !r.isolate {
		return nil
	}
	home := filepath.Join(r.work, "home")
	for _, name := range []string{filepath.Join(home, "tmp"), filepath.Join(r.work, "modules")} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			return err
		}
	}
	_, err := command(ctx, "", "chown", "-R", fmt.Sprintf("%d:%[1]d", guest), folder, home)
	return err
}

// guarded is the command, which has neither rights nor a way out if r isolates the tests.
func (r *runner) guarded(ctx context.Context, folder string, arguments ...string) (*exec.Cmd, error) {
	settings := append(environment(), "GOPROXY=off")
	if r.isolate {
		modules, err := command(ctx, folder, "go", "env", "GOMODCACHE")
		if err != nil {
			return nil, err
		}
		home, place := filepath.Join(r.work, "home"), filepath.Join(r.work, "modules")
		settings = append(settings, "HOME="+home, "TMPDIR="+filepath.Join(home, "tmp"), "GOMODCACHE="+place, "GOCACHE="+filepath.Join(home, "cache"))
		confined := []string{"unshare", "--net", "--mount", "sh", "-c", confine, "sh", fmt.Sprint(guest), string(bytes.TrimSpace(modules)), place}
		arguments = append(confined, arguments...)
	}
	run := exec.CommandContext(ctx, arguments[0], arguments[1:]...)
	run.Dir = folder
	run.Env = settings
	return run, nil
}

// parse reads the output of go test -json.
func parse(out []byte) results {
	found := results{}
	running := map[string]bool{}
	failed := map[string]bool{} // packages with a test that failed
	for line := range bytes.Lines(out) {
		var event struct {
			Action, Package, Test, ImportPath string
		}
		if json.Unmarshal(line, &event) != nil {
			continue
		}
		name := event.Package + " " + event.Test
		switch {
		case event.Action == "run":
			running[name] = true
		case event.Action != "pass" && event.Action != "fail" && event.Action != "skip":
		case event.Test != "":
			delete(running, name)
			found[name] = event.Action
			failed[event.Package] = failed[event.Package] || event.Action == "fail"
		case event.Action == "fail":
			if hasRunning(running, event.Package) || !failed[event.Package] {
				found[event.Package] = "broken"
			}
		}
	}
	return found
}

func hasRunning(running map[string]bool, name string) bool {
	for test := range running {
		if strings.HasPrefix(test, name+" ") {
			return true
		}
	}
	return false
}

// environment is that of the go command: modules may be added to go.mod, and no
// go.work counts.
func environment() []string {
	return append(os.Environ(), "GOFLAGS=-mod=mod -buildvcs=false", "GOWORK=off", "GOTOOLCHAIN=local")
}

// command returns the standard output.
func command(ctx context.Context, folder, name string, arguments ...string) ([]byte, error) {
	run := exec.CommandContext(ctx, name, arguments...)
	run.Dir = folder
	run.Env = environment()
	var stderr bytes.Buffer
	run.Stderr = &stderr
	out, err := run.Output()
	if err != nil {
		return out, fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(arguments, " "), err, stderr.Bytes(), tail(out))
	}
	return out, nil
}

func tail(out []byte) []byte {
	return out[max(0, len(out)-500):]
}
