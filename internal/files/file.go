package files

import (
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/invariants"
)

// A File is one version of a file, in one encoding. It is shared by everybody
// who opened it and does not change; its methods are safe for concurrent use.
//
// Where it has a descriptor, that is closed when nobody holds a reference any
// more: the cache has one while it keeps the File, each Open and each Part
// another.
type File struct {
	encoding     Encoding
	size         int64
	modified     time.Time
	version      string // tells versions apart for the cache; "": it cannot be told
	etag         string
	contentType  string
	lastModified []byte

	// One of the following is set, by the kind of the file.
	data   []byte                  // in memory; not nil
	file   *os.File                // shared by all Parts
	random io.ReaderAt             // shared by all Parts: an fs.File that is not the operating system's
	reopen func() (fs.File, error) // for each Part anew
	seeks  bool                    // what reopen returns

	permissions fs.FileMode

	closer   io.Closer // what the references keep open; nil: nothing
	stamp    stamp
	isLinked bool // the name existed still when file was opened
	refs     atomic.Int32
}

// Encoding returns how the file's bytes are encoded.
func (f *File) Encoding() Encoding { return f.encoding }

// Size returns the number of bytes, of encoded ones if the file is encoded.
func (f *File) Size() int64 { return f.size }

// ModTime returns when the file, or the original of an encoded one, was last
// changed; zero: unknown.
func (f *File) ModTime() time.Time { return f.modified }

// ETag returns an entity tag with its quotes. It is a weak one made of the time in
// seconds and the size, which for an encoded file is that of the encoded bytes; or
// a strong one made of the content, another one for each encoding, if there is no
// time and the file is in memory; otherwise it is "".
func (f *File) ETag() string { return f.etag }

// ContentType returns the media type of the file, or of the original of an
// encoded one. It is never "".
func (f *File) ContentType() string { return f.contentType }

// LastModified returns ModTime as an HTTP date, or nil. It must not be changed.
// The time may lie in the future, which RFC 9110 section 8.8.2.1 forbids to
// send.
func (f *File) LastModified() []byte { return f.lastModified }

// IsSeekable tells whether a Part costs no more where it begins late in the
// file.
func (f *File) IsSeekable() bool { return f.reopen == nil || f.seeks }

// Bytes returns the content if it is in memory. It must not be changed and
// stays valid after Release.
func (f *File) Bytes() ([]byte, bool) { return f.data, f.data != nil }

// Release gives the reference back that Open returned.
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

// acquire adds a reference. The caller has one, or holds the cache's lock while
// the cache has one.
func (f *File) acquire() {
	if f.closer == nil {
		return
	}
	if n := f.refs.Add(1); n < 2 && invariants.Enabled {
		panic("sluice: a file is used after its release")
	}
}

// descriptors returns how many of the cache's descriptors the file takes.
func (f *File) descriptors() int {
	if f.closer == nil {
		return 0
	}
	return 1
}

// isCurrent tells whether the open file is still what it was when it was
// opened. It asks only where that is cheap: a file of the operating system.
func (f *File) isCurrent() bool {
	if f.file == nil {
		return true
	}
	now, isLinked, ok := currentStamp(f.file)
	return ok && now == f.stamp && isLinked == f.isLinked
}

// readAll returns the content, and false if it could not be read or is not of
// the File's size any more.
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

// Part returns a reader of size bytes from offset on. It has a reference to the
// File of its own. A part that is not within the file is fs.ErrInvalid.
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

// A Part reads a part of a File. Close must be called; it is not for concurrent
// use.
type Part struct {
	of       *File
	own      fs.File // if the File is opened for each Part
	steady   steadyReader
	offset   int64
	left     int64
	isClosed atomic.Bool
}

// Read implements io.Reader. A file that ends before the Part does, because it
// got shorter, is io.ErrUnexpectedEOF.
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
		// An fs.File that cannot count.
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

// Close gives the Part's reference back. A second call does nothing.
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

// OSPart returns what is left to read of the Part as a part of a file of the
// operating system, for sendfile(2). ok is false if the content is not in one.
// f is shared: it must be read by offset only, not be closed, and not be used
// after the Part's Close. What is read of it does not count as read of the Part.
func (p *Part) OSPart() (f *os.File, offset, size int64, ok bool) {
	if p.own != nil || p.of.file == nil || p.isClosed.Load() {
		return nil, 0, 0, false
	}
	return p.of.file, p.offset, p.left, true
}
