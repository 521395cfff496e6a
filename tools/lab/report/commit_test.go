package report

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"
)

// TestCommit: the commit is that of the program, not that of whatever folder it
// runs in.
func TestCommit(t *testing.T) {
	own, foreign, none := repository(t, ownModule), repository(t, "example.com/other"), t.TempDir()
	ofOwn, err := gitIn(own, "describe", "--always")
	if err != nil {
		t.Fatal(err)
	}
	info := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123"}
	for _, c := range []struct {
		name, folder, want string
		info               *debug.BuildInfo
	}{
		{"revision", own, "0123456789ab", info("v1.2.3", revision)},
		{"clean", foreign, "0123456789ab", info("", revision, debug.BuildSetting{Key: "vcs.modified", Value: "false"})},
		{"modified", none, "0123456789ab-dirty", info("(devel)", revision, debug.BuildSetting{Key: "vcs.modified", Value: "true"})},
		{"version", own, "v1.2.3", info("v1.2.3")},
		{"folder", own, ofOwn, info("(devel)")},
		{"folder below", filepath.Join(own, "below"), ofOwn, info("")},
		{"no information", own, ofOwn, nil},
		{"foreign folder", foreign, unknownCommit, info("(devel)")},
		{"no repository", none, unknownCommit, info("(devel)")},
	} {
		if got := commit(c.info, c.folder); got != c.want {
			t.Errorf("%s: %q, not %q", c.name, got, c.want)
		}
	}
	if err := os.WriteFile(filepath.Join(own, "go.mod"), []byte("module "+ownModule+" // changed\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := commit(nil, own); got != ofOwn+"-dirty" {
		t.Errorf("of a changed folder: %q", got)
	}
}

// repository returns a folder with a commit of a module.
func repository(t *testing.T, module string) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "go.mod"), []byte("module "+module+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "go.mod"}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "x"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("git: %v, %s", err, out)
		}
	}
	return folder
}
