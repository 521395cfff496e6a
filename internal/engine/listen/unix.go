package listen

import (
	"io/fs"
	"net"
	"os"
)

// A SocketFile is the file of a unix socket that this process has bound.
type SocketFile struct {
	path string
	info fs.FileInfo // nil: there was no file, as for abstract names
}

// OwnFile returns the file that ln has just made at path. From now on closing ln leaves it.
func OwnFile(ln *net.UnixListener, path string) SocketFile {
	ln.SetUnlinkOnClose(false)
	info, err := os.Lstat(path)
	if err != nil {
		info = nil
	}
	return SocketFile{path, info}
}

// Remove removes the file, unless another process has replaced it since. The number of a
// removed file may be given to a later one, so its time counts, too: a socket is modified
// only when it is bound.
func (f SocketFile) Remove() {
	if f.info == nil {
		return
	}
	info, err := os.Lstat(f.path)
	if err == nil && os.SameFile(info, f.info) && info.ModTime().Equal(f.info.ModTime()) {
		_ = os.Remove(f.path) // it is gone already, or stays: nobody could act on the error
	}
}

// A unixListener removes its SocketFile when it is closed.
type unixListener struct {
	*net.UnixListener
	file SocketFile
}

// Unix returns a listener that is ln, except that Close removes the file at path only if it
// is still the one that ln has just made.
func Unix(ln *net.UnixListener, path string) net.Listener {
	return unixListener{ln, OwnFile(ln, path)}
}

// Close implements net.Listener. While the socket is open, no other file gets its number, so
// the file is removed first.
func (l unixListener) Close() error {
	l.file.Remove()
	return l.UnixListener.Close()
}

// Bare returns the *net.UnixListener of a listener that Unix has made, and ln otherwise.
func Bare(ln net.Listener) net.Listener {
	if l, ok := ln.(unixListener); ok {
		return l.UnixListener
	}
	return ln
}
