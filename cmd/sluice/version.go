package main

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

// revision is the commit of a release, which the linker sets (.ci/release): the go command
// knows none of a module.
var revision string

// version tells what was built, from what, and by which Go.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "of unknown origin, " + runtime.Version()
	}
	return versionOf(info)
}

// versionOf is version of a program.
func versionOf(info *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	text := info.Main.Version
	if text == "" {
		text = "(devel)"
	}
	if commit := cmp.Or(settings["vcs.revision"], revision); commit != "" {
		text += ", revision " + commit
		if settings["vcs.modified"] == "true" {
			text += " and changes"
		}
		if at := settings["vcs.time"]; at != "" {
			text += " of " + at
		}
	}
	return text + ", " + info.GoVersion + " " + settings["GOOS"] + "/" + settings["GOARCH"]
}
