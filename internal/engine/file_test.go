package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type closerFunc func() error

func (f closerFunc) Close() error { return f() }

func TestFileInPieces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	f := File{Source: source, Offset: 2, Size: 9}
	var got []string
	for range 4 {
		p := make([]byte, 3)
		var n int
		if n, err = f.ReadPiece(p); err != nil {
			break
		}
		got = append(got, string(p[:n]))
		f.Advance(n)
	}
	if text := strings.Join(got, " "); text != "234 567 89" || err != ErrShortFile {
		t.Errorf("%q, %v", text, err)
	}
	f = File{Source: source, Size: 2}
	if n, err := f.ReadPiece(make([]byte, 9)); n != 2 || err != nil {
		t.Errorf("%d of 2 bytes, %v", n, err)
	}
	_ = source.Close()
	if _, err := f.ReadPiece(make([]byte, 9)); err == nil || errors.Is(err, os.ErrClosed) || errors.Is(err, ErrShortFile) {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

func TestFileIsReleasedOnce(t *testing.T) {
	times := 0
	f := File{Size: 1, Done: closerFunc(func() error { times++; return errors.New("is not looked at") })}
	for range 2 {
		if err := f.Release(); err != nil || f.Size != 0 {
			t.Errorf("%v, %+v", err, f)
		}
	}
	if times != 1 {
		t.Errorf("closed %d times", times)
	}
	f.Done = closerFunc(func() error { panic("oh") })
	var failed *PanicError
	if err := f.Release(); !errors.As(err, &failed) || failed.Value != "oh" || !strings.Contains(err.Error(), "oh\n") {
		t.Errorf("Close panics: %v", err)
	}
}
