package main

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionOf(t *testing.T) {
	platform := []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "amd64"}}
	revision := append([]debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}}, platform...)
	for want, info := range map[string]*debug.BuildInfo{
		"v1.2.3, go1.26.8 linux/amd64":  {GoVersion: "go1.26.8", Main: debug.Module{Version: "v1.2.3"}, Settings: platform},
		"(devel), go1.26.8 linux/amd64": {GoVersion: "go1.26.8", Settings: platform},
		"v1.2.3, revision abc of 2026-01-02T03:04:05Z, go1.26.8 linux/amd64": {
			GoVersion: "go1.26.8", Main: debug.Module{Version: "v1.2.3"}, Settings: revision},
		"(devel), revision abc and changes of 2026-01-02T03:04:05Z, go1.26.8 linux/amd64": {
			GoVersion: "go1.26.8", Main: debug.Module{Version: "(devel)"}, Settings: append(revision, debug.BuildSetting{Key: "vcs.modified", Value: "true"})},
	} {
		if got := versionOf(info); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestVersionFlag(t *testing.T) {
	out, err := limited(t, binary, "--version").CombinedOutput()
	if text := string(out); err != nil || !strings.HasPrefix(text, "sluice version ") || strings.Count(text, "\n") != 1 || !strings.Contains(text, runtime.Version()) {
		t.Errorf("%v: %s", err, out)
	}
}
