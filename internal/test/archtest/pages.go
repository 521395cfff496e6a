package archtest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// checkPages wants the files and folders that pages name between backquotes to be there.
// A name counts that begins with a folder of the repository, or, in a page beside go.mod,
// is a Go file's. Records that are superseded say what was.
func (c *checker) checkPages(repo fs.FS) error {
	for _, pattern := range c.rules.pages {
		pages, err := fs.Glob(repo, pattern)
		if err != nil || len(pages) == 0 {
			return fmt.Errorf("%s: %w", pattern, cmp.Or(err, fs.ErrNotExist))
		}
		for _, page := range pages {
			text, err := fs.ReadFile(repo, page)
			if err != nil {
				return err
			}
			if !bytes.Contains(text, []byte("\nStatus: superseded")) {
				c.checkPage(repo, page, string(text))
			}
		}
	}
	return nil
}

func (c *checker) checkPage(repo fs.FS, page, text string) {
	name := regexp.MustCompile("`([a-z][a-z0-9_./-]*)`")
	for i, line := range strings.Split(text, "\n") {
		for _, match := range name.FindAllStringSubmatch(line, -1) {
			place := strings.TrimSuffix(match[1], "/")
			top, _, isPath := strings.Cut(place, "/")
			if isPath {
				_, err := fs.Stat(repo, top)
				isPath = err == nil
			}
			if !isPath && (strings.Contains(page, "/") || !strings.HasSuffix(place, ".go")) {
				continue
			}
			if _, err := fs.Stat(repo, place); errors.Is(err, fs.ErrNotExist) {
				c.found = append(c.found, violation{page, i + 1, "pages", fmt.Sprintf("there is no %s: name the place where it is now", place)})
			}
		}
	}
}
