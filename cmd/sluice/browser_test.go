//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// browser is a Chromium without a window.
type browser struct{ program string }

// findBrowser skips the test where there is no Chromium, unless
// SLUICE_REQUIRE_BROWSER is set: then it fails.
func findBrowser(t *testing.T) browser {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if program, err := exec.LookPath(name); err == nil {
			return browser{program}
		}
	}
	if os.Getenv("SLUICE_REQUIRE_BROWSER") != "" {
		t.Fatal("no Chromium in PATH, and SLUICE_REQUIRE_BROWSER is set")
	}
	t.Skip("no Chromium in PATH: apt-get install --no-install-recommends chromium")
	return browser{}
}

// run visits url and returns what the browser prints. The test fails if the page's scripts
// complain on the console.
func (b browser) run(t *testing.T, url string, width, height int, args ...string) []byte {
	t.Helper()
	profile, err := os.MkdirTemp("", "sluice-browser")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(profile)
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.program, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
		"--disable-default-apps", "--hide-scrollbars", "--mute-audio", "--no-proxy-server", "--enable-logging=stderr",
		"--user-data-dir=" + profile, fmt.Sprintf("--window-size=%d,%d", width, height),
	}, append(args, url)...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// It is several processes: all of them end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("%s: %v\n%s", b.program, err, stderr.Bytes())
	}
	for line := range strings.SplitSeq(stderr.String(), "\n") {
		if strings.Contains(line, ":CONSOLE") {
			t.Errorf("%s: %s", url, line)
		}
	}
	return stdout.Bytes()
}

// dom returns the document after its scripts have run.
func (b browser) dom(t *testing.T, url string) string {
	t.Helper()
	return string(b.run(t, url, 1280, 800, "--virtual-time-budget=20000", "--dump-dom"))
}

// screenshot returns what a window shows of url. With SLUICE_SCREENSHOTS set to
// a folder, the picture is kept there under the name.
func (b browser) screenshot(t *testing.T, name, url string, width, height int) image.Image {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+".png")
	b.run(t, url, width, height, "--screenshot="+file)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if folder := os.Getenv("SLUICE_SCREENSHOTS"); folder != "" {
		if err := os.WriteFile(filepath.Join(folder, name+".png"), content, 0o644); err != nil {
			t.Error(err)
		}
	}
	picture, err := png.Decode(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if size := picture.Bounds().Size(); size.X != width || size.Y != height {
		t.Errorf("%s: the picture has %v, want %dx%d", name, size, width, height)
	}
	return picture
}

// checkInk fails if a picture is blank, or nearly: text has many shades, and
// covers more than a few pixels and less than half of them.
func checkInk(t *testing.T, name string, picture image.Image) {
	t.Helper()
	size := picture.Bounds().Size()
	shades := map[color.Color]int{}
	for y := range size.Y {
		for x := range size.X {
			shades[picture.At(x, y)]++
		}
	}
	most := 0
	for _, n := range shades {
		most = max(most, n)
	}
	share := 1 - float64(most)/float64(size.X*size.Y)
	if len(shades) < 20 || share < .01 || share > .5 {
		t.Errorf("%s: %d shades, %.2f%% ink", name, len(shades), 100*share)
	}
}

// odd are names that are hard for a page of links, with contents.
var odd = map[string]string{
	"with space.txt":                    "space",
	"ünïcode 日本語 🚰.txt":                 "unicode",
	"<b>bold<b>&amp;.txt":               "markup",
	"<script>alert(1)<":                 "script",
	`quote"s'.txt`:                      "quotes",
	"100%.txt":                          "percent",
	"a%41.txt":                          "encoded",
	"question?.txt":                     "question",
	"hash#.txt":                         "hash",
	"http:colon;semi.txt":               "colon",
	"back\\slash.txt":                   "backslash",
	"plus+and~tilde.txt":                "plus",
	"Upper.txt":                         "upper",
	"\u202etxt.exe":                     "override",
	strings.Repeat("long", 55) + ".txt": "long",
	"large.bin":                         strings.Repeat("x", 3<<20),
	"empty":                             "",
	"folder A/inside.txt":               "in a folder",
	"Zfolder/inside.txt":                "in another folder",
	"<i>dir&/inside.txt":                "in a folder of markup",
	"50%25/inside.txt":                  "in a folder of percents",
	"empty folder/.hidden":              "hidden",
}

// oddTree makes a folder "odd" with the odd names and 200 plain ones, and a page
// measure.html that shows the list in a frame of the width ?400, and puts what
// it sees of it into an element.
func oddTree(t *testing.T) string {
	files := map[string]string{"measure.html": measurePage}
	for name, content := range odd {
		files["odd/"+name] = content
	}
	for i := range 200 {
		files[fmt.Sprintf("odd/file-%03d.txt", i)] = fmt.Sprintf("file %d", i)
	}
	return tree(t, files)
}

const measurePage = `<!DOCTYPE html><meta charset="utf-8"><title>measure</title>
<body><pre id="seen"></pre><iframe id="frame" height="800"></iframe>
<script>
const frame = document.getElementById("frame"), seen = {}
frame.width = location.search.slice(1)
frame.style.border = "0"
const steps = [
	doc => {
		const root = doc.scrollingElement
		seen.width = root.clientWidth
		seen.scrollWidth = root.scrollWidth
		seen.title = doc.title
		seen.markup = doc.querySelectorAll("script, b, i, iframe, img").length
		seen.rows = [...doc.querySelectorAll("tbody tr")].map(row => {
			const link = row.querySelector("a"), cells = [...row.cells]
			return {
				name: link.textContent, href: link.href, size: row.cells[1].innerText, date: row.cells[2].innerText,
				overflows: cells.some(c => c.scrollWidth > c.clientWidth + 1),
				overlaps: cells.some((c, i) => cells.some((d, j) => {
					const a = c.getBoundingClientRect(), b = d.getBoundingClientRect()
					return i < j && a.width * b.width > 0 && a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1
				})),
			}
		});
		[...doc.querySelectorAll("tbody a")].find(a => a.textContent.startsWith("folder A")).click()
	},
	doc => {
		seen.inFolder = doc.body.innerText
		doc.querySelector('a[rel="up"]').click()
	},
	doc => {
		seen.back = doc.location.pathname
		document.getElementById("seen").textContent = encodeURIComponent(JSON.stringify(seen))
	},
]
frame.onload = () => steps.shift()?.(frame.contentDocument)
frame.src = "/odd/"
</script>`

// seenList is what measurePage finds in a list.
type seenList struct {
	Width, ScrollWidth int
	Title              string
	Markup             int // elements that can only come from names
	Rows               []seenRow
	InFolder, Back     string
}

// seenRow is a line of a list.
type seenRow struct {
	Name, Href, Size, Date string
	Overflows, Overlaps    bool
}

// look returns what the browser sees of the list in a frame of a width.
func (b browser) look(t *testing.T, p *process, width int) seenList {
	t.Helper()
	dom := b.dom(t, fmt.Sprintf("%s/measure.html?%d", p.url, width))
	_, dom, _ = strings.Cut(dom, `<pre id="seen">`)
	dom, _, _ = strings.Cut(dom, "</pre>")
	var seen seenList
	text, err := url.QueryUnescape(dom)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(text), &seen); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return seen
}

// TestListInBrowser: the list of a folder as people see and use it.
func TestListInBrowser(t *testing.T) {
	b := findBrowser(t)
	p := start(t, oddTree(t))
	for _, width := range []int{390, 1280} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			seen := b.look(t, p, width)
			if seen.Width != width || seen.ScrollWidth > width {
				t.Errorf("the page is %d wide in a window of %d, want %d", seen.ScrollWidth, seen.Width, width)
			}
			if seen.Markup > 0 || seen.Title != "Index of /odd/" {
				t.Errorf("names make %d elements; the title is %q", seen.Markup, seen.Title)
			}
			if !strings.Contains(seen.InFolder, "inside.txt") || seen.Back != "/odd/" {
				t.Errorf("the folder shows %q, and its way up leads to %s", seen.InFolder, seen.Back)
			}
			checkRows(t, seen.Rows)
			if width == 1280 {
				checkLinks(t, seen.Rows)
			}
		})
		name := fmt.Sprintf("list-%d", width)
		checkInk(t, name, b.screenshot(t, name, p.url+"/odd/", width, 900))
	}
	checkInk(t, "list-root", b.screenshot(t, "list-root", p.url+"/", 800, 300))
}

var (
	sizePattern = regexp.MustCompile(`^\d+(\.\d)? ([KMG]i)?B$`)
	datePattern = regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?$`)
)

// checkRows checks order and columns: the way up, folders, files.
func checkRows(t *testing.T, rows []seenRow) {
	t.Helper()
	if len(rows) == 0 || rows[0].Name != "../" {
		t.Fatal("the way up does not come first")
	}
	folders := 0
	for i, row := range rows {
		if row.Overflows || row.Overlaps {
			t.Errorf("%s: overflows %v, overlaps %v", row.Name, row.Overflows, row.Overlaps)
		}
		if i == 0 {
			continue
		}
		isFolder := strings.HasSuffix(row.Name, "/")
		if isFolder {
			folders++
		}
		if before := rows[i-1]; i > 1 && isFolder == strings.HasSuffix(before.Name, "/") && strings.ToLower(before.Name) > strings.ToLower(row.Name) {
			t.Errorf("%q comes before %q", before.Name, row.Name)
		}
		if isFolder && folders != i {
			t.Errorf("the folder %s comes behind a file", row.Name)
		}
		if !isFolder && !sizePattern.MatchString(row.Size) || isFolder && row.Size != "" {
			t.Errorf("%s: size %q", row.Name, row.Size)
		}
		if !datePattern.MatchString(row.Date) {
			t.Errorf("%s: date %q", row.Name, row.Date)
		}
	}
	if folders != 5 || len(rows) != 1+len(odd)+200 {
		t.Errorf("%d folders in %d rows", folders, len(rows))
	}
}

// checkLinks follows each link as the browser understands it.
func checkLinks(t *testing.T, rows []seenRow) {
	t.Helper()
	c := client()
	for _, row := range rows[1:] {
		resp, err := c.Get(row.Href)
		status, body := answer(t, resp, err)
		if status != http.StatusOK {
			t.Errorf("%s leads to %s: %d", row.Name, row.Href, status)
		}
		// What turns the text around is shown as what it is not.
		name := strings.ReplaceAll(row.Name, "\ufffd", "\u202e")
		want, isOdd := odd[name]
		var i int
		if !isOdd {
			if _, err := fmt.Sscanf(row.Name, "file-%03d.txt", &i); err == nil {
				want = fmt.Sprintf("file %d", i)
			} else {
				want = body // of a folder
			}
		}
		if body != want {
			t.Errorf("%s leads to %s, which has other content", row.Name, row.Href)
		}
		if strings.HasSuffix(row.Name, "/") && row.Name != "empty folder/" && !strings.Contains(body, "inside.txt") {
			t.Errorf("%s leads to a list of something else", row.Name)
		}
		if _, isFile := odd[name]; !isFile && !strings.HasPrefix(row.Name, "file-") && !strings.HasSuffix(row.Name, "/") {
			t.Errorf("%q is the name of nothing", row.Name)
		}
	}
}

// TestApplicationInBrowser: a page of a single-page application that is opened
// by its address.
func TestApplicationInBrowser(t *testing.T) {
	b := findBrowser(t)
	p := start(t, tree(t, map[string]string{
		"index.html":    `<!DOCTYPE html><meta charset="utf-8"><title>App</title><main id="view">nothing</main><script type="module" src="/assets/app.js"></script>`,
		"assets/app.js": appScript,
		"assets/a.json": `{"name":"data"}`,
	}), "--spa", "--max-age", "1h")
	for _, path := range []string{"/", "/users/17", "/users/john.doe?tab=2"} {
		dom := b.dom(t, p.url+path)
		want := fmt.Sprintf("at %s with data, missing 404, then at /next", path)
		if !strings.Contains(dom, want) {
			t.Errorf("%s shows %s, want %q", path, dom, want)
		}
	}
	b.screenshot(t, "application", p.url+"/users/17", 800, 300)
}

const appScript = `
const place = () => location.pathname + location.search
const before = place()
const data = await (await fetch("/assets/a.json")).json()
const missing = await fetch("/assets/missing.js")
history.pushState(null, "", "/next")
document.getElementById("view").textContent =
	"at " + before + " with " + data.name + ", missing " + missing.status + ", then at " + place()
`
