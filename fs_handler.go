package sluice

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/compress"
	"github.com/sluicehttp/sluice/internal/conditional"
	"github.com/sluicehttp/sluice/internal/files"
)

// fileServer answers requests with the files of a store.
type fileServer struct {
	store      *files.Store
	only       []byte // the name of the only file, if the root is a file
	rewrite    PathRewriteFunc
	notFound   RequestHandler
	indexNames []string
	offers     []codingOffer // the codings for files, the preferred one first
	hasListing bool
	hasRanges  bool
	hasETags   bool
}

// newFileServer returns a server for the files of f.
func newFileServer(f *FS) *fileServer {
	s := &fileServer{
		rewrite:    f.PathRewrite,
		notFound:   f.PathNotFound,
		indexNames: append([]string(nil), f.IndexNames...),
		hasListing: f.GenerateIndexPages,
		hasRanges:  f.AcceptByteRange,
		hasETags:   f.GenerateETag,
	}
	if f.Compress {
		s.offers = fileOffers(f.CompressBrotli, f.CompressZstd)
	}
	s.store = files.New(storeOptions(f, s.offers))
	return s
}

// fileOffers returns the codings for files, the preferred one first. The levels
// are for index pages.
func fileOffers(hasBrotli, hasZstd bool) []codingOffer {
	var offers []codingOffer
	if hasBrotli {
		offers = append(offers, codingOffer{compress.Brotli, CompressBrotliDefaultCompression})
	}
	if hasZstd {
		offers = append(offers, codingOffer{compress.Zstd, CompressZstdDefault})
	}
	return append(offers, codingOffer{compress.Gzip, CompressDefaultCompression})
}

// storeOptions returns the settings of the store for f's files, encoded as
// offered.
func storeOptions(f *FS, offers []codingOffer) files.Options {
	o := files.Options{
		FS:            f.FS,
		Root:          f.Root,
		Unconfined:    f.AllowSymlinksOutsideRoot,
		CompressRoot:  f.CompressRoot,
		CacheDuration: f.CacheDuration,
		SkipCache:     f.SkipCache,
		CleanStop:     f.CleanStop,
		NoCopies:      f.noCopies,
		IsOneUse:      f.isOneUse,
	}
	if root := path.Clean("/" + f.Root)[1:]; f.FS != nil && root != "" {
		if sub, err := fs.Sub(f.FS, root); err == nil { // always: the name is clean
			o.FS = sub
		}
	}
	if f.Root == "" && f.AllowEmptyRoot && f.FS == nil {
		o.Root, o.Unconfined = "/", true
	}
	for _, offer := range offers {
		coding := codingName(offer.coding)
		suffix := f.CompressedFileSuffixes[coding]
		if suffix == "" {
			suffix = FSCompressedFileSuffixes[coding]
		}
		if offer.coding == compress.Gzip && f.CompressedFileSuffix != "" {
			suffix = f.CompressedFileSuffix
		}
		o.Suffixes[encodingOf(offer.coding)] = suffix
	}
	return o
}

// maxListed bounds the entries of an index page.
const maxListed = 10_000

// handle answers a request.
func (s *fileServer) handle(ctx *RequestCtx) {
	if string(ctx.Request.Header.RequestURI()) == "*" { // OPTIONS for the server as a whole: not a file
		s.refuse(ctx, fs.ErrNotExist)
		return
	}
	if s.rewrite == nil {
		s.handlePath(ctx, ctx.Path(), errBadPath)
		return
	}
	s.handlePath(ctx, s.rewrite(ctx), errBadRewrite)
}

// handlePath answers a request with the file at the decoded path p. refusal is
// the error if p has a segment "..".
func (s *fileServer) handlePath(ctx *RequestCtx, p []byte, refusal error) {
	name, isFolder, err := fileName(p)
	if err == errUpwards {
		err = refusal
	}
	switch {
	case err != nil:
		s.refuse(ctx, err)
	case s.only != nil:
		s.serveOnly(ctx, name)
	case isFolder:
		s.serveFolder(ctx, name)
	case len(name) == 0 && !hasFinalSlash(ctx.Path()):
		redirectToFolder(ctx)
	case len(name) == 0:
		s.serveFolder(ctx, rootName)
	default:
		s.serveName(ctx, name)
	}
}

// lookAtRoot makes s serve a single file if the root of f is a file, as in a
// route for one file. Nothing beside that file is served.
func (s *fileServer) lookAtRoot(f *FS) {
	o := storeOptions(f, s.offers)
	name, isFile := "", false
	if f.FS != nil {
		o.FS, name, isFile = fileOf(f.FS, path.Clean("/" + f.Root)[1:])
	} else if f.Root != "" {
		o.Root, name, isFile = fileAt(f.Root)
	}
	if isFile {
		s.store, s.only = files.New(o), []byte(name)
	}
}

// fileOf returns the folder and the name of a regular file.
func fileOf(library fs.FS, name string) (folder fs.FS, base string, ok bool) {
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

// fileAt is fileOf for a file of the operating system. It follows symbolic
// links: the program's author chose the name.
func fileAt(name string) (folder, base string, ok bool) {
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

// serveOnly answers with the only file, which is at the root.
func (s *fileServer) serveOnly(ctx *RequestCtx, name []byte) {
	if len(name) > 0 && string(name) != string(rootName) {
		s.refuse(ctx, fs.ErrNotExist)
		return
	}
	s.serveName(ctx, s.only)
}

// rootName is the name of the root in the store.
var rootName = []byte(".")

var (
	// errBadPath says that a request's path cannot be the name of a file.
	errBadPath = errors.New("sluice: malformed path of a file")
	// errBadRewrite says that a PathRewriteFunc returned a path with "..".
	errBadRewrite = errors.New("sluice: the path returned by FS.PathRewrite has a segment \"..\"")
	// errUpwards says that a path has a segment "..".
	errUpwards = errors.New("sluice: the path has a segment \"..\"")
)

// fileName returns the name in the store for a decoded path, and whether it
// must be a folder. Only the rewriter knows the meaning of an empty path; name
// is then empty.
func fileName(p []byte) (name []byte, isFolder bool, err error) {
	if bytes.IndexByte(p, 0) >= 0 {
		return nil, false, errBadPath
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
		return nil, false, errUpwards
	}
	isFolder = hasFinalSlash(p)
	if !isClean {
		isFolder = isFolder || bytes.HasSuffix(p, []byte("/.")) || string(p) == "."
		p = []byte(path.Clean("/" + string(p))[1:])
	} else if isFolder {
		p = p[:len(p)-1]
	}
	switch {
	case len(p) == 0:
		return rootName, true, nil
	case isFolder:
		return p, true, nil
	}
	return p, false, nil
}

func hasFinalSlash(p []byte) bool { return len(p) > 0 && p[len(p)-1] == '/' }

// checkSegments reports whether no segment of p is "." or, except for the last
// one, empty, and whether one is "..".
func checkSegments(p []byte) (isClean, isUpwards bool) {
	isClean = true
	for hasMore := true; hasMore; {
		var segment []byte
		segment, p, hasMore = cutByte(p, '/')
		switch {
		case string(segment) == "..":
			return false, true
		case len(segment) == 0 && hasMore, string(segment) == ".":
			isClean = false
		}
	}
	return isClean, false
}

// serveName answers with the file of a name.
func (s *fileServer) serveName(ctx *RequestCtx, name []byte) {
	f, err := s.open(ctx, name)
	switch {
	case err == nil:
		s.send(ctx, f)
	case errors.Is(err, files.ErrIsDirectory):
		redirectToFolder(ctx)
	default:
		s.refuse(ctx, err)
	}
}

// open opens a file in the encoding that suits the request.
func (s *fileServer) open(ctx *RequestCtx, name []byte) (*files.File, error) {
	return s.store.Open(name, s.choose(&ctx.Request.Header))
}

// choose returns the encoding that suits a request best.
func (s *fileServer) choose(h *RequestHeader) files.Encoding {
	if len(s.offers) > 0 {
		var accept acceptEncoding
		accept.readFields(h)
		if offer, ok := accept.choose(s.offers); ok {
			return encodingOf(offer.coding)
		}
	}
	return files.Identity
}

// encodingOf returns the store's name for a coding.
func encodingOf(c compress.Coding) files.Encoding {
	switch c {
	case compress.Gzip:
		return files.Gzip
	case compress.Brotli:
		return files.Brotli
	case compress.Zstd:
		return files.Zstd
	}
	return files.Identity
}

// redirectToFolder redirects a request for a folder whose path has no final
// slash: relative references in its page would be wrong. Location has the path
// of the request, which the client knows, not the rewritten path. It has no
// host, because a proxy may have changed it.
func redirectToFolder(ctx *RequestCtx) {
	// Two leading slashes would mean a host (RFC 3986 section 4.2).
	location := append([]byte{'/'}, bytes.TrimLeft(ascii.AppendPath(nil, ctx.Path()), "/")...)
	location = append(location, '/')
	if query := ctx.URI().QueryString(); len(query) > 0 {
		location = ascii.AppendTarget(append(location, '?'), query)
	}
	ctx.Response.Header.SetCanonical([]byte(HeaderLocation), location)
	ctx.Response.ResetBody()
	ctx.SetStatusCode(StatusFound)
}

// serveFolder answers for a folder: with its index file, or a list of its
// entries. The path of a file may also end with a slash, because rewriters
// append one.
func (s *fileServer) serveFolder(ctx *RequestCtx, name []byte) {
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

// serveIndex answers with the index file of a folder, if it has one.
func (s *fileServer) serveIndex(ctx *RequestCtx, name []byte) (isAnswered bool) {
	var space [128]byte
	for _, index := range s.indexNames {
		in := space[:0]
		if string(name) != "." {
			in = append(append(in, name...), '/')
		}
		f, err := s.open(ctx, append(in, index...))
		switch {
		case err == nil:
			s.send(ctx, f)
			return true
		case !isNotFound(err) && !errors.Is(err, files.ErrIsDirectory):
			s.refuse(ctx, err)
			return true
		}
	}
	return false
}

// refuseFile answers when err says that name cannot be served as a file: it
// lists a folder.
func (s *fileServer) refuseFile(ctx *RequestCtx, name []byte, err error) {
	switch {
	case !errors.Is(err, files.ErrIsDirectory):
		s.refuse(ctx, err)
	case s.hasListing:
		s.list(ctx, name)
	default:
		ctx.Error("Directory index is forbidden", StatusForbidden)
	}
}

// list answers with a list of the entries of a folder.
func (s *fileServer) list(ctx *RequestCtx, name []byte) {
	entries, more, err := s.store.ReadDir(name, maxListed)
	if err != nil {
		s.refuse(ctx, err)
		return
	}
	listed := make([]indexEntry, len(entries))
	for i, entry := range entries {
		listed[i] = indexEntry(entry)
	}
	if answerConditions(ctx, conditional.Validators{}) {
		return
	}
	resp := &ctx.Response
	ctx.SetContentType("text/html; charset=utf-8")
	resp.Header.Del(HeaderContentEncoding) // it was set for a file, not for this page
	ctx.SetStatusCode(StatusOK)
	resp.SetBodyRaw(appendIndexPage(nil, string(ctx.Path()), listed, more))
	if len(s.offers) > 0 {
		ctx.encodeResponse(s.offers)
	}
	page := resp.SwapBody(nil)
	if ctx.IsHead() {
		resp.Header.SetContentLength(len(page))
		resp.SkipBody = true
		return
	}
	ctx.sendContent(page)
}

// isNotFound reports whether err says that there is no such file. For clients,
// files outside the root do not exist.
func isNotFound(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, files.ErrOutside)
}

// refuse answers when there is nothing to serve. The answer does not contain
// the path.
func (s *fileServer) refuse(ctx *RequestCtx, err error) {
	switch {
	case errors.Is(err, errBadPath):
		ctx.Error(StatusMessage(StatusBadRequest), StatusBadRequest)
	case isNotFound(err):
		if s.notFound == nil {
			ctx.Error("Cannot open requested path", StatusNotFound)
			return
		}
		ctx.SetStatusCode(StatusNotFound)
		s.notFound(ctx)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, files.ErrNotRegular):
		ctx.Error(StatusMessage(StatusForbidden), StatusForbidden)
	default:
		answerFailure(ctx, "cannot serve a file", err)
	}
}

// answerFailure answers 500. It logs what failed and why; the client receives
// only the status.
func answerFailure(ctx *RequestCtx, what string, err error) {
	ctx.Logger().Printf("%s: %v", what, err)
	ctx.Error(StatusMessage(StatusInternalServerError), StatusInternalServerError)
}
