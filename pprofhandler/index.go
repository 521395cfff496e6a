package pprofhandler

import (
	"cmp"
	"fmt"
	"html"
	"net/url"
	"runtime/pprof"
	"slices"
	"strings"

	"github.com/sluicehttp/sluice"
)

// indexEntry is a line of the index.
type indexEntry struct {
	name, link, about string
	count             int // < 0 if there is nothing to count
}

// about says what a profile shows; "" for those that the program made.
func about(name string) string {
	switch name {
	case "allocs":
		return "all memory that was ever allocated, sampled"
	case "block":
		return "where goroutines waited for locks and channels"
	case "goroutine":
		return "the stacks of all goroutines; debug=2 as after a panic"
	case "heap":
		return "the memory in use, sampled; gc=1 collects garbage before"
	case "mutex":
		return "who held the locks that others waited for"
	case "threadcreate":
		return "where threads of the operating system were made"
	}
	return ""
}

func indexEntries() []indexEntry {
	entries := []indexEntry{
		{"cmdline", "cmdline", "the command line", -1},
		{"profile", "profile", "the use of the processor for seconds=30; for go tool pprof", -1},
		{"symbol", "symbol", "names of functions by address", -1},
		{"trace", "trace?seconds=1", "an execution trace; for go tool trace", -1},
	}
	for _, p := range pprof.Profiles() {
		entries = append(entries, indexEntry{p.Name(), url.PathEscape(p.Name()) + "?debug=1", about(p.Name()), p.Count()})
	}
	slices.SortFunc(entries, func(a, b indexEntry) int { return cmp.Compare(a.name, b.name) })
	return entries
}

// writeIndex answers with a page that links to the profiles. Its links begin with base, and
// are relative, so that they also hold for what prefork.ProfileHandler passes on.
func writeIndex(ctx *sluice.RequestCtx, base string) {
	var page strings.Builder
	page.WriteString("<!DOCTYPE html>\n<html>\n<head><title>/debug/pprof/</title></head>\n<body>\n<h1>/debug/pprof/</h1>\n" +
		"<p>Types of profiles available:</p>\n<table>\n<tr><th>Count</th><th>Profile</th><th></th></tr>\n")
	for _, e := range indexEntries() {
		count := ""
		if e.count >= 0 {
			count = fmt.Sprint(e.count)
		}
		fmt.Fprintf(&page, "<tr><td>%s</td><td><a href=\"%s\">%s</a></td><td>%s</td></tr>\n",
			count, html.EscapeString(base+e.link), html.EscapeString(e.name), e.about)
	}
	fmt.Fprintf(&page, "</table>\n<p><a href=\"%sgoroutine?debug=2\">full stacks of all goroutines</a></p>\n</body>\n</html>\n", base)
	answerText(ctx, page.String())
	ctx.SetContentType("text/html; charset=utf-8")
}
