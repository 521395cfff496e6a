package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"mime/multipart"
	"strings"
	"time"

	"github.com/sluicehttp/sluice"
)

// maxFiles bounds the parts of a form.
const maxFiles = 100

// An uploader stores uploaded files.
type uploader struct {
	store *store
	stall time.Duration // how long a client may pause
}

// handle accepts PUT /files/NAME with the file as the body, and POST /files with a
// form.
func (u *uploader) handle(ctx *sluice.RequestCtx) {
	path := string(ctx.Path())
	name, isFile := strings.CutPrefix(path, "/files/")
	switch {
	case path == "/" && ctx.IsGet():
		ctx.Success("text/html; charset=utf-8", []byte(form))
	case isFile && ctx.IsPut():
		u.put(ctx, name)
	case path == "/files" && ctx.IsPost():
		u.post(ctx)
	default:
		ctx.NotFound()
	}
}

// put stores the body.
func (u *uploader) put(ctx *sluice.RequestCtx, name string) {
	// -1 if the body is chunked: store.save then checks the size.
	if length := ctx.Request.Header.ContentLength(); int64(length) > u.store.max {
		// Nothing was read yet. A client that sent "Expect: 100-continue" never sends
		// the body; for others the connection is closed.
		fail(ctx, errTooLarge)
		return
	}
	size, err := u.store.save(name, u.body(ctx))
	if err != nil {
		fail(ctx, err)
		return
	}
	ctx.SetStatusCode(sluice.StatusCreated)
	ctx.WriteString(saved(name, size))
}

// post stores the files of a form one after the other, each while it arrives.
// ctx.MultipartForm would put the whole form into memory and temporary files
// first.
func (u *uploader) post(ctx *sluice.RequestCtx) {
	boundary := ctx.Request.Header.MultipartFormBoundary()
	if len(boundary) == 0 {
		ctx.Error("want multipart/form-data", sluice.StatusUnsupportedMediaType)
		return
	}
	parts := multipart.NewReader(u.body(ctx), string(boundary))
	for range maxFiles {
		part, err := parts.NextPart()
		if err == io.EOF {
			return
		}
		if err != nil {
			fail(ctx, fmt.Errorf("%w: %w", errForm, err))
			return
		}
		name := part.FileName() // without folders
		if name == "" {
			continue // another field; unread parts are skipped
		}
		size, err := u.store.save(name, part)
		if err != nil {
			fail(ctx, err) // complete files stay
			return
		}
		ctx.WriteString(saved(name, size))
	}
	ctx.Error("too many files", sluice.StatusRequestEntityTooLarge)
}

// body returns the body as it arrives. If the client stops early, the reader returns
// an error.
func (u *uploader) body(ctx *sluice.RequestCtx) io.Reader {
	stream := ctx.RequestBodyStream()
	if stream == nil { // no body
		return strings.NewReader("")
	}
	return &patientReader{ctx, stream, u.stall}
}

// A patientReader replaces Server.ReadTimeout, which limits the whole request: the
// client may take any time as long as it keeps sending.
type patientReader struct {
	ctx    *sluice.RequestCtx
	stream io.Reader
	stall  time.Duration
}

// Read implements io.Reader.
func (r *patientReader) Read(p []byte) (int, error) {
	if err := r.ctx.SetReadDeadline(time.Now().Add(r.stall)); err != nil {
		return 0, err
	}
	n, err := r.stream.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", errIncomplete, err) // not an error of the store
	}
	return n, err
}

// fail answers an upload that was not stored.
func fail(ctx *sluice.RequestCtx, err error) {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, errName):
		ctx.Error(err.Error(), sluice.StatusBadRequest)
	case errors.Is(err, errTooLarge):
		ctx.Error(err.Error(), sluice.StatusRequestEntityTooLarge)
	case errors.As(err, &timeout) && timeout.Timeout():
		ctx.Error("too slow", sluice.StatusRequestTimeout)
	case errors.Is(err, errIncomplete), errors.Is(err, io.ErrUnexpectedEOF): // the latter for forms
		ctx.Error(errIncomplete.Error(), sluice.StatusBadRequest) // if the client is still connected
	case errors.Is(err, errForm):
		ctx.Error(err.Error(), sluice.StatusBadRequest)
	default:
		log.Printf("upload: %v", err) // it may contain file names
		ctx.Error("not stored", sluice.StatusInternalServerError)
	}
	ctx.SetConnectionClose() // do not read the rest of the body
}
