package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/sluicehttp/sluice"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/lab/cli"
)

// fileOptions are the flags for serving a folder.
type fileOptions struct {
	dir          string // absolute when complete; empty: no files
	indexNames   []string
	hasListing   bool
	spa          bool
	compress     bool
	compressRoot string // empty: a temporary folder
	cacheControl string
	maxAge       time.Duration
	hasMaxAge    bool
	hasETags     bool
	hasDotfiles  bool
	cors         bool
	freshness    time.Duration
}

// fileFlags are the names of the flags that mean nothing without a folder.
var fileFlags = [...]string{
	"index", "listing", "spa", "compress", "compress-root", "cache-control", "max-age", "etag", "dotfiles", "cors", "freshness",
}

func (o *fileOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.indexNames, "index", []string{"index.html"}, "`NAMES` of the files that answer for their folder")
	flags.BoolVar(&o.hasListing, "listing", true, "list folders that have no index; off by default with --spa")
	flags.BoolVar(&o.spa, "spa", false, "answer unknown paths with the index of DIR, unless they look like an asset's")
	flags.BoolVar(&o.compress, "compress", true, "send br, zstd or gzip to clients that take it")
	flags.StringVar(&o.compressRoot, "compress-root", "", "keep the encoded copies in `FOLDER`, not in a temporary one")
	flags.StringVar(&o.cacheControl, "cache-control", "", "the Cache-Control `VALUE` of files")
	flags.Var(cli.SecondsOf(&o.maxAge, 0), "max-age", "let files be cached for so long; HTML pages are asked for every time")
	flags.BoolVar(&o.hasETags, "etag", true, "send ETags and honour If-None-Match")
	flags.BoolVar(&o.hasDotfiles, "dotfiles", false, "serve names that begin with a dot too; /.well-known/ always is")
	flags.BoolVar(&o.cors, "cors", false, "let scripts of every site read the files (Access-Control-Allow-Origin: *)")
	flags.Var(cli.SecondsOf(&o.freshness, time.Second), "freshness", "how long a file may be served as it was before a change; 0 opens it for each request")
}

// complete checks the options and makes paths absolute.
func (o *fileOptions) complete(flags flagSet, hasDir bool) error {
	if !hasDir {
		for _, name := range fileFlags {
			if flags.Changed(name) {
				return fmt.Errorf("--%s needs DIR", name)
			}
		}
		return nil
	}
	o.hasMaxAge = flags.Changed("max-age")
	if o.spa && !flags.Changed("listing") {
		o.hasListing = false // a folder of assets is a path of the application like any other
	}
	switch {
	case o.cacheControl != "" && o.hasMaxAge:
		return errors.New("--cache-control and --max-age exclude each other")
	case strings.ContainsFunc(o.cacheControl, unicode.IsControl):
		return errors.New("--cache-control: there is a control character in it")
	case o.spa && len(o.indexNames) == 0:
		return errors.New("--spa needs an --index")
	case o.compressRoot != "" && !o.compress:
		return errors.New("--compress-root needs --compress")
	}
	for _, name := range o.indexNames {
		if name == "" || strings.ContainsAny(name, `/\`) {
			return fmt.Errorf("--index takes names of files, not %q", name)
		}
	}
	var err error
	if o.dir, err = checkFolder(o.dir); err != nil {
		return err
	}
	if o.compressRoot != "" && isBelow(o.compressRoot, o.dir) {
		return fmt.Errorf("--compress-root %s is below %s: the encoded copies would be served as files", o.compressRoot, o.dir)
	}
	return nil
}

// hasIndex reports whether the folder has what --spa answers with.
func (o *fileOptions) hasIndex() bool {
	info, err := os.Stat(filepath.Join(o.dir, o.indexNames[0]))
	return err == nil && info.Mode().IsRegular()
}

// site answers requests with the files of a folder.
type site struct {
	files       sluice.RequestHandler
	list        sluice.RequestHandler // for folders without an index; nil: files does
	fallback    []byte                // the path that unknown ones are answered with; nil: none
	cache       cachePolicy
	hasDotfiles bool
	cors        bool
	stop        chan struct{} // closed: no file stays open
	temporary   string        // the folder to remove; empty: none
}

// newSite returns the site of options that are complete. It must be closed.
func newSite(o fileOptions) (*site, error) {
	s := &site{
		cache:       newCachePolicy(o),
		hasDotfiles: o.hasDotfiles,
		cors:        o.cors,
		stop:        make(chan struct{}),
	}
	if o.hasListing && !o.hasDotfiles {
		s.list = (&sluice.FS{
			FS:                 visibleFiles{o.dir},
			GenerateIndexPages: true,
			Compress:           o.compress,
			CompressBrotli:     o.compress,
			CompressZstd:       o.compress,
			SkipCache:          o.freshness == 0,
			CacheDuration:      o.freshness,
			CleanStop:          s.stop,
		}).NewRequestHandler()
	}
	fs := &sluice.FS{
		Root:               o.dir,
		IndexNames:         o.indexNames,
		GenerateIndexPages: o.hasListing && o.hasDotfiles,
		GenerateETag:       o.hasETags,
		AcceptByteRange:    true,
		PathNotFound:       func(*sluice.RequestCtx) {}, // see serveFile
		SkipCache:          o.freshness == 0,
		CacheDuration:      o.freshness,
		CleanStop:          s.stop,
	}
	if o.spa {
		s.fallback = []byte("/" + o.indexNames[0])
		fs.PathRewrite = s.rewrite
	}
	if o.compress {
		folder, isTemporary, err := copiesFolder(o.compressRoot)
		if err != nil {
			return nil, err
		}
		if isTemporary {
			s.temporary = folder
		}
		fs.Compress, fs.CompressBrotli, fs.CompressZstd = true, true, true
		fs.CompressRoot = folder
	}
	s.files = fs.NewRequestHandler()
	return s, nil
}

// close closes the files and removes what the site has made.
func (s *site) close(logger *log.Logger) {
	close(s.stop)
	if s.temporary == "" {
		return
	}
	if err := os.RemoveAll(s.temporary); err != nil {
		logger.Printf("cannot remove the encoded copies: %v", err)
	}
}

// Fields of answers, made once.
var (
	fieldAllow         = []byte(sluice.HeaderAllow)
	fieldAllowOrigin   = []byte(sluice.HeaderAccessControlAllowOrigin)
	fieldExposeHeaders = []byte(sluice.HeaderAccessControlExposeHeaders)
	fieldNoSniff       = []byte(sluice.HeaderXContentTypeOptions)

	valueMethods = []byte("GET, HEAD, OPTIONS")
	valueAny     = []byte("*")
	valueExposed = []byte("Accept-Ranges, Content-Range, ETag")
	valueNoSniff = []byte("nosniff")
)

// serve answers a request.
func (s *site) serve(ctx *sluice.RequestCtx) {
	switch {
	case !ctx.IsGet() && !ctx.IsHead():
		s.answerOther(ctx)
	case !s.hasDotfiles && hasHiddenSegment(ctx.Path()):
		ctx.NotFound() // as if it were not there
	default:
		s.serveFile(ctx)
	}
	h := &ctx.Response.Header
	h.SetCanonical(fieldNoSniff, valueNoSniff)
	if s.cors {
		h.SetCanonical(fieldAllowOrigin, valueAny)
		h.SetCanonical(fieldExposeHeaders, valueExposed)
	}
}

// answerOther answers methods that files have no use for.
func (s *site) answerOther(ctx *sluice.RequestCtx) {
	if !ctx.IsOptions() {
		ctx.Error(sluice.StatusMessage(sluice.StatusMethodNotAllowed), sluice.StatusMethodNotAllowed)
		ctx.Response.Header.SetCanonical(fieldAllow, valueMethods)
		return
	}
	h := &ctx.Response.Header
	ctx.SetStatusCode(sluice.StatusNoContent)
	h.SetCanonical(fieldAllow, valueMethods)
	if s.cors && len(ctx.Request.Header.Peek(sluice.HeaderAccessControlRequestMethod)) > 0 {
		h.Set(sluice.HeaderAccessControlAllowMethods, "GET, HEAD")
		h.Set(sluice.HeaderAccessControlAllowHeaders, "*")
		h.Set(sluice.HeaderAccessControlMaxAge, "86400")
	}
}

// serveFile answers with the file of the path, with a list of the folder, or
// for the application that the path may belong to.
func (s *site) serveFile(ctx *sluice.RequestCtx) {
	s.files(ctx)
	if s.list != nil && isForbiddenFolder(ctx) {
		clearAnswer(ctx)
		s.list(ctx)
	}
	fallsBack, dependsOnAccept := false, s.fallback != nil && isUnknown(ctx)
	if dependsOnAccept {
		if fallsBack = belongsToApplication(ctx); fallsBack {
			clearAnswer(ctx)
			ctx.SetUserValue(fallbackKey{}, true)
			s.files(ctx)
		}
	}
	isFound := ctx.Response.StatusCode() != sluice.StatusNotFound
	if !isFound {
		ctx.NotFound() // it drops the fields
	}
	if dependsOnAccept {
		ctx.Response.Header.Add(sluice.HeaderVary, sluice.HeaderAccept)
	}
	if isFound {
		s.cache.apply(ctx, fallsBack)
	}
}

// isForbiddenFolder reports whether the answer says that a folder has no index.
func isForbiddenFolder(ctx *sluice.RequestCtx) bool {
	p := ctx.Path()
	return ctx.Response.StatusCode() == sluice.StatusForbidden && p[len(p)-1] == '/'
}

// clearAnswer makes room for another answer.
func clearAnswer(ctx *sluice.RequestCtx) {
	ctx.ResetBody()
	ctx.Response.Header.Del(sluice.HeaderContentType)
	ctx.SetStatusCode(sluice.StatusOK)
}

// wellKnown is the one name with a dot that is meant to be served (RFC 8615).
const wellKnown = ".well-known"

// hasHiddenSegment reports whether a segment of a path begins with a dot, other
// than a leading /.well-known.
func hasHiddenSegment(p []byte) bool {
	const prefix = "/" + wellKnown
	if bytes.HasPrefix(p, []byte(prefix)) && (len(p) == len(prefix) || p[len(prefix)] == '/') {
		p = p[len(prefix):]
	}
	for i, c := range p {
		if c == '.' && i > 0 && (p[i-1] == '/' || p[i-1] == filepath.Separator) {
			return true
		}
	}
	return false
}

// cachePolicy is what the files' Cache-Control is; nil: none.
type cachePolicy struct {
	files []byte
	pages []byte // HTML, by the name
}

// newCachePolicy returns the policy of the flags. Pages name the assets that go
// with them: whoever lets assets be cached for long wants the pages to be fresh.
func newCachePolicy(o fileOptions) cachePolicy {
	var c cachePolicy
	switch {
	case o.cacheControl != "":
		c.files = []byte(o.cacheControl)
		c.pages = c.files
	case o.hasMaxAge:
		c.files = fmt.Appendf(nil, "max-age=%d", int64(o.maxAge/time.Second))
		c.pages = valueNoCache
	}
	if o.spa {
		c.pages = valueNoCache
	}
	return c
}

var (
	fieldCacheControl = []byte(sluice.HeaderCacheControl)
	fieldLastModified = []byte(sluice.HeaderLastModified)
	valueNoCache      = []byte("no-cache")
)

// apply sets the field for a file. A list of a folder, which has no date, is
// never fresh.
func (c *cachePolicy) apply(ctx *sluice.RequestCtx, fallsBack bool) {
	if c.files == nil && c.pages == nil {
		return
	}
	switch ctx.Response.StatusCode() {
	case sluice.StatusOK, sluice.StatusPartialContent, sluice.StatusNotModified:
	default:
		return
	}
	value := c.files
	if fallsBack || isPage(ctx.Path()) {
		value = c.pages
	}
	h := &ctx.Response.Header
	if len(h.PeekCanonical(fieldLastModified)) == 0 {
		value = valueNoCache
	}
	if value != nil {
		h.SetCanonical(fieldCacheControl, value)
	}
}

// isPage tells by its path whether a file is a page. The type of the content
// would not do: an answer 304 has none.
func isPage(p []byte) bool {
	if p[len(p)-1] == '/' {
		return true
	}
	extension := p[bytes.LastIndexByte(p, '.')+1:]
	for _, page := range [...]string{"html", "htm", "xhtml"} {
		if len(extension) == len(page) && strings.EqualFold(string(extension), page) {
			return true
		}
	}
	return false
}
