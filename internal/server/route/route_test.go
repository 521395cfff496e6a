package route

import (
	"net/url"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	var m Match
	path := []byte("/users/a%2Fb/%zz")
	m.Set("GET host/users/{id}/{rest...}", []string{"id", "rest"}, path, []Span{{7, 12}, {13, 16}, {1, 2}})
	m.Decode()
	copy(path, "/xxxxx")
	for name, want := range map[string]string{"id": "a/b", "rest": "%zz"} {
		if got, ok := m.Param(name); !ok || string(got) != want || cap(got) != len(got) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got, ok := m.Param("none"); ok || got != nil {
		t.Errorf("%q", got)
	}
	if m.Path() != "/users/{id}/{rest...}" || m.Pattern() != "GET host"+m.Path() || len(m.Names()) != 2 {
		t.Errorf("%q, %q, %q", m.Path(), m.Pattern(), m.Names())
	}
	m.Reset()
	if _, ok := m.Param("id"); ok || m.Pattern() != "" || m.Path() != "" || m.text == nil {
		t.Errorf("after Reset: %+v", m)
	}
}

// TestLongPathsAreNotKept: a Match belongs to a request that is used again.
func TestLongPathsAreNotKept(t *testing.T) {
	var m Match
	m.Set("/{x}", []string{"x"}, []byte("/"+strings.Repeat("x", maxKept)), []Span{{1, 5}})
	if m.Reset(); m.text != nil {
		t.Errorf("%d bytes are kept", cap(m.text))
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	var m Match
	names, path, spans := []string{"x"}, []byte("/%41b"), []Span{{1, 5}}
	m.Set("/{x}", names, path, spans)
	if n := testing.AllocsPerRun(100, func() {
		m.Reset()
		m.Set("/{x}", names, path, spans)
		m.Decode()
		if got, _ := m.Param("x"); string(got) != "Ab" {
			panic(got)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzAppendDecoded(f *testing.F) {
	f.Add("a%2fb%zz")
	f.Add("%41%")
	f.Add("%e2%82%AC")
	f.Fuzz(func(t *testing.T, s string) {
		got := string(AppendDecoded([]byte("x"), []byte(s)))
		own := []byte(s)
		if again := string(AppendDecoded(own[:0], own)); "x"+again != got {
			t.Fatalf("%q: %q, in place %q", s, got, again)
		}
		want, err := url.PathUnescape(s)
		if err != nil {
			want = s
		}
		if got != "x"+want {
			t.Fatalf("%q: %q, want %q", s, got[1:], want)
		}
	})
}
