package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A source looks up names. confined, plain and library implement it; Store calls it.
type source interface {
	stat(name string) (fs.FileInfo, error)
	open(name string) (fs.File, error) // does not block on a pipe
	clean(err error) error             // returns the error without paths
	release()                          // ends the use of the result of Store.tree or Store.copyFolder
}

// A folder is a source to which copies can be written: confined or plain.
type folder interface {
	source
	hold() // adds a reference, which release removes
	lstat(name string) (fs.FileInfo, error)
	create(name string) (*os.File, error) // must not exist; only the owner may use it
	setTime(name string, modified time.Time) error
	rename(from, to string) error
	remove(name string) error
	makeAll(name string) error
}

// confined is a directory of the operating system that symbolic links cannot leave.
// Its handle is closed when its place and all users have released it.
type confined struct {
	root    *os.Root
	info    fs.FileInfo
	outside error // root's error for a path that leaves it
	refs    atomic.Int32
}

func openConfined(dir string) (*confined, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	// The error is not exported, so provoke it.
	_, outside := root.Lstat("..")
	c := &confined{root: root, info: info, outside: pathless(outside)}
	c.refs.Store(1)
	return c, nil
}

func (c *confined) hold() { c.refs.Add(1) }

func (c *confined) release() {
	if c.refs.Add(-1) == 0 {
		c.root.Close()
	}
}

func (c *confined) stat(name string) (fs.FileInfo, error)  { return c.root.Stat(name) }
func (c *confined) lstat(name string) (fs.FileInfo, error) { return c.root.Lstat(name) }

func (c *confined) open(name string) (fs.File, error) {
	f, err := c.root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	return opened(f, err)
}

func (c *confined) create(name string) (*os.File, error) {
	return c.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func (c *confined) setTime(name string, modified time.Time) error {
	return c.root.Chtimes(name, time.Time{}, modified)
}

func (c *confined) rename(from, to string) error { return c.root.Rename(from, to) }
func (c *confined) remove(name string) error     { return c.root.Remove(name) }
func (c *confined) makeAll(name string) error    { return c.root.MkdirAll(name, 0o755) }

func (c *confined) clean(err error) error {
	if c.outside != nil && errors.Is(err, c.outside) {
		return ErrOutside
	}
	return clean(err)
}

// plain is a directory of the operating system in which symbolic links are followed
// anywhere.
type plain struct {
	dir string // "": the root of the file system, or on Windows all volumes
}

func (p plain) path(name string) string {
	if p.dir == "" {
		if runtime.GOOS == "windows" {
			return filepath.FromSlash(name)
		}
		return "/" + name
	}
	return filepath.Join(p.dir, filepath.FromSlash(name))
}

func (p plain) stat(name string) (fs.FileInfo, error)  { return os.Stat(p.path(name)) }
func (p plain) lstat(name string) (fs.FileInfo, error) { return os.Lstat(p.path(name)) }

func (p plain) open(name string) (fs.File, error) {
	f, err := os.OpenFile(p.path(name), os.O_RDONLY|openFlags, 0)
	return opened(f, err)
}

func (p plain) create(name string) (*os.File, error) {
	return os.OpenFile(p.path(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func (p plain) setTime(name string, modified time.Time) error {
	return os.Chtimes(p.path(name), time.Time{}, modified)
}

func (p plain) rename(from, to string) error { return os.Rename(p.path(from), p.path(to)) }
func (p plain) remove(name string) error     { return os.Remove(p.path(name)) }
func (p plain) makeAll(name string) error    { return os.MkdirAll(p.path(name), 0o755) }
func (p plain) clean(err error) error        { return clean(err) }

func (p plain) hold()    {}
func (p plain) release() {}

// opened prevents a nil *os.File from becoming a non-nil fs.File, and removes the
// flag that kept open from blocking.
func opened(f *os.File, err error) (fs.File, error) {
	if err != nil {
		return nil, err
	}
	setBlocking(f)
	return f, nil
}

// library is a file system of the user.
type library struct {
	files fs.FS
}

func (l library) stat(name string) (fs.FileInfo, error) { return fs.Stat(l.files, name) }
func (l library) open(name string) (fs.File, error)     { return l.files.Open(name) }
func (l library) release()                              {}

// clean recognises the error of links that leave an os.Root, because the library may
// be an os.Root's FS.
func (l library) clean(err error) error {
	cleaned := clean(err)
	if cleaned == nil || errors.Is(cleaned, fs.ErrNotExist) {
		return cleaned
	}
	c, openErr := openConfined(".")
	if openErr != nil {
		return cleaned
	}
	defer c.release()
	return c.clean(err)
}

// A place is the path of a directory. The directory may be replaced by another one,
// as deployments do, or be missing for a while.
type place struct {
	dir        string
	unconfined bool

	mu      sync.Mutex
	current *confined
	last    fs.FileInfo // of the last directory, even after its handle was closed
	checked int64
	used    int64
}

// at returns the directory that is now at the place, with a reference, and whether it
// is another one than before. For maxAge after a check it does not check again.
func (p *place) at(now, maxAge int64) (where folder, hasChanged bool, err error) {
	if p.unconfined {
		return plain{p.dir}, false, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = now
	if p.current != nil && now-p.checked < maxAge {
		p.current.hold()
		return p.current, false, nil
	}
	info, err := os.Stat(p.path())
	if err == nil && p.current != nil && os.SameFile(info, p.last) {
		p.checked = now
		p.current.hold()
		return p.current, false, nil
	}
	p.closeLocked()
	last := p.last
	p.last = nil
	if err != nil {
		return nil, last != nil, err
	}
	c, err := openConfined(p.path())
	if err != nil {
		return nil, last != nil, err
	}
	p.current, p.last, p.checked = c, c.info, now
	c.hold()
	return c, last != nil && !os.SameFile(last, c.info), nil
}

// lastChecked returns when at last checked.
func (p *place) lastChecked(now int64) int64 {
	if p.unconfined {
		return now
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.checked
}

func (p *place) path() string {
	if p.dir == "" {
		return "."
	}
	return p.dir
}

// closeLocked releases the directory's handle; p.mu is held.
func (p *place) closeLocked() {
	if p.current != nil {
		p.current.release()
		p.current = nil
	}
}

// closeUnused closes a handle that was not used after since, and reports whether a
// handle is still open.
func (p *place) closeUnused(since int64) (isOpen bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used <= since {
		p.closeLocked()
	}
	return p.current != nil
}

// pathless returns an operating system's error without its path.
func pathless(err error) error {
	for {
		switch e := err.(type) {
		case *fs.PathError:
			err = e.Err
		case *os.LinkError:
			err = e.Err
		default:
			return err
		}
	}
}

// clean returns the error that callers of this package get.
func clean(err error) error {
	err = pathless(err)
	switch {
	case err == nil, errors.Is(err, ErrIsDirectory), errors.Is(err, ErrNotRegular), errors.Is(err, ErrChanged):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fs.ErrNotExist
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP):
		// No file can have this name.
		return fs.ErrNotExist
	case errors.Is(err, syscall.ENXIO):
		// A socket, or a pipe without a reader.
		return ErrNotRegular
	case errors.Is(err, fs.ErrPermission):
		return fs.ErrPermission
	case errors.Is(err, fs.ErrInvalid):
		return fs.ErrInvalid
	}
	return fmt.Errorf("sluice: cannot open the file: %w", err)
}

// isExhausted reports whether err means that there are too many open files.
func isExhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
