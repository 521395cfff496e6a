package shared

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"time"
)

// Options are the sizes of a segment.
type Options struct {
	// Size is the segment's size in bytes, rounded up to whole pages. It cannot
	// grow. Only pages in use take memory, so choose a generous size. Zero is
	// 256 KiB for each of Processes, at least 64 MiB.
	Size int64
	// Processes is how many processes can be attached at the same time, including
	// the master. Leave room for restarts: while workers are being replaced there
	// are more of them, and workers of an earlier restart may still be draining. At
	// most MaxProcesses; zero is 4 for each CPU and 8 more, at least
	// DefaultProcesses.
	Processes int
	// Local asks for memory without a descriptor, to which no other process can
	// attach. Where memory cannot be shared, every segment is local.
	Local bool
}

const (
	// DefaultProcesses is the lowest default of Options.Processes.
	DefaultProcesses = 256
	// MaxProcesses is the maximum of Options.Processes.
	MaxProcesses = 1023

	defaultSize     = 64 << 20
	sizePerProcess  = 256 << 10 // histograms, for one, take 8 KiB for each process
	defaultLockWait = 250 * time.Millisecond
)

// A Segment is memory that processes share, with this process's access to it. Its
// methods return values by name, and create those that do not exist yet. Keep the
// results: finding a name takes longer than using the value.
//
// Do not copy a Segment.
type Segment struct {
	words    []word
	layout   layout
	lane     int    // of this process
	token    uint64 // of this process, in locks
	clock    sharedClock
	hasher   hasher
	created  int64 // the shared clock when the segment was made
	file     *os.File
	isShared bool
	lockWait time.Duration
}

// New creates a segment and attaches the process to it. The master of a group of
// processes calls New before it starts the first of them, and passes [Segment.File]
// to each. Errors: [ErrOption], and those of the system.
func New(options Options) (*Segment, error) {
	l, err := options.layout()
	if err != nil {
		return nil, err
	}
	if !canShare || options.Local {
		return begin(&Segment{layout: l, words: ownWords(l.size)})
	}
	file, err := createFile(int64(l.size) * wordBytes)
	if err != nil {
		return nil, fmt.Errorf("sluice: cannot create a shared segment: %w", err)
	}
	return newInFile(l, file)
}

// newInFile creates a segment in a new file of its size. The segment owns file.
func newInFile(l layout, file *os.File) (*Segment, error) {
	words, err := mapFile(file.Fd())
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("sluice: cannot map the shared segment: %w", err)
	}
	return begin(&Segment{layout: l, words: words, file: file, isShared: true})
}

// begin makes s's words, which are zero, a segment, and attaches the process to it.
func begin(s *Segment) (*Segment, error) {
	s.lockWait = defaultLockWait
	s.writeHeader()
	if err := s.enter(); err != nil {
		return nil, err
	}
	return s, nil
}

// layout applies the defaults and checks the options.
func (o Options) layout() (layout, error) {
	if o.Processes == 0 {
		o.Processes = min(max(DefaultProcesses, 4*runtime.NumCPU()+8), MaxProcesses)
	}
	if o.Processes < 1 || o.Processes > MaxProcesses {
		return layout{}, fmt.Errorf("%w: %d processes", ErrOption, o.Processes)
	}
	if o.Size == 0 {
		o.Size = max(defaultSize, int64(o.Processes)*sizePerProcess)
	}
	if o.Size < minSize || o.Size > maxSize || int64(int(o.Size)) != o.Size {
		return layout{}, fmt.Errorf("%w: a segment of %d bytes", ErrOption, o.Size)
	}
	size := int((o.Size + pageWords*wordBytes - 1) / (pageWords * wordBytes) * pageWords)
	l := newLayout(size, o.Processes, min(max(64, int(o.Size>>14)), maxEntries))
	if l.data >= size {
		return layout{}, fmt.Errorf("%w: a segment of %d bytes is too small for %d processes", ErrOption, o.Size, o.Processes)
	}
	return l, nil
}

// writeHeader makes a segment of zeroed words. It writes the magic number last,
// because that word marks the header as complete.
func (s *Segment) writeHeader() {
	var random [5 * wordBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	clock := newClock()
	s.words[headerVersion].Store(layoutVersion)
	s.words[headerSize].Store(uint64(s.layout.size))
	s.words[headerLanes].Store(uint64(s.layout.lanes))
	s.words[headerEntries].Store(uint64(s.layout.entries))
	s.words[headerCreator].Store(uint64(os.Getpid()))
	s.words[headerCreated].Store(uint64(clock.now()))
	s.words[headerNext].Store(uint64(s.layout.data))
	s.words[headerID].Store(binary.NativeEndian.Uint64(random[:]))
	for i := range s.hasher {
		s.words[headerSecrets+i].Store(binary.NativeEndian.Uint64(random[(i+1)*wordBytes:]))
	}
	s.words[headerMagic].Store(magic)
}

// Attach maps the segment in file, which is another process's [Segment.File], and
// takes a place in it for this process. The caller keeps ownership of file and may
// close it. Errors: [ErrCorrupt], [ErrProcesses], and those of the system.
func Attach(file *os.File) (*Segment, error) {
	s, err := attachDescriptor(file.Fd())
	if s != nil {
		s.file = file
	}
	return s, err
}

func attachDescriptor(fd uintptr) (*Segment, error) {
	words, err := mapFile(fd)
	if err != nil {
		return nil, fmt.Errorf("sluice: cannot map a shared segment: %w", err)
	}
	s, err := attachWords(words)
	if err != nil {
		unmap(words)
		return nil, err
	}
	s.isShared = true
	return s, nil
}

// attachWords attaches to a segment that is in memory already.
func attachWords(words []word) (*Segment, error) {
	l, err := readLayout(words)
	if err != nil {
		return nil, err
	}
	s := &Segment{words: words, layout: l, lockWait: defaultLockWait}
	if err := s.checkDirectory(); err != nil {
		return nil, err
	}
	if err := s.enter(); err != nil {
		return nil, err
	}
	return s, nil
}

// enter takes a place in the segment for the process.
func (s *Segment) enter() error {
	s.clock = newClock()
	s.created = int64(s.words[headerCreated].Load())
	for i := range s.hasher {
		s.hasher[i] = s.words[headerSecrets+i].Load()
	}
	if !s.takeLane() {
		return ErrProcesses
	}
	s.resetPage()
	return nil
}

// File returns the file to pass to other processes, for instance in
// exec.Cmd.ExtraFiles. It is nil if the segment is local, and in a process whose
// [Default] found an inherited segment. The segment owns the file.
func (s *Segment) File() *os.File { return s.file }

// IsShared reports whether other processes can attach to the segment. If not, its
// values work within this process only.
func (s *Segment) IsShared() bool { return s.isShared }

// Size returns the segment's size in bytes, and how many bytes are free for new
// values.
func (s *Segment) Size() (size, free int64) {
	next := min(s.words[headerNext].Load(), uint64(s.layout.size))
	return int64(s.layout.size) * wordBytes, int64(uint64(s.layout.size)-next) * wordBytes
}

// Processes returns the maximum number of attached processes.
func (s *Segment) Processes() int { return s.layout.lanes }

// Now returns the segment's clock in nanoseconds. It is monotonic, the same in all
// processes, and has an arbitrary origin. (Where the system's monotonic clock
// cannot be read, processes agree only if the wall clock was not set between their
// starts.)
func (s *Segment) Now() int64 { return s.clock.now() }

// Close closes the file, if there is one. The memory stays mapped until the
// process ends, so values from the segment remain usable. This process can then no
// longer pass the segment to others.
func (s *Segment) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// isIn reports whether file contains this segment.
func (s *Segment) isIn(file *os.File) bool {
	words, err := mapFile(file.Fd())
	if err != nil {
		return false
	}
	defer unmap(words)
	return words[headerID].Load() == s.words[headerID].Load()
}
