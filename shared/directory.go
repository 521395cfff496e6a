package shared

import (
	"fmt"
	"iter"
)

// MaxName is the longest name of a value, in bytes.
const MaxName = (entryWords - entryName) * wordBytes

// The words of a directory entry. Entries are in the order of their creation and are
// never removed. The search is linear: it happens when a program starts, and touches
// memory only for existing entries.
const (
	entryState      = 0 // zero until the other words are written
	entryKind       = 1 // the kind and, above it, the version of its layout
	entryOffset     = 2
	entryLength     = 3
	entryParameters = 4 // 3 words
	entryNameLength = 7 // and, above 8 bits, the name's hash
	entryName       = 8

	entryIsReady = 1
)

// A kind is the type of a value.
type kind uint8

const (
	kindCounter kind = iota + 1
	kindGauge
	kindHistogram
	kindRateLimiter
	kindCache
	kindOnce
	kindLease
	kindFlag
	kindConfig
	kindTicketKeys
	kindTopics
	kindEnd
)

// kindNames are the types' names.
var kindNames = [kindEnd]string{"", "Counter", "Gauge", "Histogram", "RateLimiter", "Cache", "Once", "Lease", "Flag", "Config", "TicketKeys", "Topics"}

// kindVersions are the versions of the types' layouts. A program does not use a value
// of another version. It creates a second value of the same name instead, so neither
// program misreads the other's value.
var kindVersions = [kindEnd]uint64{0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}

// parameters are the sizes with which a value was created.
type parameters [3]uint64

// An entry is a value's description in the directory.
type entry struct {
	kind       kind
	version    uint64
	offset     int
	length     int // words
	parameters parameters
	words      []word // of the directory
}

// An Entry describes a value of a segment.
type Entry struct {
	// Name is the value's name.
	Name string
	// Type is the name of its Go type: "Counter", "Gauge" and so on.
	Type string
	// Bytes is the memory that is reserved for it.
	Bytes int64
}

// Entries lists the values of the segment, in no particular order.
func (s *Segment) Entries() []Entry {
	var all []Entry
	for e := range s.readyEntries() {
		all = append(all, Entry{e.name(), kindNames[e.kind], int64(e.length) * wordBytes})
	}
	return all
}

// open returns the words of the value of that name. If there is none, open creates
// it, zeroed. length is the number of words that kind and parameters need.
func (s *Segment) open(name string, k kind, p parameters, length int) ([]word, error) {
	if len(name) == 0 || len(name) > MaxName {
		return nil, fmt.Errorf("%w: %q", ErrName, name)
	}
	wanted := entry{kind: k, version: kindVersions[k], length: linesFor(length), parameters: p}
	_, region, err := s.find(name, wanted)
	if err != nil || region != nil {
		return region, err
	}
	lock := &s.words[headerLock]
	if _, isLocked := s.lock(lock); !isLocked {
		return nil, fmt.Errorf("%w: the directory, for %q", ErrBusy, name)
	}
	defer s.unlock(lock)
	at, region, err := s.find(name, wanted) // another process may have created it meanwhile
	if err != nil || region != nil {
		return region, err
	}
	return s.createLocked(at, name, wanted)
}

// find looks for the value. If there is none, it returns the position for a new
// directory entry, or -1 if the directory is full.
func (s *Segment) find(name string, wanted entry) (at int, region []word, err error) {
	nameWord := s.nameWord(name)
	for at := range s.layout.entries {
		words := s.entryWords(at)
		if words[entryState].Load() != entryIsReady {
			return at, nil, nil
		}
		e, isKnown, err := s.readEntry(words)
		if err != nil {
			return -1, nil, err
		}
		if !isKnown || !e.isNamed(name, nameWord) || (e.kind == wanted.kind && e.version != wanted.version) {
			continue
		}
		if e.kind != wanted.kind || e.length != wanted.length || e.parameters != wanted.parameters {
			return -1, nil, fmt.Errorf("%w: %q is a %s %v of %d words, not a %s %v of %d", ErrMismatch, name,
				kindNames[e.kind], e.parameters, e.length, kindNames[wanted.kind], wanted.parameters, wanted.length)
		}
		return at, s.region(e), nil
	}
	return -1, nil, nil
}

// createLocked adds an entry. The caller holds the directory's lock. If the process dies
// during create, only the reserved memory is lost.
func (s *Segment) createLocked(at int, name string, e entry) ([]word, error) {
	next := s.words[headerNext].Load()
	if next > uint64(s.layout.size) || next < uint64(s.layout.data) || next%lineWords != 0 {
		return nil, fmt.Errorf("%w: the end of data is at word %d", ErrCorrupt, next)
	}
	if at < 0 || uint64(e.length) > uint64(s.layout.size)-next {
		return nil, fmt.Errorf("%w: no room for %d bytes for %q", ErrFull, e.length*wordBytes, name)
	}
	e.offset = int(next)
	s.words[headerNext].Store(next + uint64(e.length))
	words := s.entryWords(at)
	words[entryKind].Store(uint64(e.kind) | e.version<<8)
	words[entryOffset].Store(next)
	words[entryLength].Store(uint64(e.length))
	for i, p := range e.parameters {
		words[entryParameters+i].Store(p)
	}
	words[entryNameLength].Store(s.nameWord(name))
	putBytes(words[entryName:], []byte(name))
	words[entryState].Store(entryIsReady)
	return s.region(e), nil
}

func (s *Segment) entryWords(at int) []word {
	from := s.layout.dirAt + at*entryWords
	return s.words[from : from+entryWords : from+entryWords]
}

// readEntry reads an entry and checks it, because any process may have written it.
// isKnown is false for a kind that this version of the program does not have.
func (s *Segment) readEntry(words []word) (e entry, isKnown bool, err error) {
	kindAndVersion := words[entryKind].Load()
	if kindAndVersion&0xff == 0 || kindAndVersion&0xff >= uint64(kindEnd) {
		return entry{}, false, nil
	}
	offset, length := words[entryOffset].Load(), words[entryLength].Load()
	size := uint64(s.layout.size)
	if offset < uint64(s.layout.data) || offset > size || length == 0 || length > size-offset || (offset|length)%lineWords != 0 || words[entryNameLength].Load()&0xff > MaxName {
		return entry{}, false, fmt.Errorf("%w: an entry for %d words at word %d", ErrCorrupt, length, offset)
	}
	e = entry{kind: kind(kindAndVersion & 0xff), version: kindAndVersion >> 8, offset: int(offset), length: int(length), words: words}
	for i := range e.parameters {
		e.parameters[i] = words[entryParameters+i].Load()
	}
	// A value with words for each process must have them for all processes.
	if e.version == kindVersions[e.kind] {
		if per := perLane(e.kind); per > 0 && e.length != s.layout.lanes*per {
			return entry{}, false, fmt.Errorf("%w: a %s of %d words", ErrCorrupt, kindNames[e.kind], length)
		}
	}
	return e, true, nil
}

// perLane returns how many words a value of that kind has for each process.
func perLane(k kind) int {
	switch k {
	case kindCounter, kindGauge:
		return laneWords
	case kindHistogram:
		return histogramWords
	case kindTopics:
		return topicWords
	}
	return 0
}

func (s *Segment) region(e entry) []word {
	return s.words[e.offset : e.offset+e.length : e.offset+e.length]
}

// nameWord returns a word with the name's length and hash, which differs for most
// names.
func (s *Segment) nameWord(name string) uint64 {
	return s.hasher.sum([]byte(name))<<8 | uint64(len(name))
}

func (e *entry) isNamed(name string, nameWord uint64) bool {
	return e.words[entryNameLength].Load() == nameWord && holdsBytes(e.words[entryName:], []byte(name))
}

func (e *entry) name() string {
	length := min(e.words[entryNameLength].Load()&0xff, MaxName)
	return string(appendBytes(nil, e.words[entryName:], int(length)))
}

// readyEntries iterates over the values whose kind and version this program knows.
func (s *Segment) readyEntries() iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for at := range s.layout.entries {
			words := s.entryWords(at)
			if words[entryState].Load() != entryIsReady {
				return
			}
			e, isKnown, err := s.readEntry(words)
			if err != nil || !isKnown || e.version != kindVersions[e.kind] {
				continue
			}
			if !yield(e) {
				return
			}
		}
	}
}

// checkDirectory refuses a segment with an entry that points outside of it.
func (s *Segment) checkDirectory() error {
	for at := range s.layout.entries {
		words := s.entryWords(at)
		if words[entryState].Load() != entryIsReady {
			break
		}
		if _, _, err := s.readEntry(words); err != nil {
			return err
		}
	}
	return nil
}
