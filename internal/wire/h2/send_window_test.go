package h2

import "testing"

func TestSendWindow(t *testing.T) {
	w := SendWindow(DefaultSettings().InitialWindowSize)
	w.Take(65_535)
	for i, c := range []struct {
		step func() bool
		ok   bool
		want SendWindow
	}{
		{func() bool { return w.Shift(65_535, 16_384) }, true, -49_151}, // RFC 9113 section 6.9.2
		{func() bool { return w.Add(49_151) }, true, 0},
		{func() bool { return w.Add(1<<31 - 1) }, true, 1<<31 - 1},
		{func() bool { return w.Add(1) }, false, 1<<31 - 1}, // section 6.9.1
		{func() bool { return w.Shift(0, 1) }, false, 1<<31 - 1},
		{func() bool { return w.Shift(1<<31-1, 0) }, true, 0},
		{func() bool { return w.Shift(1<<31-1, 0) }, true, -(1<<31 - 1)},
		{func() bool { return w.Shift(1, 0) }, false, -(1<<31 - 1)},
		{func() bool { return w.Shift(0, 1<<31-1) }, true, 0},
	} {
		if ok := c.step(); ok != c.ok || w != c.want {
			t.Fatalf("step %d: %v, %d; want %v, %d", i, ok, w, c.ok, c.want)
		}
	}
}
