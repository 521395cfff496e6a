package http2

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"
)

// TestRecords puts and takes records of any size in any order.
func TestRecords(t *testing.T) {
	var r Records
	random := rand.New(rand.NewPCG(1, 1))
	stored := map[Record][]byte{}
	take := func() {
		for record, want := range stored {
			if got := r.take(record, []byte("x")); !bytes.Equal(got[1:], want) {
				t.Fatalf("%x became %x", want, got[1:])
			}
			delete(stored, record)
			return
		}
	}
	for range 20_000 {
		if random.IntN(2) == 0 {
			take()
			continue
		}
		p := make([]byte, random.IntN(300))
		for i := range p {
			p[i] = byte(random.Uint32())
		}
		record := r.put(p)
		if stored[record] != nil || record == 0 {
			t.Fatalf("record %d is in use", record)
		}
		stored[record] = p
	}
	for len(stored) > 0 {
		take()
	}
	if len(r.partial) != 1 {
		t.Errorf("%d chunks have free cells", len(r.partial))
	}
}

// TestRecordsMemory: cells are used again, and chunks without records are dropped.
func TestRecordsMemory(t *testing.T) {
	var r Records
	const count = 10_000
	p := make([]byte, 350)
	cells := (len(p) + cellHead + cellSize - cellHead - 1) / (cellSize - cellHead)
	var records []Record
	for range 3 {
		for range count {
			records = append(records, r.put(p))
		}
		if n, want := len(r.chunks)-len(r.vacant), (count*cells+cellsInChunk-1)/cellsInChunk; n != want {
			t.Errorf("%d chunks for %d records of %d cells, want %d", n, count, cells, want)
		}
		rand.Shuffle(count, func(i, j int) { records[i], records[j] = records[j], records[i] })
		for _, record := range records {
			r.take(record, nil)
		}
		records = records[:0]
		if n := len(r.chunks) - len(r.vacant); n != 1 {
			t.Errorf("%d chunks without records", n)
		}
	}
}

// TestRecordsConcurrently: several goroutines.
func TestRecordsConcurrently(t *testing.T) {
	var r Records
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			p := bytes.Repeat([]byte{byte(i)}, 100)
			for range 1000 {
				a, b := r.put(p), r.put(p[:10])
				if got := r.take(a, nil); !bytes.Equal(got, p) {
					t.Errorf("%d: %x", i, got)
				}
				r.take(b, nil)
			}
		})
	}
	all.Wait()
}

// TestRecordsAllocateNothing in steady state.
func TestRecordsAllocateNothing(t *testing.T) {
	var r Records
	r.put([]byte("stays"))
	p, dst := make([]byte, 400), make([]byte, 0, 400)
	if n := testing.AllocsPerRun(100, func() { dst = r.take(r.put(p), dst[:0]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
