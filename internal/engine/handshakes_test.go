package engine

import (
	"slices"
	"testing"
)

// The limit ends the oldest handshake, and none that is over.
func TestHandshakes(t *testing.T) {
	h := Handshakes{Limit: 3}
	var ended []int
	var over []func() error
	for i := range 3 {
		over = append(over, h.Begin(func() { ended = append(ended, i) }))
	}
	if err := over[0](); err != nil {
		t.Error(err)
	}
	for i := 3; i < 6; i++ {
		over = append(over, h.Begin(func() { ended = append(ended, i) }))
	}
	if want := []int{1, 2}; !slices.Equal(ended, want) {
		t.Errorf("the limit has ended %v, want %v", ended, want)
	}
	if open, ended := h.Count(); open != 3 || ended != 2 {
		t.Errorf("%d are open, %d were ended", open, ended)
	}
	for i, f := range over {
		if err, isDropped := f(), slices.Contains(ended, i); (err == ErrTooManyHandshakes) != isDropped || !isDropped && err != nil {
			t.Errorf("handshake %d: %v", i, err)
		}
	}
	if open, ended := h.Count(); open != 0 || ended != 2 {
		t.Errorf("%d are open, %d were ended", open, ended)
	}
}
