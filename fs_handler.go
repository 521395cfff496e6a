package sluice

import (
	"bytes"
	"errors"
	"io/fs"
	"path"

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
	offers     []compress.Offer // the codings for files, the preferred one first
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
func fileOffers(hasBrotli, hasZstd bool) []compress.Offer {
	var offers []compress.Offer
	if hasBrotli {
		offers = append(offers, compress.Offer{Coding: compress.Brotli, Level: CompressBrotliDefaultCompression})
	}
	if hasZstd {
		offers = append(offers, compress.Offer{Coding: compress.Zstd, Level: CompressZstdDefault})
	}
	return append(offers, compress.Offer{Coding: compress.Gzip, Level: CompressDefaultCompression})
}

// storeOptions returns the settings of the store for f's files, encoded as
// offered.
func storeOptions(f *FS, offers []compress.Offer) files.Options {
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
		coding := offer.Coding.Name()
		suffix := f.CompressedFileSuffixes[coding]
		if suffix == "" {
			suffix = FSCompressedFileSuffixes[coding]
		}
		if offer.Coding == compress.Gzip && f.CompressedFileSuffix != "" {
			suffix = f.CompressedFileSuffix
		}
		o.Suffixes[files.EncodingOf(offer.Coding)] = suffix
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
	p := ctx.Path()
	if s.rewrite != nil {
		p = s.rewrite(ctx)
	}
	name, isFolder, err := files.NameOf(p)
	if err == files.ErrUpwards { // Path returns no such path
		err = errBadRewrite
	}
	switch {
	case err != nil:
		s.refuse(ctx, err)
	case s.only != nil && len(name) > 0 && string(name) != files.RootName: // the only file is at the root
		s.refuse(ctx, fs.ErrNotExist)
	case s.only != nil:
		s.serveName(ctx, s.only)
	case isFolder:
		s.serveFolder(ctx, name)
	case len(name) == 0 && !files.HasFinalSlash(ctx.Path()):
		redirectToFolder(ctx)
	case len(name) == 0:
		s.serveFolder(ctx, ascii.Bytes(files.RootName))
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
		o.FS, name, isFile = files.SingleOf(f.FS, path.Clean("/" + f.Root)[1:])
	} else if f.Root != "" {
		o.Root, name, isFile = files.SingleAt(f.Root)
	}
	if isFile {
		s.store, s.only = files.New(o), []byte(name)
	}
}

// errBadRewrite says that a PathRewriteFunc returned a path with "..".
var errBadRewrite = errors.New("sluice: the path returned by FS.PathRewrite has a segment \"..\"")

// serveName answers with the file of a name.
func (s *fileServer) serveName(ctx *RequestCtx, name []byte) {
	f, err := s.open(ctx, name)
	switch {
	case err == nil:
		s.send(ctx, f)
	case !errors.Is(err, files.ErrIsDirectory):
		s.refuse(ctx, err)
	case files.HasFinalSlash(ctx.Path()): // a rewriter has removed the slash
		s.serveFolder(ctx, name)
	default:
		redirectToFolder(ctx)
	}
}

// open opens a file in the encoding that suits the request.
func (s *fileServer) open(ctx *RequestCtx, name []byte) (*files.File, error) {
	return s.store.Open(name, s.choose(&ctx.Request.Header))
}

// choose returns the encoding that suits a request best.
func (s *fileServer) choose(h *RequestHeader) files.Encoding {
	if len(s.offers) > 0 {
		accept := readAccept(h)
		if offer, ok := accept.Choose(s.offers); ok {
			return files.EncodingOf(offer.Coding)
		}
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
	if !s.serveIndex(ctx, name) {
		s.sendOrList(ctx, name)
	}
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

// sendOrList answers with the file of a name, or with a list of a folder.
func (s *fileServer) sendOrList(ctx *RequestCtx, name []byte) {
	f, err := s.open(ctx, name)
	switch {
	case err == nil:
		s.send(ctx, f)
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
	if answerConditions(ctx, conditional.Validators{}) {
		return
	}
	resp := &ctx.Response
	ctx.SetContentType("text/html; charset=utf-8")
	resp.Header.Del(HeaderContentEncoding) // it was set for a file, not for this page
	ctx.SetStatusCode(StatusOK)
	resp.SetBodyRaw(files.AppendIndexPage(nil, string(ctx.Path()), entries, more))
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
	case errors.Is(err, files.ErrBadPath):
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
