package shared

import (
	"fmt"
	"math/bits"
	"time"
)

// CacheOptions are the sizes of a cache.
type CacheOptions struct {
	// Size is the size of the cache in bytes, including its own data. Zero is
	// 8 MiB.
	Size int64
	// MaxEntry is the maximum size of a key and its value together, in bytes. Each
	// set has places of several sizes, from 128 bytes in steps of four times up to
	// MaxEntry, so a MaxEntry that is much too large wastes room. Zero is 1,000; the
	// maximum is 1 MiB.
	MaxEntry int
}

// A cache is an array of sets. The hash of a key selects its set. A set has
//   - a lock for writers, and a sequence number for readers, which is odd while a
//     process writes;
//   - a bit for each way that says that it was used recently, and the hands of
//     CLOCK, which look for a way that was not;
//   - the hash of each way's key, zero if the way is free;
//   - the ways: places of several sizes, each with the time at which the entry
//     expires, the lengths of key and value, the key and the value.
const (
	setLock     = 0
	setSequence = 1
	setUsed     = 2
	setHand     = 3
	setTags     = 4

	wayExpiry  = 0
	wayLengths = 1
	wayBytes   = 2
	lengthMask = 1<<30 - 1 // more than cacheMaxLen, and the sum of two fits an int

	smallestWay  = 16 // words, 128 bytes
	cacheMaxSize = 1 << 36
	cacheMaxLen  = 1 << 20
	cacheLoads   = 64 // attempts to read an entry while it is being written
)

// waysOfClass are the numbers of ways in a set: of 128 bytes, of 512, and of
// each greater size.
var waysOfClass = [...]int{8, 4, 2, 2, 2, 2, 2, 2}

// A way is a place for one entry, the same in all sets.
type way struct {
	at    int // its first word in the set
	words int
	class int
}

// A Cache maps keys to values until they expire or are evicted: a new entry
// replaces one that was not read recently. Bytes are copied in and out, so the
// caller may change its slices after a method has returned. A reader always gets a
// complete value.
//
// Crash rule: entries remain when the process that set them dies. If it dies while
// it writes, the entries of that set, about a dozen, are lost.
type Cache struct {
	segment  *Segment
	words    []word
	sets     uint64
	setWords int
	ways     []way
}

// Cache returns the cache of that name. Errors: [ErrOption], [ErrName],
// [ErrFull], [ErrMismatch], [ErrBusy].
func (s *Segment) Cache(name string, options CacheOptions) (*Cache, error) {
	if options.Size == 0 {
		options.Size = 8 << 20
	}
	if options.MaxEntry == 0 {
		options.MaxEntry = 1000
	}
	if options.MaxEntry < 1 || options.MaxEntry > cacheMaxLen || options.Size < 1 || options.Size > cacheMaxSize || int64(int(options.Size)) != options.Size {
		return nil, fmt.Errorf("%w: cache %q with %+v", ErrOption, name, options)
	}
	c := &Cache{segment: s}
	c.shape(options.MaxEntry)
	sets := max(1, int(options.Size)/(c.setWords*wordBytes))
	words, err := s.open(name, kindCache, parameters{uint64(sets), uint64(c.setWords)}, sets*c.setWords)
	if err != nil {
		return nil, err
	}
	c.words, c.sets = words, uint64(sets)
	return c, nil
}

// shape lays out a set.
func (c *Cache) shape(maxEntry int) {
	// A key and a value are each filled up to whole words.
	largest := linesFor(wayBytes + wordsFor(maxEntry) + 1)
	words := smallestWay
	for class, count := range waysOfClass {
		words = min(words, largest)
		for range count {
			c.ways = append(c.ways, way{words: words, class: class})
		}
		if words == largest {
			break // at the last class at the latest: it has room for cacheMaxLen
		}
		words *= 4
	}
	c.setWords = linesFor(setTags + len(c.ways))
	for i := range c.ways {
		c.ways[i].at = c.setWords
		c.setWords += c.ways[i].words
	}
}

// set returns the set of a key.
func (c *Cache) set(hash uint64) []word {
	index, _ := bits.Mul64(hash, c.sets) // the hash as a fraction, times sets
	from := int(index) * c.setWords
	return c.words[from : from+c.setWords : from+c.setWords]
}

// wayWords returns a way's words in a set.
func (w *way) wayWords(set []word) []word { return set[w.at : w.at+w.words : w.at+w.words] }

// Get appends the value of key to dst. If there is none, it returns dst unchanged
// and false.
func (c *Cache) Get(dst, key []byte) (value []byte, isFound bool) {
	tag := c.segment.hasher.sum(key) | 1
	set := c.set(tag)
	for range cacheLoads {
		before := set[setSequence].Load()
		if before&1 != 0 {
			if !c.awaitWriter(set) {
				return dst, false
			}
			continue
		}
		value, at := c.load(set, dst, key, tag)
		if set[setSequence].Load() != before {
			continue
		}
		if at < 0 {
			return dst, false
		}
		if bit := uint64(1) << at; set[setUsed].Load()&bit == 0 {
			set[setUsed].Or(bit)
		}
		return value, true
	}
	return dst, false // the set changes all the time; treat the entry as evicted
}

// load looks for the entry of key and appends its value. The result is valid only
// if no process has written in the meantime, which the caller checks afterwards.
// load must therefore cope with arbitrary lengths.
func (c *Cache) load(set []word, dst, key []byte, tag uint64) (value []byte, at int) {
	tags := set[setTags : setTags+len(c.ways)]
	for i := range tags {
		if tags[i].Load() != tag {
			continue
		}
		words := c.ways[i].wayWords(set)
		keyLength, valueLength, isSane := lengths(words)
		if !isSane || keyLength != len(key) || !holdsBytes(words[wayBytes:], key) {
			continue
		}
		if expiry := int64(words[wayExpiry].Load()); expiry != 0 && c.segment.clock.now() >= expiry {
			return dst, -1
		}
		return appendBytes(dst, words[wayBytes+wordsFor(keyLength):], valueLength), i
	}
	return dst, -1
}

// lengths returns the lengths of a way's key and value, and whether they fit the
// way.
func lengths(words []word) (key, value int, isSane bool) {
	both := words[wayLengths].Load()
	key, value = int(both>>32&lengthMask), int(both&lengthMask)
	return key, value, wordsFor(key)+wordsFor(value) <= len(words)-wayBytes
}

// Set stores value under key for ttl; a ttl of zero or less means without expiry.
// It copies both. Errors: [ErrTooLarge] if key and value together do not fit
// MaxEntry, and then the old value is removed; [ErrBusy], and then the old value
// remains.
func (c *Cache) Set(key, value []byte, ttl time.Duration) error {
	tag := c.segment.hasher.sum(key) | 1
	set := c.set(tag)
	class := c.classFor(wordsFor(len(key)) + wordsFor(len(value)))
	if class < 0 {
		if err := c.Delete(key); err != nil {
			return err
		}
		return ErrTooLarge
	}
	now, expiry := int64(0), int64(0)
	if ttl > 0 {
		now = c.segment.clock.now()
		expiry = now + max(min(int64(ttl), 1<<62-now), 1)
	}
	if !c.lockSet(set) {
		return ErrBusy
	}
	at := c.choose(set, key, tag, class, now)
	words := c.ways[at].wayWords(set)
	set[setTags+at].Store(tag)
	words[wayExpiry].Store(uint64(expiry))
	words[wayLengths].Store(uint64(len(key))<<32 | uint64(len(value)))
	putBytes(words[wayBytes:], key)
	putBytes(words[wayBytes+wordsFor(len(key)):], value)
	c.unlockSet(set)
	return nil
}

// Delete removes the value of key. The error is [ErrBusy]; then the value may
// still be there.
func (c *Cache) Delete(key []byte) error {
	tag := c.segment.hasher.sum(key) | 1
	set := c.set(tag)
	if !c.lockSet(set) {
		return ErrBusy
	}
	if at := c.findLocked(set, key, tag); at >= 0 {
		set[setTags+at].Store(0)
	}
	c.unlockSet(set)
	return nil
}

// classFor returns the smallest class of ways with room for that many words of
// key and value; -1 if there is none.
func (c *Cache) classFor(words int) int {
	for i := range c.ways {
		if words <= c.ways[i].words-wayBytes {
			return c.ways[i].class
		}
	}
	return -1
}
