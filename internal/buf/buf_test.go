package buf

import (
	"math"
	"testing"

	"github.com/sluicehttp/sluice/internal/invariants"
)

func TestGetHoldsSize(t *testing.T) {
	for _, size := range []int{0, 1, 511, 512, 513, 4096, 4097, 16 << 10, 1<<20 - 1, 1 << 20, 1<<20 + 1} {
		b := Get(size)
		if len(b.B) != 0 || cap(b.B) < size {
			t.Errorf("Get(%d): len %d cap %d", size, len(b.B), cap(b.B))
		}
		if size <= 1<<20 && size > 512 && cap(b.B) >= 2*size {
			t.Errorf("Get(%d) wastes: cap %d", size, cap(b.B))
		}
		b.Release()
	}
}

// A buffer that grew to an odd capacity must only serve sizes that fit.
func TestReleaseGrown(t *testing.T) {
	for _, size := range []int{600, 1023, 1025, 3000, 5000, 100_000} {
		b := &Buffer{B: make([]byte, 7, size)}
		b.Release()
		for range 4 {
			for shift := minShift; shift <= maxShift; shift++ {
				if got := Get(1 << shift); cap(got.B) < 1<<shift {
					t.Fatalf("Get(%d) returned capacity %d", 1<<shift, cap(got.B))
				}
			}
		}
	}
}

func TestReleaseKeepsNoUnfit(t *testing.T) {
	(&Buffer{}).Release()
	(&Buffer{B: make([]byte, 0, 1<<21)}).Release()
	if b := Get(1 << 20); cap(b.B) > 1<<20 {
		t.Errorf("a buffer of %d bytes was pooled", cap(b.B))
	}
}

func TestGetAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("sync.Pool drops items at random under the race detector")
	}
	if n := testing.AllocsPerRun(1000, func() { Get(4096).Release() }); n != 0 {
		t.Errorf("Get+Release allocates %v times", n)
	}
}

func BenchmarkGetRelease(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Get(16 << 10).Release()
	}
}

func TestLimit(t *testing.T) {
	var l Limit
	for _, c := range []struct{ set, fits int }{{0, 0}, {1, 1}, {1 << 30, 1 << 30}} {
		l.Set(c.set)
		if !l.Allows(c.fits) || l.Allows(c.fits+1) {
			t.Errorf("a limit of %d allows %v, %v", c.set, l.Allows(c.fits), l.Allows(c.fits+1))
		}
	}
	if l.Set(-5); !l.Allows(math.MaxInt) {
		t.Error("no limit is one")
	}
	var zero Limit
	if !zero.Allows(DefaultLimit) || zero.Allows(DefaultLimit+1) {
		t.Error("the zero Limit is not DefaultLimit")
	}
}
