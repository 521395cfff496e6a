package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/sluicehttp/sluice"
)

// requestRows: what a handler reads from the head and the body. Byte slices from ctx
// are valid until the handler returns; string(…) copies one.
func requestRows() []row {
	return []row{
		{"r.Body",
			func(w http.ResponseWriter, r *http.Request) { b, _ := io.ReadAll(r.Body); w.Write(b) },
			func(ctx *sluice.RequestCtx) { ctx.Write(ctx.PostBody()) }},
		{"r.Method",
			func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Method) },
			func(ctx *sluice.RequestCtx) { ctx.Write(ctx.Method()) }},
		{"r.URL.Path",
			func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) },
			func(ctx *sluice.RequestCtx) { ctx.Write(ctx.Path()) }},
		{"r.URL",
			func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintf(w, "%s ? %s, q=%s", r.URL.Path, r.URL.RawQuery, r.URL.Query().Get("q"))
			},
			func(ctx *sluice.RequestCtx) {
				uri := ctx.URI()
				fmt.Fprintf(ctx, "%s ? %s, q=%s", uri.Path(), uri.QueryString(), uri.QueryArgs().Peek("q"))
			}},
		{"r.RequestURI",
			func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RequestURI) },
			func(ctx *sluice.RequestCtx) { ctx.Write(ctx.RequestURI()) }},
		{"r.Host",
			func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host) },
			func(ctx *sluice.RequestCtx) { ctx.Write(ctx.Host()) }},
		{"r.Header", // all of it
			func(w http.ResponseWriter, r *http.Request) {
				for _, name := range slices.Sorted(maps.Keys(r.Header)) {
					if strings.HasPrefix(name, "X-") {
						fmt.Fprintln(w, name, r.Header[name])
					}
				}
			},
			func(ctx *sluice.RequestCtx) {
				values := make(map[string][]string)
				for name, value := range ctx.Request.Header.All() {
					values[string(name)] = append(values[string(name)], string(value))
				}
				for _, name := range slices.Sorted(maps.Keys(values)) {
					if strings.HasPrefix(name, "X-") {
						fmt.Fprintln(ctx, name, values[name])
					}
				}
			}},
		{"r.Header.Get",
			func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Header.Get("X-One")) },
			func(ctx *sluice.RequestCtx) { ctx.Write(ctx.Request.Header.Peek("X-One")) }},
		{"r.Cookie",
			func(w http.ResponseWriter, r *http.Request) {
				if c, err := r.Cookie("session"); err == nil {
					io.WriteString(w, c.Value)
				}
			},
			func(ctx *sluice.RequestCtx) { ctx.Write(ctx.Request.Header.Cookie("session")) }},
		{"r.Referer",
			func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Referer()) },
			func(ctx *sluice.RequestCtx) { ctx.Write(ctx.Referer()) }},
		{"r.UserAgent",
			func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.UserAgent()) },
			func(ctx *sluice.RequestCtx) { ctx.Write(ctx.UserAgent()) }},
	}
}
