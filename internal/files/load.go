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

// A loaded is a File that was just opened and what the cache needs to look at
// it again.
type loaded struct {
	file       *File
	info       fs.FileInfo
	isDoubtful bool // see isDoubtful; only of files in memory
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

// openRegular opens what has to be a regular file. Devices are not even opened,
// except for one that takes a file's place in that instant.
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

// content is what fill found.
type content struct {
	info fs.FileInfo // after reading
	head []byte      // the first bytes
}

// fill gives f its content and its size, which is in memory, in the opened file,
// or in one that reopen opens. It closes opened where f does not keep it.
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
				err = ErrNotRegular // endless, as far as can be told
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
		n, _ := io.ReadFull(&steadyReader{r: opened}, c.head) // a missing head is an unknown type
		c.head = c.head[:n]
		_, f.seeks = opened.(io.Seeker)
		opened.Close()
		f.reopen = reopen
	}
	return c, nil
}

func readHead(r io.ReaderAt, head []byte) []byte {
	n, _ := r.ReadAt(head, 0) // a missing head is an unknown type
	return head[:max(0, min(n, len(head)))]
}

// maxIdle is how many reads in a row may bring nothing.
const maxIdle = 100

// A steadyReader ends with an error where its reader would go on for ever
// without bringing anything, or cannot count.
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

// readAttempts is how often a file is read again that changes meanwhile.
const readAttempts = 3

// readSmall reads a small file and closes it. The data is of one version as far
// as the times tell, and after describes it. data is nil if the file turned out
// not to be small.
func (s *Store) readSmall(f fs.File, info fs.FileInfo, reopen func() (fs.File, error)) (data []byte, after fs.FileInfo, err error) {
	for attempt := 1; ; attempt++ {
		limit := s.options.SmallFile
		if info.Size() < 0 {
			limit = max(limit, s.options.MaxEncode) // a length that is not known
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

// readUpTo reads to the end, which size is a guess of. It returns nil if there
// are more than limit bytes.
func readUpTo(r io.Reader, size, limit int64) ([]byte, error) {
	steady := steadyReader{r: r}
	// One byte more than expected shows the end without another round.
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

// versionOf tells versions of an original apart: by size and time to the
// nanosecond, or by the content.
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

// etagOf makes the entity tag of a file that has its time, its size and, without a
// time, the version of its original.
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

// httpDate formats a time as RFC 9110 section 5.6.7 prefers it; nil if it is
// unknown or has no such form.
func httpDate(t time.Time) []byte {
	t = t.UTC()
	if t.IsZero() || t.Year() < 1 || t.Year() > 9999 {
		return nil
	}
	return t.AppendFormat(nil, "Mon, 02 Jan 2006 15:04:05 GMT")
}
