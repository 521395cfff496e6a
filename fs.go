package sluice

import (
	"io/fs"
	"sync"
	"time"
)

// FSCompressedFileSuffix is what the names of gzip copies end in by default. It
// is fasthttp's, so that copies made by it are found.
const FSCompressedFileSuffix = ".fasthttp.gz"

// FSCompressedFileSuffixes are the default suffixes of encoded copies, by
// content coding. Do not change it; set FS.CompressedFileSuffixes.
var FSCompressedFileSuffixes = map[string]string{
	"gzip": FSCompressedFileSuffix,
	"br":   ".fasthttp.br",
	"zstd": ".fasthttp.zst",
}

// FSHandlerCacheDuration is the default of FS.CacheDuration.
const FSHandlerCacheDuration = 10 * time.Second

// FS serves the files below a folder or of an fs.FS. Fill in the fields, call
// NewRequestHandler, and don't change the fields any more; don't copy an FS.
//
// A request's path is decoded once and names a file below the root. No path
// leads out of it, however it is encoded, and symbolic links do so only with
// AllowSymlinksOutsideRoot. Conditional requests (RFC 9110 section 13) and HEAD
// are answered, ranges (section 14) with AcceptByteRange. Files of up to 64 KiB
// are served from memory, of which all together take at most 32 MiB; larger
// ones go from the file to the socket, by sendfile(2) where there is neither
// TLS nor an encoding to make.
type FS struct {
	// FS has the files. If it is nil, they are those of the operating system,
	// below Root. Whether symbolic links lead out of it is its own business, and
	// encoded copies of its files are kept in memory.
	FS fs.FS

	// Root is the folder whose files are served; "" is the working directory, or
	// the root of FS. It may be made, or replaced by another one, later: see
	// CacheDuration. If it is a file when the first request comes, that is all
	// there is: it has the path "/".
	Root string

	// AllowEmptyRoot makes an empty Root the root of the file system: the path
	// is the file's absolute name. No path is confined then.
	AllowEmptyRoot bool

	// AllowSymlinksOutsideRoot follows symbolic links that lead out of Root or
	// CompressRoot. Otherwise what they lead to is answered 404. Whoever may
	// make links below Root can then have any file served that the process may
	// read.
	AllowSymlinksOutsideRoot bool

	// IndexNames are the files that answer for a folder, the first that is
	// there. The handler copies the list.
	IndexNames []string

	// GenerateIndexPages answers for folders without one of IndexNames with a
	// list of what is in it. Otherwise they are answered 403.
	GenerateIndexPages bool

	// GenerateETag sends an ETag, made of the time of the last change in seconds
	// and the size, W/"<time>-<size>" in hexadecimal, and honours If-None-Match
	// with it. It is a weak one, which If-Match and If-Range never match (RFC 9110
	// section 8.8.3.2); each encoding of a file has its own size. Where there is
	// no time, as for embedded files, it is a strong one made of the content.
	GenerateETag bool

	// Compress serves files encoded, by gzip unless more is asked for, if the
	// client takes that (Accept-Encoding, RFC 9110 section 12.5.3) and the
	// type gets smaller. A file is encoded once: the copy is kept beside the
	// file under its name and CompressedFileSuffix, or below CompressRoot; if
	// that may not be written to, in memory. Files over 8 MiB are not encoded.
	Compress bool

	// CompressBrotli adds br, preferred to the others, if Compress is set.
	CompressBrotli bool

	// CompressZstd adds zstd, preferred to gzip, if Compress is set.
	CompressZstd bool

	// CompressRoot is the folder for encoded copies, with folders as below
	// Root; "" is Root itself.
	CompressRoot string

	// AcceptByteRange answers requests for a range, or for several, with these
	// parts of the file. Ranges of an encoded file count its encoded bytes.
	AcceptByteRange bool

	// PathRewrite returns the path of the file to serve. It begins with a slash
	// and is neither decoded nor normalized; it is not kept. nil: the request's
	// path, ctx.Path.
	PathRewrite PathRewriteFunc

	// PathNotFound answers where there is no file, with the status 404 and no
	// body set. nil: a short text.
	PathNotFound RequestHandler

	// SkipCache has every request open its file.
	SkipCache bool

	// CacheDuration is how long a file's content and times are taken for what
	// they were, and how long an unused one is kept open; 0 is
	// FSHandlerCacheDuration. It is also how long it takes until a Root that
	// was replaced is noticed. A large file that changes in place is noticed at
	// once.
	CacheDuration time.Duration

	// CompressedFileSuffix is added to the names of gzip copies; "" is that of
	// CompressedFileSuffixes or FSCompressedFileSuffixes.
	CompressedFileSuffix string

	// CompressedFileSuffixes are the suffixes of encoded copies by content
	// coding: gzip, br, zstd. Those that are missing are those of
	// FSCompressedFileSuffixes.
	CompressedFileSuffixes map[string]string

	// CleanStop, when it is closed, ends all caching: files are closed, and
	// opened again for every request.
	CleanStop chan struct{}

	noCopy   noCopy
	noCopies bool // encoded copies are kept in memory
	isOneUse bool // for one request
	once     sync.Once
	handler  RequestHandler
}

// NewRequestHandler returns the handler that serves fs. All calls return the
// same one. It does not look at the file system before the first request.
func (fs *FS) NewRequestHandler() RequestHandler {
	fs.once.Do(func() {
		server := newFileServer(fs)
		lookOnce := sync.OnceFunc(func() { server.lookAtRoot(fs) })
		fs.handler = func(ctx *RequestCtx) {
			lookOnce()
			server.handle(ctx)
		}
	})
	return fs.handler
}

// FSHandler returns a handler for the files below root, with index.html for
// folders, generated index pages and ranges. stripSlashes is the number of
// leading path segments to drop: 1 serves /static/a.css from root/a.css. Each
// call makes another handler with a cache of its own: call it once.
func FSHandler(root string, stripSlashes int) RequestHandler {
	fs := &FS{
		Root:               root,
		IndexNames:         []string{"index.html"},
		GenerateIndexPages: true,
		AcceptByteRange:    true,
	}
	if stripSlashes > 0 {
		fs.PathRewrite = NewPathSlashesStripper(stripSlashes)
	}
	return fs.NewRequestHandler()
}

// CacheKind names one of the caches of a file handler.
type CacheKind uint8
