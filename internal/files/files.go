// Package files opens the files below one root for a server of static files:
// confined to the root, cached, and encoded (gzip, br, zstd) where that pays. It
// knows neither requests nor sockets.
//
// A file up to a limit is held in memory; a larger one has one descriptor, which
// everybody who reads it shares and which is closed when the cache has dropped
// it and the last reader is done. What is cached is looked at again after
// Options.CacheDuration.
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

	// Encodings is how many there are.
	Encodings
)

// Why a name is not opened, beside fs.ErrNotExist, fs.ErrPermission and
// fs.ErrInvalid.
var (
	// ErrIsDirectory says that the name is a directory's: see ReadDir.
	ErrIsDirectory = errors.New("sluice: is a directory")
	// ErrNotRegular says that the name is that of a device, pipe or socket. It is
	// an fs.ErrPermission.
	ErrNotRegular = fmt.Errorf("sluice: not a regular file: %w", fs.ErrPermission)
	// ErrOutside says that a symbolic link leads out of the root. It is an
	// fs.ErrPermission.
	ErrOutside = fmt.Errorf("sluice: the path leaves the root: %w", fs.ErrPermission)
	// ErrChanged says that a file that has to be opened for each Part is not the
	// one any more that Open found.
	ErrChanged = errors.New("sluice: the file has changed")
)

// Options are the settings of a Store.
type Options struct {
	// Root is the directory that names start from; it is ignored if FS is set. ""
	// is the working directory; with Unconfined it is the root of the file
	// system, and on Windows names may then begin with a volume, as in C:/file.
	Root string
	// FS is used in place of Root.
	FS fs.FS
	// Unconfined lets symbolic links lead out of Root: names are opened as the
	// operating system finds them at Root joined with the name. A name by itself
	// never leaves Root.
	Unconfined bool
	// CompressRoot is the directory of the encoded copies, which mirrors Root's
	// tree and is made when it is needed; "" keeps them beside the originals. It
	// is confined as Root is. Its copies are told to be current by their time
	// alone: who gives all files of a release the same time must empty it.
	CompressRoot string
	// NoCopies keeps encoded copies in memory only.
	NoCopies bool
	// Suffixes is what is appended to a name for its encoded copy. An encoding
	// with "", or with a separator in it, is not offered. A file that has such a name but not the time of the
	// original is taken for an old copy and replaced.
	Suffixes [Encodings]string
	// CacheDuration is for how long a cached file is used without another look
	// at it, and after how long without use it is dropped. 0 is 10 seconds.
	CacheDuration time.Duration
	// SkipCache opens each file anew. What is remembered is which files do not
	// get smaller by encoding, and encoded data that has no other place.
	SkipCache bool
	// IsOneUse says that the Store is thrown away after one Open: it remembers
	// nothing, and no timer keeps it.
	IsOneUse bool
	// CleanStop, when it is closed, empties the cache for good; within a second
	// if nothing is opened.
	CleanStop <-chan struct{}

	// MemoryLimit is for how many bytes the cache keeps small files and encoded
	// data in memory. 0 is 32 MiB.
	MemoryLimit int64
	// SmallFile is up to which size a file is kept in memory. 0 is 64 KiB;
	// negative: none is.
	SmallFile int64
	// MaxOpen is how many descriptors the cache keeps. 0 is 256.
	MaxOpen int
	// MaxEncode is the size of the largest file that is encoded, which happens in
	// memory. 0 is 8 MiB. Copies of larger files are used if they are there.
	MaxEncode int64
	// MinEncode is the size of the smallest file that is encoded. 0 is 256.
	MinEncode int64

	// IsEncodable tells whether files of a content type are worth encoding. nil
	// is the function of that name.
	IsEncodable func(contentType string) bool
}

// A Store opens the files of one root. It is safe for concurrent use, needs no
// closing, and has no goroutine of its own.
type Store struct {
	options  Options
	age      int64         // CacheDuration
	tick     time.Duration // of sweep
	now      func() int64  // clock.Nanos
	library  *library      // Options.FS
	root     place
	copies   place         // CompressRoot
	encoders chan struct{} // one element for each encoding that is being made

	mu              sync.Mutex
	entries         map[string]*entry
	inMemory        usage
	withDescriptors usage
	memory          int64 // of all entries
	descriptors     int
	rootUntil       int64  // when the root is due for another look
	generation      uint64 // of the root: entries of another one are not added
	isStopped       bool
	isArmed         bool
	timer           *time.Timer
	removed         []*File // to release after the lock
	flights         map[flight]struct{}
	swept           map[string]struct{} // folders without old temporary files
}

// New returns a Store. It never fails: a root that is missing is an error of
// Open, for as long as it is missing.
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

// maxDuration is for ever, and far from an overflow when it is added to a time.
const maxDuration = 100 * 365 * 24 * time.Hour

func setDefaults(o *Options) {
	o.Suffixes[Identity] = ""
	for e, suffix := range o.Suffixes {
		if strings.ContainsAny(suffix, "/\\\x00") {
			o.Suffixes[e] = "" // it would be another folder's file
		}
	}
	if o.CacheDuration <= 0 {
		o.CacheDuration = 10 * time.Second
	}
	o.CacheDuration = min(o.CacheDuration, maxDuration)
	if o.MemoryLimit <= 0 {
		o.MemoryLimit = 32 << 20
	}
	if o.SmallFile == 0 {
		o.SmallFile = 64 << 10
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

// Open opens the file called name: slash-separated, relative to the root,
// decoded and cleaned. What fs.ValidPath refuses, and what means something else
// to the operating system, is fs.ErrInvalid. A directory ("" and "." are the
// root) is ErrIsDirectory; devices, pipes and sockets are ErrNotRegular and are
// not opened; a symbolic link out of the root is ErrOutside. Errors do not tell
// the path.
//
// The file is encoded as e if that is offered, the type is worth it, and it gets
// smaller by 5% at least; otherwise it is the Identity file, as File.Encoding
// tells. One caller at a time makes an encoded copy; those who come meanwhile,
// or while as many files are being encoded as there are processors, get
// Identity.
//
// Callers that come at the same time for a file that is not cached may each open
// it. The caller must Release the File. name may be reused after the call.
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

// stopped tells whether CleanStop is closed, and empties the cache once it is.
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

// open is Open where there is something to do.
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

// openBelow opens name at the root as it is now.
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

// tree returns where the originals are now, to be released, and the root's
// generation. Another root drops the cache.
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
			s.arm() // it has a handle to close
		}
	}
	return from, s.generation, err
}

// maxAge is for how long a directory's handle is used without another look.
func (s *Store) maxAge() int64 {
	if s.options.SkipCache {
		return 0
	}
	return s.age
}

// original returns the Identity file, from the cache if it is still good.
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

// lookAgain compares the file of n, which the caller has a reference to, with
// what its name leads to now. It returns nil if that is to be opened anew.
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
