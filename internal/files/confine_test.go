package files

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const secret = "SECRET: nobody may read this"

// hostile makes a root with links out of it to files that contain "secret". Files
// that may be served contain "fine".
func hostile(t testing.TB) (root string) {
	t.Helper()
	base := t.TempDir()
	root = base + "/root"
	write(t, base+"/secret", []byte(secret))
	write(t, base+"/outside/secret", []byte(secret))
	write(t, base+"/outside/deep/secret", []byte(secret))
	write(t, base+"/root-neighbour/secret", []byte(secret))
	write(t, base+"/outside/copy.x.gz", []byte(secret))
	write(t, root+"/file", []byte("fine"))
	write(t, root+"/dir/file", []byte("fine"))
	write(t, root+"/dir/copy", text("fine", 4000))
	write(t, root+"/dir/sub/file", []byte("fine"))
	write(t, root+"/copy", text("fine", 4000))
	for name, target := range map[string]string{
		// Links out of the root.
		"absolute": base + "/secret", "relative": "../secret", "dir/relative": "../../secret",
		"directory": base + "/outside", "directory2": "../outside", "dir/up": "../..", "parent": "..",
		"chain1": "chain2", "chain2": "dir/chain3", "dir/chain3": "../chain4", "chain4": "../secret",
		"longway": "dir/../../root-neighbour/secret", "prefix": root + "-neighbour/secret",
		"bounce": "../root/file", "selfabsolute": root + "/file", "bouncedir": "../root/dir",
		"slash": "/", "proc": "/proc/self/root", "etc": "/etc/passwd", "cwd": "/proc/self/cwd", "fd": "/proc/self/fd",
		"through": "directory/secret", "dir/sub/up3": "../../../secret", "procfd": "/proc/self/fd/0",
		"copy.x.gz": "../outside/copy.x.gz", "copy.x.br": base + "/secret",
		// Links inside the root.
		"inside": "file", "insidedir": "dir", "dir/back": "../file", "dir/sub/back2": "../../dir/file",
		"inchain": "inchain2", "inchain2": "dir/back", "here": ".", "dir/root": "..",
		// Links to nothing.
		"loop": "loop", "loop1": "loop2", "loop2": "loop1", "dangling": "nothing", "long": strings.Repeat("dir/../", 500) + "file",
	} {
		symlink(t, target, root+"/"+name)
	}
	return root
}

// hostileNames are names that lead out of hostile's root, or to nothing.
func hostileNames(root string) []string {
	base := filepath.Dir(root)
	names := []string{
		"absolute", "relative", "dir/relative", "directory/secret", "directory2/secret", "directory/deep/secret",
		"dir/up/secret", "parent/secret", "chain1", "chain2", "chain4", "dir/chain3", "longway", "prefix", "bounce",
		"selfabsolute", "bouncedir/file", "slash/etc/passwd", "proc/etc/passwd", "etc", "cwd/files.go", "fd/0", "procfd",
		"through", "dir/sub/up3", "copy.x.gz", "copy.x.br", "insidedir/relative", "here/absolute", "here/here/parent/secret",
		"dir/root/relative", "insidedir/root/dir/up/secret", "parent/root/file", "dir/up/root/file", "loop", "loop1", "dangling",
		"directory/../../secret", "directory", "parent", "slash", "fd", "loop/file", "parent/outside/secret",
		"CON", "nul", "AUX.txt", "com1", "LPT9", "C:", "C:/", "C:/Windows/win.ini", "c:secret", "file::$DATA", "file:stream",
		"//server/share/secret", "\\\\server\\share\\secret", "\\\\?\\C:\\secret", "\\\\.\\PhysicalDrive0", "file.", "file ",
		base + "/secret", base + "/outside/secret", "/etc/passwd", "/proc/self/environ", "/dev/null", "proc/self/environ",
		"~/secret", "$HOME", "%2e%2e/secret", "%2e%2e%2fsecret", "..%2fsecret", "..%252fsecret", "..%c0%afsecret",
		"\xc0\xae\xc0\xae/secret", "..\xc0\xafsecret", "．．/secret", "..;/secret", "....//secret", "..../secret", ".../secret",
		"..\\secret", "dir\\..\\..\\secret", "..\\..\\secret", "dir/..\\../secret", ".\\..\\secret", "..\x00/secret", "file\x00.html",
		"\x00", "relative\x00", "file/../../secret", "file/.", "file/", "dir/", "dir//file", "./file", "dir/./file", "", ".", "..", "../",
	}
	for _, up := range []string{"..", "../..", "../../..", "./..", ".//..", "../.", "dir/../..", "dir/sub/../../..", "file/../.."} {
		names = append(names, up+"/secret", "/"+up+"/secret", up+"/root/../secret", up+"//secret", "dir/"+up+"/secret",
			"insidedir/"+up+"/secret", "directory/"+up+"/secret", up, up+"/", strings.ReplaceAll(up, "/", "\\")+"\\secret")
	}
	return names
}

func TestNothingOutsideIsRead(t *testing.T) {
	root := hostile(t)
	names := hostileNames(root)
	if len(names) < 150 {
		t.Fatalf("only %d names", len(names))
	}
	copies := filepath.Dir(root) + "/copies"
	if err := os.Mkdir(copies, 0o755); err != nil {
		t.Fatal(err)
	}
	symlink(t, "../outside/copy.x.gz", copies+"/copy.x.gz")
	symlink(t, "../outside", copies+"/dir")
	for _, o := range []Options{
		{Root: root, Suffixes: suffixes()},
		{Root: root, Suffixes: suffixes(), SkipCache: true},
		{Root: root, Suffixes: suffixes(), CompressRoot: copies},
	} {
		s := New(o)
		for _, name := range names {
			for e := range Encodings {
				f, err := s.Open([]byte(name), e)
				if err == nil {
					data, _ := bytesOf(f)
					t.Errorf("Open(%q) gives %d bytes %.40q", name, f.Size(), data)
					f.Release()
				} else if strings.Contains(err.Error(), root) {
					t.Errorf("Open(%q): the error tells the path: %v", name, err)
				}
			}
			if strings.HasSuffix(name, "secret") {
				name = strings.TrimSuffix(strings.TrimSuffix(name, "secret"), "/")
				if entries, _, err := s.ReadDir([]byte(name), 0); err == nil && name != "" {
					t.Errorf("ReadDir(%q) lists %v", name, entries)
				}
			}
		}
		for e := range Encodings {
			for _, name := range []string{"copy", "dir/copy"} {
				if got := serve(t, s, name, e); bytes.Contains(got, []byte(secret)) {
					t.Errorf("the copy of encoding %d is read through a link", e)
				}
			}
		}
	}
	if left, _ := filepath.Glob(filepath.Dir(root) + "/outside/*"); len(left) != 3 {
		t.Errorf("something was written outside: %v", left)
	}
	if got, _ := os.ReadFile(filepath.Dir(root) + "/outside/copy.x.gz"); string(got) != secret {
		t.Error("a file outside was overwritten")
	}
}

func TestLinksInsideWork(t *testing.T) {
	root := hostile(t)
	s := New(Options{Root: root})
	for _, name := range []string{"inside", "insidedir/file", "insidedir/sub/file", "dir/back", "dir/sub/back2", "inchain", "here/file", "here/here/dir/root/file", "dir/root/inside"} {
		wantServed(t, s, name, []byte("fine"))
	}
	for _, name := range []string{"absolute", "relative", "chain1", "directory/secret", "proc", "bounce"} {
		if _, err := s.Open([]byte(name), Identity); !errors.Is(err, ErrOutside) || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("Open(%q) = %v, want ErrOutside", name, err)
		}
	}
	free := New(Options{Root: root, Unconfined: true})
	for _, name := range []string{"absolute", "relative", "chain1", "directory/secret", "dir/up/secret"} {
		wantServed(t, free, name, []byte(secret))
	}
	for _, name := range []string{"../secret", "dir/../../secret", "/etc/passwd"} {
		if _, err := free.Open([]byte(name), Identity); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("unconfined: Open(%q) = %v, want ErrInvalid", name, err)
		}
	}
}

func TestEmptyRoot(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/file", []byte("fine"))
	if filepath.Separator != '/' {
		t.Skip("volumes")
	}
	wantServed(t, New(Options{Unconfined: true}), dir[1:]+"/file", []byte("fine"))
	t.Chdir(dir)
	wantServed(t, New(Options{}), "file", []byte("fine"))
	if _, err := New(Options{}).Open([]byte(dir[1:]+"/file"), Identity); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the working directory is not the root: %v", err)
	}
}

func TestRootIsSwapped(t *testing.T) {
	base := t.TempDir()
	write(t, base+"/v1/file", []byte("one"))
	write(t, base+"/v1/late", []byte("one"))
	write(t, base+"/v2/late", []byte("two"))
	write(t, base+"/v1/large", text("one", 100_000))
	write(t, base+"/v2/file", []byte("two"))
	write(t, base+"/v2/large", text("two", 100_000))
	symlink(t, "v1", base+"/current")
	s := New(Options{Root: base + "/current"})
	c := useManual(s)
	wantServed(t, s, "file", []byte("one"))
	wantServed(t, s, "large", text("one", 100_000))
	symlink(t, "v2", base+"/next")
	if err := os.Rename(base+"/next", base+"/current"); err != nil {
		t.Fatal(err)
	}
	wantServed(t, s, "file", []byte("one"))
	c.advance(9 * time.Second)
	wantServed(t, s, "file", []byte("one"))
	wantServed(t, s, "late", []byte("one")) // it need not be checked yet when the root must be
	held := mustOpen(t, s, "large", Identity)
	c.advance(time.Second)
	wantServed(t, s, "late", []byte("two"))
	wantServed(t, s, "file", []byte("two"))
	wantServed(t, s, "large", text("two", 100_000))
	if got, err := bytesOf(held); err != nil || !bytes.Equal(got, text("one", 100_000)) {
		t.Errorf("a file of the old root: %v", err)
	}
	held.Release()
}

// A file that was loaded from an old root is not cached for a new one.
func TestLoadedFromAnOldRoot(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/file", []byte("one"))
	s := New(Options{Root: dir})
	from, generation, err := s.tree(s.now())
	if err != nil {
		t.Fatal(err)
	}
	defer from.release()
	l, err := s.load(from, "file")
	if err != nil {
		t.Fatal(err)
	}
	s.dropAll()
	if f := s.keep("file", l, s.now(), generation); f != l.file || len(s.entries) != 0 {
		t.Error("it is cached")
	}
}

// A link out of the root that replaces a file after the check is not followed.
func TestLinkInTheLastMoment(t *testing.T) {
	root := hostile(t)
	c, err := openConfined(root)
	if err != nil {
		t.Fatal(err)
	}
	defer c.release()
	late := lateSource{c, func() { replaceByLink(t, root+"/file", "../secret") }}
	if _, _, err := openRegular(late, "file"); c.clean(err) != ErrOutside {
		t.Errorf("error %v", err)
	}
	late = lateSource{c, func() { replaceByLink(t, root+"/dir", "../outside") }}
	if _, _, err := openRegular(late, "dir/copy"); c.clean(err) != ErrOutside {
		t.Errorf("error %v", err)
	}
}

func replaceByLink(t *testing.T, name, target string) {
	if err := os.Rename(name, name+".old"); err != nil {
		t.Fatal(err)
	}
	symlink(t, target, name)
}

// lateSource calls a function between stat and open.
type lateSource struct {
	source
	between func()
}

func (l lateSource) open(name string) (fs.File, error) {
	l.between()
	return l.source.open(name)
}

func TestRootAppearsAndGoes(t *testing.T) {
	dir := t.TempDir() + "/later"
	s := New(Options{Root: dir})
	c := useManual(s)
	if _, err := s.Open([]byte("file"), Identity); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no root: %v", err)
	}
	write(t, dir+"/file", []byte("fine"))
	wantServed(t, s, "file", []byte("fine"))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	c.advance(10 * time.Second)
	if _, err := s.Open([]byte("file"), Identity); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the root is gone: %v", err)
	}
	if len(s.entries) != 0 {
		t.Error("the cache was not dropped")
	}
	write(t, dir, []byte("a file, not a directory"))
	if _, err := s.Open([]byte("file"), Identity); err == nil {
		t.Fatal("a root that is a file")
	}
}

func TestWindowsNames(t *testing.T) {
	for _, name := range []string{
		"C:", "C:/a", "a:b", "a\\b", "..\\a", "con", "CON", "Nul.txt", "a/aux", "com1", "com1.x.y", "LPT9", "COM¹", "conin$",
		"a.", "a ", "a./b", "a /b", "con .txt", "a//b", "/a", "a/", "", "a*", "a?", "a|b", "a<", "a>", "a\"",
	} {
		if isWindowsName(name) {
			t.Errorf("%q is accepted", name)
		}
	}
	for _, name := range []string{".", "a", "a/b.c", "console", "com", "com10", "lpt", "lpta", "nulls", ".htaccess", "a b", "ä/ö", "1", "x1"} {
		if !isWindowsName(name) {
			t.Errorf("%q is refused", name)
		}
	}
	for name, want := range map[string]string{"C:/a/b": "a/b", "c:/a": "a", "C:/": "C:/", "C:a": "C:a", "1:/a": "1:/a", "a": "a"} {
		if got := withoutDrive(name); got != want {
			t.Errorf("withoutDrive(%q) = %q, want %q", name, got, want)
		}
	}
}
