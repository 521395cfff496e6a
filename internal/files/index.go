package files

import (
	"errors"
	"strings"
)

// maxOnPage bounds the entries of an index page.
const maxOnPage = 10_000

// indexType is the content type of index pages.
const indexType = "text/html; charset=utf-8"

// errUnfinished is what waits for a list gets if making it has panicked.
var errUnfinished = errors.New("sluice: the list of a folder was not finished")

// An indexFlight is a list of a folder that is being made. Its result is set when done is
// closed.
type indexFlight struct {
	done chan struct{}
	rows *File
	err  error
}

// Index returns a page that lists the folder called name for a request with the decoded
// path: the first maxOnPage of its entries. It is encoded as e under the conditions of Open.
// Errors are those of listIn.
//
// The list is cached like a file, and made anew after CacheDuration: reading a large folder
// costs much more than asking for it. Callers that need the same list at the same time share
// one, but not with SkipCache, which promises what is there now.
func (s *Store) Index(name, path []byte, e Encoding) (*File, error) {
	dir := string(name)
	if dir == "" {
		dir = "."
	}
	if err := s.checkName(dir); err != nil {
		return nil, err
	}
	now := s.now()
	s.stopped()
	from, generation, err := s.tree(now)
	if err != nil {
		return nil, clean(err)
	}
	defer from.release()
	rows, err := s.rows(from, dir, now, generation)
	if err != nil {
		return nil, err
	}
	// Not the name of a file, because names have no NUL.
	key := dir + "\x00" + string(path)
	page := s.cached(key, now)
	if page == nil || !strings.HasPrefix(page.version, rows.version) {
		data := append(appendIndexHead(make([]byte, 0, len(indexHead)+3*len(path)+512+len(rows.data)), string(path)), rows.data...)
		page = &File{data: data, size: int64(len(data)), contentType: indexType, isIndex: true}
		page.version = rows.version + versionOf(page)
		page.etag = etagOf(page)
		page = s.keep(key, loaded{file: page}, now, generation)
	}
	if e != Identity {
		v := s.variant(key, page, e, now)
		if !v.isKnown {
			v.file = s.makeOnce(nil, key, page, e, now)
		}
		if v.file != nil {
			return v.file, nil
		}
	}
	return page, nil
}

// cached returns what is cached for a key that is no file's and is not due; else nil.
func (s *Store) cached(key string, now int64) *File {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.entries[key]
	if n == nil || n.file == nil || now-n.checked >= s.age {
		return nil
	}
	s.touchLocked(n, now)
	return n.file // in memory: it needs no reference
}

// rows returns what a folder's page has for its entries, which does not depend on the path
// of the request.
func (s *Store) rows(from source, dir string, now int64, generation uint64) (*File, error) {
	if s.options.SkipCache {
		return s.makeRows(from, dir)
	}
	key := dir + "\x00"
	if rows := s.cached(key, now); rows != nil {
		return rows, nil
	}
	s.mu.Lock()
	if flying := s.indexing[key]; flying != nil {
		s.mu.Unlock()
		<-flying.done
		return flying.rows, flying.err
	}
	own := &indexFlight{done: make(chan struct{}), err: errUnfinished}
	s.indexing[key] = own
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.indexing, key)
		s.mu.Unlock()
		close(own.done)
	}()
	own.rows, own.err = s.makeRows(from, dir)
	if own.err == nil {
		own.rows = s.keep(key, loaded{file: own.rows}, now, generation)
	}
	return own.rows, own.err
}

// makeRows reads a folder.
func (s *Store) makeRows(from source, dir string) (*File, error) {
	entries, more, err := s.listIn(from, dir, maxOnPage)
	if err != nil {
		return nil, err
	}
	data := appendIndexRows(nil, entries, more)
	rows := &File{data: data, size: int64(len(data))}
	rows.version = versionOf(rows)
	return rows, nil
}
