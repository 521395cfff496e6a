package main

import (
	"runtime"
	"runtime/debug"
)

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
	if revision := settings["vcs.revision"]; revision != "" {
		text += ", revision " + revision
		if settings["vcs.modified"] == "true" {
			text += " and changes"
		}
		if at := settings["vcs.time"]; at != "" {
			text += " of " + at
		}
	}
	return text + ", " + info.GoVersion + " " + settings["GOOS"] + "/" + settings["GOARCH"]
}
