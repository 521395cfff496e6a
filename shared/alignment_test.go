package shared

import (
	"testing"
	"time"
	"unsafe"
)

// openAll creates a value of each type.
func openAll(t testing.TB, s *Segment) {
	t.Helper()
	for _, open := range []func() (any, error){
		func() (any, error) { return s.Counter("counter") },
		func() (any, error) { return s.Gauge("gauge") },
		func() (any, error) { return s.Histogram("histogram") },
		func() (any, error) {
			return s.RateLimiter("limiter", RateLimit{Events: 10, Per: time.Second, Keys: 100})
		},
		func() (any, error) { return s.Cache("cache", CacheOptions{Size: 8 << 10, MaxEntry: 300}) },
		func() (any, error) { return s.Once("once") },
		func() (any, error) { return s.Lease("lease", time.Minute) },
		func() (any, error) { return s.Flag("flag") },
		func() (any, error) { return s.Config("config", 100) },
		func() (any, error) { return s.TicketKeys("keys") },
		func() (any, error) { return s.Topics("topics") },
	} {
		if _, err := open(); err != nil {
			t.Fatal(err)
		}
	}
}

// No word may lie on two cache lines: an atomic operation on such a word takes half a
// millisecond and stops the other processors. On 32-bit platforms Go aligns less by
// itself, so run this with GOARCH=386 too.
func TestAlignment(t *testing.T) {
	for name, s := range map[string]*Segment{
		"shared": newShared(t, 5),
		"local":  newLocal(t),
		"heap":   onHeap(t),
	} {
		openAll(t, s)
		if base := address(&s.words[0]); base%lineBytes != 0 {
			t.Fatalf("%s: begins at %#x", name, base)
		}
		for i := range s.words {
			if address(&s.words[i])%wordBytes != 0 {
				t.Fatalf("%s: word %d is not aligned", name, i)
			}
		}
		entries := 0
		for e := range s.readyEntries() {
			entries++
			region := s.region(e)
			if address(&region[0])%lineBytes != 0 || len(region)%lineWords != 0 {
				t.Errorf("%s: %q is not in lines of its own", name, e.name())
			}
		}
		if entries != int(kindEnd)-1 {
			t.Errorf("%s: %d types of %d", name, entries, kindEnd-1)
		}
		if address(&s.page(1)[0])%lineBytes != 0 || address(s.laneWord(1, 0))%lineBytes != 0 {
			t.Errorf("%s: pages or lanes share lines", name)
		}
	}
}

// Words and bytes are the same memory, completely.
func TestBytesOf(t *testing.T) {
	words := heapWords(16)
	memory := bytesOf(words)
	if again := wordsOf(memory); len(memory) != 128 || len(again) != 16 || &again[15] != &words[15] {
		t.Errorf("%d bytes of 16 words, %d words of them", len(memory), len(again))
	}
}

func TestHeapWords(t *testing.T) {
	for n := range 200 {
		words := heapWords(n + 1)
		if len(words) != n+1 || address(&words[0])%lineBytes != 0 {
			t.Errorf("%d words begin at %#x", len(words), address(&words[0]))
		}
	}
}

// Different processes write to different cache lines.
func TestCellsAreApart(t *testing.T) {
	s := newLocal(t)
	other := attachAgain(t, s, 999_999_999)
	lines := map[uintptr]string{}
	for name, words := range map[string][]*word{
		"counter":   {Must(s.Counter("c")).own, Must(other.Counter("c")).own},
		"gauge":     {Must(s.Gauge("g")).own, Must(other.Gauge("g")).own},
		"histogram": {&Must(s.Histogram("h")).own[0], &Must(other.Histogram("h")).own[0], &Must(s.Histogram("h")).own[histogramSum]},
		"page":      {&s.Page().words[0], &other.Page().words[0]},
	} {
		for _, w := range words {
			line := address(w) / lineBytes
			if lines[line] != "" {
				t.Errorf("a %s's line is also a %s's", name, lines[line])
			}
			lines[line] = name
		}
	}
}

func address(w *word) uintptr { return uintptr(unsafe.Pointer(w)) }

// onHeap returns a segment as on systems where memory cannot be mapped.
func onHeap(t testing.TB) *Segment {
	t.Helper()
	l := Must(Options{Size: 1 << 20, Processes: 4}.layout())
	s := &Segment{layout: l, words: heapWords(l.size), lockWait: defaultLockWait}
	s.writeHeader()
	if err := s.enter(); err != nil {
		t.Fatal(err)
	}
	return s
}
