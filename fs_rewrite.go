package sluice

import "github.com/sluicehttp/sluice/internal/files"

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
