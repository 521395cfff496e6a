// Package files opens the files below one root for a server of static files. It
// confines names to the root, caches files, and encodes them (gzip, br, zstd) where
// that is worth it. A Site answers requests, of which it knows only the heads.
//
// A file up to a limit is held in memory. A larger one has one descriptor, which all
// readers share. It is closed when the cache has dropped the file and the last reader
// has finished. A cached file is checked again after Options.CacheDuration.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// Encoding is identity or a content coding.
type Encoding uint8

// The encodings.
const (
	Identity Encoding = iota
	Gzip
	Brotli
	Zstd

	// Encodings is the number of encodings.
	Encodings
)

// Errors of Open, beside fs.ErrNotExist, fs.ErrPermission and fs.ErrInvalid.
var (
	// ErrIsDirectory: the name is a directory's. See Index.
	ErrIsDirectory = errors.New("sluice: is a directory")
	// ErrNotRegular: the name is that of a device, pipe or socket. It wraps
	// fs.ErrPermission.
	ErrNotRegular = fmt.Errorf("sluice: not a regular file: %w", fs.ErrPermission)
	// ErrOutside: a symbolic link leads out of the root. It wraps fs.ErrPermission.
	ErrOutside = fmt.Errorf("sluice: the path leaves the root: %w", fs.ErrPermission)
	// ErrChanged: a file that must be opened for each Part is not the file any more
	// that Open found.
	ErrChanged = errors.New("sluice: the file has changed")
)

// Options are the settings of a Store.
type Options struct {
	// Root is the directory to which names are relative. It is ignored if FS is set.
	// "" is the working directory. With Unconfined, "" is the root of the file
	// system; on Windows names may then begin with a volume, as in C:/file.
	Root string
	// FS replaces Root if it is not nil.
	FS fs.FS
	// Unconfined lets symbolic links lead out of Root: the operating system opens
	// Root joined with the name. The name itself still cannot leave Root.
	Unconfined bool
	// CompressRoot is the directory of the encoded copies, with the same tree as
	// Root. It is created when it is needed. If it is "", copies are stored beside
	// the originals. It is confined as Root is. Only a copy's time tells whether it
	// is current: if all files of every release have the same time, empty
	// CompressRoot with each release.
	CompressRoot string
	// NoCopies keeps encoded copies in memory only.
	NoCopies bool
	// Suffixes are appended to a file's name to get its encoded copy's name. An
	// encoding whose suffix is "" or contains a separator is not offered. A file with
	// such a name and another time than the original counts as an outdated copy and
	// is replaced.
	Suffixes [Encodings]string
	// CacheDuration is how long a cached file is used without a check, and after how
	// much time without use it is dropped. 0 is 10 seconds.
	CacheDuration time.Duration
	// SkipCache opens the file for every call of Open. The Store then only remembers
	// which files are not worth encoding, and encoded data without a copy on disk.
	SkipCache bool
	// IsOneUse means that the Store is used for one Open only: it caches nothing and
	// starts no timer.
	IsOneUse bool
	// CleanStop empties the cache for good when it is closed; within a second if Open
	// is not called.
	CleanStop <-chan struct{}

	// MemoryLimit bounds the bytes of small files and encoded data that the cache
	// keeps in memory. 0 is 32 MiB.
	MemoryLimit int64
	// SmallFile is the size up to which a file is kept in memory. 0 is 24 KiB, or 64
	// KiB with FS; negative: none.
	SmallFile int64
	// MaxOpen is the number of descriptors that the cache may keep open. 0 is 256.
	MaxOpen int
	// MaxEncode is the size of the largest file that is encoded; this happens in
	// memory. 0 is 8 MiB. Existing copies of larger files are used.
	MaxEncode int64
	// MinEncode is the size of the smallest file that is encoded. 0 is 256.
	MinEncode int64

	// IsEncodable reports whether files of a content type are worth encoding. nil
	// selects the function IsEncodable.
	IsEncodable func(contentType string) bool
}

// A Store opens the files of one root. Its methods may be called concurrently. It
// needs no Close and has no goroutine.
type Store struct {
	options  Options
	age      int64         // CacheDuration
	tick     time.Duration // of sweep
	now      func() int64  // clock.Nanos
	library  *library      // Options.FS
	root     place
	copies   place         // CompressRoot
	encoders chan struct{} // one element for each encoding in progress

	mu              sync.Mutex
	entries         map[string]*entry
	inMemory        usage
	withDescriptors usage
	memory          int64 // of all entries
	descriptors     int
	rootUntil       int64  // when the root must be checked again
	generation      uint64 // of the root: files loaded in another generation are not cached
	isStopped       bool
	isArmed         bool
	timer           *time.Timer
	removed         []*File // to release after the lock
	flights         map[flight]struct{}
	indexing        map[string]*indexFlight
	swept           map[string]struct{} // folders without old temporary files
}

// New returns a Store. It never fails: while the root is missing, Open returns an
// error.
func New(o Options) *Store {
	setDefaults(&o)
	s := &Store{
		options:  o,
		age:      int64(o.CacheDuration),
		tick:     max(o.CacheDuration/2, 10*time.Millisecond),
		now:      clock.Nanos,
		root:     place{dir: o.Root, unconfined: o.Unconfined},
		copies:   place{dir: o.CompressRoot, unconfined: o.Unconfined},
		encoders: make(chan struct{}, runtime.GOMAXPROCS(0)),
		entries:  make(map[string]*entry),
		flights:  make(map[flight]struct{}),
		indexing: make(map[string]*indexFlight),
		swept:    make(map[string]struct{}),
	}
	if o.FS != nil {
		s.library = &library{o.FS}
	}
	if o.CleanStop != nil {
		s.tick = min(s.tick, time.Second)
	}
	s.inMemory.init()
	s.withDescriptors.init()
	return s
}

// maxDuration stands for no limit. Adding it to a time does not overflow.
const maxDuration = 100 * 365 * 24 * time.Hour

func setDefaults(o *Options) {
	o.Suffixes[Identity] = ""
	for e, suffix := range o.Suffixes {
		if strings.ContainsAny(suffix, "/\\\x00") {
			o.Suffixes[e] = "" // the copy would be in another folder
		}
	}
	if o.CacheDuration <= 0 {
		o.CacheDuration = 10 * time.Second
	}
	o.CacheDuration = min(o.CacheDuration, maxDuration)
	if o.MemoryLimit <= 0 {
		o.MemoryLimit = 32 << 20
	}
	switch {
	case o.SmallFile != 0:
	case o.FS != nil:
		o.SmallFile = 64 << 10
	default:
		// From here on sendfile(2) costs less than copying the file to the socket, and
		// a system call or two more.
		o.SmallFile = 24 << 10
	}
	if o.SmallFile < 0 {
		o.SmallFile = -1
	}
	o.SmallFile = min(o.SmallFile, o.MemoryLimit/2)
	if o.MaxOpen <= 0 {
		o.MaxOpen = 256
	}
	if o.MaxEncode <= 0 {
		o.MaxEncode = 8 << 20
	}
	if o.MinEncode <= 0 {
		o.MinEncode = 256
	}
	if o.IsEncodable == nil {
		o.IsEncodable = IsEncodable
	}
}

// Open opens the file called name: slash-separated, relative to the root, decoded and
// cleaned. The error is fs.ErrInvalid for names that fs.ValidPath refuses or that
// have another meaning for the operating system; ErrIsDirectory for a directory (""
// and "." are the root); ErrNotRegular for devices, pipes and sockets, which are not
// opened; ErrOutside for a symbolic link out of the root. Errors do not contain the
// path.
//
// The file is encoded as e if that encoding is offered, its type is worth it, and it
// gets at least 5 % smaller. Otherwise the result is the Identity file.
// An encoded copy is made by one caller at a time. Other callers get
// Identity meanwhile, and so do callers while as many files are being encoded as
// there are processors.
//
// Concurrent callers for a file that is not cached may each open it. The caller must
// Release the File. name may be reused after the call.
func (s *Store) Open(name []byte, e Encoding) (*File, error) {
	if e >= Encodings {
		e = Identity
	}
	now := s.now()
	if !s.stopped() && !s.options.SkipCache {
		if f := s.hit(name, e, now); f != nil {
			return f, nil
		}
	}
	return s.open(string(name), e, now)
}

// stopped reports whether CleanStop is closed, and then empties the cache once.
func (s *Store) stopped() bool {
	select {
	case <-s.options.CleanStop:
	default:
		return false
	}
	s.mu.Lock()
	isFirst := !s.isStopped
	s.isStopped = true
	s.mu.Unlock()
	if isFirst {
		s.dropAll()
	}
	return true
}

// open is Open for a file that hit did not return.
func (s *Store) open(name string, e Encoding, now int64) (f *File, err error) {
	if name == "" {
		name = "."
	}
	if err := s.checkName(name); err != nil {
		return nil, err
	}
	f, err = s.openBelow(name, e, now)
	if isExhausted(err) {
		s.dropDescriptors()
		f, err = s.openBelow(name, e, now)
	}
	return f, err
}

// openBelow opens name below the current root.
func (s *Store) openBelow(name string, e Encoding, now int64) (*File, error) {
	from, generation, err := s.tree(now)
	if err != nil {
		return nil, clean(err)
	}
	defer from.release()
	original, err := s.original(from, name, now, generation)
	if err != nil {
		return nil, from.clean(err)
	}
	if f := s.encoded(from, name, original, e, now); f != nil {
		original.Release()
		return f, nil
	}
	return original, nil
}

// tree returns the directory of the originals, with a reference, and the root's
// generation. If the root is another directory than before, it drops the cache.
func (s *Store) tree(now int64) (from source, generation uint64, err error) {
	checked := now
	if s.library == nil {
		var hasChanged bool
		from, hasChanged, err = s.root.at(now, s.maxAge())
		if hasChanged {
			s.dropAll()
		}
		checked = s.root.lastChecked(now)
	} else {
		from = s.library
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.rootUntil = checked + s.age
		if s.library == nil {
			s.armLocked() // the timer closes the handle later
		}
	}
	return from, s.generation, err
}

// maxAge is how long a directory's handle is used without a check.
func (s *Store) maxAge() int64 {
	if s.options.SkipCache {
		return 0
	}
	return s.age
}

// original returns the Identity file, from the cache if it is still valid.
func (s *Store) original(from source, name string, now int64, generation uint64) (*File, error) {
	n, f, isDue := s.find(name, now)
	if n != nil {
		if !isDue {
			if f = s.verify(n, f, f); f != nil {
				return f, nil
			}
		} else if f, err := s.lookAgain(from, n, f, now); f != nil || err != nil {
			return f, err
		}
	}
	l, err := s.load(from, name)
	if err != nil {
		return nil, err
	}
	return s.keep(name, l, now, generation), nil
}

// lookAgain compares the file of n, to which the caller has a reference, with what
// its name now leads to. It returns nil if the file must be opened again.
func (s *Store) lookAgain(from source, n *entry, f *File, now int64) (*File, error) {
	info, err := from.stat(n.name)
	if err != nil {
		f.Release()
		s.drop(n)
		return nil, err
	}
	s.mu.Lock()
	before, isDoubtful := n.info, n.isDoubtful
	s.mu.Unlock()
	isSame := info.Mode().IsRegular() && stampOf(info) == stampOf(before) && isSameFile(info, before)
	if isSame && !isDoubtful && f.isCurrent() {
		s.renew(n, now)
		return f, nil
	}
	f.Release()
	return nil, nil
}
