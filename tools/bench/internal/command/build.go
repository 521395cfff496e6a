package command

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
)

// BuildSluice builds the command sluice of this workspace into a folder, with the profile that it
// has, and returns its file. flags are further ones of go build.
func BuildSluice(ctx context.Context, folder string, flags ...string) (program string, err error) {
	Progress("building the command")
	program = filepath.Join(folder, "sluice")
	arguments := slices.Concat([]string{"build", "-o", program}, flags, []string{"github.com/sluicehttp/sluice/cmd/sluice"})
	out, err := exec.CommandContext(ctx, "go", arguments...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return program, nil
}
