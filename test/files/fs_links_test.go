//go:build unix

package files_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// linkTree makes a root with everything that is no file of it, and returns the
// root and what may be asked for below it with the status that is right.
func linkTree(t *testing.T) (root string, statuses map[string]int) {
	base := t.TempDir()
	root = base + "/root"
	make := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"/outside", "/outside/sub", "/root/dir", "/root/out-index", "/root/loop-index", "/root/pipe-index", "/root/dir-index/index.html", "/root/sealed"} {
		make(os.MkdirAll(base+dir, 0o755))
	}
	for _, file := range []string{"/outside/file.txt", "/outside/index.html", "/root/file.txt", "/root/dir/file.txt"} {
		make(os.WriteFile(base+file, []byte(strings.Repeat("content of a file\n", 50)), 0o644))
	}
	for link, target := range map[string]string{
		"out-dir":                "../outside",
		"out-file":               "../outside/file.txt",
		"out-abs":                base + "/outside",
		"out-abs-file":           base + "/outside/file.txt",
		"out-slash":              "../outside/",
		"out-abs-slash":          base + "/outside/",
		"out-twice":              "out-dir",
		"out-abs-twice":          "out-abs",
		"out-missing":            "../missing",
		"up":                     "..",
		"broken":                 "missing",
		"loop":                   "loop",
		"loop-a":                 "loop-b",
		"loop-b":                 "loop-a",
		"in-dir":                 "dir",
		"in-file":                "file.txt",
		"null":                   "/dev/null",
		"to-pipe":                "pipe",
		"out-index/index.html":   "../../outside/index.html",
		"loop-index/index.html":  "index.html",
		"pipe-index/index.html":  "../pipe",
		"file.txt.sluice.gz":     "../outside/file.txt",
		"dir/file.txt.sluice.gz": "file.txt.sluice.gz",
	} {
		make(os.Symlink(target, filepath.Join(root, link)))
	}
	make(syscall.Mkfifo(root+"/pipe", 0o644))
	const found, missing, forbidden = sluice.StatusOK, sluice.StatusNotFound, sluice.StatusForbidden
	return root, map[string]int{
		"/out-dir": missing, "/out-file": missing, "/out-abs": missing, "/out-abs-file": missing,
		"/out-twice": missing, "/out-abs-twice": missing, "/out-missing": missing, "/up": missing, "/out-slash": missing, "/out-abs-slash": missing, "/out-slash/file.txt": missing,
		"/out-dir/file.txt": missing, "/out-abs/file.txt": missing, "/out-twice/file.txt": missing,
		"/out-dir/sub": missing, "/out-abs/sub": missing, "/up/outside/file.txt": missing,
		"/broken": missing, "/broken/x": missing, "/loop": missing, "/loop/x": missing, "/loop-a": missing, "/loop-a/x": missing,
		"/null": missing, "/null/x": missing, "/pipe": forbidden, "/pipe/x": missing, "/to-pipe": forbidden, "/to-pipe/x": missing,
		"/file.txt/x": missing, "/in-file/x": missing, "/in-file": found, "/in-dir/file.txt": found, "/file.txt": found, "/dir/file.txt": found,
		"/" + strings.Repeat("n", 300): missing, "/" + strings.Repeat("n", 300) + "/x": missing, "/" + strings.Repeat("n/", 2500) + "x": missing,
		"/%00": sluice.StatusBadRequest, "/file.txt%00": sluice.StatusBadRequest,
		"/out-index/": forbidden, "/loop-index/": forbidden, "/pipe-index/": forbidden, "/dir-index/": forbidden, "/missing": missing,
	}
}

// confinedFS is root as an fs.FS that its links do not lead out of.
func confinedFS(t *testing.T, root string) fs.FS {
	confined, err := os.OpenRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { confined.Close() })
	return confined.FS()
}

// TestFSLinks: what is no file below the root is the client's error, with a slash
// behind its name and without one, and no line in the log.
func TestFSLinks(t *testing.T) {
	root, statuses := linkTree(t)
	for _, variant := range []struct {
		name string
		fs   *sluice.FS
	}{
		{"plain", &sluice.FS{Root: root}},
		{"encoded", &sluice.FS{Root: root, Compress: true, CompressBrotli: true, CompressedFileSuffix: ".sluice.gz"}},
		{"listed", &sluice.FS{Root: root, GenerateIndexPages: true}},
		{"without index", &sluice.FS{Root: root, GenerateIndexPages: true, IndexNames: []string{}}},
		{"os.Root", &sluice.FS{FS: confinedFS(t, root)}},
		{"os.Root, encoded", &sluice.FS{FS: confinedFS(t, root), Compress: true}},
		{"encoded elsewhere", &sluice.FS{Root: root, Compress: true, CompressRoot: t.TempDir()}},
		{"uncached", &sluice.FS{Root: root, SkipCache: true, AcceptByteRange: true}},
	} {
		t.Run(variant.name, func(t *testing.T) {
			f := variant.fs
			if f.IndexNames == nil {
				f.IndexNames = []string{"index.html"}
			}
			f.PathNotFound = func(ctx *sluice.RequestCtx) {
				ctx.SetStatusCode(sluice.StatusNotFound)
				ctx.SetBodyString("not found")
			}
			r := harness.Serve(t, harness.OverTCP(), &sluice.Server{Handler: f.NewRequestHandler(), ReadBufferSize: 16 << 10})
			for target, want := range statuses {
				checkLinkTarget(t, r, target, want)
				if !strings.HasSuffix(target, "/") && want != sluice.StatusOK {
					checkLinkTarget(t, r, target+"/", want)
				}
			}
			if lines := r.Log.String(); lines != "" {
				t.Errorf("log:\n%s", lines)
			}
		})
	}
}

func checkLinkTarget(t *testing.T, r *harness.Rig, target string, want int) {
	t.Helper()
	p := r.Dial()
	p.Send(harness.Request("GET "+target+" HTTP/1.1", "Accept-Encoding: gzip, br", "Connection: close"))
	a := p.Answer("GET")
	name := fmt.Sprintf("%.40s", target)
	if a.StatusCode == sluice.StatusOK && want == sluice.StatusForbidden && strings.HasSuffix(target, "-index/") && strings.Contains(a.Body, "<html") {
		return // listed
	}
	if a.StatusCode != want {
		t.Errorf("%s: status %d, want %d", name, a.StatusCode, want)
	}
	if want == sluice.StatusNotFound && a.Body != "not found" {
		t.Errorf("%s: PathNotFound was not called: %q", name, a.Body)
	}
}
