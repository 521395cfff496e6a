package files

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func TestIsWorth(t *testing.T) {
	for _, c := range []struct {
		encoded, original int64
		want              bool
	}{
		{95, 100, true}, {96, 100, false}, {19, 20, true}, {20, 20, false}, {18, 19, true}, {19, 19, false}, {1, 1, false}, {0, 0, false}, {0, 1, true},
		{95 << 30, 100 << 30, true}, {95<<30 + 1, 100 << 30, false},
	} {
		if isWorth(c.encoded, c.original) != c.want {
			t.Errorf("isWorth(%d, %d) = %v", c.encoded, c.original, !c.want)
		}
	}
}

// A troubledFolder fails, or calls a function before another.
type troubledFolder struct {
	folder
	fails  string // the method that fails
	before func() // open
}

var errTrouble = errors.New("trouble")

func (f troubledFolder) lstat(name string) (fs.FileInfo, error) {
	if f.fails == "lstat" {
		return nil, errTrouble
	}
	return f.folder.lstat(name)
}

func (f troubledFolder) open(name string) (fs.File, error) {
	if f.before != nil {
		f.before()
	}
	if f.fails == "open" {
		return nil, errTrouble
	}
	return f.folder.open(name)
}

func (f troubledFolder) create(name string) (*os.File, error) {
	switch f.fails {
	case "create":
		return nil, errTrouble
	case "write":
		closed, err := f.folder.create(name)
		if err == nil {
			closed.Close()
		}
		return closed, err
	}
	return f.folder.create(name)
}

func (f troubledFolder) setTime(name string, modified time.Time) error {
	if f.fails == "setTime" {
		return errTrouble
	}
	return f.folder.setTime(name, modified)
}

func (f troubledFolder) rename(from, to string) error {
	if f.fails == "rename" {
		return errTrouble
	}
	return f.folder.rename(from, to)
}

func (f troubledFolder) makeAll(name string) error {
	if f.fails == "makeAll" {
		return errTrouble
	}
	return f.folder.makeAll(name)
}

// A copy that cannot be completed is removed.
func TestCopyThatCannotBeWritten(t *testing.T) {
	for _, fails := range []string{"", "lstat", "create", "write", "setTime", "rename", "makeAll"} {
		dir := t.TempDir()
		write(t, dir+"/file.txt", text("a", 5000))
		s := New(Options{Root: dir, CompressRoot: dir + "/copies", Suffixes: suffixes()})
		original := mustOpen(t, s, "file.txt", Identity)
		at := troubledFolder{folder: plain{dir}, fails: fails}
		err := s.writeCopy(at, "copy", original, []byte("encoded"))
		original.Release()
		wantErr := map[string]error{"": nil, "write": os.ErrClosed}
		if want, isOther := wantErr[fails]; isOther && !errors.Is(err, want) || !isOther && err != errTrouble {
			t.Errorf("%s fails: %v", fails, err)
		}
		if _, err := os.Stat(dir + "/copy"); (err == nil) != (fails == "") {
			t.Errorf("%s fails: the copy: %v", fails, err)
		}
		noTemporaries(t, dir)
	}
}

// If the original changes while it is encoded, no copy is written.
func TestOriginalThatChangesMeanwhile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/file.txt", text("one", 100_000))
	s := New(Options{Root: dir, Suffixes: suffixes()})
	original := mustOpen(t, s, "file.txt", Identity)
	defer original.Release()
	if data, ok := original.readAll(); !ok || !bytes.Equal(data, text("one", 100_000)) {
		t.Error("the original cannot be read")
	}
	writeAt(t, dir+"/file.txt", text("two", 100_000), longAgo().Add(time.Second))
	if _, ok := original.readAll(); ok {
		t.Error("the content of another version")
	}
	if err := s.writeCopy(plain{dir}, "file.txt.x.gz", original, []byte("encoded")); err != errOldCopy {
		t.Errorf("writeCopy: %v", err)
	}
	if _, err := os.Stat(dir + "/file.txt.x.gz"); err == nil {
		t.Error("there is a copy")
	}
	noTemporaries(t, dir)
}

// A file that cannot be read is served unencoded, and encoding it is tried again.
func TestOriginalThatCannotBeReadIsNotEncoded(t *testing.T) {
	data := text("a", 5000)
	o := of(oddFile{size: 5000, data: data}, oddFile{size: 5000, data: data},
		oddFile{size: 5000, data: data[:1000], readErr: errOdd}, oddFile{size: 5000, data: data})
	s := New(Options{FS: o, SmallFile: -1, Suffixes: suffixes(), IsEncodable: func(string) bool { return true }})
	f := mustOpen(t, s, "file", Gzip)
	if f.encoding != Identity {
		t.Error("it is encoded")
	}
	f.Release()
	wantEncoded(t, s, "file", Gzip, data).Release()
}

// writeAll writes data and permissions, or returns an error.
func TestWriteAllTellsEveryError(t *testing.T) {
	name := t.TempDir() + "/file"
	write(t, name, nil)
	readOnly, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	if writeAll(readOnly, []byte("x"), 0o600) == nil {
		t.Error("a file that cannot be written")
	}
	if err := readOnly.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("it is not closed: %v", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if writeAll(w, []byte("x"), 0o600) == nil {
		t.Error("a file that cannot be synced")
	}
}

// A copy that changes between the check of its name and its opening is not used.
func TestCopyThatChangesInTheLastMoment(t *testing.T) {
	const size = 5000
	for what, change := range map[string]func(name string) error{
		"nothing": func(string) error { return nil },
		"emptied": func(name string) error { return os.Truncate(name, 0) },
		"another time": func(name string) error {
			return os.Chtimes(name, longAgo(), longAgo().Add(time.Second))
		},
		"another file": func(name string) error {
			return errors.Join(os.Rename(name, name+".old"), os.WriteFile(name, []byte("fake"), 0o600), os.Chtimes(name, longAgo(), longAgo()))
		},
		"grown": func(name string) error {
			return errors.Join(os.WriteFile(name, text("x", size), 0o600), os.Chtimes(name, longAgo(), longAgo()))
		},
		"a folder": func(name string) error { return errors.Join(os.Remove(name), os.Mkdir(name, 0o700)) },
		"gone":     os.Remove,
	} {
		dir := t.TempDir()
		write(t, dir+"/file.txt", text("a", size))
		write(t, dir+"/file.txt.x.gz", text("c", 1000))
		for _, small := range []int64{-1, 2000} {
			s := New(Options{Root: dir, Suffixes: suffixes(), SmallFile: small})
			original := mustOpen(t, s, "file.txt", Identity)
			at := troubledFolder{folder: plain{dir}, before: func() {
				if err := change(dir + "/file.txt.x.gz"); err != nil {
					t.Error(err)
				}
			}}
			f, err := s.openCopy(at, "file.txt", original, Gzip)
			if (err == nil) != (what == "nothing") {
				t.Errorf("%s: %v", what, err)
			}
			if err == nil {
				f.Release()
			}
			original.Release()
			if what != "nothing" {
				break // the copy was replaced
			}
		}
		if n := openDescriptors(t, dir+"/file.txt.x.gz"); n != 0 {
			t.Errorf("%s: %d descriptors are left", what, n)
		}
	}
}

// The cache replaces a copy that has changed.
func TestChangedCopyIsReplacedInTheCache(t *testing.T) {
	dir := t.TempDir()
	random := incompressible(t, 100_000)
	data := append(random[:100_000:100_000], text("easy", 200_000)...)
	write(t, dir+"/file.txt", data)
	s := New(Options{Root: dir, Suffixes: suffixes(), CacheDuration: time.Hour})
	stale := wantEncoded(t, s, "file.txt", Gzip, data)
	defer stale.Release()
	if err := os.Remove(dir + "/file.txt.x.gz"); err != nil {
		t.Fatal(err)
	}
	// The first request gets the original only, because the entry was dropped.
	for range 2 {
		wantEncoded(t, s, "file.txt", Gzip, data).Release()
	}
	first := mustOpen(t, s, "file.txt", Gzip)
	again := mustOpen(t, s, "file.txt", Gzip)
	if first == stale || again != first {
		t.Error("the copy is made again each time")
	}
	first.Release()
	again.Release()
	checkCounts(t, s)
}

// A changed copy is also noticed when its original is checked again.
func TestChangedCopyWhenItIsTimeToLook(t *testing.T) {
	dir := t.TempDir()
	random := incompressible(t, 100_000)
	data := append(random[:100_000:100_000], text("easy", 200_000)...)
	write(t, dir+"/file.txt", data)
	s := New(Options{Root: dir, Suffixes: suffixes()})
	c := useManual(s)
	stale := wantEncoded(t, s, "file.txt", Gzip, data)
	if err := os.Remove(dir + "/file.txt.x.gz"); err != nil {
		t.Fatal(err)
	}
	c.advance(10 * time.Second)
	wantEncoded(t, s, "file.txt", Gzip, data).Release()
	if stale.Release(); stale.refs.Load() != 0 {
		t.Errorf("the old copy has %d references", stale.refs.Load())
	}
	wantEncoded(t, s, "file.txt", Gzip, data).Release()
	first := mustOpen(t, s, "file.txt", Gzip)
	again := mustOpen(t, s, "file.txt", Gzip)
	if again != first {
		t.Error("the new copy is not cached")
	}
	first.Release()
	again.Release()
	checkCounts(t, s)
}

// A copy that changes while it is read is not used.
func TestCopyThatChangesWhileItIsRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/file.txt", text("a", 5000))
	write(t, dir+"/file.txt.x.gz", text("c", 1000))
	s := New(Options{Root: dir, Suffixes: suffixes()})
	original := mustOpen(t, s, "file.txt", Identity)
	at := rewritten{plain{dir}, dir + "/file.txt.x.gz"}
	if f, err := s.openCopy(at, "file.txt", original, Gzip); err != errOldCopy {
		t.Errorf("%v, %v", f, err)
	}
}

// rewritten is a folder whose files are rewritten after their first Stat.
type rewritten struct {
	folder
	name string
}

type rewrittenFile struct {
	*os.File
	name string
}

func (r rewritten) open(name string) (fs.File, error) {
	f, err := r.folder.open(name)
	return rewrittenFile{f.(*os.File), r.name}, err
}

func (r rewrittenFile) Stat() (fs.FileInfo, error) {
	info, err := r.File.Stat()
	return info, errors.Join(err, os.WriteFile(r.name, []byte("another version"), 0o600))
}

func TestNoCopyOfAFileWithoutATime(t *testing.T) {
	dir := t.TempDir()
	if err := New(Options{Root: dir}).writeCopy(plain{dir}, "copy", &File{}, []byte("x")); err != errOldCopy {
		t.Errorf("got %v", err)
	}
}

// A copy has its original's time in the resolution of its file system.
func TestIsSameTime(t *testing.T) {
	at := longAgo() // with 123456789 ns
	for _, c := range []struct {
		original, copied time.Time
		want             bool
	}{
		{at, at, true},
		{at, at.Truncate(time.Second), true},
		{at, at.Truncate(time.Millisecond), true},
		{at, at.Truncate(time.Microsecond), true},
		{at, at.Truncate(100), true},
		{at, at.Truncate(10), false},
		{at, at.Truncate(time.Millisecond).Add(time.Millisecond), false},
		{at, at.Truncate(time.Second).Add(time.Second), false},
		{at, at.Add(time.Second), false},
		{at, at.Truncate(100).Add(100), false},
		{at, at.Truncate(time.Microsecond).Add(-time.Microsecond), false},
		{at, time.Time{}, false},
		{time.Time{}, at, false},
		{time.Time{}, time.Time{}, false},
	} {
		if isSameTime(c.original, c.copied) != c.want {
			t.Errorf("%v and %v: %v", c.original, c.copied, !c.want)
		}
	}
}

// Each folder is searched for old temporary files once.
func TestFoldersAreSweptOnce(t *testing.T) {
	dir := t.TempDir()
	s := New(Options{Root: dir, Suffixes: suffixes()})
	old := dir + "/" + temporaryPrefix + "OLD" + temporarySuffix
	for i, isLeft := range []bool{false, true} {
		write(t, old, nil)
		s.removeOldTemporaries(plain{dir}, ".")
		if _, err := os.Stat(old); (err == nil) != isLeft {
			t.Errorf("time %d: %v", i, err)
		}
	}
	for i := range 2*maxSwept + 10 {
		s.removeOldTemporaries(plain{dir}, fmt.Sprint(i))
		if len(s.swept) > maxSwept {
			t.Fatalf("%d folders are kept in mind", len(s.swept))
		}
	}
	if len(s.swept) < 2 || maxSwept != 1024 {
		t.Errorf("%d folders of %d are kept in mind", len(s.swept), maxSwept)
	}
}

// Temporary files younger than an hour, non-files and other names stay.
func TestWhichTemporariesGo(t *testing.T) {
	dir := t.TempDir()
	goes := temporaryPrefix + "A" + temporarySuffix
	write(t, dir+"/"+goes, nil)
	writeAt(t, dir+"/"+temporaryPrefix+"B"+temporarySuffix, nil, time.Now().Add(-59*time.Minute))
	write(t, dir+"/"+temporaryPrefix+"C", nil)
	write(t, dir+"/D"+temporarySuffix, nil)
	if err := os.Mkdir(dir+"/"+temporaryPrefix+"E"+temporarySuffix, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(dir+"/"+temporaryPrefix+"E"+temporarySuffix, longAgo(), longAgo()); err != nil {
		t.Fatal(err)
	}
	New(Options{Root: dir}).removeOldTemporaries(plain{dir}, ".")
	left, _ := filepath.Glob(dir + "/*")
	if all := strings.Join(left, " "); strings.Contains(all, goes) || len(left) != 4 {
		t.Errorf("left: %s", all)
	}
}

// With NoCopies nothing is written.
func TestNoCopies(t *testing.T) {
	dir := t.TempDir()
	data := text("a", 5000)
	write(t, dir+"/root/file.txt", data)
	for what, o := range map[string]Options{
		"beside":           {Root: dir + "/root", NoCopies: true},
		"CompressRoot":     {Root: dir + "/root", NoCopies: true, CompressRoot: dir + "/copies"},
		"fs.FS":            {FS: os.DirFS(dir + "/root"), CompressRoot: dir + "/copies"},
		"fs.FS, no copies": {FS: os.DirFS(dir + "/root"), CompressRoot: dir + "/copies", NoCopies: true},
	} {
		o.Suffixes = suffixes()
		wantEncoded(t, New(o), "file.txt", Gzip, data).Release()
		all, _ := filepath.Glob(dir + "/*")
		below, _ := filepath.Glob(dir + "/*/*")
		if len(all) != 1 || len(below) != 1 {
			t.Errorf("%s: there are %v %v", what, all, below)
		}
	}
}

// If the result cannot be cached, nothing is encoded.
func TestWhatIsNotEncodedInVain(t *testing.T) {
	data := text("a", 5000)
	files := fstest.MapFS{"file.txt": {Data: data}} // without a time and, if large, without an entity tag
	stop := make(chan struct{})
	close(stop)
	for what, c := range map[string]struct {
		o    Options
		want Encoding
	}{
		"cached":                    {Options{SmallFile: -1}, Gzip},
		"not cached, no tag":        {Options{SmallFile: -1, SkipCache: true}, Identity},
		"not cached, with a tag":    {Options{SkipCache: true}, Gzip},
		"not cached, for one use":   {Options{SmallFile: -1, SkipCache: true, IsOneUse: true}, Gzip},
		"stopped":                   {Options{CleanStop: stop}, Identity},
		"as small as can be":        {Options{MinEncode: 5000}, Gzip},
		"too small":                 {Options{MinEncode: 5001}, Identity},
		"as large as can be":        {Options{MaxEncode: 5000}, Gzip},
		"too large":                 {Options{MaxEncode: 4999}, Identity},
		"less than half the memory": {Options{MemoryLimit: 2 * encodedSize(t, files)}, Gzip},
		"half the memory":           {Options{MemoryLimit: 2*encodedSize(t, files) - 1}, Identity},
	} {
		c.o.FS, c.o.Suffixes = files, suffixes()
		s := New(c.o)
		f := mustOpen(t, s, "file.txt", Gzip)
		if f.encoding != c.want {
			t.Errorf("%s: encoding %d", what, f.encoding)
		}
		if c.o.IsOneUse && (len(s.entries) > 0 || s.timer != nil) {
			t.Errorf("%s: something is kept", what)
		}
		f.Release()
	}
}

func encodedSize(t *testing.T, files fs.FS) int64 {
	f := mustOpen(t, New(Options{FS: files, Suffixes: suffixes()}), "file.txt", Gzip)
	defer f.Release()
	return f.Size()
}

// Without a cache, what is remembered applies to one version only.
func TestSkipCacheForgetsOldVersions(t *testing.T) {
	for _, o := range []Options{{SkipCache: true}, {SkipCache: true, NoCopies: true}} {
		dir := t.TempDir()
		o.Root, o.Suffixes = dir, suffixes()
		s := New(o)
		write(t, dir+"/file.txt", incompressible(t, 5000))
		f := mustOpen(t, s, "file.txt", Gzip)
		if f.encoding != Identity {
			t.Error("it is encoded")
		}
		f.Release()
		for i := range 3 {
			data := text(fmt.Sprint("version", i), 5000)
			writeAt(t, dir+"/file.txt", data, longAgo().Add(time.Duration(i+1)*time.Second))
			for range 2 {
				wantEncoded(t, s, "file.txt", Gzip, data).Release()
			}
			if len(s.entries) > 1 {
				t.Errorf("%d entries", len(s.entries))
			}
		}
		checkCounts(t, s)
	}
}
