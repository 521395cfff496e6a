//go:build linux

package run

import (
	"slices"
	"testing"
)

// TestTurns: no client is left out, no more than are allowed send at the same
// time, and a sweep that has begun is carried to its end.
func TestTurns(t *testing.T) {
	turns := newTurns(3, 2)
	done := make([]int, 3)
	expect := func(isTimeUp bool, want ...int) {
		t.Helper()
		if got := turns.next(isTimeUp); !slices.Equal(got, want) {
			t.Errorf("it is the turn of %v, want %v", got, want)
		}
		if got := turns.next(isTimeUp); len(got) > 0 {
			t.Errorf("it is the turn of %v, too", got)
		}
	}
	took := func(client int) {
		done[client]++
		turns.took(client, done[client])
	}
	expect(false, 0, 1)
	took(1)
	expect(false, 2)
	took(2)
	expect(false) // 0 is at its first turn
	took(0)
	expect(false, 0, 1)
	took(0)
	expect(true, 2) // or it would have been left out
	took(2)
	expect(true)
	if turns.end() {
		t.Error("it is over while one sends")
	}
	took(1)
	if !turns.end() || turns.end() {
		t.Error("it is not over, or twice")
	}
	if !slices.Equal(done, []int{2, 2, 2}) {
		t.Errorf("turns: %v", done)
	}
}

// TestTurnsOfShortTime: every connection is asked once, however short the time.
func TestTurnsOfShortTime(t *testing.T) {
	turns := newTurns(2, 1)
	for i := range 2 {
		if got := turns.next(true); !slices.Equal(got, []int{i}) {
			t.Fatalf("it is the turn of %v", got)
		}
		turns.took(i, 1)
	}
	if got := turns.next(true); len(got) > 0 || !turns.end() {
		t.Errorf("and that of %v", got)
	}
}
