package sluice

import (
	"errors"
	"io/fs"
	"mime"
	"os"
	"path/filepath"
	"time"

	"github.com/sluicehttp/sluice/internal/ascii"
)

// SendFile answers with the contents of the file at path, which is taken as it
// is: nothing is decoded, and a relative path starts at the working directory.
// Never build path from a request without confining it first.
//
// The answer has Content-Length, Last-Modified and a Content-Type by the
// file's extension. If-Modified-Since and If-Unmodified-Since are honoured (RFC
// 9110 section 13.1) for GET and HEAD; the whole file is sent, a Range is
// ignored. A missing file is answered 404, one that may not be read and
// anything but a regular file 403.
func (ctx *RequestCtx) SendFile(path string) {
	f, info, err := openRegular(path)
	if err != nil {
		ctx.Error(fileFailure(err))
		return
	}
	modified := info.ModTime()
	switch {
	case !ctx.isUnmodifiedSince(modified):
		f.Close()
		ctx.Error(StatusMessage(StatusPreconditionFailed), StatusPreconditionFailed)
		return
	case (ctx.IsGet() || ctx.IsHead()) && !ctx.IfModifiedSince(modified):
		f.Close()
		ctx.NotModified()
		ctx.Response.Header.SetLastModified(modified)
		return
	}
	contentType := mime.TypeByExtension(filepath.Ext(path))
	if contentType == "" {
		contentType = "application/octet-stream"
	}
	ctx.SetContentType(contentType)
	ctx.Response.Header.SetLastModified(modified)
	ctx.SetStatusCode(StatusOK)
	ctx.SetBodyStream(f, int(info.Size()))
}

// SendFileBytes is SendFile for bytes.
func (ctx *RequestCtx) SendFileBytes(path []byte) { ctx.SendFile(string(path)) }

// SendFileLiteral is SendFile: paths are never decoded.
func (ctx *RequestCtx) SendFileLiteral(path string) { ctx.SendFile(path) }

// isUnmodifiedSince evaluates If-Unmodified-Since (RFC 9110 section 13.1.4). A
// missing or invalid date is no condition.
func (ctx *RequestCtx) isUnmodifiedSince(modified time.Time) bool {
	since, err := ParseHTTPDate(ctx.Request.Header.PeekBytes(ascii.Bytes(HeaderIfUnmodifiedSince)))
	return err != nil || !modified.Truncate(time.Second).After(since)
}

// errNotRegular says that a path is a directory or a device.
var errNotRegular = errors.New("sluice: not a regular file")

// openRegular opens a file whose length is known and stays.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// fileFailure is what answers a file that cannot be sent. It does not tell the
// path.
func fileFailure(err error) (msg string, status int) {
	status = StatusInternalServerError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		status = StatusNotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, errNotRegular):
		status = StatusForbidden
	}
	return StatusMessage(status), status
}
