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
