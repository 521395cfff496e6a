package files

import (
	"bytes"
	"io/fs"
	"time"
)

// maxEntries bounds the cache beside the bounds on memory and descriptors.
// entryMemory is the memory of an entry without its data.
const (
	maxEntries  = 8192
	entryMemory = 1024
)

// An entry holds what the cache knows about one name. Store.mu guards it.
type entry struct {
	name       string
	file       *File // the original; nil with Options.SkipCache
	version    string
	info       fs.FileInfo
	isDoubtful bool
	variants   [Encodings]variant
	checked    int64 // when the name was last checked
	used       int64

	memory      int64 // bytes
	descriptors int
	list        *usage // the list that it is in
	prev, next  *entry
}

// A variant holds what is known about one encoding of a file.
type variant struct {
	isKnown bool
	file    *File // nil: not worth encoding, so Identity is used
}

// usage is a ring of entries. The one at next was used last.
type usage struct{ ring entry }

func (u *usage) init() { u.ring.prev, u.ring.next = &u.ring, &u.ring }

// oldest returns the least recently used entry, or nil.
func (u *usage) oldest() *entry {
	if u.ring.prev == &u.ring {
		return nil
	}
	return u.ring.prev
}

func (u *usage) link(n *entry) {
	n.list, n.prev, n.next = u, &u.ring, u.ring.next
	n.prev.next, n.next.prev = n, n
}

func (n *entry) unlink() {
	n.prev.next, n.next.prev = n.next, n.prev
	n.list, n.prev, n.next = nil, nil, nil
}

// touchLocked records that n is used. s.mu is held.
func (s *Store) touchLocked(n *entry, now int64) {
	n.used = now
	if list := n.list; list.ring.next != n {
		n.unlink()
		list.link(n)
	}
}

// hit is the fast path for a cached file: one lookup under the lock. It returns nil
// if the file is not cached, or must be checked again.
func (s *Store) hit(name []byte, e Encoding, now int64) *File {
	s.mu.Lock()
	n := s.entries[string(name)]
	if n == nil || n.file == nil || now >= s.rootUntil || now-n.checked >= s.age {
		s.mu.Unlock()
		return nil
	}
	original, f := n.file, n.file
	if e != Identity {
		v := n.variants[e]
		if !v.isKnown {
			s.mu.Unlock()
			return nil
		}
		if v.file != nil {
			f = v.file
		}
	}
	s.touchLocked(n, now)
	original.acquire()
	if f != original {
		f.acquire()
	}
	s.mu.Unlock()
	return s.verify(n, original, f)
}

// verify returns f if it and its original are unchanged. Otherwise it returns nil and
// drops n. It takes over the references to both.
func (s *Store) verify(n *entry, original, f *File) *File {
	isCurrent := original.isCurrent() && (f == original || f.isCurrent())
	if f != original {
		original.Release()
	}
	if isCurrent {
		return f
	}
	f.Release()
	s.drop(n)
	return nil
}

// find returns the entry of name, with a reference to its original and whether it
// must be checked again; nil if there is none.
func (s *Store) find(name string, now int64) (n *entry, f *File, isDue bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = s.entries[name]
	if n == nil || n.file == nil {
		return nil, nil, false
	}
	n.file.acquire()
	return n, n.file, now-n.checked >= s.age
}

// renew records that n was checked and is unchanged.
func (s *Store) renew(n *entry, now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[n.name] == n {
		n.checked = now
		s.touchLocked(n, now)
	}
}

// keep caches what was loaded in the given generation and returns the File to use. If
// the cache has the same data already, that is the cached File, which keeps its
// variants.
func (s *Store) keep(name string, l loaded, now int64, generation uint64) *File {
	s.mu.Lock()
	defer s.unlock()
	if s.options.SkipCache || s.isStopped || generation != s.generation {
		return l.file
	}
	if old := s.entries[name]; old != nil {
		if old.file != nil && isSameData(old.file, l.file) {
			old.info, old.isDoubtful, old.checked = l.info, l.isDoubtful, now
			s.touchLocked(old, now)
			return old.file // in memory: no descriptor to count
		}
		s.remove(old)
	}
	l.file.acquire()
	s.addLocked(&entry{
		name: name, file: l.file, version: l.file.version, info: l.info, isDoubtful: l.isDoubtful,
		checked: now, used: now,
		memory:      entryMemory + int64(len(name)) + int64(len(l.file.data)),
		descriptors: l.file.descriptors(),
	})
	s.trim()
	return l.file
}

// isSameData reports whether two files in memory are the same version.
func isSameData(a, b *File) bool {
	return a.data != nil && b.data != nil && a.modified.Equal(b.modified) && bytes.Equal(a.data, b.data)
}

// variant returns what is known about an encoding of original. If it has a File, the
// caller gets a reference.
func (s *Store) variant(name string, original *File, e Encoding, now int64) variant {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.entries[name]
	if n == nil || !n.isOf(original) {
		return variant{}
	}
	s.touchLocked(n, now)
	v := n.variants[e]
	if v.file != nil {
		v.file.acquire()
	}
	return v
}

// isOf reports whether n describes this version of a file.
func (n *entry) isOf(original *File) bool {
	if n.file == nil {
		return n.version == original.version // remember adds no entry without a version
	}
	return n.file == original
}

// remember caches a variant of original. nil means that it is not worth encoding.
func (s *Store) remember(name string, original *File, e Encoding, f *File, now int64) {
	if s.options.IsOneUse {
		return
	}
	s.mu.Lock()
	defer s.unlock()
	n := s.entries[name]
	isKept := n != nil && n.isOf(original)
	if !isKept && s.options.SkipCache && !s.isStopped && original.version != "" {
		if n != nil {
			s.remove(n)
		}
		n = &entry{name: name, version: original.version, checked: now, used: now, memory: entryMemory + int64(len(name))}
		s.addLocked(n)
		isKept = true
	}
	if !isKept || n.variants[e].isKnown {
		return
	}
	n.variants[e] = variant{true, f}
	if f != nil {
		f.acquire()
		s.count(n, -1)
		list := n.list
		n.memory += int64(len(f.data))
		n.descriptors += f.descriptors()
		s.count(n, 1)
		if want := s.listOf(n); want != list {
			n.unlink()
			want.link(n)
		}
	}
	s.touchLocked(n, now)
	s.trim()
}

// listOf returns the list for n. Entries with descriptors have a list of their own,
// so that the oldest one is found quickly.
func (s *Store) listOf(n *entry) *usage {
	if n.descriptors > 0 {
		return &s.withDescriptors
	}
	return &s.inMemory
}

func (s *Store) count(n *entry, sign int) {
	s.memory += int64(sign) * n.memory
	s.descriptors += sign * n.descriptors
}

// addLocked adds n; s.mu is held.
func (s *Store) addLocked(n *entry) {
	s.entries[n.name] = n
	s.listOf(n).link(n)
	s.count(n, 1)
	s.armLocked()
}

// remove removes n. unlock releases its files after the lock.
func (s *Store) remove(n *entry) {
	delete(s.entries, n.name)
	n.unlink()
	s.count(n, -1)
	if n.file != nil {
		s.removed = append(s.removed, n.file)
	}
	for _, v := range n.variants {
		if v.file != nil {
			s.removed = append(s.removed, v.file)
		}
	}
}

// unlock unlocks s.mu and then releases the files of removed entries.
func (s *Store) unlock() {
	removed := s.removed
	s.removed = nil
	s.mu.Unlock()
	for _, f := range removed {
		f.Release()
	}
}

// trim removes the least recently used entries until the bounds hold.
func (s *Store) trim() {
	for {
		n := s.inMemory.oldest()
		open := s.withDescriptors.oldest()
		switch {
		case s.descriptors > s.options.MaxOpen:
			n = open
		case s.memory <= s.options.MemoryLimit && len(s.entries) <= maxEntries:
			return
		case n == nil || open != nil && open.used < n.used:
			n = open
		}
		if n == nil {
			return
		}
		s.remove(n)
	}
}

// drop removes n if the cache still has it.
func (s *Store) drop(n *entry) {
	s.mu.Lock()
	defer s.unlock()
	if s.entries[n.name] == n {
		s.remove(n)
	}
}

// dropAll empties the cache because the root has changed or the Store has stopped.
func (s *Store) dropAll() {
	s.mu.Lock()
	defer s.unlock()
	s.generation++
	s.removeUnused(&s.inMemory, int64(1)<<62)
	s.removeUnused(&s.withDescriptors, int64(1)<<62)
}

// dropDescriptors closes cached descriptors when the process has too many.
func (s *Store) dropDescriptors() {
	s.mu.Lock()
	defer s.unlock()
	s.removeUnused(&s.withDescriptors, int64(1)<<62)
}

// removeUnused removes the entries of a list that were last used at or before since.
func (s *Store) removeUnused(list *usage, since int64) {
	for n := list.oldest(); n != nil && n.used <= since; n = list.oldest() {
		s.remove(n)
	}
}

// armLocked starts the timer if there is something to drop later; s.mu is held. The timer
// stops by itself, so an unused Store can be garbage collected.
func (s *Store) armLocked() {
	if s.isArmed {
		return
	}
	s.isArmed = true
	if s.timer == nil {
		s.timer = time.AfterFunc(s.tick, s.sweep)
		return
	}
	s.timer.Reset(s.tick)
}

// sweep drops what was not used for CacheDuration.
func (s *Store) sweep() {
	isStopped := s.stopped()
	since := s.now() - s.age
	if isStopped {
		since = int64(1) << 62
	}
	isOpen := s.root.closeUnused(since)
	isOpen = s.copies.closeUnused(since) || isOpen

	s.mu.Lock()
	defer s.unlock()
	s.removeUnused(&s.inMemory, since)
	s.removeUnused(&s.withDescriptors, since)
	s.isArmed = false
	if isOpen || len(s.entries) > 0 {
		s.armLocked()
	}
}
