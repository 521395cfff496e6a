package invariants

import "testing"

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

func TestPooled(t *testing.T) {
	var p Pooled
	p.Used("object")
	p.Released("object")
	if got := panics(func() { p.Released("object") }); got != Enabled {
		t.Errorf("double release panics: %v, want %v", got, Enabled)
	}
	if got := panics(func() { p.Used("object") }); got != Enabled {
		t.Errorf("use after release panics: %v, want %v", got, Enabled)
	}
	p.Acquired()
	p.Used("object")
	p.Released("object")
}
