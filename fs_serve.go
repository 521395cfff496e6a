package sluice

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/files"
)

// ServeFile answers with the file at path. It encodes the file with br, zstd or
// gzip if the client accepts that, sends parts of it for range requests, and
// answers 304 or 412 if the request's conditions require that (RFC 9110
// sections 12.5.3, 13 and 14). If path is a folder, the answer is a list of its
// entries, whose links are relative: a request whose own path has no final slash is
// redirected to the path with one, as FS does.
//
// A relative path starts at the working directory. path is the path of a URI:
// it ends at the first "?" or "#", and is percent-decoded once. For file names
// use ServeFileLiteral. path is not confined: never build it from request data;
// use FS for that. ServeFile checks a file for changes after one second, and
// keeps encoded copies in memory.
func ServeFile(ctx *RequestCtx, path string) { serveFile(ctx, files.DecodedPath(path), true) }

// ServeFileBytes is ServeFile with a []byte.
func ServeFileBytes(ctx *RequestCtx, path []byte) { ServeFile(ctx, string(path)) }

// ServeFileLiteral is ServeFile for the name of a file: the name is neither cut
// nor decoded.
func ServeFileLiteral(ctx *RequestCtx, path string) { serveFile(ctx, path, true) }

// ServeFileUncompressed is ServeFile without compression.
func ServeFileUncompressed(ctx *RequestCtx, path string) {
	serveFile(ctx, files.DecodedPath(path), false)
}

// ServeFileBytesUncompressed is ServeFileUncompressed with a []byte.
func ServeFileBytesUncompressed(ctx *RequestCtx, path []byte) {
	ServeFileUncompressed(ctx, string(path))
}

// ServeFS answers with the file at path of filesystem, as ServeFile does. It
// caches nothing between calls; a handler of FS, with its FS field set, is
// faster. path is slash-separated, with or without a leading slash, and is cut
// and decoded as in ServeFile. It does not lead out of filesystem.
func ServeFS(ctx *RequestCtx, filesystem fs.FS, path string) {
	ServeFSLiteral(ctx, filesystem, files.DecodedPath(path))
}

// ServeFSLiteral is ServeFS for the name of a file: the name is neither cut nor
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
	}).serveChosen(ctx, path.Clean("/"+name))
}

// sharedFileServers are the file servers of ServeFile and its relatives, which
// have no object that could hold a cache: by volume, with and without encoding.
var sharedFileServers sync.Map // sharedKey to *fileServer

type sharedKey struct {
	volume   string // "" on systems without volumes
	compress bool
}

// sharedCacheDuration is short because the caller did not ask for a cache.
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
	sharedFileServer(volume, compress).serveChosen(ctx, filepath.ToSlash(absolute[len(volume):]))
}

// serveChosen answers with the file at a path that the handler chose.
func (s *fileServer) serveChosen(ctx *RequestCtx, path string) {
	r := files.Request{Header: ctx.Request.Header.head(), Response: ctx.Response.Header.head(), Path: ctx.Path()}
	s.answer(ctx, &r, s.site.AnswerChosen(&r, []byte(path)))
}
