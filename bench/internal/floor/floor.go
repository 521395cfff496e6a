// Package floor builds a server in C that does not parse: what a request costs
// without HTTP, and so the least that any server with epoll can reach.
package floor

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

//go:embed source/floor.c
var source []byte

// ErrNoCompiler says that the machine has no C compiler.
var ErrNoCompiler = errors.New("no C compiler (Debian: package gcc)")

// Build compiles the program into a folder and returns its name.
func Build(ctx context.Context, folder string) (string, error) {
	compiler := ""
	for _, name := range []string{"cc", "gcc", "clang"} {
		if found, err := exec.LookPath(name); err == nil {
			compiler = found
			break
		}
	}
	if compiler == "" {
		return "", ErrNoCompiler
	}
	file, program := filepath.Join(folder, "floor.c"), filepath.Join(folder, "floor")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, compiler, "-O2", "-Wall", "-Wextra", "-o", program, file).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", compiler, err, out)
	}
	return program, nil
}

// Options say how the program serves.
type Options struct {
	Addr      string // 127.0.0.1 and a port
	Processes int
	Close     bool   // connections, after a response
	Response  string // the file that has the response, with its head
}

// Arguments returns the program's arguments.
func Arguments(o Options) ([]string, error) {
	_, port, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return nil, err
	}
	closes := "0"
	if o.Close {
		closes = "1"
	}
	return []string{port, strconv.Itoa(o.Processes), closes, o.Response}, nil
}
