package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
		if text, err := t.compile(ctx, s, "-cover", "-coverpkg="+tested); err != nil {
			return 0, "", fmt.Errorf("%w: %s", err, text)
		}
		if found, how, err = t.test(ctx, s, "-test.coverprofile="+profile); err != nil || found != unnoticed {
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
func (t *tester) verdict(ctx context.Context, f *fault) (found verdict, how string, err error) {
	overlay, err := t.overlay(f)
	if err != nil {
		return 0, "", err
	}
	isAsked := false
	for i := range t.suites {
		s := &t.suites[i]
		if !isRun(s.runs, f) {
			continue
		}
		if _, err := t.compile(ctx, s, "-overlay", overlay); err != nil {
			return broken, "", ctx.Err()
		}
		if found, how, err = t.tests(ctx, s); err != nil || found != unnoticed {
			return found, strings.TrimSpace(s.name + " " + how), err
		}
		isAsked = true
	}
	if isAsked {
		return unnoticed, "", nil
	}
	if _, err := t.compile(ctx, &t.suites[0], "-overlay", overlay); err != nil {
		return broken, "", ctx.Err()
	}
	return unnoticed, "no test runs it", nil
}

// compile makes the binary of a suite.
func (t *tester) compile(ctx context.Context, s *suite, flags ...string) (said []byte, err error) {
	// Without tables for debuggers, the linker needs half the time.
	args := append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", t.binary()}, flags...)
	compile := exec.CommandContext(ctx, "go", append(args, ".")...)
	compile.Dir = s.dir
	return compile.CombinedOutput()
}

func (t *tester) binary() string { return filepath.Join(t.temp, "package.test") }

// tests runs the quick tests, and the slow ones if those notice nothing.
func (t *tester) tests(ctx context.Context, s *suite) (found verdict, how string, err error) {
	if len(s.slow) == 0 {
		return t.test(ctx, s)
	}
	slow := "^(" + strings.Join(s.slow, "|") + ")$"
	if found, how, err = t.test(ctx, s, "-test.skip="+slow); err != nil || found != unnoticed {
		return found, how, err
	}
	return t.test(ctx, s, "-test.run="+slow)
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
func (t *tester) test(ctx context.Context, s *suite, choose ...string) (found verdict, how string, err error) {
	limited, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	args := append(choose, "-test.failfast", "-test.v")
	if t.short {
		args = append(args, "-test.short")
	}
	tests := exec.CommandContext(limited, t.binary(), args...)
	tests.Dir = s.dir
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
