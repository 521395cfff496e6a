package uri

import "testing"

// TestChangesWhileTheStackMoves: a URI on a stack is taken for a copy when the stack moves, which
// may be at any call. Nothing is lost then.
func TestChangesWhileTheStackMoves(t *testing.T) {
	var want [6]string
	for depth := range 1500 {
		for i := range want {
			got := make(chan string)
			go func() {
				var u URI
				u.SetHost([]byte("h"))
				u.SetScheme([]byte("app"))
				change(depth, i, &u)
				got <- string(u.AppendBytes(nil, nil, false)) + " " + string(u.Username())
			}()
			switch got := <-got; {
			case depth == 0:
				want[i] = got
			case got != want[i]:
				t.Fatalf("change %d at depth %d: %q, want %q", i, depth, got, want[i])
			}
		}
	}

}

// change changes u when depth calls are on the stack.
//
//go:noinline
func change(depth, i int, u *URI) int {
	if depth > 0 {
		return 1 + change(depth-1, i, u)
	}
	switch i {
	case 0:
		_, _ = u.Update([]byte("app:x"))
	case 1:
		_, _ = u.Update([]byte("a/../%41 b?q#h"))
	case 2:
		_, _ = u.Update([]byte("?q%20#h"))
	case 3:
		_, _ = u.Update([]byte("//u:p@k:80/x?y#z"))
	case 4:
		_ = u.Parse(nil, []byte("HTTP://u@K/%41/../x?q#h"))
	case 5:
		u.SetPath([]byte("a//b/../c"))
		u.SetQuery([]byte("q"))
		u.SetHash([]byte("h"))
	}
	return 0
}

// TestUpdate: the examples of RFC 3986 section 5.4, but for those of ";", which is no delimiter
// here, and what is refused.
func TestUpdate(t *testing.T) {
	for _, test := range []struct {
		reference, want string
		extent          Extent
		err             error
	}{
		{"g", "http://a/b/c/g", Path, nil},
		{"./g", "http://a/b/c/g", Path, nil},
		{"g/", "http://a/b/c/g/", Path, nil},
		{"/g", "http://a/g", Path, nil},
		{"//g", "http://g/", Everything, nil},
		{"?y", "http://a/b/c/d?y#f", Reference, nil},
		{"g?y", "http://a/b/c/g?y", Path, nil},
		{"#s", "http://a/b/c/d?q#s", Reference, nil},
		{"g#s", "http://a/b/c/g#s", Path, nil},
		{"g?y#s", "http://a/b/c/g?y#s", Path, nil},
		{"?y#s", "http://a/b/c/d?y#s", Reference, nil},
		{".", "http://a/b/c/", Path, nil},
		{"..", "http://a/b/", Path, nil},
		{"../g", "http://a/b/g", Path, nil},
		{"../../g", "http://a/g", Path, nil},
		{"../../../g", "http://a/g", Path, nil},
		{"g?y/../x", "http://a/b/c/g?y/../x", Path, nil},
		{"http:g", "http://a/b/c/g", Path, nil},
		{"HTTP:/g", "http://a/g", Path, nil},
		{"http:", "http://a/b/c/d?q#f", Reference, nil},
		{"HTTPS://K/x?y#z", "https://k/x?y#z", Everything, nil},
		{"//k%zz/", "http:///", Everything, EscapeError("%zz")},
		{"https://a b/", "http:///", Everything, InvalidHostError("a b")},
		{"//u p@k/", "http:///", Everything, ErrInvalid},
		{"g\n", "http://a/b/c/d?q#f", Reference, ErrInvalid},
		{"\x00", "http://a/b/c/d?q#f", Reference, ErrInvalid},
	} {
		u := parsed(t, "http://u:p@a/b/c/d?q#f")
		extent, err := u.Update([]byte(test.reference))
		if got := text(u); got != test.want || extent != test.extent || err != test.err {
			t.Errorf("%q: %q, %d, %v, want %q, %d, %v", test.reference, got, extent, err, test.want, test.extent, test.err)
		}
		if hasUser := string(u.Username()) == "u" && string(u.Password()) == "p"; hasUser != (test.extent == Reference) {
			t.Errorf("%q: the user is %q:%q", test.reference, u.Username(), u.Password())
		}
	}
}

// TestUpdateReference: only a query or a fragment is one. Control characters are encoded.
func TestUpdateReference(t *testing.T) {
	for _, test := range []struct {
		reference, want string
		isOne           bool
	}{
		{"?y", "http://a/b?y#f", true},
		{"?y\n#z\x00", "http://a/b?y%0A#z%00", true},
		{"?", "http://a/b#f", true},
		{"#z", "http://a/b?q#z", true},
		{"#", "http://a/b?q", true},
		{"http:?y", "http://a/b?y#f", true},
		{"", "http://a/b?q#f", false},
		{"http:", "http://a/b?q#f", false},
		{"x?y", "http://a/b?q#f", false},
		{"/?y", "http://a/b?q#f", false},
		{"//k", "http://a/b?q#f", false},
	} {
		u := parsed(t, "http://a/b?q#f")
		if isOne := u.UpdateReference([]byte(test.reference)); isOne != test.isOne || text(u) != test.want {
			t.Errorf("%q: %v, %q, want %v, %q", test.reference, isOne, text(u), test.isOne, test.want)
		}
	}
}

func TestIsOpaque(t *testing.T) {
	for _, test := range []struct {
		reference        string
		isOpaque, leaves bool
	}{
		{"mailto:x", true, true},
		{"a+b-c.1:", true, true},
		{"http:x", true, false},
		{"HTTPS:x", true, false},
		{"httpx:x", true, true},
		{"mailto://x", false, false},
		{"http://x", false, false},
		{"x", false, false},
		{"", false, false},
		{":x", false, false},
		{"1a:x", false, false},
		{"/a:x", false, false},
		{"a b:x", false, false},
	} {
		if isOpaque, leaves := IsOpaque([]byte(test.reference)), LeavesHTTP([]byte(test.reference)); isOpaque != test.isOpaque || leaves != test.leaves {
			t.Errorf("%q: IsOpaque %v, LeavesHTTP %v", test.reference, isOpaque, leaves)
		}
	}
}
