package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sluicehttp/sluice"
)

// An answer is what one path of the contract does.
type answer func(ctx *sluice.RequestCtx, body []byte)

// routes maps the contract's paths to their answers; below /static/, files
// answers.
type routes struct {
	answers map[string]answer
	files   sluice.RequestHandler
}

// handle answers as CONTRACT.md says.
func (r routes) handle(ctx *sluice.RequestCtx) {
	if string(ctx.Path()) == "/nobody" {
		ctx.WriteString("nobody")
		return
	}
	body, err := readBody(ctx)
	if err != nil {
		refuse(ctx, err)
		return
	}
	ctx.SetContentType("text/plain")
	if answer, ok := r.answers[string(ctx.Path())]; ok {
		answer(ctx, body)
		return
	}
	if strings.HasPrefix(string(ctx.Path()), "/static/") {
		r.files(ctx)
		return
	}
	answerOther(ctx, body)
}

// contract returns the routes, with the files of a folder.
func contract(www string) routes {
	files := &sluice.FS{
		Root:            www,
		IndexNames:      []string{"index.html"},
		AcceptByteRange: true,
		GenerateETag:    true,
		PathRewrite:     sluice.NewPathSlashesStripper(1),
	}
	return routes{files: files.NewRequestHandler(), answers: map[string]answer{
		"/":         func(ctx *sluice.RequestCtx, body []byte) { writeOr(ctx, body, "Hello") },
		"/echo":     func(ctx *sluice.RequestCtx, body []byte) { ctx.Write(body) },
		"/headers":  func(ctx *sluice.RequestCtx, _ []byte) { writeFields(ctx) },
		"/cookie":   func(ctx *sluice.RequestCtx, _ []byte) { writeCookies(ctx) },
		"/dump":     dump,
		"/chunked":  func(ctx *sluice.RequestCtx, _ []byte) { ctx.SetBodyStreamWriter(writeChunks) },
		"/204":      func(ctx *sluice.RequestCtx, _ []byte) { ctx.SetStatusCode(sluice.StatusNoContent) },
		"/204body":  func(ctx *sluice.RequestCtx, _ []byte) { writeBodyWith(ctx, sluice.StatusNoContent) },
		"/304":      func(ctx *sluice.RequestCtx, _ []byte) { writeBodyWith(ctx, sluice.StatusNotModified) },
		"/close":    func(ctx *sluice.RequestCtx, _ []byte) { ctx.SetConnectionClose(); ctx.WriteString("bye") },
		"/big":      func(ctx *sluice.RequestCtx, _ []byte) { writeMany(ctx) },
		"/slow":     func(ctx *sluice.RequestCtx, _ []byte) { time.Sleep(200 * time.Millisecond); ctx.WriteString("slow") },
		"/redirect": func(ctx *sluice.RequestCtx, _ []byte) { ctx.Redirect("/", sluice.StatusFound) },
		"/inject":   inject,
	}}
}

// answerOther is for all paths that the contract does not name.
func answerOther(ctx *sluice.RequestCtx, body []byte) {
	switch {
	case len(body) > 0:
		ctx.Write(body)
	case ctx.IsOptions():
		ctx.WriteString("Hello")
	default:
		ctx.NotFound()
	}
}

var errBodyTooLarge = errors.New("body too large")

// readBody returns the request's body, also where it is streamed.
func readBody(ctx *sluice.RequestCtx) ([]byte, error) {
	stream := ctx.RequestBodyStream()
	if stream == nil {
		return ctx.PostBody(), nil
	}
	body, err := io.ReadAll(io.LimitReader(stream, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = errBodyTooLarge
	}
	return body, err
}

func refuse(ctx *sluice.RequestCtx, err error) {
	status := sluice.StatusBadRequest
	if errors.Is(err, errBodyTooLarge) {
		status = sluice.StatusRequestEntityTooLarge
	}
	ctx.Error(err.Error(), status)
	ctx.SetConnectionClose()
}

func writeOr(ctx *sluice.RequestCtx, body []byte, text string) {
	if len(body) > 0 {
		ctx.Write(body)
		return
	}
	ctx.WriteString(text)
}

func writeFields(ctx *sluice.RequestCtx) {
	for name, value := range ctx.Request.Header.All() {
		fmt.Fprintf(ctx, "%s: %s\n", name, value)
	}
}

func writeCookies(ctx *sluice.RequestCtx) {
	for name, value := range ctx.Request.Header.Cookies() {
		fmt.Fprintf(ctx, "%s=%s\n", name, value)
	}
}

func dump(ctx *sluice.RequestCtx, body []byte) {
	fmt.Fprintf(ctx, "method=%s\npath=%s\nquery=%s\nhost=%s\nproto=%s\nbodylen=%d\nbody=%s\n",
		ctx.Method(), ctx.Path(), ctx.URI().QueryString(), ctx.Host(), ctx.Request.Header.Protocol(), len(body), body)
	writeFields(ctx)
}

// writeChunks writes a body whose length is not known beforehand. An error of
// Flush says that the client has gone, so nothing is left to do.
func writeChunks(w *bufio.Writer) {
	for i := 1; i <= 3; i++ {
		fmt.Fprintf(w, "chunk%d\n", i)
		if w.Flush() != nil {
			return
		}
	}
}

// writeBodyWith tries to give a body to an answer that has none.
func writeBodyWith(ctx *sluice.RequestCtx, status int) {
	ctx.SetStatusCode(status)
	ctx.WriteString("BODY")
}

func writeMany(ctx *sluice.RequestCtx) {
	n, err := ctx.QueryArgs().GetUint("n")
	if err != nil {
		ctx.Error(err.Error(), sluice.StatusBadRequest)
		return
	}
	ctx.WriteString(strings.Repeat("x", n))
}

// inject tries to smuggle a field through a field's value.
func inject(ctx *sluice.RequestCtx, _ []byte) {
	ctx.Response.Header.Set("X-Inject", "a\r\nX-Evil: 1")
	ctx.WriteString("inject")
}
