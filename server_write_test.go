package sluice

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/files"
	"github.com/sluicehttp/sluice/internal/server/http1"
)

// Another protocol may write the body of a response to GET with status 200 that has no
// stream, if the request was read.
func TestMayBeginBody(t *testing.T) {
	for name, change := range map[string]func(ctx *RequestCtx){
		"":                 nil,
		"HEAD":             func(ctx *RequestCtx) { ctx.verb = verbHead },
		"another status":   func(ctx *RequestCtx) { ctx.SetStatusCode(StatusAccepted) },
		"a request's body": func(ctx *RequestCtx) { ctx.requestStream.exchange = &http1.Exchange{} },
	} {
		ctx := &RequestCtx{server: &Server{}}
		if change != nil {
			change(ctx)
		}
		if got := ctx.mayBeginBody(); got != (change == nil) {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// partOf returns 50 bytes of a file, which is in memory if it is no larger than smallFile.
func partOf(t *testing.T, path string, smallFile int64) *files.Part {
	t.Helper()
	store := files.New(files.Options{Root: filepath.Dir(path), SmallFile: smallFile})
	f, err := store.Open([]byte(filepath.Base(path)), files.Identity)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Release()
	p, err := f.Part(20, 50)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestFileOf: what is sent as a file is a regular one, as long as announced, and
// alone.
func TestFileOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func() *os.File {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	moved, closed, folder := open(), open(), open()
	if _, err := moved.Seek(30, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	closed.Close()
	folder.Close()
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	pipe, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	defer w.Close()
	part := func(smallFile int64) *files.Part { return partOf(t, path, smallFile) }
	for name, test := range map[string]struct {
		stream io.Reader
		length int64
		isFile bool
		offset int64
	}{
		"file":                       {open(), 100, true, 0},
		"beginning of a file":        {open(), 10, true, 0},
		"rest of a file":             {moved, 70, true, 30},
		"file that will be short":    {moved, 1000, true, 30},
		"file of unknown length":     {open(), -1, false, 0},
		"file until the end":         {open(), -2, false, 0},
		"closed file":                {closed, 100, false, 0},
		"folder":                     {folder, 100, false, 0},
		"pipe":                       {pipe, 100, false, 0},
		"part":                       {part(-1), 50, true, 20},
		"beginning of a part":        {part(-1), 10, true, 20},
		"part that is too short":     {part(-1), 51, false, 0},
		"part of unknown length":     {part(-1), -1, false, 0},
		"part that is in memory":     {part(100), 50, false, 0},
		"text":                       {strings.NewReader("x"), 1, false, 0},
		"reader of a file":           {struct{ io.Reader }{open()}, 100, false, 0},
		"limited reader of a file":   {io.LimitReader(open(), 10), 10, false, 0},
		"file that the user wrapped": {struct{ *os.File }{open()}, 100, false, 0},
	} {
		var b messageBody
		b.setStream(test.stream, int(test.length))
		got, isFile := b.fileOf(test.length)
		if isFile != test.isFile || isFile && (got.Offset != test.offset || got.Size != test.length || got.Source == nil || got.Done == nil) {
			t.Errorf("%s: %v, %+v", name, isFile, got)
		}
	}
}
