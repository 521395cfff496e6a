package uri

import (
	"bytes"
	"testing"
)

// FuzzURIPlain checks that the quick way means what the thorough one does.
func FuzzURIPlain(f *testing.F) {
	for _, s := range []string{
		"http://h", "https://h/", "http://h:80/a?b=c", "http://h:/", "http://h:65536/", "http://h:00080/x", "http://h:000080", "http://H/",
		"http://u@h/", "http://u:80@h/", "http://h?x", "http://h#f", "http://h/#f", "http://h/a?b#c", "http://h//a/../b", "http://h/a%2Fb",
		"http:///x", "http://[::1]/", "http://h%25/", "http://h/\xc3\xa9", "http://h/ ", "http://h:80x/", "http://", "ftp://h/",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, uri []byte) {
		var quick, thorough URI
		if !quick.parsePlain(uri) {
			if text(&quick) != "http:///" {
				t.Fatalf("%q leaves %q", uri, text(&quick))
			}
			return
		}
		if err := thorough.parse(nil, uri); err != nil {
			t.Fatalf("%q: %v", uri, err)
		}
		for _, part := range []func(*URI) []byte{
			(*URI).Scheme, (*URI).Host, (*URI).Path, (*URI).PathOriginal, (*URI).Query, (*URI).Hash, (*URI).Username, (*URI).Password, (*URI).whole,
		} {
			if q, s := part(&quick), part(&thorough); !bytes.Equal(q, s) {
				t.Fatalf("%q: %q, by parse %q", uri, q, s)
			}
		}
	})
}

func BenchmarkURIParse(b *testing.B) {
	uri := []byte("http://127.0.0.1:80/foobar?baz=1234")
	for name, parse := range map[string]func(*URI) error{
		"plain": func(u *URI) error { return u.Parse(nil, uri) },
		"parse": func(u *URI) error { u.Reset(nil); return u.parse(nil, uri) },
	} {
		b.Run(name, func(b *testing.B) {
			var u URI
			for b.Loop() {
				if err := parse(&u); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
