package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// An oddFS has one file with several versions. Each opening returns the next one, at
// the end always the last. The first version is for the first stat.
type oddFS struct {
	versions []oddFile
	opened   int
	closed   int
}

// An oddFile is what one Open returns.
type oddFile struct {
	size    int64 // as Stat reports it
	mode    fs.FileMode
	data    []byte
	pauses  int // empty reads before each byte; negative: for ever
	count   int // added to the count that Read returns
	openErr error
	statErr error
	readErr error // instead of io.EOF
	early   bool  // io.EOF comes with the last byte

	left *oddFS
	done int
	wait int
}

// of returns an oddFS of versions. data is the content of the first.
func of(versions ...oddFile) *oddFS { return &oddFS{versions: versions} }

func (o *oddFS) Open(string) (fs.File, error) {
	v := o.versions[min(o.opened, len(o.versions)-1)]
	o.opened++
	if v.openErr != nil {
		return nil, v.openErr
	}
	v.left, v.wait = o, v.pauses
	return &v, nil
}

func (f *oddFile) Stat() (fs.FileInfo, error) {
	if f.statErr != nil {
		return nil, f.statErr
	}
	return oddInfo{f}, nil
}

func (f *oddFile) Close() error {
	f.left.closed++
	return nil
}

func (f *oddFile) Read(p []byte) (int, error) {
	if f.done == len(f.data) {
		if f.readErr != nil {
			return 0, f.readErr
		}
		return 0, io.EOF
	}
	if f.pauses != 0 {
		if f.wait != 0 {
			f.wait--
			return 0, nil
		}
		f.wait, p = f.pauses, p[:1]
	}
	n := copy(p, f.data[f.done:])
	f.done += n
	if f.early && f.done == len(f.data) {
		return n, io.EOF
	}
	return n + f.count, nil
}

type oddInfo struct{ f *oddFile }

func (i oddInfo) Name() string       { return "file" }
func (i oddInfo) Size() int64        { return i.f.size }
func (i oddInfo) Mode() fs.FileMode  { return i.f.mode }
func (i oddInfo) ModTime() time.Time { return longAgo() }
func (i oddInfo) IsDir() bool        { return i.f.mode.IsDir() }
func (i oddInfo) Sys() any           { return nil }

// oddly returns a Store's File of an oddFS, with small files up to 1000 bytes, and
// its content.
func oddly(o *oddFS) (*File, []byte, error) {
	f, err := New(Options{FS: o, SmallFile: 1000, MaxEncode: 5000}).Open([]byte("file"), Identity)
	if err != nil {
		return nil, nil, err
	}
	data, err := bytesOf(f)
	return f, data, err
}

var errOdd = &fs.PathError{Op: "read", Path: "/secret/place", Err: errors.New("odd")}

// Files that are not as they say are served as far as that is possible, end with
// an error, and never with a panic or a wait.
//
// long: a table of files
func TestOddFiles(t *testing.T) {
	small, large := text("small", 300), text("large", 2000)
	directory := oddFile{mode: fs.ModeDir}
	for name, c := range map[string]struct {
		fs       *oddFS
		want     []byte
		wantErr  error
		inMemory bool
	}{
		"small":                       {fs: of(oddFile{size: 300, data: small}), want: small, inMemory: true},
		"large":                       {fs: of(oddFile{size: 2000, data: large}), want: large},
		"small with an early end":     {fs: of(oddFile{size: 300, data: small, early: true}), want: small, inMemory: true},
		"large with an early end":     {fs: of(oddFile{size: 2000, data: large, early: true}), want: large},
		"small with pauses":           {fs: of(oddFile{size: 300, data: small, pauses: 99}), want: small, inMemory: true},
		"large with pauses":           {fs: of(oddFile{size: 2000, data: large, pauses: 99}), want: large},
		"small with long pauses":      {fs: of(oddFile{size: 300, data: small, pauses: 100}), wantErr: io.ErrNoProgress},
		"large with long pauses":      {fs: of(oddFile{size: 2000, data: large, pauses: 100}), wantErr: io.ErrNoProgress},
		"small that brings nothing":   {fs: of(oddFile{size: 300, data: small, pauses: -1}), wantErr: io.ErrNoProgress},
		"large that brings nothing":   {fs: of(oddFile{size: 2000, data: large, pauses: -1}), wantErr: io.ErrNoProgress},
		"small that counts too much":  {fs: of(oddFile{size: 300, data: small, count: 10_000}), wantErr: io.ErrUnexpectedEOF},
		"large that counts too much":  {fs: of(oddFile{size: 2000, data: large, count: 10_000}), wantErr: io.ErrUnexpectedEOF},
		"small that counts below 0":   {fs: of(oddFile{size: 300, data: small, count: -10_000}), wantErr: io.ErrUnexpectedEOF},
		"large that counts below 0":   {fs: of(oddFile{size: 2000, data: large, count: -10_000}), wantErr: io.ErrUnexpectedEOF},
		"small that cannot be read":   {fs: of(oddFile{size: 300, data: small, readErr: errOdd}), wantErr: errOdd.Err},
		"large that cannot be read":   {fs: of(oddFile{size: 2000, data: large[:1500], readErr: errOdd}), wantErr: errOdd.Err},
		"large that is short":         {fs: of(oddFile{size: 2000, data: large[:1500]}), wantErr: io.ErrUnexpectedEOF},
		"large that is short by one":  {fs: of(oddFile{size: 2000, data: large[:1999]}), wantErr: io.ErrUnexpectedEOF},
		"small that is longer":        {fs: of(oddFile{size: 200, data: small}), want: small, inMemory: true},
		"small that is shorter":       {fs: of(oddFile{size: 400, data: small}), want: small, inMemory: true},
		"unknown length":              {fs: of(oddFile{size: -1, data: large}), want: large, inMemory: true},
		"unknown length, all of it":   {fs: of(oddFile{size: -1, data: text("x", 5000)}), want: text("x", 5000), inMemory: true},
		"unknown length, too much":    {fs: of(oddFile{size: -1, data: text("x", 5001)}), wantErr: ErrNotRegular},
		"the limit":                   {fs: of(oddFile{size: 1000, data: large[:1000]}), want: large[:1000], inMemory: true},
		"above the limit":             {fs: of(oddFile{size: 1001, data: large[:1001]}), want: large[:1001]},
		"grows":                       {fs: of(oddFile{size: 300}, oddFile{size: 300, data: large}, oddFile{size: 2000, data: large}), want: large},
		"grows, cannot be opened":     {fs: of(oddFile{size: 300}, oddFile{size: 300, data: large}, oddFile{openErr: errOdd}), wantErr: errOdd.Err},
		"grows, no stat":              {fs: of(oddFile{size: 300}, oddFile{size: 300, data: large}, oddFile{statErr: errOdd}), wantErr: errOdd.Err},
		"grows to a directory":        {fs: of(oddFile{size: 300}, oddFile{size: 300, data: large}, directory), wantErr: ErrIsDirectory},
		"changes":                     {fs: of(oddFile{size: 300}, oddFile{size: 200, data: small}, oddFile{size: 300, data: small}), want: small, inMemory: true},
		"changes, cannot be opened":   {fs: of(oddFile{size: 300}, oddFile{size: 200, data: small}, oddFile{openErr: errOdd}, oddFile{size: 300, data: small}), wantErr: errOdd.Err},
		"changes, no stat":            {fs: of(oddFile{size: 300}, oddFile{size: 200, data: small}, oddFile{statErr: errOdd}, oddFile{size: 300, data: small}), wantErr: errOdd.Err},
		"changes to a directory":      {fs: of(oddFile{size: 300}, oddFile{size: 200, data: small}, directory, oddFile{size: 300, data: small}), wantErr: ErrIsDirectory},
		"cannot be opened":            {fs: of(oddFile{size: 300}, oddFile{openErr: errOdd}), wantErr: errOdd.Err},
		"no stat when open":           {fs: of(oddFile{size: 300}, oddFile{statErr: errOdd}), wantErr: errOdd.Err},
		"a directory when open":       {fs: of(oddFile{size: 300}, directory), wantErr: ErrIsDirectory},
		"another size for its reader": {fs: of(oddFile{size: 2000, data: large}, oddFile{size: 2000, data: large}, oddFile{size: 2001}), wantErr: ErrChanged},
		"a directory for its reader":  {fs: of(oddFile{size: 2000, data: large}, oddFile{size: 2000, data: large}, directory), wantErr: ErrChanged},
		"no stat for its reader":      {fs: of(oddFile{size: 2000, data: large}, oddFile{size: 2000, data: large}, oddFile{statErr: errOdd}), wantErr: errOdd.Err},
		"no open for its reader":      {fs: of(oddFile{size: 2000, data: large}, oddFile{size: 2000, data: large}, oddFile{openErr: errOdd}), wantErr: errOdd.Err},
	} {
		t.Run(name, func(t *testing.T) {
			f, got, err := oddly(c.fs)
			if !errors.Is(err, c.wantErr) || c.wantErr == nil && err != nil || !bytes.Equal(got, c.want) && err == nil {
				t.Fatalf("%d bytes, %v; want %d, %v", len(got), err, len(c.want), c.wantErr)
			}
			if err != nil && strings.Contains(err.Error(), "/secret") {
				t.Errorf("the error tells the path: %v", err)
			}
			if f != nil {
				_, inMemory := f.Bytes()
				if inMemory != c.inMemory {
					t.Errorf("in memory: %v", inMemory)
				}
				f.Release()
			}
			failed := 0
			for i := range c.fs.opened {
				if c.fs.versions[min(i, len(c.fs.versions)-1)].openErr != nil {
					failed++
				}
			}
			if c.fs.closed != c.fs.opened-failed {
				t.Errorf("opened %d, closed %d", c.fs.opened-failed, c.fs.closed)
			}
		})
	}
}

// A small file that changes during every read is read three times.
func TestAFileThatAlwaysChanges(t *testing.T) {
	o := of(oddFile{size: 1, data: text("x", 300)})
	if _, data, err := oddly(o); err != nil || len(data) != 300 || o.opened != 1+3 {
		t.Errorf("%d bytes, %v, opened %d times", len(data), err, o.opened)
	}
}

// A Part that begins late in a file without Seek skips the bytes before, with the
// same limits.
func TestLateParts(t *testing.T) {
	data := text("late", 2000)
	for name, c := range map[string]struct {
		file    oddFile
		wantErr error
	}{
		"whole":             {oddFile{data: data}, nil},
		"pauses":            {oddFile{data: data, pauses: 99}, nil},
		"brings nothing":    {oddFile{data: data, pauses: -1}, io.ErrNoProgress},
		"counts too much":   {oddFile{data: data, count: 100_000}, io.ErrUnexpectedEOF},
		"counts below 0":    {oddFile{data: data, count: -100_000}, io.ErrUnexpectedEOF},
		"is short":          {oddFile{data: data[:1499]}, ErrChanged},
		"is just so short":  {oddFile{data: data[:1500]}, nil},
		"cannot be skipped": {oddFile{data: data[:9], readErr: errOdd}, errOdd.Err},
	} {
		c.file.size = 2000
		o := of(c.file)
		f := mustOpen(t, New(Options{FS: o, SmallFile: -1}), "file", Identity)
		p, err := f.Part(1500, 500)
		if !errors.Is(err, c.wantErr) || c.wantErr == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, c.wantErr)
		}
		if err == nil {
			if got, _ := io.ReadAll(p); !bytes.Equal(got, c.file.data[1500:]) {
				t.Errorf("%s: %.30q", name, got)
			}
			p.Close()
		}
		if o.closed != o.opened {
			t.Errorf("%s: opened %d, closed %d", name, o.opened, o.closed)
		}
	}
}

// A reader that has returned io.ErrNoProgress returns it again.
func TestNoProgressStays(t *testing.T) {
	r := &steadyReader{r: &oddFile{data: []byte("x"), pauses: -1, wait: -1, left: &oddFS{}}}
	for range 2 {
		if _, err := io.ReadAll(r); err != io.ErrNoProgress {
			t.Errorf("got %v", err)
		}
	}
}

// randomly is an fs.FS of one file whose ReadAt returns wrong counts.
type randomly struct {
	*oddFS
	count int
}

func (r randomly) Open(name string) (fs.File, error) {
	f, err := r.oddFS.Open(name)
	return struct {
		fs.File
		io.ReaderAt
	}{f, r}, err
}

func (r randomly) ReadAt(p []byte, _ int64) (int, error) { return r.count, nil }

func TestReaderAtThatCannotCount(t *testing.T) {
	for _, count := range []int{-7, 513, 100_000} {
		f := mustOpen(t, New(Options{FS: randomly{of(oddFile{size: 2000}), count}, SmallFile: -1}), "file", Identity)
		p, err := f.Part(0, 512)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := p.Read(make([]byte, 512)); n != 0 || err != io.ErrUnexpectedEOF {
			t.Errorf("count %d: %d, %v", count, n, err)
		}
		p.Close()
		f.Release()
	}
}

// The type of a file without an extension is derived from its content, in every
// source.
func TestContentIsLookedAtInEverySource(t *testing.T) {
	const plain, binary = "text/plain; charset=utf-8", "application/octet-stream"
	for want, data := range map[string][]byte{plain: text("words", 150_000), binary: bytes.Repeat([]byte{1, 2, 0}, 50_000)} {
		for name, s := range sources(t, data) {
			f := mustOpen(t, s, "file", Identity)
			if f.contentType != want {
				t.Errorf("%s: %s, want %s", name, f.contentType, want)
			}
			if isSeekable := name != "Reader"; f.IsSeekable() != isSeekable {
				t.Errorf("%s: seekable %v", name, f.IsSeekable())
			}
			f.Release()
		}
	}
}

// Entity tags do not change from version to version of this package: several machines
// may serve the same files.
func TestFormOfETags(t *testing.T) {
	data := text("a", 4242)
	s := New(Options{FS: fstest.MapFS{"a.txt": {Data: data, ModTime: longAgo()}, "b.txt": {Data: data}}, Suffixes: suffixes()})
	for e := range Encodings {
		f := mustOpen(t, s, "a.txt", e)
		if want := fmt.Sprintf(`W/"%x-%x"`, longAgo().Unix(), f.Size()); f.etag != want || f.encoding != e {
			t.Errorf("encoding %d: %s, want %s", e, f.etag, want)
		}
	}
	const sum = `"dc92f6490bdcf7fdd9d1762295077be5"` // the first half of SHA-256
	if got := mustOpen(t, s, "b.txt", Identity).etag; got != sum {
		t.Errorf("without a time: %s, want %s", got, sum)
	}
	if got, want := mustOpen(t, s, "b.txt", Gzip).etag, strings.TrimSuffix(sum, `"`)+`-gz"`; got != want {
		t.Errorf("encoded, without a time: %s, want %s", got, want)
	}
}

func TestHTTPDate(t *testing.T) {
	for want, at := range map[string]time.Time{
		"Mon, 03 Feb 2020 04:05:06 GMT": longAgo().In(time.FixedZone("", 7200)),
		"Mon, 01 Jan 0001 00:00:01 GMT": time.Time{}.Add(time.Second),
		"Fri, 31 Dec 9999 23:59:59 GMT": time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	} {
		if got := string(httpDate(at)); got != want {
			t.Errorf("%v: %q, want %q", at, got, want)
		}
	}
	for _, at := range []time.Time{{}, time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if got := httpDate(at); got != nil {
			t.Errorf("%v: %q", at, got)
		}
	}
}
