package files

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// An indexPage is what a parser finds on a page.
type indexPage struct {
	title, heading, note string
	links                []indexLink // of the heading, then of the table
	cells                [][]string  // what each row says
	titles               []string    // title attributes
	dates                []string    // datetime attributes
	others               []string    // elements and attributes that no page has
}

type indexLink struct{ href, text string }

// indexVocabulary is all elements of a page with their attributes.
func indexVocabulary() map[string]string {
	return map[string]string{
		"html": "lang", "head": "", "meta": "charset name content", "style": "", "title": "", "body": "", "h1": "", "bdi": "",
		"table": "", "thead": "", "tbody": "", "tr": "", "th": "scope class", "td": "class title", "a": "class href rel",
		"time": "datetime", "p": "",
	}
}

// readIndexPage parses a page as a browser would.
func readIndexPage(t *testing.T, page []byte) (p indexPage) {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	known := indexVocabulary()
	for n := range root.Descendants() {
		switch n.Type {
		case html.ElementNode:
			attributes, ok := known[n.Data]
			if !ok {
				p.others = append(p.others, n.Data)
			}
			for _, a := range n.Attr {
				if !strings.Contains(" "+attributes+" ", " "+a.Key+" ") {
					p.others = append(p.others, n.Data+" "+a.Key)
				}
			}
			p.read(n)
		case html.CommentNode:
			p.others = append(p.others, "comment")
		}
	}
	return p
}

func (p *indexPage) read(n *html.Node) {
	switch n.Data {
	case "title":
		p.title = contentOf(n)
	case "h1":
		p.heading = contentOf(n)
	case "p":
		p.note = contentOf(n)
	case "a":
		p.links = append(p.links, indexLink{attributeOf(n, "href"), contentOf(n)})
	case "tr":
		if n.Parent.Data != "tbody" {
			return
		}
		var row []string
		for cell := range n.ChildNodes() {
			row = append(row, contentOf(cell))
		}
		p.cells = append(p.cells, row)
	case "td":
		if title := attributeOf(n, "title"); title != "" {
			p.titles = append(p.titles, title)
		}
	case "time":
		p.dates = append(p.dates, attributeOf(n, "datetime"))
	}
}

func contentOf(n *html.Node) string {
	var out strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			out.WriteString(d.Data)
		}
	}
	return out.String()
}

func attributeOf(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// appendPage appends a whole page.
func appendPage(dst []byte, path string, entries []Entry, more bool) []byte {
	return appendIndexRows(appendIndexHead(dst, path), entries, more)
}

func TestIndexPage(t *testing.T) {
	at := time.Date(2024, 2, 3, 4, 5, 6, 7, time.FixedZone("", 3600))
	page := appendPage([]byte("before"), "/pub/a b/", []Entry{
		{Name: "folder", Modified: at, IsDir: true, Size: 4096},
		{Name: "read me.txt", Size: 1536, Modified: at},
		{Name: "empty", Modified: at},
		{Name: "unknown", Size: -1},
	}, false)
	page, ok := bytes.CutPrefix(page, []byte("before"))
	if !ok {
		t.Fatal("dst is not kept")
	}
	p := readIndexPage(t, page)
	if p.title != "Index of /pub/a b/" || p.heading != "Index of /pub/a b/" || p.note != "1 folder, 3 files" {
		t.Errorf("title %q, heading %q, note %q", p.title, p.heading, p.note)
	}
	want := []indexLink{{"../../", "/"}, {"../", "pub/"}, {"../", "../"}, {"./folder/", "folder/"}, {"./read%20me.txt", "read me.txt"}, {"./empty", "empty"}, {"./unknown", "unknown"}}
	if fmt.Sprint(p.links) != fmt.Sprint(want) {
		t.Errorf("links %q, want %q", p.links, want)
	}
	cells := [][]string{{"../", "", ""}, {"folder/", "", "2024-02-03 03:05:06"}, {"read me.txt", "1.5 KiB", "2024-02-03 03:05:06"}, {"empty", "0 B", "2024-02-03 03:05:06"}, {"unknown", "", ""}}
	if fmt.Sprintf("%q", p.cells) != fmt.Sprintf("%q", cells) {
		t.Errorf("cells %q, want %q", p.cells, cells)
	}
	if fmt.Sprint(p.titles) != "[1536 bytes 0 bytes]" || fmt.Sprint(p.dates) != "[2024-02-03T03:05:06Z 2024-02-03T03:05:06Z 2024-02-03T03:05:06Z]" {
		t.Errorf("titles %q, dates %q", p.titles, p.dates)
	}
	if len(p.others) > 0 {
		t.Errorf("unexpected markup: %q", p.others)
	}
	for _, piece := range []string{"<!DOCTYPE html>\n<html lang=\"en\">", `<meta charset="utf-8">`, `<meta name="viewport" content="width=device-width, initial-scale=1">`,
		"prefers-color-scheme: dark", "</html>\n"} {
		if !bytes.Contains(page, []byte(piece)) {
			t.Errorf("the page has no %q", piece)
		}
	}
}

// TestIndexPagePlaces has what differs by where the folder is and how much is
// in it.
func TestIndexPagePlaces(t *testing.T) {
	entries := func(n int) []Entry {
		list := make([]Entry, n)
		for i := range list {
			list[i].Name = fmt.Sprint("n", i)
		}
		return list
	}
	twelve := "["
	for i := range 12 {
		twelve += fmt.Sprintf("{./n%d n%d} ", i, i)
	}
	twelve = strings.TrimSuffix(twelve, " ") + "]"
	for _, c := range []struct {
		path        string
		entries     []Entry
		more        bool
		links, note string
	}{
		{"/", nil, false, "[]", "This folder is empty."},
		{"/a/", nil, false, "[{../ /} {../ ../}]", "This folder is empty."},
		{"/", entries(1), false, "[{./n0 n0}]", "1 file"},
		{"/", entries(2), true, "[{./n0 n0} {./n1 n1}]", "This folder has more entries than the 2 that are listed here."},
		{"/", entries(12), true, twelve, "This folder has more entries than the 12 that are listed here."},
		{"/", entries(12), false, twelve, "12 files"},
		{"/", []Entry{{Name: "d", IsDir: true}, {Name: "e", IsDir: true}}, false, "[{./d/ d/} {./e/ e/}]", "2 folders"},
		{"/", []Entry{{Name: ".."}, {Name: "."}, {Name: ""}, {Name: "a/b"}, {Name: "..."}}, false, "[{./... ...}]", "1 file"},
		{"/a/b/c/", nil, false, "[{../../../ /} {../../ a/} {../ b/} {../ ../}]", "This folder is empty."},
	} {
		p := readIndexPage(t, appendPage(nil, c.path, c.entries, c.more))
		if fmt.Sprint(p.links) != c.links || p.note != c.note {
			t.Errorf("%s with %d entries: links %v, note %q, want %s, %q", c.path, len(c.entries), p.links, p.note, c.links, c.note)
		}
	}
}

func strangeNames() []string {
	return []string{
		"plain.txt", "a b", "<script>alert(1)</script>", "<script>alert(1)", `a"b`, "a'b", "a&b", "&lt;", "&amp;amp", "a?b", "a#b", "a%b", "%41", "%2e%2e", "%2f", "a:b", "http:", "javascript:alert(1)",
		"a\\b", "\\\\host", "..\\x", "...", "..x", ".hidden", "-", "a;b=c", "a+b", "a=b", "a\nb", "<b>\n<i>", "a\rb\tc", "\x00", "\xff\xfe", "ünï", "日本", "a\u202eb", "</td>", "</style>", "</title>", "<!--", "-->",
		`"><img src=x onerror=alert(1)>`, "a,b", "$", "(x)", "*", "!", "~", "@", "[x]", "{x}", "|", "^", "`", " ", "a ", " a", strings.Repeat("long", 100),
	}
}

// TestIndexPageNames has every link lead to its file, whatever its name, and
// nothing in a name become markup.
func TestIndexPageNames(t *testing.T) {
	for _, name := range strangeNames() {
		checkIndexPage(t, "/"+name+"/", "x", false)
		if !isIndexName(name) {
			continue // a path, no name
		}
		for _, isDir := range []bool{false, true} {
			checkIndexPage(t, "/pub/", name, isDir)
			checkIndexPage(t, "/a/"+name+"/b/", name, isDir)
		}
	}
}

// checkIndexPage checks the page of path with one entry.
func checkIndexPage(t *testing.T, path, name string, isDir bool) {
	t.Helper()
	page := appendPage(nil, path, []Entry{{Name: name, Size: 5, Modified: time.Unix(1, 0), IsDir: isDir}}, false)
	p := readIndexPage(t, page)
	if len(p.others) > 0 {
		t.Errorf("path %q, name %q: unexpected markup %q", path, name, p.others)
	}
	segments := strings.Count(path, "/") // in the heading is one link less, in the table are two
	if len(p.links) != segments+1 {
		t.Fatalf("path %q, name %q: links %q", path, name, p.links)
	}
	base := &url.URL{Scheme: "http", Host: "h", Path: path}
	base, err := url.Parse(base.String()) // as a client knows it
	if err != nil {
		t.Fatal(err)
	}
	want, text := path+name, readable(name)
	if isDir {
		want, text = want+"/", text+"/"
	}
	last := p.links[len(p.links)-1]
	if got := follow(t, base, last.href); got != want || last.text != text {
		t.Errorf("path %q: link %q leads to %q, want %q; text %q", path, last.href, got, want, last.text)
	}
	parent := path[:strings.LastIndexByte(path[:len(path)-1], '/')+1]
	if got := follow(t, base, p.links[len(p.links)-2].href); got != parent {
		t.Errorf("path %q: the parent link leads to %q", path, got)
	}
	if p.title != "Index of "+readable(path) || p.heading != p.title {
		t.Errorf("path %q: title %q, heading %q", path, p.title, p.heading)
	}
	trail := ""
	for _, link := range p.links[:segments-1] {
		trail += link.text
		if got := follow(t, base, link.href); readable(got) != trail {
			t.Errorf("path %q: the link %q of the heading leads to %q, not %q", path, link.href, got, trail)
		}
	}
}

// follow returns the path that a link leads to.
func follow(t *testing.T, base *url.URL, href string) string {
	t.Helper()
	u, err := base.Parse(href)
	if err != nil {
		t.Fatal(err)
	}
	if u.Scheme != "http" || u.Host != "h" || u.RawQuery != "" || u.Fragment != "" {
		t.Errorf("link %q leads to %v", href, u)
	}
	return u.Path
}

// readable is the text that stands for s.
func readable(s string) string {
	return strings.Map(func(r rune) rune {
		if isMisleading(r) {
			return '\uFFFD'
		}
		return r // U+FFFD for each byte that is not UTF-8
	}, s)
}

// TestMisleading: the controls of ASCII and of Latin-1, and what changes the direction
// of text.
func TestMisleading(t *testing.T) {
	for r, want := range map[rune]bool{
		0: true, 0x1F: true, ' ': false, '~': false, 0x7F: true, 0x9F: true, 0xA0: false, 0x2029: false, 0x202A: true, 0x202E: true,
		0x202F: false, 0x2065: false, 0x2066: true, 0x2069: true, 0x206A: false, 'é': false,
	} {
		if got := isMisleading(r); got != want {
			t.Errorf("%U: %v", r, got)
		}
	}
}

func FuzzIndexPage(f *testing.F) {
	for _, name := range strangeNames() {
		f.Add("pub", name, true)
		f.Add(name, "x", false)
	}
	f.Fuzz(func(t *testing.T, folder, name string, isDir bool) {
		if !isIndexName(name) || !isIndexName(folder) {
			t.Skip("no file system has such names")
		}
		checkIndexPage(t, "/"+folder+"/", name, isDir)
	})
}

func TestAppendSize(t *testing.T) {
	for size, want := range map[int64]string{
		0: "0 B", 1: "1 B", 1023: "1023 B", 1024: "1.0 KiB", 1100: "1.1 KiB", 10188: "9.9 KiB", 10189: "10 KiB", 10240: "10 KiB", 1 << 19: "512 KiB",
		1<<20 - 513: "1023 KiB", 1<<20 - 512: "1.0 MiB", 1<<20 - 1: "1.0 MiB", 1 << 20: "1.0 MiB", 5 << 30: "5.0 GiB", 1 << 40: "1.0 TiB", 1 << 50: "1.0 PiB", 1<<63 - 1: "8.0 EiB",
	} {
		if got := string(appendSize(nil, size)); got != want {
			t.Errorf("%d bytes: %q, want %q", size, got, want)
		}
	}
}

func TestAppendIndexSummary(t *testing.T) {
	for want, c := range map[string]struct {
		folders, files int
		more           bool
	}{
		"This folder is empty.": {}, "1 folder": {folders: 1}, "2 folders": {folders: 2}, "1 file": {files: 1}, "2 files": {files: 2},
		"1 folder, 1 file": {folders: 1, files: 1}, "2 folders, 1 file": {folders: 2, files: 1}, "1 folder, 2 files": {folders: 1, files: 2},
		"This folder has more entries than the 3 that are listed here.": {1, 2, true},
	} {
		if got := string(appendIndexSummary(nil, c.folders, c.files, c.more)); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
}

func TestAppendIndexTime(t *testing.T) {
	for at, want := range map[time.Time]string{
		{}: "",
		time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC):                      "",
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC):                   "",
		time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC):                     "",
		time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC):                       `<time datetime="0001-01-02T00:00:00Z">0001-01-02 00:00:00</time>`,
		time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC):                  `<time datetime="9999-12-31T00:00:00Z">9999-12-31 00:00:00</time>`,
		time.Date(2024, 12, 31, 23, 59, 59, 999, time.UTC):             `<time datetime="2024-12-31T23:59:59Z">2024-12-31 23:59:59</time>`,
		time.Date(2024, 1, 1, 0, 0, 0, 0, time.FixedZone("", 14*3600)): `<time datetime="2023-12-31T10:00:00Z">2023-12-31 10:00:00</time>`,
	} {
		if got := string(appendIndexTime(nil, at)); got != want {
			t.Errorf("%v: %q, want %q", at, got, want)
		}
	}
}

func TestIndexTextIsNotTurnedAround(t *testing.T) {
	for _, name := range []string{"\u202Etxt.exe", "a\u2066b\u2069", "\u200Fok"} {
		got := string(appendIndexText(nil, name))
		if hasTurn := strings.ContainsAny(got, "\u202A\u202B\u202C\u202D\u202E\u2066\u2067\u2068\u2069"); hasTurn {
			t.Errorf("%q is shown as %q", name, got)
		}
	}
}
