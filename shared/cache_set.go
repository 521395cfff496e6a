package shared

import "runtime"

// lockSet locks the set for writing; readers then wait. If the last writer died while
// it wrote, lockSet empties the set.
func (c *Cache) lockSet(set []word) bool {
	wasStolen, isLocked := c.segment.lock(&set[setLock])
	if !isLocked {
		return false
	}
	sequence := set[setSequence].Load()
	if wasStolen || sequence&1 != 0 {
		set[setSequence].Store(sequence | 1)
		for i := range c.ways {
			set[setTags+i].Store(0)
		}
		return true
	}
	set[setSequence].Store(sequence + 1)
	return true
}

func (c *Cache) unlockSet(set []word) {
	set[setSequence].Add(1)
	c.segment.unlock(&set[setLock])
}

// awaitWriter waits until the set's writer has finished. If the writer is dead, it
// empties the set. It returns false if a living writer does not finish.
func (c *Cache) awaitWriter(set []word) bool {
	for range 256 {
		if set[setSequence].Load()&1 == 0 {
			return true
		}
		if !c.segment.isAlive(set[setLock].Load()) && c.lockSet(set) {
			c.unlockSet(set)
			return true
		}
		runtime.Gosched()
	}
	return false
}

// findLocked returns the way that holds the key, or -1.
func (c *Cache) findLocked(set []word, key []byte, tag uint64) int {
	for i := range c.ways {
		if set[setTags+i].Load() != tag {
			continue
		}
		words := c.ways[i].wayWords(set)
		if keyLength, _, isSane := lengths(words); isSane && keyLength == len(key) && holdsBytes(words[wayBytes:], key) {
			return i
		}
	}
	return -1
}

// choose returns the way for an entry that needs ways of class or above: the first
// free one, or one of that class whose entry was not used recently. It first frees
// the way that holds the key. now may be zero for unknown.
func (c *Cache) choose(set []word, key []byte, tag uint64, class int, now int64) int {
	if at := c.findLocked(set, key, tag); at >= 0 {
		set[setTags+at].Store(0)
	}
	first, last := -1, -1 // of the class
	for i := range c.ways {
		if c.ways[i].class < class {
			continue
		}
		if c.ways[i].class == class {
			if first < 0 {
				first = i
			}
			last = i
		}
		if set[setTags+i].Load() == 0 {
			return i
		}
		expiry := int64(set[c.ways[i].at+wayExpiry].Load())
		if expiry == 0 {
			continue
		}
		if now == 0 {
			now = c.segment.clock.now()
		}
		if now >= expiry {
			return i
		}
	}
	return c.sweep(set, first, last-first+1, class)
}

// sweep moves the clock hand of a class over its ways until it finds one whose used
// bit is not set. It clears the bits that it passes. The word of hands has a byte for
// each class.
func (c *Cache) sweep(set []word, first, count, class int) int {
	hands, shift := set[setHand].Load(), 8*class
	hand := int(hands>>shift&0xff) % count
	for range count {
		bit := uint64(1) << (first + hand)
		if set[setUsed].Load()&bit == 0 {
			break
		}
		set[setUsed].And(^bit)
		hand = (hand + 1) % count
	}
	set[setHand].Store(hands&^(0xff<<shift) | uint64((hand+1)%count)<<shift)
	return first + hand
}
