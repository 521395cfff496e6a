package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ErrNoCompiler says that the machine has no C compiler.
var ErrNoCompiler = errors.New("no C compiler (Debian: package gcc)")

// Compile compiles a program in C into a folder, and returns its file.
func Compile(ctx context.Context, folder, name string, source []byte) (string, error) {
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
	program := filepath.Join(folder, name)
	file := program + ".c"
	if err := os.WriteFile(file, source, 0o600); err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, compiler, "-O2", "-Wall", "-Wextra", "-o", program, file).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", compiler, err, out)
	}
	return program, nil
}
