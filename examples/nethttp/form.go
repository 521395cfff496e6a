package main

import (
	"fmt"
	"io"
	"mime/multipart"
	"net/http"

	"github.com/sluicehttp/sluice"
)

// maxMemory is how much of a multipart form net/http keeps in memory.
const maxMemory = 1 << 20

// formRows: forms. With sluice nothing needs to be parsed first, and the query and
// the body are two separate sets of arguments.
func formRows() []row {
	return []row{
		{"r.Form",
			func(w http.ResponseWriter, r *http.Request) {
				r.ParseForm()
				fmt.Fprintf(w, "%q", r.Form["tag"])
			},
			func(ctx *sluice.RequestCtx) {
				body, query := ctx.PostArgs().PeekMulti("tag"), ctx.QueryArgs().PeekMulti("tag")
				fmt.Fprintf(ctx, "%q", append(body[:len(body):len(body)], query...))
			}},
		{"r.PostForm",
			func(w http.ResponseWriter, r *http.Request) {
				r.ParseForm()
				io.WriteString(w, r.PostForm.Get("tag"))
			},
			func(ctx *sluice.RequestCtx) { ctx.Write(ctx.PostArgs().Peek("tag")) }},
		{"r.FormValue",
			func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.FormValue("tag")) },
			func(ctx *sluice.RequestCtx) { ctx.Write(ctx.FormValue("tag")) }},
		{"r.FormFile",
			func(w http.ResponseWriter, r *http.Request) {
				file, header, err := r.FormFile("upload")
				if err != nil {
					http.Error(w, "no file", http.StatusBadRequest)
					return
				}
				defer file.Close()
				describe(w, file, header)
			},
			func(ctx *sluice.RequestCtx) {
				header, err := ctx.FormFile("upload")
				if err != nil {
					ctx.Error("no file", sluice.StatusBadRequest)
					return
				}
				file, err := header.Open()
				if err != nil {
					ctx.Error("no file", sluice.StatusInternalServerError)
					return
				}
				defer file.Close()
				describe(ctx, file, header)
			}},
		{"r.MultipartForm",
			func(w http.ResponseWriter, r *http.Request) {
				if err := r.ParseMultipartForm(maxMemory); err == nil {
					fmt.Fprintf(w, "%q", r.MultipartForm.Value["comment"])
				}
			},
			func(ctx *sluice.RequestCtx) {
				if form, err := ctx.MultipartForm(); err == nil {
					fmt.Fprintf(ctx, "%q", form.Value["comment"])
				}
			}},
	}
}

// describe works with both: ctx is an io.Writer, like http.ResponseWriter.
func describe(w io.Writer, file io.Reader, header *multipart.FileHeader) {
	content, _ := io.ReadAll(file)
	fmt.Fprintf(w, "%s, %d bytes: %s", header.Filename, header.Size, content)
}
