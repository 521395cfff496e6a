package shared

import "fmt"

// The segment, in words:
//
//	header      constants, then the words that change, each on a line of its own
//	lanes       a line per process: who it is, its epoch
//	scoreboard  a page per process
//	directory   32 words per entry
//	data        what the entries point to, in whole lines
const (
	magic         = 0x3130_6465_7261_6873 // "shared01"
	layoutVersion = 1

	headerMagic   = 0
	headerVersion = 1
	headerSize    = 2 // size of the segment in words
	headerID      = 3
	headerLanes   = 4
	headerEntries = 5
	headerCreator = 6 // process id
	headerCreated = 7 // the shared clock at creation
	headerSecrets = 8 // 4 words
	headerLock    = 16
	headerNext    = 24 // first free word of data
	headerInUse   = 32 // lanes from this number on were never taken
	headerWords   = 64

	laneWords  = lineWords
	entryWords = 32

	maxEntries = 1 << 20
	minSize    = 64 << 10
	maxSize    = 1 << 40
)

// A layout holds the positions of the parts of a segment.
type layout struct {
	size, lanes, entries        int // size in words
	laneAt, pageAt, dirAt, data int
}

// newLayout returns the layout of a segment of size words.
func newLayout(size, lanes, entries int) layout {
	l := layout{size: size, lanes: lanes, entries: entries}
	l.laneAt = headerWords
	l.pageAt = (l.laneAt + lanes*laneWords + pageWords - 1) / pageWords * pageWords
	l.dirAt = l.pageAt + lanes*pageWords
	l.data = l.dirAt + entries*entryWords
	return l
}

// readLayout reads and checks the header of a segment that another process has
// written.
func readLayout(words []word) (layout, error) {
	if len(words) < headerWords || words[headerMagic].Load() != magic {
		return layout{}, fmt.Errorf("%w: it does not begin like one", ErrCorrupt)
	}
	if v := words[headerVersion].Load(); v != layoutVersion {
		return layout{}, fmt.Errorf("%w: its layout is version %d, not %d", ErrCorrupt, v, layoutVersion)
	}
	size, lanes, entries := words[headerSize].Load(), words[headerLanes].Load(), words[headerEntries].Load()
	if size != uint64(len(words)) {
		return layout{}, fmt.Errorf("%w: it has %d words, its header says %d", ErrCorrupt, len(words), size)
	}
	if lanes < 1 || lanes > MaxProcesses || entries < 1 || entries > maxEntries {
		return layout{}, fmt.Errorf("%w: %d processes, %d entries", ErrCorrupt, lanes, entries)
	}
	l := newLayout(len(words), int(lanes), int(entries))
	if l.data > l.size {
		return layout{}, fmt.Errorf("%w: its tables do not fit into it", ErrCorrupt)
	}
	return l, nil
}
