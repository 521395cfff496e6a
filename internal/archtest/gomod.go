package archtest

import (
	"io/fs"
	"slices"
	"strings"
)

// checkModule holds the root go.mod to the allowed modules: every one of them
// is code that our users run.
func (c *checker) checkModule(repo fs.FS) error {
	text, err := fs.ReadFile(repo, "go.mod")
	if err != nil {
		return err
	}
	block := "" // the verb of the parenthesised block that we are in
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == ")":
			block = ""
		case len(words) == 2 && words[1] == "(":
			block = words[0]
		case block != "":
			c.checkDirective(i+1, block, words)
		default:
			c.checkDirective(i+1, words[0], words[1:])
		}
	}
	return nil
}

func (c *checker) checkDirective(line int, verb string, words []string) {
	switch {
	case len(words) == 0:
	case verb == "require" && !slices.Contains(c.rules.allowedModules, words[0]):
		c.found = append(c.found, violation{"go.mod", line, "modules",
			"the root module may not require " + words[0] + ": write it, or use it in a nested module (bench, interop, contrib/metrics, cmd/sluice); run `go mod tidy`"})
	case verb == "replace":
		c.found = append(c.found, violation{"go.mod", line, "modules",
			"the root module may not replace " + words[0] + ": users of the module would not get the replacement; use go.work"})
	}
}
