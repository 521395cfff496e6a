package h2

import "testing"

// Credit is returned in halves, and never more than the window.
func TestCreditIsReturnedInHalves(t *testing.T) {
	g := Growth{}
	w := NewReceiveWindow(0, 65_535, 1<<16, 1<<16)
	if w.Update(0, &g) != 0 {
		t.Fatal("nothing is due")
	}
	if !w.Received(65_535) || w.Received(1) || w.Held() != 65_535 || w.Left() != 0 {
		t.Fatal("RFC 9113 section 6.9.1")
	}
	if w.Update(0, &g) != 0 {
		t.Fatal("nothing was consumed")
	}
	w.Consumed(1<<15 - 2)
	if w.Update(0, &g) != 0 {
		t.Fatal("less than a half is due")
	}
	w.Consumed(1)
	if n := w.Update(0, &g); n != 1<<15 || w.Left() != 1<<15 {
		t.Fatalf("a half is due, returned %d", n)
	}
	w.Consumed(1 << 20) // more than was received
	if n := w.Update(0, &g); n != 1<<15 || w.Held() != 0 || w.Left() != 1<<16 {
		t.Fatalf("all is due, returned %d", n)
	}
}

// A connection announces at once what RFC 9113 does not give it.
func TestNewConnectionWindow(t *testing.T) {
	g := Growth{Room: 1 << 30}
	w := NewReceiveWindow(7, 65_535, 1<<20, 1<<24)
	if n := w.Update(7, &g); n != 1<<20-65_535 || w.Size() != 1<<20 {
		t.Errorf("increment %d, size %d", n, w.Size())
	}
}

// Room for bytes that were announced is within the bounds, and at least half a window.
func TestAppendRoom(t *testing.T) {
	for _, c := range []struct{ size, most, room, n, want int64 }{
		{64, 1000, 1000, 500, 436},
		{64, 200, 1000, 500, 136},
		{64, 1000, 100, 500, 100},
		{64, 1000, 1000, 96, 32},
		{64, 1000, 1000, 95, 0},
		{64, 1000, 31, 500, 0},
		{64, 1000, 1000, -1, 0},
		{64, 1 << 31, 1 << 40, 1 << 40, 1<<31 - 1 - 64},
	} {
		g := Growth{Room: c.room}
		w := NewReceiveWindow(0, 64, uint32(c.size), uint32(c.most))
		out := g.AppendRoom(nil, 1, &w, c.n)
		if got := int64(w.Left()) - 64; got != c.want || (len(out) > 0) != (c.want > 0) || int64(w.Size()) != c.size+c.want || g.Room != c.room-c.want {
			t.Errorf("%+v: credit %d, size %d, room %d, % x", c, got, w.Size(), g.Room, out)
		}
		if again := g.AppendRoom(nil, 1, &w, c.n); len(again) > 0 && c.room > c.want {
			t.Errorf("%+v: again % x", c, again)
		}
	}
}

func TestReceiveWindowShift(t *testing.T) {
	g := Growth{}
	w := NewReceiveWindow(0, 65_535, 65_535, 1<<16)
	if w.Shift(65_535, 1<<16); w.Left() != 1<<16 {
		t.Error(w.Left())
	}
	w.Received(1 << 16)
	if w.Shift(1<<16, 100); w.Left() != 100-1<<16 || w.Received(1) {
		t.Error("negative after a smaller setting", w.Left())
	}
	w.Consumed(1 << 16)
	if n := w.Update(0, &g); n != 1<<17-100 || w.Left() != 1<<16 {
		t.Error("what a smaller setting took is returned", n, w.Left())
	}
	w.Shift(0, 1<<31-1)
	if w.Left() != 1<<31-1 {
		t.Error("bounded", w.Left())
	}
}

// use sends and consumes half of the window, and returns the credit that comes after
// nanos.
func use(t *testing.T, w *ReceiveWindow, g *Growth, now *int64, nanos int64) uint32 {
	t.Helper()
	*now += nanos
	n := w.Size() / 2
	if !w.Received(n) {
		t.Fatalf("%d bytes of %d are refused", n, w.Left())
	}
	w.Consumed(n)
	return w.Update(*now, g)
}

func TestWindowsGrowAndShrink(t *testing.T) {
	const round = 1000
	g := Growth{Room: 200 << 10}
	now := int64(0)
	if !g.RoundTrip.Begin(now) {
		t.Fatal("the first measurement")
	}
	now += round
	w := NewReceiveWindow(0, 1<<16, 1<<16, 1<<20)
	if use(t, &w, &g, &now, 1); w.Size() != 1<<16 {
		t.Error("grew without a measurement")
	}
	g.RoundTrip.End(round)
	if use(t, &w, &g, &now, round+1); w.Size() != 1<<16 {
		t.Error("grew although the round trip does not limit it")
	}
	if n := use(t, &w, &g, &now, round); w.Size() != 1<<17 || n != 1<<15+1<<16 || w.Left() != 1<<17 {
		t.Errorf("increment %d, size %d, left %d", n, w.Size(), w.Left())
	}
	use(t, &w, &g, &now, 1)
	use(t, &w, &g, &now, 1)
	if w.Size() != 264<<10 || g.Room != 0 {
		t.Errorf("beyond the sum: size %d, room %d", w.Size(), g.Room)
	}
	g.Room = 10 << 20
	use(t, &w, &g, &now, 1)
	use(t, &w, &g, &now, 1)
	use(t, &w, &g, &now, 1)
	if w.Size() != 1<<20 {
		t.Errorf("beyond its bound: %d", w.Size())
	}
	if use(t, &w, &g, &now, shrinkNanos); w.Size() != 1<<20 {
		t.Error("shrinks too early")
	}
	if n := use(t, &w, &g, &now, shrinkNanos+1); w.Size() != 1<<19 || n != 0 || w.Left() != 1<<19 {
		t.Errorf("increment %d, size %d, left %d", n, w.Size(), w.Left())
	}
	room := g.Room
	w.Shrink(&g)
	if w.Size() != 1<<16 || g.Room != room+1<<19-1<<16 || g.Room != 10<<20+(264-64)<<10 {
		t.Errorf("size %d, room %d", w.Size(), g.Room)
	}
	// The peer keeps its credit, but gets no more of it.
	for w.Left() > 1<<15 {
		before := w.Left()
		w.Received(1 << 15)
		w.Consumed(1 << 15)
		if n := w.Update(now, &Growth{}); n != 0 && w.Left() > 1<<16 {
			t.Fatalf("increment %d with %d left", n, before)
		}
		if w.Left() == 1<<16 && before <= 1<<16 {
			break
		}
	}
	for range 3 {
		if use(t, &w, &g, &now, 1<<60); w.Size() != 1<<16 {
			t.Error("shrinks below its least size", w.Size())
		}
	}
}

func TestRoundTrip(t *testing.T) {
	var r RoundTrip
	r.End(5)
	if r.Nanos() != 0 || !r.Begin(10) || r.Begin(11) {
		t.Fatalf("at first: %+v", r)
	}
	r.End(810)
	r.End(900)
	if r.Nanos() != 800 || r.Begin(10+roundTripInterval-1) {
		t.Fatalf("measured: %+v", r)
	}
	if !r.Begin(10 + roundTripInterval) {
		t.Fatal("a second later")
	}
	r.End(10 + roundTripInterval)
	if r.Nanos() != 701 {
		t.Errorf("smoothed: %d", r.Nanos())
	}
}

// FuzzReceiveWindow: whatever happens, no more is promised than the largest size, and
// Room is what the window has not taken.
func FuzzReceiveWindow(f *testing.F) {
	f.Add([]byte{1, 200, 2, 200, 3, 0, 3, 1, 1, 255, 4, 0, 2, 255, 3, 250, 5, 0})
	f.Fuzz(func(t *testing.T, steps []byte) {
		const least, most, room = 1 << 16, 1 << 20, 1 << 19
		g := Growth{Room: room}
		w := NewReceiveWindow(0, 65_535, least, most)
		now, promised := int64(0), int64(65_535)
		for i := 0; i+1 < len(steps); i += 2 {
			n := uint32(steps[i+1]) << 10
			switch steps[i] % 6 {
			case 1:
				if ok := w.Received(n); ok != (int64(n) <= promised) {
					t.Fatalf("%d of %d bytes: %v", n, promised, ok)
				} else if ok {
					promised -= int64(n)
				}
			case 2:
				w.Consumed(n)
			case 3:
				now += int64(n) << 12
				promised += int64(w.Update(now, &g))
			case 4:
				g.RoundTrip.Begin(now)
			case 5:
				g.RoundTrip.End(now)
			case 0:
				w.Shrink(&g)
			}
			if promised != int64(w.Left()) || promised+int64(w.Held()) > most || w.Size() < least || w.Size() > most || g.Room < 0 || g.Room+int64(w.Size()-least) != room {
				t.Fatalf("promised %d, room %d, %+v", promised, g.Room, w)
			}
		}
	})
}

func TestWindowsAllocateNothing(t *testing.T) {
	g := Growth{Room: 1 << 20}
	w := NewReceiveWindow(0, 1<<16, 1<<16, 1<<20)
	if n := testing.AllocsPerRun(100, func() {
		w.Received(1 << 15)
		w.Consumed(1 << 15)
		w.Update(0, &g)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestShiftedWindow: a stream that was opened, and used, before the peer has acknowledged our
// initial window gets the difference once: left and held never exceed the window.
func TestShiftedWindow(t *testing.T) {
	const before, after = 65_535, 1 << 20
	for _, consumed := range []uint32{0, 40_000, before} {
		g := Growth{Room: 1 << 24}
		w := NewReceiveWindow(0, before, before, 1<<22)
		w.Received(before)
		w.Consumed(consumed)
		_ = w.Update(1, &g)
		if w.Shift(before, after); int64(w.Left())+int64(w.Held()) > after || w.Size() != after {
			t.Errorf("%d bytes were consumed: %d may come, %d are held, of %d", consumed, w.Left(), w.Held(), w.Size())
		}
		w.Consumed(before)
		if _ = w.Update(1<<40, &g); int64(w.Left())+int64(w.Held()) > after {
			t.Errorf("later: %d may come, %d are held", w.Left(), w.Held())
		}
		if w.Shrink(&g); g.Room != 1<<24 || w.Size() != after {
			t.Errorf("after Shrink: size %d, room %d", w.Size(), g.Room)
		}
	}
}
