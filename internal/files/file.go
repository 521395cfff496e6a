package files

import (
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/invariants"
)

// A File is one version of a file in one encoding. All callers of Open share it. It
// does not change, and its methods may be called concurrently.
//
// Its descriptor, if it has one, is closed when there are no references any more. The
// cache has a reference while it keeps the File; each Open and each Part has another.
type File struct {
	encoding Encoding
	size     int64
	modified time.Time
	version  string // identifies the version for the cache; "": unknown
	// etag is an entity tag with its quotes. It is a weak one of the time in seconds and
	// the size; for an encoded file, the size of the encoded bytes. If the time is unknown
	// and the file is in memory, it is a strong one of the content, different for each
	// encoding. Otherwise it is "".
	etag        string
	contentType string // of the original, if the file is encoded; never ""
	// lastModified is modified as an HTTP date, or nil. The time may be in the future, and
	// must then not be sent (RFC 9110 section 8.8.2.1).
	lastModified []byte

	// One of the following is set, depending on the kind of file.
	data   []byte                  // in memory; not nil
	file   *os.File                // shared by all Parts
	random io.ReaderAt             // shared by all Parts: of an fs.File that is not an *os.File
	reopen func() (fs.File, error) // called for each Part
	seeks  bool                    // whether its files are io.Seekers

	permissions fs.FileMode
	isIndex     bool // a list of a folder: it has no ranges, because it may be made anew in between

	closer   io.Closer // closed with the last reference; nil: nothing
	stamp    stamp
	isLinked bool // the file had a name when it was opened
	refs     atomic.Int32
}

// Size returns the number of bytes: of encoded bytes if the file is encoded.
func (f *File) Size() int64 { return f.size }

// ModTime returns when the file, or the original of an encoded file, was last
// changed. The zero time means unknown.
func (f *File) ModTime() time.Time { return f.modified }

// IsSeekable reports whether a Part that begins late in the file costs no more than
// another one.
func (f *File) IsSeekable() bool { return f.reopen == nil || f.seeks }

// Bytes returns the content if it is in memory. The caller must not change it. It
// stays valid after Release.
func (f *File) Bytes() ([]byte, bool) { return f.data, f.data != nil }

// Release releases the reference that Open returned.
func (f *File) Release() {
	if f.closer == nil {
		return
	}
	switch n := f.refs.Add(-1); {
	case n == 0:
		_ = f.closer.Close() // it was only read
	case n < 0 && invariants.Enabled:
		panic("sluice: a file is released twice")
	}
}

// acquire adds a reference. The caller has a reference already, or holds the cache's
// lock while the cache has one.
func (f *File) acquire() {
	if f.closer == nil {
		return
	}
	if n := f.refs.Add(1); n < 2 && invariants.Enabled {
		panic("sluice: a file is used after its release")
	}
}

// descriptors returns how many descriptors of the cache the file uses.
func (f *File) descriptors() int {
	if f.closer == nil {
		return 0
	}
	return 1
}

// isCurrent reports whether the open file is unchanged since it was opened. For files
// that are not the operating system's it returns true, because a check would be
// expensive.
func (f *File) isCurrent() bool {
	if f.file == nil {
		return true
	}
	now, isLinked, ok := currentStamp(f.file)
	return ok && now == f.stamp && isLinked == f.isLinked
}

// readAll returns the content. It returns false if reading failed or the size has
// changed.
func (f *File) readAll() ([]byte, bool) {
	if f.data != nil {
		return f.data, true
	}
	p, err := f.Part(0, f.size)
	if err != nil {
		return nil, false
	}
	defer p.Close()
	data := make([]byte, f.size)
	_, err = io.ReadFull(p, data)
	return data, err == nil && f.isCurrent()
}

// Part returns a reader of size bytes from offset on. It has its own reference to the
// File. The error is fs.ErrInvalid if the part is not within the file.
func (f *File) Part(offset, size int64) (*Part, error) {
	if offset < 0 || size < 0 || offset > f.size-size {
		return nil, fs.ErrInvalid
	}
	p := &Part{of: f, offset: offset, left: size}
	if f.reopen != nil {
		own, err := f.openAgain(offset)
		if err != nil {
			return nil, err
		}
		p.own, p.steady.r = own, own
	}
	f.acquire()
	return p, nil
}

// openAgain opens a file that cannot be shared, at offset.
func (f *File) openAgain(offset int64) (fs.File, error) {
	own, err := f.reopen()
	if err != nil {
		return nil, clean(err)
	}
	if err := f.position(own, offset); err != nil {
		own.Close()
		return nil, clean(err)
	}
	return own, nil
}

func (f *File) position(own fs.File, offset int64) error {
	info, err := own.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || stampOf(info) != f.stamp {
		return ErrChanged
	}
	if offset == 0 {
		return nil
	}
	if seeker, ok := own.(io.Seeker); ok {
		_, err = seeker.Seek(offset, io.SeekStart)
		return err
	}
	_, err = io.CopyN(io.Discard, &steadyReader{r: own}, offset)
	if err == io.EOF {
		return ErrChanged
	}
	return err
}

// A Part reads a part of a File. It is not for concurrent use. The caller must Close
// it.
type Part struct {
	of       *File
	own      fs.File // if the File is opened for each Part
	steady   steadyReader
	offset   int64
	left     int64
	isClosed atomic.Bool
}

// Read implements io.Reader. If the file has become shorter than the Part, the error
// is io.ErrUnexpectedEOF.
func (p *Part) Read(b []byte) (n int, err error) {
	if p.isClosed.Load() {
		return 0, fs.ErrClosed
	}
	if p.left == 0 {
		return 0, io.EOF
	}
	if int64(len(b)) > p.left {
		b = b[:p.left]
	}
	if len(b) == 0 {
		return 0, nil
	}
	n, err = p.read(b)
	if n < 0 || n > len(b) {
		// The fs.File violates io.Reader.
		return 0, io.ErrUnexpectedEOF
	}
	p.offset += int64(n)
	p.left -= int64(n)
	switch {
	case err == io.EOF && p.left > 0:
		return n, io.ErrUnexpectedEOF
	case p.left == 0:
		return n, nil
	case err != nil:
		return n, clean(err)
	}
	return n, nil
}

func (p *Part) read(b []byte) (int, error) {
	f := p.of
	switch {
	case p.own != nil:
		return p.steady.Read(b)
	case f.data != nil:
		return copy(b, f.data[p.offset:]), nil
	case invariants.Enabled && f.refs.Load() < 1:
		panic("sluice: a file is read after its release")
	case f.file != nil:
		return f.file.ReadAt(b, p.offset)
	default:
		return f.random.ReadAt(b, p.offset)
	}
}

// Close releases the Part's reference. A second call does nothing.
func (p *Part) Close() error {
	if p.isClosed.Swap(true) {
		return nil
	}
	if p.own != nil {
		_ = p.own.Close() // it was only read
	}
	p.of.Release()
	return nil
}

// OSPart returns the unread rest of the Part as a part of an operating system's file,
// for sendfile(2). ok is false if there is no such file. f is shared: read it by
// offset only, do not close it, and do not use it after the Part's Close. Bytes read
// from f do not count as read from the Part.
func (p *Part) OSPart() (f *os.File, offset, size int64, ok bool) {
	if p.own != nil || p.of.file == nil || p.isClosed.Load() {
		return nil, 0, 0, false
	}
	return p.of.file, p.offset, p.left, true
}
