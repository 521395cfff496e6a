package sluice

import (
	"sync/atomic"
	"testing"
)

// TestMeterStatusClasses: a status out of all classes counts in the nearest.
func TestMeterStatusClasses(t *testing.T) {
	m := &Meter{}
	for i := range m.Status {
		m.Status[i] = new(atomic.Uint64)
	}
	for status, want := range map[int]int{0: 0, 99: 0, 101: 0, 200: 1, 599: 4, 999: 4} {
		before := m.Status[want].Load()
		m.countStatus(nil, status)
		if m.Status[want].Load() != before+1 {
			t.Errorf("status %d does not count in class %d", status, want+1)
		}
	}
}
