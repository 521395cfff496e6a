package sluice

import (
	"io/fs"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/files"
)

// FSCompressedFileSuffix is the default suffix of the names of gzip copies. It
// is the suffix of fasthttp, so that the server finds copies that fasthttp
// made.
const FSCompressedFileSuffix = ".fasthttp.gz"

// FSCompressedFileSuffixes are the default suffixes of encoded copies, by
// content coding. Do not change the map; set FS.CompressedFileSuffixes.
var FSCompressedFileSuffixes = map[string]string{
	"gzip": FSCompressedFileSuffix,
	"br":   ".fasthttp.br",
	"zstd": ".fasthttp.zst",
}

// FSHandlerCacheDuration is the default of FS.CacheDuration.
const FSHandlerCacheDuration = 10 * time.Second

// FS serves the files below a folder or of an fs.FS. Set the fields, call
// NewRequestHandler, and do not change the fields afterwards. Do not copy an
// FS.
//
// The path of a request is decoded once and names a file below the root. No
// path leads out of the root, whatever its encoding; symbolic links lead out
// only with AllowSymlinksOutsideRoot. The handler supports conditional requests
// (RFC 9110 section 13) and HEAD, and ranges (section 14) with AcceptByteRange.
// Files of up to 24 KiB, and of up to 64 KiB of an fs.FS, are served from memory;
// together they use at most 32 MiB. Larger files go from the file to the socket,
// by sendfile(2) if there is neither TLS nor an encoding to produce.
type FS struct {
	// FS contains the files. If it is nil, the files are those of the operating
	// system, below Root. The fs.FS itself decides whether symbolic links lead out
	// of it. Encoded copies of its files are kept in memory.
	FS fs.FS

	// Root is the folder whose files are served. "" is the working directory, or
	// the root of FS. The folder may be created or replaced later: see
	// CacheDuration. If Root is a file when the first request arrives, the handler
	// serves only this file, at the path "/".
	Root string

	// AllowEmptyRoot makes an empty Root mean the root of the file system: the
	// path of a request is then the absolute name of a file, and is not confined.
	AllowEmptyRoot bool

	// AllowSymlinksOutsideRoot follows symbolic links that lead out of Root or
	// CompressRoot. By default their targets are answered 404. If it is set,
	// anyone who can create links below Root can publish every file that the
	// process can read.
	AllowSymlinksOutsideRoot bool

	// IndexNames are the names of index files. The first one that exists is the
	// answer for a folder. The handler copies the list.
	IndexNames []string

	// GenerateIndexPages answers a request for a folder without an index file with
	// a list of its entries, at most 10,000. The list is made anew after CacheDuration.
	// By default such a request is answered 403.
	GenerateIndexPages bool

	// GenerateETag sends an ETag and evaluates If-None-Match with it. The ETag is
	// made of the modification time in seconds and the size: W/"<time>-<size>" in
	// hexadecimal. It is weak, so If-Match and If-Range never match it (RFC 9110
	// section 8.8.3.2); each encoding of a file has its own size. A file without a
	// modification time, such as an embedded file, has a strong ETag made of its
	// content.
	GenerateETag bool

	// Compress serves files encoded if the client accepts the coding
	// (Accept-Encoding, RFC 9110 section 12.5.3) and the file's type compresses
	// well. The coding is gzip, unless CompressBrotli or CompressZstd adds others.
	// A file is encoded once. The copy is kept beside the file, under its name and
	// CompressedFileSuffix, or below CompressRoot; if that is not writable, the
	// copy is kept in memory. Files over 8 MiB are not encoded.
	Compress bool

	// CompressBrotli adds br, which is preferred to the others. It needs Compress.
	CompressBrotli bool

	// CompressZstd adds zstd, which is preferred to gzip. It needs Compress.
	CompressZstd bool

	// CompressRoot is the folder for encoded copies. Its subfolders mirror those
	// of Root. "" is Root itself.
	CompressRoot string

	// AcceptByteRange answers requests for one or several ranges with these parts
	// of the file. Ranges of an encoded file refer to its encoded bytes.
	AcceptByteRange bool

	// PathRewrite returns the path of the file to serve. The path begins with a
	// slash, or is empty, and is neither decoded nor normalised. The handler does
	// not retain it. If nil, the path is the request's, ctx.Path.
	PathRewrite PathRewriteFunc

	// PathNotFound answers requests for which there is no file. The status is
	// already 404, and the body is empty. If nil, the answer is a short text.
	PathNotFound RequestHandler

	// SkipCache opens the file again for every request.
	SkipCache bool

	// CacheDuration is how long the handler relies on a file's cached content and
	// times, and how long it keeps an unused file open. FSHandlerCacheDuration if
	// zero. A replaced Root is also noticed after this time. A change of a large
	// file in place is noticed at once.
	CacheDuration time.Duration

	// CompressedFileSuffix is added to the names of gzip copies. If "", the suffix
	// is that of CompressedFileSuffixes or FSCompressedFileSuffixes.
	CompressedFileSuffix string

	// CompressedFileSuffixes are the suffixes of encoded copies by content coding:
	// gzip, br, zstd. A missing suffix is that of FSCompressedFileSuffixes.
	CompressedFileSuffixes map[string]string

	// CleanStop ends all caching when it is closed: the handler closes its files,
	// and opens files again for every request.
	CleanStop chan struct{}

	noCopy   noCopy
	noCopies bool // encoded copies are kept in memory
	isOneUse bool // the handler serves one request only
	once     sync.Once
	handler  RequestHandler
}

// NewRequestHandler returns the handler that serves fs. All calls return the
// same handler. It does not access the file system before the first request.
func (fs *FS) NewRequestHandler() RequestHandler {
	fs.once.Do(func() {
		fs.handler = newFileServer(fs).handle
	})
	return fs.handler
}

// FSHandler returns a handler for the files below root, with index.html for
// folders, generated index pages and ranges. stripSlashes is the number of
// leading path segments to remove: with 1, /static/a.css is root/a.css. Each
// call returns a new handler with its own cache: call it once.
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

// CacheKind names a cache of a file handler. It exists for compatibility; no
// function of this package uses it.
type CacheKind uint8

// PathRewriteFunc returns the path of the file to serve for a request; see
// FS.PathRewrite.
type PathRewriteFunc func(ctx *RequestCtx) []byte

// NewPathSlashesStripper returns a rewriter that removes the first slashesCount
// segments of a path: with 1, /static/css/a.css becomes /css/a.css. A path with
// at most slashesCount segments becomes empty, which means the root without a
// final slash. The result is a part of ctx.Path. If slashesCount is 0 or less,
// the path does not change.
func NewPathSlashesStripper(slashesCount int) PathRewriteFunc {
	return func(ctx *RequestCtx) []byte { return files.StripSegments(ctx.Path(), slashesCount) }
}

// NewPathPrefixStripper returns a rewriter that removes the first prefixSize
// bytes of a path: with len("/static"), /static/a.css becomes /a.css. It does
// not check these bytes: the router must have matched them. A path that is
// shorter than prefixSize does not change. The result is a part of ctx.Path. If
// prefixSize is 0 or less, the path does not change.
func NewPathPrefixStripper(prefixSize int) PathRewriteFunc {
	return func(ctx *RequestCtx) []byte {
		path := ctx.Path()
		if prefixSize <= 0 || prefixSize > len(path) {
			return path
		}
		return path[prefixSize:]
	}
}

// NewVHostPathRewriter returns a rewriter that removes the first slashesCount
// segments of a path, and then puts a folder with the name of the request's
// host before it: with 0, /a.css of www.example.com becomes
// /www.example.com/a.css. The host is in lower case, and includes the port if
// the request has one: the folder of Example.com:8080 is example.com:8080.
//
// The client controls the host. A missing host, a host that cannot be the name
// of a folder, and a host that begins with a dot are replaced with
// "invalid-host". The result is valid until ctx.URI changes or the handler
// returns.
func NewVHostPathRewriter(slashesCount int) PathRewriteFunc {
	return func(ctx *RequestCtx) []byte {
		u := ctx.URI()
		return u.m.AppendAfterPath(files.HostFolder(u.Host()), files.StripSegments(u.Path(), slashesCount))
	}
}
