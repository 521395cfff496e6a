package prefork

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// asPrinted is the example from fasthttp's README with other imports.
const asPrinted = `package main

import (
    fasthttp "github.com/sluicehttp/sluice"
    "github.com/sluicehttp/sluice/prefork"
)

func main() {
server := &fasthttp.Server{
    // Your configuration
}

// Wraps the server with prefork
preforkServer := prefork.New(server)

if err := preforkServer.ListenAndServe(":8080"); err != nil {
    panic(err)
}
}
`

// The example compiles unchanged. It serves once it has a handler and a free address.
func TestReadmeExample(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil || testing.Short() {
		t.Skip("needs the go tool")
	}
	dir, addr := t.TempDir(), freeAddr(t)
	runnable := strings.NewReplacer(
		"// Your configuration", `Handler: func(ctx *fasthttp.RequestCtx) { ctx.WriteString("hello") },`,
		":8080", addr,
	).Replace(asPrinted)
	for name, source := range map[string]string{"printed.go": asPrinted, "runnable.go": runnable} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(dir, "example")
	for _, args := range [][]string{{"vet", filepath.Join(dir, "printed.go")}, {"build", "-o", binary, filepath.Join(dir, "runnable.go")}} {
		if out, err := exec.Command(goTool, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	c := exec.Command(binary)
	var log strings.Builder
	c.Stderr = &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Process.Kill()
	until(t, "it answers", func() bool {
		body, err := get("tcp", addr, "/")
		return err == nil && body == "hello"
	})
	c.Process.Signal(syscall.SIGTERM)
	if err := c.Wait(); err != nil {
		t.Errorf("%v\n%s", err, log.String())
	}
}
