package files

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// indexHead precedes the title of an index page. There is no script, and all
// styles are here.
const indexHead = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<style>
:root { color-scheme: light dark; --text: #1b1f24; --dim: #57606a; --line: #d8dee4; --link: #0550ae; --back: #fff; --row: #f6f8fa }
@media (prefers-color-scheme: dark) {
:root { --text: #e6edf3; --dim: #9198a1; --line: #30363d; --link: #79b8ff; --back: #0d1117; --row: #161b22 } }
body { margin: 0 auto; padding: 1.5rem 1rem; max-width: 60rem; font: 1rem/1.5 system-ui, sans-serif; color: var(--text); background: var(--back) }
h1 { margin: 0 0 1rem; font-size: 1.25rem; font-weight: 600; overflow-wrap: anywhere }
a { color: var(--link); text-decoration: none }
a:hover, a:focus { text-decoration: underline }
table { width: 100%; border-collapse: collapse }
th, td { padding: .35rem .5rem; text-align: left; border-bottom: 1px solid var(--line) }
th { color: var(--dim); font-size: .875rem; font-weight: 600 }
td:first-child { overflow-wrap: anywhere; width: 100% }
.size { text-align: right }
td + td { color: var(--dim); white-space: nowrap; font-variant-numeric: tabular-nums }
tbody tr:hover { background: var(--row) }
.folder { font-weight: 600 }
p { color: var(--dim); font-size: .875rem }
@media (max-width: 36rem) {
thead { position: absolute; clip-path: inset(50%) }
tr { display: flex; flex-wrap: wrap; gap: 0 1rem; padding: .4rem 0; border-bottom: 1px solid var(--line) }
td { padding: 0 .25rem; border: 0 }
td:first-child { flex: 1 0 100%; padding: .3rem .25rem }
td + td { font-size: .875rem }
td:empty { display: none } }
</style>
<title>Index of `

// appendIndexHead appends the beginning of an HTML page that lists a folder; the rest is
// appendIndexRows. path is the decoded path of the request. The links are relative to it, so
// that they also work after a proxy that adds a prefix; they need the final slash of path.
func appendIndexHead(dst []byte, path string) []byte {
	dst = append(dst, indexHead...)
	dst = appendIndexText(dst, path)
	dst = append(dst, "</title>\n</head>\n<body>\n<h1>Index of "...)
	dst = appendIndexTrail(dst, path)
	dst = append(dst, "</h1>\n<table>\n<thead><tr><th scope=\"col\">Name</th><th scope=\"col\" class=\"size\">Size</th>"...)
	dst = append(dst, "<th scope=\"col\">Changed (UTC)</th></tr></thead>\n<tbody>\n"...)
	if path != "/" {
		dst = append(dst, "<tr><td><a class=\"folder\" href=\"../\" rel=\"up\">../</a></td><td class=\"size\"></td><td></td></tr>\n"...)
	}
	return dst
}

// appendIndexRows appends what a page has for entries, in their order, and its end. more
// says that the folder has further entries.
func appendIndexRows(dst []byte, entries []Entry, more bool) []byte {
	folders, files := 0, 0
	for i := range entries {
		if !isIndexName(entries[i].Name) {
			continue
		}
		if entries[i].IsDir {
			folders++
		} else {
			files++
		}
		dst = appendIndexRow(dst, &entries[i])
	}
	dst = append(dst, "</tbody>\n</table>\n<p>"...)
	dst = appendIndexSummary(dst, folders, files, more)
	return append(dst, "</p>\n</body>\n</html>\n"...)
}

// isIndexName reports whether a link can lead to a name. File systems have no
// other names, but an fs.FS of a user might.
func isIndexName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.Contains(name, "/")
}

// appendIndexTrail appends path with a link for each folder on the way.
func appendIndexTrail(dst []byte, path string) []byte {
	// The last segment is the current folder. The number of steps up is the number
	// of slashes after a segment.
	up := strings.Count(path, "/") - 1
	dst = append(dst, "<bdi>"...)
	for up > 0 {
		end := strings.IndexByte(path, '/') + 1
		dst = append(dst, `<a href="`...)
		for range up {
			dst = append(dst, "../"...)
		}
		dst = append(dst, `">`...)
		dst = appendIndexText(dst, path[:end])
		dst = append(dst, "</a>"...)
		path = path[end:]
		up--
	}
	dst = appendIndexText(dst, path)
	return append(dst, "</bdi>"...)
}

// appendIndexRow appends the row of one entry.
func appendIndexRow(dst []byte, entry *Entry) []byte {
	dst = append(dst, "<tr><td><a "...)
	if entry.IsDir {
		dst = append(dst, `class="folder" `...)
	}
	// "./" because a name with a colon would look like a scheme.
	dst = append(dst, `href="./`...)
	dst = appendIndexTarget(dst, entry.Name)
	if entry.IsDir {
		dst = append(dst, '/')
	}
	// bdi isolates a name that is written from right to left.
	dst = append(dst, `"><bdi>`...)
	dst = appendIndexText(dst, entry.Name)
	if entry.IsDir {
		dst = append(dst, '/')
	}
	dst = append(dst, "</bdi></a></td>"...)
	if entry.IsDir || entry.Size < 0 {
		dst = append(dst, `<td class="size"></td>`...)
	} else {
		dst = append(dst, `<td class="size" title="`...)
		dst = strconv.AppendInt(dst, entry.Size, 10)
		dst = append(dst, ` bytes">`...)
		dst = appendSize(dst, entry.Size)
		dst = append(dst, "</td>"...)
	}
	dst = append(dst, "<td>"...)
	dst = appendIndexTime(dst, entry.Modified)
	return append(dst, "</td></tr>\n"...)
}

// appendIndexTarget appends name as a path segment of a link, for a quoted
// attribute. Of the characters that are not percent-encoded, only "&" has a
// meaning in HTML.
func appendIndexTarget(dst []byte, name string) []byte {
	var space [256]byte
	return ascii.AppendHTMLEscape(dst, ascii.AppendPath(space[:0], ascii.Bytes(name)))
}

// isMisleading reports whether r is a control character. That includes those
// that reverse the direction of the text: "\u202Etxt.exe" would be read as
// exe.txt.
func isMisleading(r rune) bool {
	return r < ' ' || r >= 0x7F && r < 0xA0 || r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069
}

// appendIndexText appends s, escaped, for people to read. Misleading characters
// and bytes that are not UTF-8 become U+FFFD.
func appendIndexText(dst []byte, s string) []byte {
	from := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if isMisleading(r) || r == utf8.RuneError && size <= 1 {
			dst = ascii.AppendHTMLEscape(dst, s[from:i])
			dst = utf8.AppendRune(dst, utf8.RuneError)
			from = i + size
		}
		i += size
	}
	return ascii.AppendHTMLEscape(dst, s[from:])
}

// appendIndexTime appends t in UTC. It appends nothing for the zero time and
// for years that HTML cannot represent.
func appendIndexTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	if t.IsZero() || t.Year() < 1 || t.Year() > 9999 {
		return dst
	}
	dst = append(dst, `<time datetime="`...)
	dst = t.AppendFormat(dst, "2006-01-02T15:04:05Z")
	dst = append(dst, `">`...)
	dst = t.AppendFormat(dst, "2006-01-02 15:04:05")
	return append(dst, "</time>"...)
}

// appendSize appends a number of bytes with two or more digits and a unit that
// is a power of 1024.
func appendSize(dst []byte, size int64) []byte {
	if size < 1024 {
		return append(strconv.AppendInt(dst, size, 10), " B"...)
	}
	value, unit := float64(size)/1024, 0
	for ; value >= 1023.5; unit++ { // would be shown as 1024
		value /= 1024
	}
	precision := 0
	if value < 9.95 { // is shown as less than 10
		precision = 1
	}
	dst = strconv.AppendFloat(dst, value, 'f', precision, 64)
	return append(dst, ' ', "KMGTPE"[unit], 'i', 'B')
}

// appendIndexSummary appends the number of listed entries.
func appendIndexSummary(dst []byte, folders, files int, more bool) []byte {
	switch {
	case more:
		dst = append(dst, "This folder has more entries than the "...)
		dst = strconv.AppendInt(dst, int64(folders+files), 10)
		return append(dst, " that are listed here."...)
	case folders+files == 0:
		return append(dst, "This folder is empty."...)
	}
	if folders > 0 {
		dst = appendCount(dst, folders, "folder")
	}
	if folders > 0 && files > 0 {
		dst = append(dst, ", "...)
	}
	if files > 0 {
		dst = appendCount(dst, files, "file")
	}
	return dst
}

// appendCount appends "1 file" or "2 files".
func appendCount(dst []byte, n int, noun string) []byte {
	dst = strconv.AppendInt(dst, int64(n), 10)
	dst = append(append(dst, ' '), noun...)
	if n != 1 {
		dst = append(dst, 's')
	}
	return dst
}
