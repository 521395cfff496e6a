package archtest

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// checkModules holds the root go.mod to the allowed modules: every one of them
// is code that our users run. No module may replace another one: the go command
// refuses to install commands of a module that does, and ignores it elsewhere.
func (c *checker) checkModules(repo fs.FS) error {
	if _, err := fs.Stat(repo, "go.mod"); err != nil {
		return err
	}
	return walk(repo, func(name string) error {
		if path.Base(name) != "go.mod" {
			return nil
		}
		text, err := fs.ReadFile(repo, name)
		if err == nil {
			c.checkModule(name, string(text))
		}
		return err
	})
}

func (c *checker) checkModule(name, text string) {
	block := "" // the verb of the parenthesised block that we are in
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == ")":
			block = ""
		case len(words) == 2 && words[1] == "(":
			block = words[0]
		case block != "":
			c.checkDirective(name, i+1, block, words)
		default:
			c.checkDirective(name, i+1, words[0], words[1:])
		}
	}
}

func (c *checker) checkDirective(name string, line int, verb string, words []string) {
	switch {
	case len(words) == 0:
	case verb == "require" && name == "go.mod" && !slices.Contains(c.rules.allowedModules, words[0]):
		c.found = append(c.found, violation{name, line, "modules",
			"the root module may not require " + words[0] + ": write it, or use it in a nested module (bench, interop, contrib/metrics, cmd/sluice); run `go mod tidy`"})
	case verb == "replace":
		c.found = append(c.found, violation{name, line, "modules",
			"no module may replace " + words[0] + ": it could not be installed by its version; use go.work"})
	}
}
