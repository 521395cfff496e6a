package sluice

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/ascii"
)

// ServeFile answers with the file at path: encoded by br, zstd or gzip if the
// client takes that, in parts if it asks for ranges, and 304 or 412 where its
// conditions want that (RFC 9110 sections 12.5.3, 13 and 14). A folder is
// answered with a list of what is in it.
//
// A relative path starts at the working directory. path is a URI's: it ends at
// the first "?" or "#", and is percent-decoded, once; see ServeFileLiteral for
// names. It is not confined to anything: never
// build it from what a request brings, use FS for that. Files are looked at
// again after a second; encoded copies are kept in memory.
func ServeFile(ctx *RequestCtx, path string) { serveFile(ctx, decodedPath(path), true) }

// ServeFileBytes is ServeFile for bytes.
func ServeFileBytes(ctx *RequestCtx, path []byte) { ServeFile(ctx, string(path)) }

// ServeFileLiteral is ServeFile for the name of a file: nothing in it is cut or
// decoded.
func ServeFileLiteral(ctx *RequestCtx, path string) { serveFile(ctx, path, true) }

// ServeFileUncompressed is ServeFile without encoding.
func ServeFileUncompressed(ctx *RequestCtx, path string) { serveFile(ctx, decodedPath(path), false) }

// ServeFileBytesUncompressed is ServeFileUncompressed for bytes.
func ServeFileBytesUncompressed(ctx *RequestCtx, path []byte) {
	ServeFileUncompressed(ctx, string(path))
}

// ServeFS answers with the file at path of filesystem, as ServeFile does.
// Nothing is kept for the next call: a handler of FS, with its FS field set, is
// faster. path is slash-separated, with or without a slash in front, and cut and
// decoded as by ServeFile; it does not lead out of filesystem.
func ServeFS(ctx *RequestCtx, filesystem fs.FS, path string) {
	ServeFSLiteral(ctx, filesystem, decodedPath(path))
}

// ServeFSLiteral is ServeFS for the name of a file: nothing in it is cut or
// decoded.
func ServeFSLiteral(ctx *RequestCtx, filesystem fs.FS, name string) {
	newFileServer(&FS{
		FS:                 filesystem,
		SkipCache:          true,
		isOneUse:           true,
		Compress:           true,
		CompressBrotli:     true,
		CompressZstd:       true,
		GenerateIndexPages: true,
		AcceptByteRange:    true,
	}).serveEverything(ctx, []byte(path.Clean("/"+name)))
}

// decodedPath returns the name that a URI's path means, without query and
// fragment. What is no encoding stays.
func decodedPath(path string) string {
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	if strings.IndexByte(path, '%') < 0 {
		return path
	}
	return string(ascii.AppendUnescaped(nil, ascii.Bytes(path)))
}

// sharedFileServers are those of ServeFile and its relatives, which have no
// place of their own to keep files in: by volume, with and without encoding.
var sharedFileServers sync.Map // sharedKey to *fileServer

type sharedKey struct {
	volume   string // "" where there are none
	compress bool
}

// sharedCacheDuration is short because nobody asked for a cache.
const sharedCacheDuration = time.Second

// sharedFileServer returns the server for all files of a volume.
func sharedFileServer(volume string, compress bool) *fileServer {
	key := sharedKey{volume, compress}
	if s, ok := sharedFileServers.Load(key); ok {
		return s.(*fileServer)
	}
	s, _ := sharedFileServers.LoadOrStore(key, newFileServer(&FS{
		Root:                     volume + string(os.PathSeparator),
		AllowSymlinksOutsideRoot: true,
		CacheDuration:            sharedCacheDuration,
		noCopies:                 true,
		Compress:                 compress,
		CompressBrotli:           compress,
		CompressZstd:             compress,
		GenerateIndexPages:       true,
		AcceptByteRange:          true,
	}))
	return s.(*fileServer)
}

// serveFile answers with the file of a path of the operating system.
func serveFile(ctx *RequestCtx, path string, compress bool) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		answerFailure(ctx, "cannot serve a file", err)
		return
	}
	volume := filepath.VolumeName(absolute)
	sharedFileServer(volume, compress).serveEverything(ctx, []byte(filepath.ToSlash(absolute[len(volume):])))
}

// serveEverything answers with the file at a path that the handler chose. A
// folder is listed wherever the request's path ends: where it is to be found
// under which path only the handler knows.
func (s *fileServer) serveEverything(ctx *RequestCtx, p []byte) {
	name, _, err := fileName(p)
	if err != nil {
		s.refuse(ctx, err)
		return
	}
	if len(name) == 0 {
		name = rootName
	}
	if s.serveIndex(ctx, name) {
		return
	}
	f, err := s.open(ctx, name)
	if err != nil {
		s.refuseFile(ctx, name, err)
		return
	}
	s.send(ctx, f)
}
