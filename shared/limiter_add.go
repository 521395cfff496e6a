package shared

// era returns the era of a time in ticks. It is never zero, which marks a set
// before its first use.
func era(ticks int64) uint64 { return uint64(ticks)>>eraBits + 1 }

// admitLocked handles a key that has no word yet, or whose sets must be cleaned.
// Only this function assigns words to keys, with both sets locked, so that a key
// never has two. Existing words may be charged concurrently without the locks.
func (l *RateLimiter) admitLocked(p pair, a arrival) decision {
	if !l.lockPair(p) {
		return decision{wait: l.interval, left: l.window} // the key may have a word
	}
	defer l.unlockPair(p)
	p.first.clean(a.ticks)
	p.second.clean(a.ticks)
	for {
		if way := p.find(a.tag); way != nil {
			if d, isLost := l.charge(way, a); !isLost {
				return d
			}
			continue
		}
		way, old, wait := p.unused(a.ticks)
		switch {
		case way == nil && l.admitWhenFull:
			return decision{isAllowed: true}
		case way == nil:
			return decision{wait: wait, left: l.window}
		case way.CompareAndSwap(old, a.word(a.cost)):
			return decision{isAllowed: true, left: a.cost}
		}
	}
}

// clean ensures that the words of a locked set were written in this era or in the
// one before. It removes expired words once in each era, because one era later
// they could no longer be recognised. If the set was not used for longer than an
// era, all its words have expired.
func (set *limiterSet) clean(ticks int64) {
	now, last := era(ticks), set[limiterEra].Load()
	if last >= now {
		return // last is later than now if another process's clock is ahead
	}
	for i := limiterWays; i < lineWords; i++ {
		for {
			old := set[i].Load()
			isInUse := last+1 >= now && ticksLeft(old, ticks) > 0
			if isInUse || set[i].CompareAndSwap(old, 0) {
				break
			}
		}
	}
	set[limiterEra].Store(now)
}

// unused returns an unused word, and its value, from the set that has more of
// them. If there is none, it returns the ticks until a word expires.
func (p pair) unused(now int64) (way *word, old uint64, wait int64) {
	wait = tickMask
	var unused [2]int
	var ways [2]*word
	var values [2]uint64
	for i, set := range [2]*limiterSet{p.first, p.second} {
		for w := limiterWays; w < lineWords; w++ {
			value := set[w].Load()
			if left := ticksLeft(value, now); value != 0 && left > 0 {
				wait = min(wait, left)
				continue
			}
			unused[i]++
			ways[i], values[i] = &set[w], value
		}
	}
	if unused[1] > unused[0] {
		return ways[1], values[1], 0
	}
	return ways[0], values[0], wait
}

// lockPair locks the sets of a key.
func (l *RateLimiter) lockPair(p pair) bool {
	if _, isLocked := l.segment.lock(&p.first[limiterLock]); !isLocked {
		return false
	}
	if p.first == p.second {
		return true
	}
	if _, isLocked := l.segment.lock(&p.second[limiterLock]); !isLocked {
		l.segment.unlock(&p.first[limiterLock])
		return false
	}
	return true
}

func (l *RateLimiter) unlockPair(p pair) {
	l.segment.unlock(&p.first[limiterLock])
	if p.first != p.second {
		l.segment.unlock(&p.second[limiterLock])
	}
}
