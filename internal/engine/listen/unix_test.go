package listen

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The file of a unix socket is removed only while it is the one that the process has made.
func TestSocketFiles(t *testing.T) {
	for name, c := range map[string]struct {
		replace func(path string) error // before the end
		stays   bool
	}{
		"the same": {func(string) error { return nil }, false},
		"gone":     {os.Remove, false},
		"another socket": {func(path string) error {
			_, err := bind(t, path+"2")
			if err == nil {
				err = os.Rename(path+"2", path)
			}
			return err
		}, true},
		"another kind": {func(path string) error {
			os.Remove(path)
			return os.WriteFile(path, nil, 0o600)
		}, true},
		"the number is used again": {func(path string) error { // as if by a later socket
			return os.Chtimes(path, time.Time{}, time.Now().Add(time.Minute))
		}, true},
	} {
		for kind, end := range map[string]func(*net.UnixListener, string) func(){
			"listener": func(ln *net.UnixListener, path string) func() {
				own := Unix(ln, path)
				return func() { own.Close() }
			},
			"file": func(ln *net.UnixListener, path string) func() {
				f := OwnFile(ln, path)
				return func() { ln.Close(); f.Remove() }
			},
		} {
			path := filepath.Join(t.TempDir(), "s")
			ln, err := bind(t, path)
			if err != nil {
				t.Fatal(err)
			}
			end := end(ln, path)
			if err := c.replace(path); err != nil {
				t.Fatal(err)
			}
			end()
			if _, err := os.Lstat(path); (err == nil) != c.stays {
				t.Errorf("%s, %s: afterwards: %v", name, kind, err)
			}
		}
	}
}

// bind listens on a unix socket until the test's end.
func bind(t *testing.T, path string) (*net.UnixListener, error) {
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err == nil {
		ln.SetUnlinkOnClose(false)
		t.Cleanup(func() { ln.Close() })
	}
	return ln, err
}

func TestBare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := bind(t, path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if Bare(Unix(ln, path)) != net.Listener(ln) || Bare(ln) != net.Listener(ln) {
		t.Error("it is another listener")
	}
}
