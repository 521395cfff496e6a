package sluice

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/ascii"
)

// PathRewriteFunc returns the path of the file that a request is answered
// with; see FS.PathRewrite.
type PathRewriteFunc func(ctx *RequestCtx) []byte

// NewPathSlashesStripper returns a rewriter that drops the first slashesCount
// segments of a path: with 1, /static/css/a.css becomes /css/a.css. A path that
// has no more segments than that becomes empty: it means the root without a
// slash at the end. The result is a part of ctx.Path; 0 and less drop nothing.
func NewPathSlashesStripper(slashesCount int) PathRewriteFunc {
	return func(ctx *RequestCtx) []byte { return stripSegments(ctx.Path(), slashesCount) }
}

// stripSegments returns path, which begins with a slash, without its first n
// segments.
func stripSegments(path []byte, n int) []byte {
	for ; n > 0 && len(path) > 0; n-- {
		slash := bytes.IndexByte(path[1:], '/')
		if slash < 0 {
			return path[len(path):]
		}
		path = path[1+slash:]
	}
	return path
}

// NewPathPrefixStripper returns a rewriter that drops the first prefixSize bytes
// of a path: with len("/static"), /static/a.css becomes /a.css. It does not look
// at these bytes: a router has matched them. A shorter path has no such prefix
// and stays as it is. The result is a part of ctx.Path; 0 and less drop nothing.
func NewPathPrefixStripper(prefixSize int) PathRewriteFunc {
	return func(ctx *RequestCtx) []byte {
		path := ctx.Path()
		if prefixSize <= 0 || prefixSize > len(path) {
			return path
		}
		return path[prefixSize:]
	}
}

// NewVHostPathRewriter returns a rewriter that drops the first slashesCount
// segments of a path and puts a folder in front of it that is named like the
// request's host: with 0, /a.css of www.example.com becomes
// /www.example.com/a.css. The host is in lower case and has its port if the
// request gives one, so that Example.com:8080 is the folder example.com:8080.
//
// The host is the client's choice. One that can be no folder's name, or that
// begins with a dot, is replaced by "invalid-host"; so is a missing one. The
// result is valid until ctx.URI changes or the handler returns.
func NewVHostPathRewriter(slashesCount int) PathRewriteFunc {
	return func(ctx *RequestCtx) []byte {
		u := ctx.URI()
		return u.appendBehindPath(vhostFolder(u.Host()), stripSegments(u.Path(), slashesCount))
	}
}

// invalidHost is the folder of requests that name none.
const invalidHost = "invalid-host"

// vhostFolder returns the folder for a host. A result within one segment that
// is neither ".", ".." nor hidden cannot lead to another host's files.
func vhostFolder(host []byte) []byte {
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

// appendBehindPath returns "/", folder and rest in memory of u that nothing
// else uses: behind the path. The result is valid until the path changes.
func (u *URI) appendBehindPath(folder, rest []byte) []byte {
	n := len(u.path)
	u.path = append(u.path, '/')
	u.path = append(u.path, folder...)
	u.path = append(u.path, rest...) // may be part of u.path itself: in front of what is written
	result := u.path[n:]
	u.path = u.path[:n]
	return result
}
