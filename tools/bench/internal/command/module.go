package command

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"runtime/debug"
)

// ModuleFolder returns the folder in which the go command finds this module. It
// is the working directory, "", unless the program was built from a version (go
// run module@version): then it is that version in the module cache.
func ModuleFolder(ctx context.Context) (string, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Sum == "" { // only a module that was downloaded has a checksum
		return "", nil
	}
	return cachedFolder(ctx, info.Main.Path+"@"+info.Main.Version)
}

// ModuleVersion returns the version of a module that this program was built with.
func ModuleVersion(path string) string {
	info, _ := debug.ReadBuildInfo()
	return versionIn(info, path)
}

func versionIn(info *debug.BuildInfo, path string) string {
	if info != nil {
		for _, module := range info.Deps {
			switch {
			case module.Path != path:
			case module.Replace != nil:
				return module.Replace.Path + " " + module.Replace.Version
			default:
				return module.Version
			}
		}
	}
	return "of an unknown version" // tests are built without it
}

func cachedFolder(ctx context.Context, module string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", module).Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w", module, err)
	}
	var downloaded struct{ Dir string }
	err = json.Unmarshal(out, &downloaded)
	return downloaded.Dir, err
}
