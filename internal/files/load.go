package files

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"
)

// A loaded holds a File that was just opened, and what the cache needs to check it
// later.
type loaded struct {
	file       *File
	info       fs.FileInfo
	isDoubtful bool // see isDoubtful; only for files in memory
}

// load opens the original called name.
func (s *Store) load(from source, name string) (loaded, error) {
	opened, info, err := openRegular(from, name)
	if err != nil {
		return loaded{}, err
	}
	f := &File{}
	l, err := s.fill(f, opened, info, func() (fs.File, error) { return from.open(name) })
	if err != nil {
		return loaded{}, err
	}
	f.contentType = mediaType(name, l.head)
	f.permissions = l.info.Mode().Perm()
	f.version = versionOf(f)
	f.etag = etagOf(f)
	f.lastModified = httpDate(f.modified)
	return loaded{f, l.info, f.data != nil && isDoubtful(f.modified)}, nil
}

// openRegular opens a regular file. It does not open devices, except one that
// replaces the file at the same moment.
func openRegular(from source, name string) (fs.File, fs.FileInfo, error) {
	info, err := from.stat(name)
	if err == nil {
		err = checkRegular(info)
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := from.open(name)
	if err != nil {
		return nil, nil, err
	}
	info, err = f.Stat()
	if err == nil {
		err = checkRegular(info)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func checkRegular(info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return ErrIsDirectory
	case !mode.IsRegular():
		return ErrNotRegular
	}
	return nil
}

// content is the result of fill.
type content struct {
	info fs.FileInfo // after reading
	head []byte      // the first bytes
}

// fill sets f's content and size. The content is in memory, in opened, or in files
// from reopen. fill closes opened unless f keeps it.
func (s *Store) fill(f *File, opened fs.File, info fs.FileInfo, reopen func() (fs.File, error)) (content, error) {
	c := content{info: info}
	if info.Size() <= s.options.SmallFile {
		data, after, err := s.readSmall(opened, info, reopen)
		if err != nil {
			return c, err // readSmall has closed the file
		}
		if data != nil {
			f.data, f.size, f.stamp = data, int64(len(data)), stampOf(after)
			f.modified = after.ModTime()
			return content{after, data}, nil
		}
		if opened, err = reopen(); err == nil {
			c.info, err = opened.Stat()
			if err == nil {
				err = checkRegular(c.info)
			}
			if err == nil && c.info.Size() < 0 {
				err = ErrNotRegular // it seems endless
			}
			if err != nil {
				opened.Close()
			}
		}
		if err != nil {
			return c, err
		}
	}
	f.size, f.modified, f.stamp = c.info.Size(), c.info.ModTime(), stampOf(c.info)
	f.refs.Store(1)
	c.head = make([]byte, min(sniffed, f.size))
	switch file := opened.(type) {
	case *os.File:
		f.file, f.closer = file, file
		_, f.isLinked, _ = currentStamp(file)
		c.head = readHead(file, c.head)
	case io.ReaderAt:
		f.random, f.closer = file, opened
		c.head = readHead(file, c.head)
	default:
		n, _ := io.ReadFull(&steadyReader{r: opened}, c.head) // without a head the type is unknown
		c.head = c.head[:n]
		_, f.seeks = opened.(io.Seeker)
		opened.Close()
		f.reopen = reopen
	}
	return c, nil
}

func readHead(r io.ReaderAt, head []byte) []byte {
	n, _ := r.ReadAt(head, 0) // without a head the type is unknown
	return head[:max(0, min(n, len(head)))]
}

// maxIdle is how many reads in a row may return no data.
const maxIdle = 100

// A steadyReader returns an error if its reader repeatedly returns no data, or a
// wrong count.
type steadyReader struct {
	r    io.Reader
	idle int
}

// Read implements io.Reader.
func (s *steadyReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	switch {
	case n < 0 || n > len(p):
		return 0, io.ErrUnexpectedEOF
	case n > 0 || err != nil:
		s.idle = 0
		return n, err
	}
	if s.idle++; s.idle >= maxIdle {
		return 0, io.ErrNoProgress
	}
	return 0, nil
}

// readAttempts is how often a file that changes meanwhile is read.
const readAttempts = 3

// readSmall reads a small file and closes it. As far as the times tell, the data is
// of one version, which after describes. data is nil if the file is not small.
func (s *Store) readSmall(f fs.File, info fs.FileInfo, reopen func() (fs.File, error)) (data []byte, after fs.FileInfo, err error) {
	for attempt := 1; ; attempt++ {
		limit := s.options.SmallFile
		if info.Size() < 0 {
			limit = max(limit, s.options.MaxEncode) // the length is unknown
		}
		data, err = readUpTo(f, info.Size(), limit)
		if err == nil {
			after, err = f.Stat()
		}
		f.Close()
		if err != nil || data == nil {
			return nil, nil, err
		}
		isWhole := stampOf(after) == stampOf(info) && int64(len(data)) == after.Size()
		if isWhole || attempt == readAttempts {
			return data, after, nil
		}
		if f, err = reopen(); err != nil {
			return nil, nil, err
		}
		if info, err = f.Stat(); err == nil {
			err = checkRegular(info)
		}
		if err != nil {
			f.Close()
			return nil, nil, err
		}
	}
}

// readUpTo reads to the end. size is an estimate. It returns nil if there are more
// than limit bytes.
func readUpTo(r io.Reader, size, limit int64) ([]byte, error) {
	steady := steadyReader{r: r}
	// One spare byte avoids another allocation at the end of the file.
	data := make([]byte, 0, max(0, min(size, limit))+1)
	for {
		if len(data) == cap(data) {
			data = append(data, make([]byte, max(512, len(data)))...)[:len(data)]
		}
		n, err := steady.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > limit:
			return nil, nil
		case err == io.EOF:
			return data[:len(data):len(data)], nil
		case err != nil:
			return nil, err
		}
	}
}

// versionOf identifies a version of an original: by size and time in nanoseconds, or
// by the content.
func versionOf(f *File) string {
	switch {
	case !f.modified.IsZero():
		version := make([]byte, 0, 64)
		version = strconv.AppendUint(version, uint64(f.modified.UnixNano()), 16)
		version = append(version, '-')
		return string(strconv.AppendInt(version, f.size, 16))
	case f.data != nil:
		sum := sha256.Sum256(f.data)
		return hex.EncodeToString(sum[:16])
	}
	return ""
}

// etagOf returns the entity tag of a file. It needs the file's time, size and,
// without a time, its original's version.
func etagOf(f *File) string {
	tag := make([]byte, 0, 64)
	switch {
	case !f.modified.IsZero():
		tag = append(tag, `W/"`...)
		tag = strconv.AppendInt(tag, f.modified.Unix(), 16)
		tag = append(tag, '-')
		tag = strconv.AppendInt(tag, f.size, 16)
	case f.version == "":
		return ""
	default:
		tag = append(tag, '"')
		tag = append(tag, f.version...)
		if f.encoding != Identity {
			tag = append(tag, '-')
			tag = append(tag, methods[f.encoding].tag...)
		}
	}
	return string(append(tag, '"'))
}

// httpDate formats a time in the preferred form of RFC 9110 section 5.6.7. It returns
// nil if the time is unknown or cannot be represented.
func httpDate(t time.Time) []byte {
	t = t.UTC()
	if t.IsZero() || t.Year() < 1 || t.Year() > 9999 {
		return nil
	}
	return t.AppendFormat(nil, "Mon, 02 Jan 2006 15:04:05 GMT")
}
