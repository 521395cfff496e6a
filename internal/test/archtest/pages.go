package archtest

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// checkPages wants the files and folders that a page names between backquotes to be there.
// A name counts that is a Go file's, or that begins with a folder of the repository.
func (c *checker) checkPages(repo fs.FS) error {
	name := regexp.MustCompile("`([a-z][a-z0-9_./-]*)`")
	for _, page := range c.rules.pages {
		text, err := fs.ReadFile(repo, page)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, match := range name.FindAllStringSubmatch(line, -1) {
				place := strings.TrimSuffix(match[1], "/")
				top, _, isPath := strings.Cut(place, "/")
				if isPath {
					_, err := fs.Stat(repo, top)
					isPath = err == nil
				}
				if !isPath && !strings.HasSuffix(place, ".go") {
					continue
				}
				if _, err := fs.Stat(repo, place); errors.Is(err, fs.ErrNotExist) {
					c.found = append(c.found, violation{page, i + 1, "pages", fmt.Sprintf("there is no %s: name the place where it is now", place)})
				}
			}
		}
	}
	return nil
}
