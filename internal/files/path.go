package files

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// RootName is the name of the root.
const RootName = "."

var (
	// ErrBadPath says that a path cannot be the name of a file.
	ErrBadPath = errors.New("sluice: malformed path of a file")
	// ErrUpwards says that a path has a segment "..", which those of requests never have.
	ErrUpwards = errors.New("sluice: the path returned by FS.PathRewrite has a segment \"..\"")
)

// NameOf returns the name in the store for a decoded path, and whether it
// must be a folder. The name may be a part of p. It is empty for an empty path,
// whose meaning only the rewriter knows.
func NameOf(p []byte) (name []byte, isFolder bool, err error) {
	if bytes.IndexByte(p, 0) >= 0 {
		return nil, false, ErrBadPath
	}
	if len(p) == 0 {
		return nil, false, nil
	}
	if p[0] == '/' {
		p = p[1:]
	}
	// A request's path is clean already, unless normalizing is disabled.
	isClean, isUpwards := checkSegments(p)
	if isUpwards {
		return nil, false, ErrUpwards
	}
	isFolder = HasFinalSlash(p)
	if !isClean {
		isFolder = isFolder || bytes.HasSuffix(p, []byte("/.")) || string(p) == "."
		p = []byte(path.Clean("/" + string(p))[1:])
	} else if isFolder {
		p = p[:len(p)-1]
	}
	switch {
	case len(p) == 0:
		return ascii.Bytes(RootName), true, nil
	case isFolder:
		return p, true, nil
	}
	return p, false, nil
}

// HasFinalSlash reports whether p ends with a slash.
func HasFinalSlash(p []byte) bool { return len(p) > 0 && p[len(p)-1] == '/' }

// checkSegments reports whether no segment of p is "." or, except for the last
// one, empty, and whether one is "..".
func checkSegments(p []byte) (isClean, isUpwards bool) {
	isClean = true
	for hasMore := true; hasMore; {
		var segment []byte
		segment, p, hasMore = ascii.Cut(p, '/')
		switch {
		case string(segment) == "..":
			return false, true
		case len(segment) == 0 && hasMore, string(segment) == ".":
			isClean = false
		}
	}
	return isClean, false
}

// DecodedPath returns the name that the path of a URI means, without query and
// fragment. Invalid percent-encodings stay.
func DecodedPath(path string) string {
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	if strings.IndexByte(path, '%') < 0 {
		return path
	}
	return string(ascii.AppendUnescaped(nil, ascii.Bytes(path)))
}

// SingleOf returns the folder and the name of a regular file.
func SingleOf(library fs.FS, name string) (folder fs.FS, base string, ok bool) {
	if name == "" {
		return nil, "", false
	}
	info, err := fs.Stat(library, name)
	if err != nil || !info.Mode().IsRegular() {
		return nil, "", false
	}
	folder, err = fs.Sub(library, path.Dir(name))
	return folder, path.Base(name), err == nil
}

// SingleAt is SingleOf for a file of the operating system, also if a slash follows its name.
// It follows symbolic links: the program's author chose the name.
func SingleAt(name string) (folder, base string, ok bool) {
	for len(name) > 1 && os.IsPathSeparator(name[len(name)-1]) {
		name = name[:len(name)-1]
	}
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", "", false
	}
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return "", "", false
	}
	return filepath.Dir(name), filepath.Base(name), true
}

// StripSegments returns path, which begins with a slash, without its first n
// segments.
func StripSegments(path []byte, n int) []byte {
	for ; n > 0 && len(path) > 0; n-- {
		slash := bytes.IndexByte(path[1:], '/')
		if slash < 0 {
			return path[len(path):]
		}
		path = path[1+slash:]
	}
	return path
}

// invalidHost is the folder for requests without a usable host.
const invalidHost = "invalid-host"

// HostFolder returns the folder for the files of a host. The result is one segment that is
// not ".", ".." or hidden, so it cannot lead to the files of another host.
func HostFolder(host []byte) []byte {
	if len(host) == 0 || host[0] == '.' {
		return ascii.Bytes(invalidHost)
	}
	for _, c := range host {
		if c <= ' ' || c == '/' || c == '\\' || c == 0x7F {
			return ascii.Bytes(invalidHost)
		}
	}
	return host
}
