package sluice

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"math"
	"slices"

	"github.com/sluicehttp/sluice/internal/compress"
	"github.com/sluicehttp/sluice/internal/files"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/conditional"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// fileServer answers requests with the files of a site.
type fileServer struct {
	site     *files.Site
	rewrite  PathRewriteFunc
	notFound RequestHandler
}

// newFileServer returns a server for the files of f.
func newFileServer(f *FS) *fileServer {
	o := files.SiteOptions{
		Options: files.Options{
			FS:            f.FS,
			Root:          f.Root,
			Unconfined:    f.AllowSymlinksOutsideRoot,
			CompressRoot:  f.CompressRoot,
			CacheDuration: f.CacheDuration,
			SkipCache:     f.SkipCache,
			CleanStop:     f.CleanStop,
			NoCopies:      f.noCopies,
			IsOneUse:      f.isOneUse,
		},
		IndexNames: slices.Clone(f.IndexNames),
		HasListing: f.GenerateIndexPages,
		HasRanges:  f.AcceptByteRange,
		HasETags:   f.GenerateETag,
	}
	if f.Root == "" && f.AllowEmptyRoot && f.FS == nil {
		o.Root, o.Unconfined = "/", true
	}
	if f.Compress {
		o.Offers = fileOffers(f.CompressBrotli, f.CompressZstd)
	}
	for _, offer := range o.Offers {
		coding, own := offer.Coding.Name(), ""
		if offer.Coding == compress.Gzip {
			own = f.CompressedFileSuffix
		}
		o.Suffixes[files.EncodingOf(offer.Coding)] = cmp.Or(own, f.CompressedFileSuffixes[coding], FSCompressedFileSuffixes[coding])
	}
	return &fileServer{files.NewSite(o), f.PathRewrite, f.PathNotFound}
}

// fileOffers returns the codings for files, the preferred one first.
func fileOffers(hasBrotli, hasZstd bool) []compress.Offer {
	var offers []compress.Offer
	if hasBrotli {
		offers = append(offers, compress.Offer{Coding: compress.Brotli})
	}
	if hasZstd {
		offers = append(offers, compress.Offer{Coding: compress.Zstd})
	}
	return append(offers, compress.Offer{Coding: compress.Gzip})
}

// handle answers a request.
func (s *fileServer) handle(ctx *RequestCtx) {
	r := files.Request{Header: ctx.Request.Header.head(), Response: ctx.Response.Header.head(), Path: ctx.Path()}
	p := r.Path
	if string(ctx.Request.Header.RequestURI()) == "*" { // OPTIONS for the server as a whole: not a file
		s.refuse(ctx, fs.ErrNotExist, 0)
		return
	}
	if s.rewrite != nil {
		p = s.rewrite(ctx)
	}
	s.answer(ctx, &r, s.site.Answer(&r, p))
}

// answer makes the content of the response, or an answer without a file.
func (s *fileServer) answer(ctx *RequestCtx, r *files.Request, err error) {
	if err != nil {
		s.refuse(ctx, err, r.Length)
		return
	}
	resp := &ctx.Response
	switch r.Form {
	case files.FormNone:
		resp.ResetBody()
	case files.FormHead:
		ctx.announceContent(streamLength(r.Length))
	case files.FormContent:
		ctx.sendContent(r.Content)
	case files.FormStream:
		resp.SetBodyStream(r.Stream, streamLength(r.Length))
	}
}

// announceContent answers HEAD where GET gets size bytes.
func (ctx *RequestCtx) announceContent(size int) {
	ctx.Response.ResetBody()
	ctx.Response.Header.SetContentLength(size)
	ctx.Response.SkipBody = true
}

// refuse answers when there is nothing to serve. The answer does not contain
// the path. size is that of the file for files.ErrRange.
func (s *fileServer) refuse(ctx *RequestCtx, err error, size int64) {
	var unreadable files.UnreadableError
	switch {
	case err == files.ErrNoFinalSlash:
		redirectToFolder(ctx)
	case err == files.ErrConditions:
		ctx.Error("", StatusPreconditionFailed)
	case err == files.ErrRange:
		var text [64]byte
		ctx.Error("Range Not Satisfiable", StatusRequestedRangeNotSatisfiable)
		ctx.Response.Header.m.SetKnown(field.ContentRange, conditional.AppendUnsatisfied(text[:0], size))
	case err == files.ErrBadPath:
		ctx.Error(StatusMessage(StatusBadRequest), StatusBadRequest)
	case files.IsNotFound(err):
		if s.notFound == nil {
			ctx.Error("Cannot open requested path", StatusNotFound)
			return
		}
		ctx.SetStatusCode(StatusNotFound)
		s.notFound(ctx)
	case errors.Is(err, files.ErrIsDirectory):
		ctx.Error("Directory index is forbidden", StatusForbidden)
	case errors.Is(err, fs.ErrPermission):
		ctx.Error(StatusMessage(StatusForbidden), StatusForbidden)
	case errors.As(err, &unreadable):
		answerFailure(ctx, "cannot read a file", err)
	default:
		answerFailure(ctx, "cannot serve a file", err)
	}
}

// redirectToFolder redirects a request for a folder to its path with a final slash.
// Location has the path of the request, which the client knows, not the rewritten path. It
// has no host, because a proxy may have changed it.
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

// answerFailure answers 500. It logs what failed and why; the client receives
// only the status.
func answerFailure(ctx *RequestCtx, what string, err error) {
	ctx.Logger().Printf("%s: %v", what, err)
	ctx.Error(StatusMessage(StatusInternalServerError), StatusInternalServerError)
}

// streamLength returns n as the length of a body stream, or -1 (unknown) if an
// int cannot hold it. The stream is then chunked.
func streamLength(n int64) int {
	if n > math.MaxInt {
		return -1
	}
	return int(n)
}
