package files

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"

	"github.com/sluicehttp/sluice/internal/compress"
)

// A flight is an encoded copy that is being made.
type flight struct {
	name     string
	encoding Encoding
}

// A method is how an encoding is made. The levels take more time than those for
// answers that are encoded each time: a file is encoded once.
type method struct {
	coding compress.Coding
	level  int
	tag    string // in entity tags
}

var methods = [Encodings]method{
	Gzip:   {compress.Gzip, 6, "gz"},
	Brotli: {compress.Brotli, 6, "br"},
	Zstd:   {compress.Zstd, 3, "zst"},
}

// isWorth tells whether an encoded file is smaller by 5% at least.
func isWorth(encoded, original int64) bool {
	return encoded <= original-original/20 && encoded < original
}

// encoded returns original encoded as e, or nil if it is not: e is not offered,
// or not worth it, or there is no time for it now.
func (s *Store) encoded(from source, name string, original *File, e Encoding, now int64) *File {
	if e == Identity || s.options.Suffixes[e] == "" {
		return nil
	}
	if v := s.variant(name, original, e, now); v.isKnown {
		if v.file == nil || v.file.isCurrent() {
			return v.file
		}
		// The copy changed under the same name. The original does so as well, for
		// the cache: its entry goes.
		v.file.Release()
		s.forget(name, original)
	}
	if original.size < s.options.MinEncode || s.isCopyName(name) || !s.options.IsEncodable(original.contentType) {
		s.remember(name, original, e, nil, now)
		return nil
	}
	at := s.copyFolder(from, now)
	if at != nil {
		defer at.release()
		if f := s.findCopy(at, name, original, e, now); f != nil {
			return f
		}
	}
	return s.makeOnce(at, name, original, e, now)
}

// isCopyName tells whether a name is that of an encoded copy, which is not
// encoded again.
func (s *Store) isCopyName(name string) bool {
	for _, suffix := range s.options.Suffixes {
		if suffix != "" && strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// forget drops the entry of a file.
func (s *Store) forget(name string, original *File) {
	s.mu.Lock()
	defer s.unlock()
	if n := s.entries[name]; n != nil && n.isOf(original) {
		s.remove(n)
	}
}

// copyFolder returns where copies are, to be released, or nil.
func (s *Store) copyFolder(from source, now int64) folder {
	if s.library != nil || s.options.NoCopies {
		return nil
	}
	if s.options.CompressRoot == "" {
		at, ok := from.(folder)
		if !ok {
			return nil
		}
		at.hold()
		return at
	}
	at, _, err := s.copies.at(now, s.maxAge())
	if err != nil {
		return nil
	}
	s.mu.Lock()
	s.arm()
	s.mu.Unlock()
	return at
}

// Why a copy is not used.
var (
	errOldCopy   = errors.New("sluice: a copy of another version")
	errWorthless = errors.New("sluice: the copy is not smaller")
)

// findCopy opens and remembers the encoded copy of original; nil: there is none.
func (s *Store) findCopy(at folder, name string, original *File, e Encoding, now int64) *File {
	f, err := s.openCopy(at, name, original, e)
	if err != nil {
		return nil
	}
	if !s.options.SkipCache {
		s.remember(name, original, e, f, now)
	}
	return f
}

// openCopy opens the encoded copy of original, which must be a regular file, no
// link, with the time of the original.
func (s *Store) openCopy(at folder, name string, original *File, e Encoding) (*File, error) {
	copyName := name + s.options.Suffixes[e]
	linkInfo, err := at.lstat(copyName)
	if err != nil {
		return nil, err
	}
	if err := checkCopy(linkInfo, original); err != nil {
		return nil, err
	}
	opened, err := at.open(copyName)
	if err != nil {
		return nil, err
	}
	info, err := opened.Stat()
	if err == nil {
		err = checkCopy(info, original)
	}
	if err == nil && !isSameFile(info, linkInfo) {
		err = errOldCopy
	}
	if err != nil {
		opened.Close()
		return nil, err
	}
	f := &File{}
	if _, err := s.fill(f, opened, info, func() (fs.File, error) { return nil, errOldCopy }); err != nil {
		return nil, err
	}
	f.describe(original, e)
	return f, nil
}

// checkCopy tells what is wrong with a copy.
func checkCopy(info fs.FileInfo, original *File) error {
	switch {
	case !info.Mode().IsRegular():
		return ErrNotRegular
	case info.Size() <= 0 || !isSameTime(original.modified, info.ModTime()):
		return errOldCopy
	case !isWorth(info.Size(), original.size):
		return errWorthless
	}
	return nil
}

// describe gives an encoded file what it has of its original.
func (f *File) describe(original *File, e Encoding) {
	f.encoding = e
	f.modified = original.modified
	f.lastModified = original.lastModified
	f.contentType = original.contentType
	f.version = original.version
	f.etag = etagOf(f)
}

// makeOnce makes an encoded file unless somebody else is making it, or enough
// others are being made.
func (s *Store) makeOnce(at folder, name string, original *File, e Encoding, now int64) *File {
	if original.size > s.options.MaxEncode {
		s.remember(name, original, e, nil, now)
		return nil
	}
	key := flight{name, e}
	s.mu.Lock()
	_, isFlying := s.flights[key]
	// What cannot be remembered would be made for each request.
	isVain := s.isStopped || s.options.SkipCache && original.version == "" && !s.options.IsOneUse
	if !isFlying && !isVain {
		s.flights[key] = struct{}{}
	}
	s.mu.Unlock()
	if isFlying || isVain {
		return nil
	}
	defer func() {
		s.mu.Lock()
		delete(s.flights, key)
		s.mu.Unlock()
	}()
	select {
	case s.encoders <- struct{}{}:
	default:
		return nil
	}
	defer func() { <-s.encoders }()
	// It may have been made since the caller looked.
	if v := s.variant(name, original, e, now); v.isKnown {
		return v.file
	}
	if at == nil {
		if at = s.makeCopyRoot(now); at != nil {
			defer at.release()
		}
	} else if f := s.findCopy(at, name, original, e, now); f != nil {
		return f
	}
	f, ok := s.make(at, name, original, e)
	if ok {
		s.remember(name, original, e, f, now)
	}
	return f
}

// make encodes original. ok is false if the result must not be remembered.
func (s *Store) make(at folder, name string, original *File, e Encoding) (f *File, ok bool) {
	data, ok := original.readAll()
	if !ok {
		return nil, false
	}
	m := methods[e]
	data = compress.Append(nil, data, m.coding, m.level)
	if !isWorth(int64(len(data)), original.size) {
		return nil, true
	}
	isWritten := at != nil && s.writeCopy(at, name+s.options.Suffixes[e], original, data) == nil
	if isWritten && int64(len(data)) > s.options.SmallFile {
		if f, err := s.openCopy(at, name, original, e); err == nil {
			return f, !s.options.SkipCache
		}
	}
	if int64(len(data)) > s.options.MemoryLimit/2 {
		return nil, true
	}
	f = &File{data: bytes.Clone(data), size: int64(len(data))} // data may have much room to spare
	f.describe(original, e)
	return f, !isWritten || !s.options.SkipCache
}
