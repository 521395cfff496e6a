package switching

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	theirModule = "github.com/valyala/fasthttp"
	ourModule   = "github.com/sluicehttp/sluice"

	patience = 60 * time.Second
)

// switchImports returns the source with the imports of fasthttp's packages
// replaced by ours, and nothing else.
func switchImports(source []byte) ([]byte, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", source, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var out []byte
	from := 0
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		rest, ok := strings.CutPrefix(path, theirModule)
		if !ok || rest != "" && rest[0] != '/' {
			continue
		}
		begin, end := files.Position(spec.Path.Pos()).Offset, files.Position(spec.Path.End()).Offset
		out = append(out, source[from:begin]...)
		if rest == "" && spec.Name == nil {
			out = append(out, "fasthttp "...) // the code goes on calling it so
		}
		out = strconv.AppendQuote(out, ourModule+rest)
		from = end
	}
	return append(out, source[from:]...), nil
}

func TestSwitchImports(t *testing.T) {
	source := "package p\n\nimport (\n\t\"fmt\"\n\n\t\"github.com/valyala/fasthttp\" // the library\n\tfh \"github.com/valyala/fasthttp\"\n" +
		"\t\"github.com/valyala/fasthttp/expvarhandler\"\n\t\"github.com/valyala/fasthttprouter\"\n)\n\nvar x = \"github.com/valyala/fasthttp\"\n"
	want := "package p\n\nimport (\n\t\"fmt\"\n\n\tfasthttp \"github.com/sluicehttp/sluice\" // the library\n\tfh \"github.com/sluicehttp/sluice\"\n" +
		"\t\"github.com/sluicehttp/sluice/expvarhandler\"\n\t\"github.com/valyala/fasthttprouter\"\n)\n\nvar x = \"github.com/valyala/fasthttp\"\n"
	if got, err := switchImports([]byte(source)); err != nil || string(got) != want {
		t.Errorf("%v, got\n%s", err, got)
	}
}

// build builds a program of testdata twice: for fasthttp, and with its imports
// switched.
func build(t *testing.T, name string) (theirs, ours string) {
	t.Helper()
	dir := t.TempDir()
	source, err := filepath.Abs(filepath.Join("testdata", name, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = switchImports(text); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte(theirModule)) {
		t.Fatal("the program still names fasthttp's module")
	}
	switched, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {source: switched}})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{switched: text, overlay: replace} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	theirs, ours = filepath.Join(dir, "theirs"), filepath.Join(dir, "ours")
	for _, args := range [][]string{{"-o", theirs}, {"-o", ours, "-overlay", overlay}} {
		args = append(append([]string{"build"}, args...), "./testdata/"+name)
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			t.Fatalf("go %q: %v\n%s", args, err, out)
		}
	}
	return theirs, ours
}

// run runs a program until the test ends, and returns its address.
func run(t *testing.T, program string, args ...string) (addr string) {
	t.Helper()
	cmd := exec.Command(program, append([]string{"-addr", "127.0.0.1:0"}, args...)...)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // this process, by its id
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s logged:\n%s", filepath.Base(program), log.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if _, scanErr := fmt.Sscanf(line, "listening on %s", &addr); err != nil || scanErr != nil {
		t.Fatalf("%s printed %q, %v, %v", program, line, err, scanErr)
	}
	return addr
}

// both builds a program and runs the two.
func both(t *testing.T, name string, args ...string) (theirs, ours string) {
	t.Helper()
	their, our := build(t, name)
	return run(t, their, args...), run(t, our, args...)
}
