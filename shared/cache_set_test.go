package shared

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// newSet returns a cache with a single set.
func newSet(t *testing.T, maxEntry int) *Cache {
	t.Helper()
	return Must(newLocal(t).Cache("cache", CacheOptions{Size: 1, MaxEntry: maxEntry}))
}

// put sets a value of length bytes.
func (c *Cache) put(t *testing.T, key string, length int, ttl time.Duration) {
	t.Helper()
	if err := c.Set([]byte(key), make([]byte, length), ttl); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
}

// has reports whether the entry exists, without marking it as used.
func (c *Cache) has(key string) bool {
	tag := c.segment.hasher.sum([]byte(key)) | 1
	return c.findLocked(c.set(tag), []byte(key), tag) >= 0
}

func TestWaysOfSet(t *testing.T) {
	for _, c := range []struct {
		maxEntry int
		want     string // words of each way × how many there are
	}{
		{1, "8×8"}, {40, "8×8"}, {41, "8×16"}, {104, "8×16"}, {105, "8×16 4×24"}, {1000, "8×16 4×64 2×128"}, {1001, "8×16 4×64 2×136"},
		{1 << 20, "8×16 4×64 2×256 2×1024 2×4096 2×16384 2×65536 2×131080"},
	} {
		cache := &Cache{}
		cache.shape(c.maxEntry)
		var got []string
		for at := 0; at < len(cache.ways); {
			n, w := 0, cache.ways[at]
			for ; at < len(cache.ways) && cache.ways[at].class == w.class; at++ {
				n++
			}
			if w.class != len(got) {
				t.Errorf("MaxEntry %d: class %d after %q", c.maxEntry, w.class, got)
			}
			got = append(got, fmt.Sprintf("%d×%d", n, w.words))
		}
		if fmt.Sprint(got) != "["+c.want+"]" {
			t.Errorf("MaxEntry %d: %v, want %s", c.maxEntry, got, c.want)
		}
		next := linesFor(setTags + len(cache.ways))
		for _, w := range cache.ways {
			if w.at != next {
				t.Errorf("MaxEntry %d: a way begins at %d, want %d", c.maxEntry, w.at, next)
			}
			next += w.words
		}
		if cache.setWords != next {
			t.Errorf("MaxEntry %d: a set has %d words, want %d", c.maxEntry, cache.setWords, next)
		}
	}
}

// Entries are evicted in the order of their creation, except those that were read
// since the hand passed them.
func TestHandOfSet(t *testing.T) {
	c := newSet(t, 100) // 8 ways
	var keys []string
	for i := range 8 {
		keys = append(keys, fmt.Sprint("first ", i))
		c.put(t, keys[i], 10, 0)
	}
	read := func(which ...int) {
		for _, i := range which {
			if _, isFound := c.Get(nil, []byte(keys[i])); !isFound {
				t.Errorf("%s is not there", keys[i])
			}
		}
	}
	// expect sets another entry, which must evict entry number which.
	expect := func(which int) {
		t.Helper()
		if !c.has(keys[which]) {
			t.Fatalf("%s has made room already", keys[which])
		}
		keys = append(keys, fmt.Sprint("next ", len(keys)))
		c.put(t, keys[len(keys)-1], 10, 0)
		if there := slices.IndexFunc(keys, c.has); c.has(keys[which]) {
			t.Fatalf("%s is still there; the oldest one is %s", keys[which], keys[there])
		}
	}
	expect(0) // evicted by 8
	expect(1) // evicted by 9
	read(2, 2)
	expect(3) // evicted by 10; the hand passed 2
	for _, i := range []int{4, 5, 6, 7, 8, 9, 2, 10} {
		expect(i)
	}
	read(11, 12, 13, 14, 15, 16, 17, 18) // all were read: the entry at the hand is evicted
	expect(11)
	expect(12)
	c.put(t, keys[13], 20, 0) // a new value neither is a new entry nor counts as a read
	expect(13)
	read(14)
	if err := c.Delete([]byte(keys[16])); err != nil {
		t.Fatal(err)
	}
	c.put(t, "in the free way", 10, 0)
	if !c.has(keys[14]) || !c.has(keys[15]) {
		t.Error("an entry made room beside a free way")
	}
}

// An entry gets a way of its class, or a free one of a greater class.
func TestClassesOfSet(t *testing.T) {
	c := newSet(t, 1000) // 8×16, 4×64, 2×128 words
	lost := func(keys []string) (n int) {
		for _, k := range keys {
			if !c.has(k) {
				n++
			}
		}
		return n
	}
	var small, middle []string
	for i := range 14 {
		small = append(small, fmt.Sprint("small ", i))
		c.put(t, small[i], 10, 0)
	}
	if n := lost(small); n > 0 {
		t.Errorf("%d small entries of 14 made room", n)
	}
	for i := range 12 {
		middle = append(middle, fmt.Sprint("middle ", i))
		c.put(t, middle[i], 300, 0)
	}
	if n := lost(middle); n != 8 { // the entries that were set before occupy the greatest ways
		t.Errorf("%d middle entries of 12 made room, want 8", n)
	}
	if n := lost(small); n != 4 {
		t.Errorf("%d small entries of 14 made room for middle ones, want 4", n)
	}
	c.put(t, "great", 990, 0)
	c.put(t, "great too", 990, 0)
	if n := lost(small); n != 6 || !c.has("great") || !c.has("great too") {
		t.Errorf("%d small entries made room for great ones, want 6", n)
	}
	// The hands of other classes have not moved.
	for i := range 8 {
		c.put(t, fmt.Sprint("small too ", i), 10, 0)
		if !slices.Equal([]int{lost(small[:i+1]), lost(small[:8])}, []int{i + 1, i + 1}) {
			t.Errorf("%d of the first small entries made room, want %d", lost(small[:8]), i+1)
		}
	}
	// An entry that grows moves to a greater way and frees its old one.
	c.put(t, "small too 3", 300, 0)
	for i := range 2 {
		c.put(t, fmt.Sprint("more ", i), 10, 0)
	}
	if c.has("small too 0") || !c.has("small too 1") || !c.has("small too 3") {
		t.Error("the way of an entry that grew was not the first to be taken")
	}
	c.put(t, "small too 3", 5, 0) // and keeps it when it shrinks
	if got, isFound := c.Get(nil, []byte("small too 3")); !isFound || len(got) != 5 {
		t.Errorf("%d bytes, %v", len(got), isFound)
	}
}

// An entry is kept until its time has passed, and is then evicted first.
func TestTimesOfSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, ttl := range []time.Duration{0, time.Hour} { // of the new entry
			c := newSet(t, 100)
			for i := range 8 {
				c.put(t, fmt.Sprint(i), 10, time.Duration(i%2)*time.Second)
				if _, isFound := c.Get(nil, fmt.Append(nil, i)); !isFound {
					t.Errorf("%d is not there", i)
				}
			}
			time.Sleep(time.Second - 1)
			if _, isFound := c.Get(nil, []byte("3")); !isFound {
				t.Error("expired before its time")
			}
			c.put(t, "one more", 10, ttl) // through sweep: all were read
			if c.has("0") || !c.has("1") || !c.has("3") {
				t.Error("before its time, an entry made room")
			}
			time.Sleep(time.Nanosecond)
			if got, isFound := c.Get([]byte("x"), []byte("3")); isFound || string(got) != "x" {
				t.Errorf("at the end of its time: %q, %v", got, isFound)
			}
			for i, want := range []string{"1", "3", "5", "7"} {
				c.put(t, fmt.Sprint("later ", i), 10, ttl)
				if c.has(want) {
					t.Errorf("%s has not made room although it has expired", want)
				}
			}
			if !c.has("2") || !c.has("4") || !c.has("6") {
				t.Error("an entry made room beside expired ones")
			}
		}
	})
}

// Keys with the same hash are distinguished.
func TestSameHash(t *testing.T) {
	s := newLocal(t)
	s.hasher = hasher{} // without secrets a collision is easy: a factor is zero
	c := Must(s.Cache("cache", CacheOptions{Size: 1, MaxEntry: 100}))
	one, other, third := append(make([]byte, 8), "one-one-"...), append(make([]byte, 8), "other---"...), append(make([]byte, 8), "third---"...)
	if s.hasher.sum(one) != s.hasher.sum(other) || s.hasher.sum(one) != s.hasher.sum(third) {
		t.Fatal("the hashes differ")
	}
	for _, key := range [][]byte{one, other} {
		if err := c.Set(key, key, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range [][]byte{one, other} {
		if got, isFound := c.Get(nil, key); !isFound || !bytes.Equal(got, key) {
			t.Errorf("%q has %q, %v", key, got, isFound)
		}
	}
	if got, isFound := c.Get(nil, third); isFound {
		t.Errorf("a key that was not set has %q", got)
	}
	if err := c.Delete(third); err != nil || !c.has(string(one)) || !c.has(string(other)) {
		t.Errorf("deleting a key that was not set deleted another: %v", err)
	}
	if err := c.Delete(other); err != nil || !c.has(string(one)) || c.has(string(other)) {
		t.Errorf("deleted another one: %v", err)
	}
}

// A set that is marked as being written while its lock is free is emptied, by a
// reader and by a writer.
func TestSetWithoutWriter(t *testing.T) {
	for name, use := range map[string]func(c *Cache){
		"Get":    func(c *Cache) { c.Get(nil, []byte("new")) },
		"Delete": func(c *Cache) { _ = c.Delete([]byte("new")) },
		"Set":    func(c *Cache) { _ = c.Set([]byte("new"), nil, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newSet(t, 100)
			c.put(t, "old", 10, 0)
			set := c.set(0)
			set[setSequence].Add(1)
			use(c)
			if c.has("old") || c.has("new") != (name == "Set") || set[setSequence].Load()&1 != 0 || set[setLock].Load() != 0 {
				t.Errorf("old: %v, new: %v, sequence %d, lock %d", c.has("old"), c.has("new"), set[setSequence].Load(), set[setLock].Load())
			}
		})
	}
}

// An entry with lengths that do not fit its way is damaged and counts as missing.
func TestLengthsOfWay(t *testing.T) {
	c := newSet(t, 100)
	for _, lengths := range []uint64{
		3<<32 | 1<<20, 1<<20<<32 | 3, 3<<32 | 105, 3<<32 | 1<<31 - 1, (1<<31-1)<<32 | 3, 2<<32 | 3, 4<<32 | 3, 1<<63 - 1, 1<<64 - 1,
	} {
		c.put(t, "key", 10, 0)
		set := c.set(0)
		set[c.ways[0].at+wayLengths].Store(lengths)
		if got, isFound := c.Get([]byte("x"), []byte("key")); isFound || string(got) != "x" {
			t.Errorf("lengths %x: %q, %v", lengths, got, isFound)
		}
		set[setTags].Store(0)
	}
}
