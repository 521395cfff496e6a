//go:build linux && (amd64 || arm64)

package core

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestTableFindsWhatIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all table
		if p := all.find(5); p.chunk != nil {
			t.Error("an empty table has a chunk")
		}
		fds := []int{0, 5, chunkSize - 1, chunkSize, 40 * chunkSize}
		for _, fd := range fds {
			p := all.open(fd)
			p.slot().open(uint32(fd+1), 0, 0)
			if all.find(fd) != p {
				t.Errorf("%d is not where it was opened", fd)
			}
		}
		if p := all.find(7 * chunkSize); p.chunk != nil {
			t.Error("there is a chunk without connections")
		}
		var seen []int
		all.each(func(fd int, p place) {
			seen = append(seen, fd)
			if generation(p.slot().word.Load()) != uint32(fd+1) {
				t.Errorf("%d has the slot of another one", fd)
			}
		})
		if !slices.Equal(seen, fds) {
			t.Errorf("each visits %v, want %v", seen, fds)
		}
		for _, fd := range fds {
			p := all.find(fd)
			p.slot().close()
			all.close(fd, p)
		}
		again := all.open(5) // its chunk stays
		time.Sleep(chunkPatience + time.Second)
		synctest.Wait()
		if all.find(5) != again || all.find(chunkSize).chunk != nil || all.find(40*chunkSize).chunk != nil {
			t.Error("the wrong chunks were freed")
		}
	})
}

// Slots that nobody uses are forgotten after a while, and not those beside them.
func TestTableForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tab table
		const low, high = 3, 5*chunkSize + 7
		first, second := tab.open(low), tab.open(high)
		other := tab.open(low + 1)
		tab.close(low, first)
		tab.close(high, second)
		time.Sleep(chunkPatience + time.Second)
		synctest.Wait()
		if tab.find(low).chunk != first.chunk {
			t.Error("a chunk with a connection is forgotten")
		}
		if tab.find(high).chunk != nil {
			t.Error("an empty chunk is kept")
		}
		tab.close(low+1, other)
		time.Sleep(chunkPatience - time.Second)
		synctest.Wait()
		if tab.find(low).chunk != first.chunk {
			t.Error("a chunk is forgotten too soon")
		}
		// In use again, for longer than that.
		again := tab.open(low)
		if again.chunk != first.chunk {
			t.Error("another chunk")
		}
		time.Sleep(2 * chunkPatience)
		synctest.Wait()
		if tab.find(low).chunk != first.chunk {
			t.Error("a chunk in use is forgotten")
		}
		tab.close(low, again)
		time.Sleep(chunkPatience + time.Second)
		synctest.Wait()
		if tab.find(low).chunk != nil {
			t.Error("a chunk that was in use again is kept")
		}
		if p := tab.open(high); p.chunk == second.chunk || p.index != high%chunkSize {
			t.Errorf("opened anew at %d of an old chunk", p.index)
		}
	})
}

// A descriptor gets another generation each time, also after its slots were dropped.
func TestGenerationsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tab table
		for want := uint32(1); want < 4; want++ {
			p := tab.open(2 * chunkSize)
			if got := p.chunk.newGeneration(); got != want {
				t.Errorf("generation %d, want %d", got, want)
			}
			tab.close(2*chunkSize, p)
			time.Sleep(chunkPatience + time.Second)
			synctest.Wait()
			if tab.find(2*chunkSize).chunk != nil {
				t.Fatal("the slots are kept")
			}
		}
		if got := tab.open(0).chunk.newGeneration(); got != 1 {
			t.Errorf("another chunk begins with %d", got)
		}
	})
}

// While some connections come and go, slots are dropped. No connection gets slots that
// nobody finds.
func TestTableOpensWhileItDrops(t *testing.T) {
	var tab table
	var opening sync.WaitGroup
	for i := range 4 {
		opening.Go(func() {
			for range 2000 {
				p := tab.open(i)
				if tab.find(i) != p {
					t.Error("slots were dropped with a connection")
				}
				tab.close(i, p)
				tab.free(0, p.chunk)
			}
		})
	}
	opening.Wait()
}

// The TLS of a connection is found by its place.
func TestTableKeepsTLSConns(t *testing.T) {
	var tab table
	one, two := tab.open(3), tab.open(4)
	one.setTLSConn(nil)
	if one.chunk.tlsConns.Load() != nil {
		t.Error("connections without TLS take the memory of those with it")
	}
	s := &tlsConn{}
	two.setTLSConn(s)
	if one.tlsConn() != nil || two.tlsConn() != s {
		t.Error("a tlsConn is not where it was put")
	}
	two.setTLSConn(nil)
	if two.tlsConn() != nil {
		t.Error("a tlsConn is kept")
	}
}

// TestTableInPortions: around goes on where it has stopped, and visits each slot once in a turn.
func TestTableInPortions(t *testing.T) {
	var tab table
	if next := tab.around(9, func(int, place) bool { return true }); next != 0 {
		t.Errorf("an empty table goes on at %d", next)
	}
	fds := []int{0, 5, chunkSize - 1, chunkSize, 3*chunkSize + 1, 5*chunkSize - 1}
	for _, fd := range fds {
		tab.open(fd).slot().open(1, 0, 0)
	}
	for portion := 1; portion <= len(fds)+1; portion++ {
		var seen []int
		next := 0
		for len(seen) < 2*len(fds) {
			left := portion
			next = tab.around(next, func(fd int, p place) bool {
				if tab.find(fd) != p {
					t.Errorf("%d is not where it was opened", fd)
				}
				seen = append(seen, fd)
				left--
				return left != 0
			})
		}
		if !slices.Equal(seen[:2*len(fds)], append(slices.Clone(fds), fds...)) {
			t.Errorf("in portions of %d: %v", portion, seen)
		}
	}
}

// BenchmarkTableInPortions is the search for a quarter of a million connections, as a worker that is
// replaced gives them away.
func BenchmarkTableInPortions(b *testing.B) {
	var tab table
	const count, portion = 250_000, 32
	for fd := range count {
		tab.open(fd).slot().open(1, 0, 0)
	}
	for b.Loop() {
		next := 0
		for range count / portion {
			left := portion
			next = tab.around(next, func(int, place) bool {
				left--
				return left != 0
			})
		}
	}
}
