//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package sock

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// openFile makes a file of n bytes, none like its neighbours.
func openFile(t *testing.T, n int) (*os.File, []byte) {
	t.Helper()
	content := make([]byte, n)
	for i := range content {
		content[i] = byte(i*7 + i>>8)
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f, content
}

func TestSendFile(t *testing.T) {
	f, content := openFile(t, 100_000)
	if _, err := f.Seek(17, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		offset, size int64
		want         []byte
		err          error
	}{
		{0, 10, content[:10], nil},
		{99_990, 10, content[99_990:], nil},
		{99_990, 1000, content[99_990:], nil},
		{5000, 60_000, content[5000:65_000], nil},
		{100_000, 1, nil, io.EOF},
		{200_000, 1, nil, io.EOF},
	} {
		for name, call := range map[string]func(int, *os.File, int64, int64) (int, error){"sendfile": SendFile, "copy": copyFile} {
			a, b := pair(t)
			sent := 0
			for err := error(nil); sent < len(test.want) || test.err != nil; {
				var n int
				n, err = call(a, f, test.offset+int64(sent), test.size-int64(sent))
				if sent += n; err != test.err {
					t.Fatalf("%s of %d bytes at %d: %d, %v", name, test.size, test.offset, n, err)
				}
				if err != nil {
					break
				}
			}
			if got := receive(t, b); !bytes.Equal(got, test.want) {
				t.Errorf("%s of %d bytes at %d: %d bytes arrived, want %d", name, test.size, test.offset, len(got), len(test.want))
			}
		}
	}
	if at, err := f.Seek(0, io.SeekCurrent); at != 17 || err != nil {
		t.Errorf("the file's own offset is %d, %v", at, err)
	}
}

// TestSendFileFull sends until there is no room, and goes on when there is.
func TestSendFileFull(t *testing.T) {
	f, content := openFile(t, 3_000_000)
	for name, call := range map[string]func(int, *os.File, int64, int64) (int, error){"sendfile": SendFile, "copy": copyFile} {
		a, b := pair(t)
		var got []byte
		stops := 0
		for at := 0; at < len(content); {
			n, err := call(a, f, int64(at), int64(len(content)-at))
			at += n
			switch {
			case err == syscall.EAGAIN && n == 0:
				stops++
				got = append(got, receive(t, b)...)
			case err != nil, n == 0, n > filePiece:
				t.Fatalf("%s: %d, %v", name, n, err)
			}
		}
		if got = append(got, receive(t, b)...); !bytes.Equal(got, content) || stops == 0 {
			t.Errorf("%s: %d bytes arrived of %d, with %d stops", name, len(got), len(content), stops)
		}
	}
}

func TestSendFileFails(t *testing.T) {
	f, _ := openFile(t, 1000)
	a, _ := pair(t)
	if err := syscall.Shutdown(a, syscall.SHUT_WR); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func(int, *os.File, int64, int64) (int, error){"sendfile": SendFile, "copy": copyFile} {
		if n, err := call(a, f, 0, 10); n != 0 || !errors.Is(err, syscall.EPIPE) {
			t.Errorf("%s to a socket that is shut down: %d, %v", name, n, err)
		}
	}
	_ = f.Close()
	a, _ = pair(t)
	n, err := SendFile(a, f, 0, 10)
	var ne net.Error
	if n != 0 || err == nil || errors.As(err, &ne) {
		t.Errorf("from a file that is closed: %d, %v", n, err)
	}
}

// TestSendFileWithout sends from a file system that may not have sendfile(2).
func TestSendFileWithout(t *testing.T) {
	f, err := os.Open("/proc/version")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	want, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	a, b := pair(t)
	if n, err := SendFile(a, f, 1, int64(len(want)-1)); n != len(want)-1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if got := receive(t, b); !bytes.Equal(got, want[1:]) {
		t.Errorf("%q arrived, want %q", got, want[1:])
	}
}

func TestSendMore(t *testing.T) {
	a, b := pair(t)
	for _, more := range []bool{true, false} {
		if n, errno := new(Calls).Send(a, []byte("abc"), more); n != 3 || errno != 0 {
			t.Fatalf("%d, %v", n, errno)
		}
	}
	if got := receive(t, b); string(got) != "abcabc" {
		t.Errorf("%q arrived", got)
	}
}

func TestSendFileDoesNotAllocate(t *testing.T) {
	f, _ := openFile(t, 1000)
	a, b := pair(t)
	p := make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		if n, err := SendFile(a, f, 50, 100); n != 100 || err != nil {
			t.Fatal(n, err)
		}
		if n, errno := Recv(b, p); n != 100 || errno != 0 {
			t.Fatal(n, errno)
		}
		if _, err := SendFile(a, f, 1000, 100); err != io.EOF {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
