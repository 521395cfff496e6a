package shared

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestCache(t *testing.T) {
	s := newLocal(t)
	c := Must(s.Cache("cache", CacheOptions{Size: 256 << 10, MaxEntry: 3000}))
	key := []byte("key")
	for _, size := range []int{0, 1, 7, 8, 9, 63, 64, 65, 100, 500, 1000, 2996, 2997, 200, 2997, 0} {
		value := bytes.Repeat([]byte{byte(size)}, size)
		if err := c.Set(key, value, 0); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		got, isFound := c.Get([]byte("before "), key)
		if !isFound || string(got) != "before "+string(value) {
			t.Fatalf("%d bytes: got %q, %v", size, got, isFound)
		}
	}
	if err := c.Set(key, make([]byte, 5000), 0); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	if got, isFound := c.Get([]byte("x"), key); isFound || string(got) != "x" {
		t.Errorf("after one that was too large: %q, %v", got, isFound)
	}
	if err := c.Set(nil, key, 0); err != nil {
		t.Error(err)
	}
	if got, isFound := c.Get(nil, nil); !isFound || string(got) != "key" {
		t.Errorf("of the empty key: %q, %v", got, isFound)
	}
	if err := c.Delete(nil); err != nil {
		t.Error(err)
	}
	if _, isFound := c.Get(nil, nil); isFound {
		t.Error("deleted and found")
	}
}

func TestCacheOptions(t *testing.T) {
	s := newLocal(t)
	for _, c := range []struct {
		options CacheOptions
		want    error
	}{
		{CacheOptions{}, nil},
		{CacheOptions{Size: 1}, nil},
		{CacheOptions{Size: -1}, ErrOption},
		{CacheOptions{MaxEntry: -1}, ErrOption},
		{CacheOptions{MaxEntry: cacheMaxLen + 1}, ErrOption},
		{CacheOptions{MaxEntry: cacheMaxLen, Size: 1}, nil},
		{CacheOptions{MaxEntry: 16, Size: 100 << 20}, ErrFull},
	} {
		if _, err := s.Cache(fmt.Sprint(c.options), c.options); !errors.Is(err, c.want) || (c.want == nil && err != nil) {
			t.Errorf("%+v: %v, want %v", c.options, err, c.want)
		}
	}
	for maxEntry := 1; maxEntry <= cacheMaxLen; maxEntry += 1 + maxEntry/3 {
		c := &Cache{segment: s}
		c.shape(maxEntry)
		if c.classFor(wordsFor(maxEntry/2)+wordsFor(maxEntry-maxEntry/2)) < 0 || len(c.ways) > 64 {
			t.Errorf("MaxEntry %d: %d ways, none that is large enough", maxEntry, len(c.ways))
		}
	}
}

func TestCacheExpires(t *testing.T) {
	s := newLocal(t)
	c := Must(s.Cache("cache", CacheOptions{}))
	for key, ttl := range map[string]time.Duration{"soon": time.Nanosecond, "later": time.Hour, "latest": 1<<63 - 1, "never": 0} {
		if err := c.Set([]byte(key), []byte(key), ttl); err != nil {
			t.Fatal(err)
		}
		got, isFound := c.Get(nil, []byte(key))
		if isFound != (key != "soon") || isFound && string(got) != key {
			t.Errorf("%s: %q, %v", key, got, isFound)
		}
	}
}

// An entry that is read regularly stays, others are evicted.
func TestCacheEvicts(t *testing.T) {
	s := newLocal(t)
	c := Must(s.Cache("cache", CacheOptions{Size: 64 << 10, MaxEntry: 100}))
	value := make([]byte, 64)
	hot := []byte("hot")
	lost, kept := 0, 0
	for i := range 20_000 {
		if _, isFound := c.Get(nil, hot); !isFound {
			lost++
			if err := c.Set(hot, value, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Set(fmt.Append(nil, i), value, 0); err != nil {
			t.Fatal(err)
		}
	}
	if lost > 1 {
		t.Errorf("the entry that was read all the time was lost %d times", lost-1)
	}
	for i := range 20_000 {
		if _, isFound := c.Get(nil, fmt.Append(nil, i)); isFound {
			kept++
		}
	}
	if room := int(c.sets) * len(c.ways); kept < room*9/10 || kept > room {
		t.Errorf("%d entries are kept where %d have room", kept, room)
	}
}

// The cache agrees with a map, except for evicted entries.
func TestCacheAgainstModel(t *testing.T) {
	s := newLocal(t)
	c := Must(s.Cache("cache", CacheOptions{Size: 512 << 10, MaxEntry: 1000}))
	random := rand.New(rand.NewPCG(1, 2))
	model := map[string][]byte{}
	found := 0
	for i := range 100_000 {
		key := fmt.Append(nil, random.IntN(500))
		switch random.IntN(10) {
		case 0:
			delete(model, string(key))
			if err := c.Delete(key); err != nil {
				t.Fatal(err)
			}
		case 1, 2, 3:
			value := bytes.Repeat(fmt.Append(nil, i), 1+random.IntN(150))
			model[string(key)] = value
			if err := c.Set(key, value, 0); err != nil {
				t.Fatal(err)
			}
		default:
			value, isFound := c.Get(nil, key)
			if isFound && !bytes.Equal(value, model[string(key)]) {
				t.Fatalf("operation %d: key %s has %q, want %q", i, key, value, model[string(key)])
			}
			if isFound {
				found++
			}
		}
	}
	if found < 20_000 {
		t.Errorf("only %d were found", found)
	}
}

// A reader waits for a living writer and not for a dead one.
func TestDeadWriter(t *testing.T) {
	s := newLocal(t)
	other := attachAgain(t, s, 999_999_999)
	c, theirs := Must(s.Cache("cache", CacheOptions{Size: 1, MaxEntry: 100})), Must(other.Cache("cache", CacheOptions{Size: 1, MaxEntry: 100}))
	key := []byte("key")
	if err := c.Set(key, key, 0); err != nil {
		t.Fatal(err)
	}
	set := theirs.set(0)
	if !theirs.lockSet(set) {
		t.Fatal("the set was locked")
	}
	s.lockWait = 0
	if _, isFound := c.Get(nil, key); isFound {
		t.Error("found while it is being written")
	}
	if err := c.Set(key, key, 0); !errors.Is(err, ErrBusy) {
		t.Errorf("Set beside a writer: %v", err)
	}
	if err := c.Set(key, make([]byte, 5000), 0); !errors.Is(err, ErrBusy) {
		t.Errorf("Set of too much beside a writer: %v", err)
	}
	if err := c.Delete(key); !errors.Is(err, ErrBusy) {
		t.Errorf("Delete beside a writer: %v", err)
	}
	s.Reap(999_999_999)
	if _, isFound := c.Get(nil, key); isFound {
		t.Error("found in a set that a dead process was writing")
	}
	if set[setSequence].Load()&1 != 0 || set[setLock].Load() != 0 {
		t.Error("a reader left the set as the dead process did")
	}
	if err := c.Set(key, key, 0); err != nil {
		t.Errorf("Set after the writer has died: %v", err)
	}
	if _, isFound := c.Get(nil, key); !isFound {
		t.Error("not found after all that")
	}
}

const (
	crashKeys = 300
	crashSize = 128 << 10 // too small for all of them, so that entries are evicted
)

// checkedValue is a value from which a reader can tell its key, and whether it is
// complete.
func checkedValue(dst []byte, key, round uint32, length int) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, key)
	dst = binary.LittleEndian.AppendUint32(dst, round)
	for len(dst) < length {
		dst = append(dst, byte(round))
	}
	return binary.LittleEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst))
}

func isWhole(value []byte, key uint32) bool {
	end := len(value) - 4
	return end >= 8 && binary.LittleEndian.Uint32(value) == key && binary.LittleEndian.Uint32(value[end:]) == crc32.ChecksumIEEE(value[:end])
}

// cacheRole writes until it is killed.
func cacheRole(s *Segment, _ *bufio.Scanner) {
	c := Must(s.Cache("crash", CacheOptions{Size: crashSize, MaxEntry: 1000}))
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	var key [4]byte
	var value []byte
	say("ready")
	for round := uint32(0); ; round++ {
		number := random.Uint32N(crashKeys)
		binary.LittleEndian.PutUint32(key[:], number)
		value = checkedValue(value[:0], number, round, random.IntN(900))
		_ = c.Set(key[:], value, 0) // ErrBusy: the owner of the lock is not reaped yet
	}
}

// Writers are killed 60 times at any point while readers read: no value is mixed, and
// no set stays locked.
func TestKilledWriters(t *testing.T) {
	s := newShared(t, 8)
	c := Must(s.Cache("crash", CacheOptions{Size: crashSize, MaxEntry: 1000}))
	kills := 60
	if testing.Short() {
		kills = 10
	}
	var torn, gets, hits atomic.Uint64
	var isOver atomic.Bool
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			var key [4]byte
			var value []byte
			for number := uint32(0); !isOver.Load(); number = (number + 1) % crashKeys {
				binary.LittleEndian.PutUint32(key[:], number)
				var isFound bool
				if value, isFound = c.Get(value[:0], key[:]); isFound {
					hits.Add(1)
					if !isWhole(value, number) {
						torn.Add(1)
					}
				}
				gets.Add(1)
			}
		})
	}
	stolen := 0
	writers := startProcesses(t, s, "cache", 2)
	for i := range kills {
		w := writers[i%2]
		read := gets.Load()
		for gets.Load() < read+1000 { // so that writers write for a while
			time.Sleep(100 * time.Microsecond)
		}
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait()
		stolen += locksHeld(c)
		w.kill() // it is dead already: only reap it
		stolen -= locksHeld(c)
		writers[i%2] = startProcesses(t, s, "cache", 1)[0]
	}
	writers[0].kill()
	writers[1].kill()
	isOver.Store(true)
	readers.Wait()
	for number := range uint32(crashKeys) {
		key := binary.LittleEndian.AppendUint32(nil, number)
		if err := c.Set(key, checkedValue(nil, number, 0, 20), 0); err != nil {
			t.Fatalf("key %d is stuck: %v", number, err)
		}
	}
	if torn.Load() > 0 || hits.Load() == 0 {
		t.Errorf("%d torn of %d found of %d read", torn.Load(), hits.Load(), gets.Load())
	}
	t.Logf("%d reads, %d found, %d locks left by the dead", gets.Load(), hits.Load(), stolen)
}

// locksHeld counts the sets whose lock is held by a process that is not dead.
func locksHeld(c *Cache) (n int) {
	for i := range int(c.sets) {
		if owner := c.words[i*c.setWords+setLock].Load(); owner != 0 && c.segment.isAlive(owner) {
			n++
		}
	}
	return n
}
