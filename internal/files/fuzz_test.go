package files

import (
	"bytes"
	"testing"
)

// FuzzOpen opens any name below a root with links out of it. Nothing outside may be
// read or listed.
func FuzzOpen(f *testing.F) {
	root := hostile(f)
	for _, name := range hostileNames(root) {
		f.Add([]byte(name), uint8(0))
	}
	for _, name := range []string{"file", "copy", "dir/copy", "inside", "insidedir/sub/file", "here/here/copy"} {
		for e := range uint8(Encodings) {
			f.Add([]byte(name), e)
		}
	}
	cached := New(Options{Root: root, Suffixes: suffixes()})
	uncached := New(Options{Root: root, Suffixes: suffixes(), SkipCache: true})
	f.Fuzz(func(t *testing.T, name []byte, e uint8) {
		for _, s := range []*Store{cached, uncached} {
			file, err := s.Open(name, Encoding(e))
			if err == nil {
				data, err := bytesOf(file)
				if err != nil {
					t.Errorf("%q: %v", name, err)
				}
				if encoding := file.encoding; encoding != Identity {
					data = decode(t, data, encoding)
				}
				if !bytes.HasPrefix(data, []byte("fine")) {
					t.Errorf("%q is read: %.40q", name, data)
				}
				file.Release()
			}
			entries, _, err := s.ReadDir(name, 100)
			for _, entry := range entries {
				if entry.Name == "secret" || entry.Name == "outside" || entry.Name == "passwd" {
					t.Errorf("%q lists %q", name, entry.Name)
				}
			}
			if err == nil && file != nil {
				t.Errorf("%q is a file and a directory", name)
			}
		}
	})
}
