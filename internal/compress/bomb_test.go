package compress

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/sluicehttp/sluice/internal/invariants"
)

// bombSize is the decoded size of the bombs.
const bombSize = 1 << 30

// newBomb returns data that decodes to bombSize zeros and has no end. After a flush
// an encoder encodes the same bytes in the same way, so one piece is repeated.
func newBomb(t *testing.T, c Coding) []byte {
	t.Helper()
	const step = 1 << 20
	var out bytes.Buffer
	z := NewWriter(&out, c, 4)
	zeros := make([]byte, step)
	var ends [3]int
	for i := range ends {
		if _, err := z.Write(zeros); err != nil {
			t.Fatal(err)
		}
		if err := z.Flush(); err != nil {
			t.Fatal(err)
		}
		ends[i] = out.Len()
	}
	start, repeated := bytes.Clone(out.Bytes()[:ends[1]]), bytes.Clone(out.Bytes()[ends[1]:ends[2]])
	z.Close()
	return append(start, bytes.Repeat(repeated, bombSize/step-2)...)
}

// TestABombCostsNoMemory: memory is allocated in proportion to the limit, not to the
// output.
func TestABombCostsNoMemory(t *testing.T) {
	eachCoding(t, func(t *testing.T, c Coding) {
		bomb := newBomb(t, c)
		if len(bomb) > bombSize/500 {
			t.Errorf("the bomb has %d bytes", len(bomb))
		}
		if !invariants.Enabled && !testing.Short() {
			z := NewReader(bytes.NewReader(bomb), c, 0)
			if n, err := io.Copy(io.Discard, z); n != bombSize || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("it is decoded to %d bytes, %v", n, err)
			}
			z.Close()
		}
		limits := []int{1, 1000, 1 << 16, 1 << 20, 8 << 20}
		if invariants.Enabled { // no goroutines, and most of the time
			limits = limits[:4]
		}
		for _, limit := range limits {
			var got []byte
			var err error
			allocated := allocatedBy(func() { got, err = AppendDecoded(nil, bomb, c, limit) })
			if !errors.Is(err, ErrTooLarge) || len(got) != limit || cap(got) > 3*limit+4096 {
				t.Errorf("limit %d: %d bytes in %d, %v", limit, len(got), cap(got), err)
			}
			if most := uint64(8*limit + 8<<20); allocated > most {
				t.Errorf("limit %d: %d bytes allocated", limit, allocated)
			}
			var n int
			allocated = allocatedBy(func() { n, err = WriteDecoded(io.Discard, bomb, c, limit) })
			if !errors.Is(err, ErrTooLarge) || n != limit || allocated > uint64(8*limit+8<<20) {
				t.Errorf("limit %d: WriteDecoded = %d, %v; %d bytes allocated", limit, n, err, allocated)
			}
		}
	})
}
