package tutorial

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds all commands of the page together: they compile four programs.
const patience = 5 * time.Minute

var isLong = flag.Bool("tutorial.long", false, "also run the commands that compile everything anew")

// A block is a fenced block of the page: ```LANGUAGE FILE FUNCTION; the last two are
// optional.
type block struct {
	language, file, function, text string
}

// blocks returns the blocks of a page.
func blocks(page string) (all []block) {
	for _, match := range regexp.MustCompile("(?ms)^```([a-z]+)(?: (\\S+))?(?: (\\S+))?\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		all = append(all, block{match[1], match[2], match[3], match[4]})
	}
	return all
}

// A step is a command of the page with its output.
type step struct{ command, output string }

// TestTutorial does what the page says, in an empty folder: it writes the files, runs all
// commands in one shell, and compares what they print. The only command that it does not run
// is git's: the module uses this repository.
func TestTutorial(t *testing.T) {
	if testing.Short() || runtime.GOARCH == "386" {
		t.Skip("compiles programs, which run workers")
	}
	for _, program := range []string{"bash", "curl", "go"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/guide/tutorial.md"))
	if err != nil {
		t.Fatal(err)
	}
	own := strings.NewReplacer("../sluice", root, ":8080", freePort(t), ":9090", freePort(t), ":8000", freePort(t))
	_, noProxy := exec.LookPath("haproxy")

	dir := t.TempDir()
	script := &bytes.Buffer{}
	script.WriteString("git() { :; }\nexport GOWORK=off GOFLAGS=-mod=mod\n")
	files := map[string]string{}
	var steps []step
	for _, b := range blocks(own.Replace(string(page))) {
		switch {
		case b.language == "console" && b.file == "haproxy" && noProxy != nil:
			t.Log("without HAProxy")
		case b.language == "console" && b.file == "long" && !*isLong:
			t.Log("without -tutorial.long")
		case b.language == "console":
			for _, s := range stepsOf(b.text) {
				fmt.Fprintf(script, "printf '\\n@%d\\n'\n%s", len(steps), commandOf(s.command, own))
				steps = append(steps, s)
			}
		default:
			if b.function != "" {
				b.text = replaceFunction(t, files[b.file], b)
			}
			if source, err := format.Source([]byte(b.text)); b.language == "go" && (err != nil || b.function == "" && string(source) != b.text) {
				t.Errorf("%s is not formatted: %v", b.file, err)
			}
			files[b.file] = b.text
			fmt.Fprintf(script, "cat > %s <<'END OF FILE'\n%sEND OF FILE\n", b.file, b.text)
		}
	}
	if len(steps) < 40 || len(files) < 6 {
		t.Fatalf("the page has %d commands and %d files", len(steps), len(files))
	}
	output, log := runScript(t, dir, script.String())
	log = regexp.MustCompile("(?m)^.* INFO request .*\n").ReplaceAllString(log, "")
	for i, s := range steps {
		_, got, _ := strings.Cut(output, fmt.Sprintf("\n@%d\n", i))
		got, _, isComplete := strings.Cut(got, fmt.Sprintf("\n@%d\n", i+1))
		got = strings.TrimRight(strings.ReplaceAll(got, "\r", ""), "\n")
		if want := strings.TrimRight(s.output, "\n"); !isComplete && i < len(steps)-1 || !patternOf(want).MatchString(got+"\n") {
			t.Fatalf("$ %s\n%s\nwant\n%s\nlog:\n%s", s.command, got, want, log)
		}
	}
	checkUnit(t, files["notes.service"])
}

// freePort returns a port of the loopback that nothing listens on, with a colon.
func freePort(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return ":" + port
}

// stepsOf returns the commands of a block.
func stepsOf(text string) (all []step) {
	for line := range strings.Lines(text) {
		if command, isCommand := strings.CutPrefix(line, "$ "); isCommand {
			all = append(all, step{command: strings.TrimSpace(command)})
		} else {
			all[len(all)-1].output += line
		}
	}
	return all
}

// commandOf returns the lines of the script for a command. People wait for a moment after one
// that runs in the background, or was ended. The script waits until it serves, or has ended.
func commandOf(command string, own *strings.Replacer) string {
	wait := ""
	switch _, after, _ := strings.Cut(command, "> "); {
	case command == "./notes &":
		wait = own.Replace("until (exec 3<>/dev/tcp/127.0.0.1/$(echo :8080 | tr -d :)) 2> none; do sleep 0.02; done")
	case strings.HasPrefix(command, "haproxy "):
		wait = own.Replace("until (exec 3<>/dev/tcp/127.0.0.1/$(echo :8000 | tr -d :)) 2> none; do sleep 0.02; done")
	case strings.HasPrefix(command, "curl -sN"):
		wait = "until [[ -s " + strings.TrimSuffix(after, " &") + " ]]; do sleep 0.02; done"
	case strings.HasPrefix(command, "kill "):
		wait = "wait"
	}
	return command + "\n" + wait + "\n"
}

// runScript runs a script in a folder, and returns what it has printed.
func runScript(t *testing.T, dir, script string) (output, log string) {
	var out, problems bytes.Buffer
	c := exec.Command("bash", "-s")
	c.Dir, c.Stdin, c.Stdout, c.Stderr = dir, strings.NewReader(script), &out, &problems
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.WaitDelay = time.Second
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(patience, func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
	defer late.Stop()
	err := c.Wait()
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // what the page has forgotten, or did not reach
	if err != nil {
		t.Logf("the shell: %v", err) // the steps say what is wrong
	}
	return out.String(), problems.String()
}

// patternOf returns the pattern of an output, in which … stands for anything in a line, and
// alone for any lines.
func patternOf(output string) *regexp.Regexp {
	pattern := "^"
	for line := range strings.SplitSeq(output, "\n") {
		if line == "…" {
			pattern += "(?:.*\n)*"
		} else {
			pattern += strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + "\n"
		}
	}
	return regexp.MustCompile(pattern + "$")
}

// replaceFunction returns a file in which a block takes the place of the function that it names.
// It adds the import of package sse.
func replaceFunction(t *testing.T, file string, b block) string {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, b.file, file, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range tree.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == b.function {
			start, end := set.Position(f.Pos()).Offset, set.Position(f.End()).Offset
			file = file[:start] + strings.TrimSuffix(b.text, "\n") + file[end:]
			return strings.Replace(file, "import (\n", "import (\n\t\"github.com/sluicehttp/sluice/sse\"\n", 1)
		}
	}
	t.Fatalf("%s has no function %s", b.file, b.function)
	return ""
}

// checkUnit has systemd look at the unit, where it is installed.
func checkUnit(t *testing.T, unit string) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Log(err)
		return
	}
	path := filepath.Join(t.TempDir(), "notes.service")
	unit = strings.ReplaceAll(unit, "/usr/local/bin/notes", "/bin/true")
	if err := os.WriteFile(path, []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-analyze", "verify", path).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
