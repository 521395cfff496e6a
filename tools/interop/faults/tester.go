package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/build"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A verdict says what the tests made of a fault.
type verdict int

const (
	noticed   verdict = iota // a test failed, or the run took too long
	unnoticed                // all tests passed
	broken                   // the fault does not compile
)

func (v verdict) String() string { return [...]string{"noticed", "UNNOTICED", "broken"}[v] }

// A tester runs the tests that are meant for one package with faults.
type tester struct {
	options
	dir    string
	suites []suite
	temp   string
	said   output // what the last run of the tests printed
	batch  batch  // the faults that are in the binaries of guarded
	on     int    // the number of the one that is on
}

// A suite is the tests of one folder, and runs there.
type suite struct {
	dir  string
	name string   // for the report; empty: the package's own
	slow []string // the tests that take slowTest or longer
	runs []block  // what the tests run of the package with faults, and what they do not
}

// findSuites returns the package's own tests and, for the root package, those of the
// folders below test, where the tests of its public API are.
func findSuites(root, dir string) ([]suite, error) {
	suites := []suite{{dir: filepath.Join(root, dir)}}
	if filepath.Clean(dir) != "." {
		return suites, nil
	}
	files, err := filepath.Glob(filepath.Join(root, "test", "*", "*_test.go"))
	for _, file := range files { // sorted, so those of a folder are neighbours
		if folder := filepath.Dir(file); folder != suites[len(suites)-1].dir {
			suites = append(suites, suite{dir: folder, name: "test/" + filepath.Base(folder)})
		}
	}
	return suites, err
}

// slowTest is how long a test takes that runs only where the others have
// noticed nothing. Most faults are noticed by the quick ones.
const slowTest = 100 * time.Millisecond

// learn runs the suites without a fault: it finds which of their tests are slow and what
// they run of the package. found is unnoticed if all tests pass.
func (t *tester) learn(ctx context.Context) (found verdict, how string, err error) {
	profile := filepath.Join(t.temp, "profile")
	for i := range t.suites {
		s := &t.suites[i]
		tested, err := filepath.Rel(s.dir, t.dir)
		if err != nil {
			return 0, "", err
		}
		if text, err := t.compile(ctx, s, t.binary(), "-cover", "-coverpkg="+tested); err != nil {
			return 0, "", fmt.Errorf("%w: %s", err, text)
		}
		if found, how, err = t.test(ctx, s, t.binary(), "-test.coverprofile="+profile); err != nil || found != unnoticed {
			return found, strings.TrimSpace(s.name + " " + how), err
		}
		s.slow = t.said.slow()
		text, err := os.ReadFile(profile)
		if err != nil {
			return 0, "", err
		}
		if s.runs, err = parseProfile(string(text)); err != nil {
			return 0, "", err
		}
	}
	return unnoticed, "", nil
}

// verdict runs the suites that run the code with the fault, until one notices it. how says
// what noticed it.
func (t *tester) verdict(ctx context.Context, f *fault) (found verdict, by string, err error) {
	t.on = t.batch.number(f)
	overlay, err := t.overlay(f)
	if err != nil {
		return 0, "", err
	}
	how, isCompiled := "no test runs it", t.on > 0
	for i := range t.suites {
		s := &t.suites[i]
		if !isRun(s.runs, f) {
			continue
		}
		binary := t.guarded(i)
		if t.on == 0 {
			binary = t.binary()
			if _, err := t.compile(ctx, s, binary, "-overlay", overlay); err != nil {
				return broken, "", ctx.Err()
			}
		}
		if found, by, err = t.tests(ctx, s, binary); err != nil || found != unnoticed {
			return found, strings.TrimSpace(s.name + " " + by), err
		}
		how, isCompiled = "", true
	}
	if !isCompiled {
		if _, err := t.compile(ctx, &t.suites[0], t.binary(), "-overlay", overlay); err != nil {
			return broken, "", ctx.Err()
		}
	}
	return unnoticed, how, nil
}

// together compiles those of faults that can be switched on, once for each suite. It leaves
// out those that do not compile so.
func (t *tester) together(ctx context.Context, faults []fault) error {
	t.batch, t.on = nil, 0
	b := gather(faults)
	for len(b) > 1 {
		overlay, err := t.overlayBatch(b)
		if err != nil {
			return err
		}
		text, err := t.compile(ctx, &t.suites[0], t.guarded(0), "-overlay", overlay)
		switch rest := b.without(text); {
		case err == nil:
			t.batch = b
			return t.finish(ctx, overlay)
		case ctx.Err() != nil:
			return ctx.Err()
		case len(rest) == len(b):
			return fmt.Errorf("faults that can be switched on do not compile: %w: %s", err, text)
		default:
			b = rest
		}
	}
	return nil
}

// finish compiles the other suites of a batch. Their quick tests must pass while no fault is on.
func (t *tester) finish(ctx context.Context, overlay string) error {
	for i := range t.suites {
		s := &t.suites[i]
		if i > 0 {
			if text, err := t.compile(ctx, s, t.guarded(i), "-overlay", overlay); err != nil {
				return fmt.Errorf("%w: %s", err, text)
			}
		}
		found, how, err := t.test(ctx, s, t.guarded(i), "-test.skip="+pattern(s.slow))
		if err != nil {
			return err
		}
		if found != unnoticed {
			return fmt.Errorf("%s: the tests fail while no fault is on: %s", s.dir, how)
		}
	}
	return nil
}

// overlayBatch is overlay for a batch.
func (t *tester) overlayBatch(b batch) (string, error) {
	pkg, err := build.ImportDir(t.dir, 0)
	if err != nil {
		return "", err
	}
	files, err := b.files(t.dir, pkg.Name)
	if err != nil {
		return "", err
	}
	replaced := map[string]string{}
	for file, text := range files {
		original, err := filepath.Abs(file)
		if err != nil {
			return "", err
		}
		replaced[original] = filepath.Join(t.temp, filepath.Base(file))
		if err := os.WriteFile(replaced[original], text, 0o600); err != nil {
			return "", err
		}
	}
	list := filepath.Join(t.temp, "batch.json")
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	return list, errors.Join(err, os.WriteFile(list, text, 0o600))
}

// compile makes the binary of a suite.
func (t *tester) compile(ctx context.Context, s *suite, binary string, flags ...string) (said []byte, err error) {
	// Without tables for debuggers, the linker needs half the time.
	args := append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary}, flags...)
	compile := exec.CommandContext(ctx, "go", append(args, ".")...)
	compile.Dir = s.dir
	return compile.CombinedOutput()
}

// binary is that of a suite with one fault, guarded that of suite i with the batch.
func (t *tester) binary() string { return filepath.Join(t.temp, "package.test") }

func (t *tester) guarded(i int) string {
	return filepath.Join(t.temp, fmt.Sprintf("guarded%d.test", i))
}

// pattern returns a regular expression for the names of tests.
func pattern(tests []string) string { return "^(" + strings.Join(tests, "|") + ")$" }

// tests runs the quick tests, and the slow ones if those notice nothing.
func (t *tester) tests(ctx context.Context, s *suite, binary string) (found verdict, how string, err error) {
	if len(s.slow) == 0 {
		return t.test(ctx, s, binary)
	}
	slow := pattern(s.slow)
	if found, how, err = t.test(ctx, s, binary, "-test.skip="+slow); err != nil || found != unnoticed {
		return found, how, err
	}
	return t.test(ctx, s, binary, "-test.run="+slow)
}

// overlay writes the file with its fault, and the compiler's list of files to
// replace.
func (t *tester) overlay(f *fault) (string, error) {
	text, err := f.apply()
	if err != nil {
		return "", err
	}
	original, err := filepath.Abs(f.file)
	if err != nil {
		return "", err
	}
	faulty, list := filepath.Join(t.temp, "faulty.go"), filepath.Join(t.temp, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{original: faulty}})
	if err != nil {
		return "", err
	}
	return list, errors.Join(os.WriteFile(faulty, text, 0o600), os.WriteFile(list, replace, 0o600))
}

// test runs the compiled tests of a suite that choose selects, all if it is empty, in a
// process group, so that processes that a fault left running end with them.
func (t *tester) test(ctx context.Context, s *suite, binary string, choose ...string) (found verdict, how string, err error) {
	limited, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	args := append(choose, "-test.failfast", "-test.v")
	if t.short {
		args = append(args, "-test.short")
	}
	tests := exec.CommandContext(limited, binary, args...)
	tests.Dir = s.dir
	tests.Env = append(os.Environ(), switchVariable+"="+strconv.Itoa(t.on))
	t.said = output{}
	tests.Stdout, tests.Stderr = &t.said, &t.said
	tests.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	tests.Cancel = func() error { return syscall.Kill(-tests.Process.Pid, syscall.SIGKILL) }
	tests.WaitDelay = time.Second // processes that are left hold the output
	err = tests.Run()
	if tests.Process != nil {
		_ = syscall.Kill(-tests.Process.Pid, syscall.SIGKILL) // usually ESRCH: no process is left
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, "", ctx.Err()
	case limited.Err() != nil:
		return noticed, "no end within " + t.timeout.String(), nil
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return unnoticed, "", nil
	case errors.As(err, &exit):
		return noticed, t.said.failure(), nil
	}
	return 0, "", err
}

// maxOutput is how much is kept of what the tests of one fault print.
const maxOutput = 1 << 20

// output keeps the end of what is written to it.
type output struct{ text []byte }

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.text = append(o.text, p...)
	if extra := len(o.text) - maxOutput; extra > 0 {
		o.text = o.text[:copy(o.text, o.text[extra:])]
	}
	return len(p), nil
}

// slow lists the tests that took slowTest or longer.
func (o *output) slow() []string {
	var names []string
	for line := range strings.Lines(string(o.text)) {
		result, ok := strings.CutPrefix(line, "--- PASS: ")
		if !ok {
			continue
		}
		name, took, _ := strings.Cut(strings.TrimSpace(result), " ")
		if d, err := time.ParseDuration(strings.Trim(took, "()")); err == nil && d >= slowTest {
			names = append(names, name)
		}
	}
	return names
}

// failure names the test that failed, or the panic that ended all.
func (o *output) failure() string {
	for line := range strings.Lines(string(o.text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: "); ok {
			name, _, _ = strings.Cut(name, " ")
			return name
		}
		for _, start := range []string{"panic: ", "fatal error: "} {
			if strings.HasPrefix(line, start) {
				return strings.TrimSpace(line)
			}
		}
	}
	return "exit status"
}
