package files

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"

	"github.com/sluicehttp/sluice/internal/compress"
)

// A flight identifies an encoding that is in progress.
type flight struct {
	name     string
	encoding Encoding
}

// A method describes how an encoding is made. Its level takes more time than that for
// encoded responses, because a file is encoded only once.
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

// EncodingOf returns the encoding that is made with a coding: Identity if there
// is none.
func EncodingOf(c compress.Coding) Encoding {
	for e := Gzip; e < Encodings; e++ {
		if methods[e].coding == c {
			return e
		}
	}
	return Identity
}

// ContentCoding returns the value of Content-Encoding, "" for Identity.
func (e Encoding) ContentCoding() string {
	if e == Identity {
		return ""
	}
	return methods[e].coding.Name()
}

// isWorth reports whether the encoded file is at least 5 % smaller.
func isWorth(encoded, original int64) bool {
	return encoded <= original-original/20 && encoded < original
}

// encoded returns original encoded as e. It returns nil if e is not offered or not
// worth it, or if the file cannot be encoded now.
func (s *Store) encoded(from source, name string, original *File, e Encoding, now int64) *File {
	if e == Identity || s.options.Suffixes[e] == "" {
		return nil
	}
	if v := s.variant(name, original, e, now); v.isKnown {
		if v.file == nil || v.file.isCurrent() {
			return v.file
		}
		// The copy has changed under its name. For the cache the original has changed
		// too: drop its entry.
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

// isCopyName reports whether a name is that of an encoded copy, which is not encoded
// again.
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

// copyFolder returns the folder of the copies, with a reference, or nil.
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
	s.armLocked()
	s.mu.Unlock()
	return at
}

// Reasons not to use a copy.
var (
	errOldCopy   = errors.New("sluice: a copy of another version")
	errWorthless = errors.New("sluice: the copy is not smaller")
)

// findCopy opens and caches the encoded copy of original. It returns nil if there is
// none.
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

// openCopy opens the encoded copy of original. It must be a regular file, not a link,
// with the original's time.
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

// checkCopy returns an error if a copy must not be used.
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

// describe sets an encoded file's properties that come from its original.
func (f *File) describe(original *File, e Encoding) {
	f.encoding = e
	f.modified = original.modified
	f.lastModified = original.lastModified
	f.contentType = original.contentType
	f.isIndex = original.isIndex
	f.version = original.version
	f.etag = etagOf(f)
}

// makeOnce encodes a file, unless another goroutine is doing so or too many other
// encodings are in progress.
func (s *Store) makeOnce(at folder, name string, original *File, e Encoding, now int64) *File {
	if original.size > s.options.MaxEncode {
		s.remember(name, original, e, nil, now)
		return nil
	}
	key := flight{name, e}
	s.mu.Lock()
	_, isFlying := s.flights[key]
	// A result that cannot be cached would be made again for each request.
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
	// Another caller may have finished it meanwhile.
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
	f = &File{data: bytes.Clone(data), size: int64(len(data))} // data may have much spare capacity
	f.describe(original, e)
	return f, !isWritten || !s.options.SkipCache
}
