package report

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// Commit returns what this program was built from: a commit, a version, or "unknown".
func Commit() string {
	info, _ := debug.ReadBuildInfo()
	return commit(info, ".")
}

// ownModule is the module that this program's is within.
const ownModule = "github.com/sluicehttp/sluice"

// unknownCommit stands for a commit that nobody knows.
const unknownCommit = "unknown"

// commit returns what this program was built from. A build without such information
// is of the commit of the folder that it runs in, if that is one of this project.
func commit(info *debug.BuildInfo, folder string) string {
	if info != nil {
		if text := builtFrom(info); text != "" {
			return text
		}
	}
	top, err := gitIn(folder, "rev-parse", "--show-toplevel")
	if err != nil || !isOwn(top) {
		return unknownCommit
	}
	text, err := gitIn(folder, "describe", "--always", "--dirty")
	if err != nil {
		return unknownCommit
	}
	return text
}

// builtFrom returns the commit that the build information names, or else the
// version; "": neither.
func builtFrom(info *debug.BuildInfo) string {
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if revision := settings["vcs.revision"]; revision != "" {
		revision = revision[:min(len(revision), 12)]
		if settings["vcs.modified"] == "true" {
			revision += "-dirty"
		}
		return revision
	}
	if version := info.Main.Version; version != "(devel)" {
		return version
	}
	return ""
}

// isOwn reports whether a folder is the top of this project.
func isOwn(folder string) bool {
	text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return false
	}
	for line := range bytes.Lines(text) {
		if fields := strings.Fields(string(line)); len(fields) >= 2 && fields[0] == "module" {
			return fields[1] == ownModule
		}
	}
	return false
}

func gitIn(folder string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = folder
	text, err := cmd.Output()
	return strings.TrimSpace(string(text)), err
}
