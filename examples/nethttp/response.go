package main

import (
	"bufio"
	"io"
	"net/http"
	"strings"

	"github.com/sluicehttp/sluice"
)

// responseRows: the response. Status, fields and body may be set in any order and
// repeatedly, because the response is sent after the handler has returned.
func responseRows() []row {
	body := func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "two parts") }
	return []row{
		{"w.Header", // the whole header; here to add two fields of one name
			func(w http.ResponseWriter, r *http.Request) {
				h := w.Header()
				h.Add("X-Answer", "one")
				h.Add("X-Answer", "two")
			},
			func(ctx *sluice.RequestCtx) {
				h := &ctx.Response.Header
				h.Add("X-Answer", "one")
				h.Add("X-Answer", "two")
			}},
		{"w.Header.Set",
			func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Answer", "42") },
			func(ctx *sluice.RequestCtx) { ctx.Response.Header.Set("X-Answer", "42") }},
		{"Content-Type",
			func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Type", "text/css") },
			func(ctx *sluice.RequestCtx) { ctx.SetContentType("text/css") }},
		{"Server",
			func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Server", "mine") },
			func(ctx *sluice.RequestCtx) { ctx.Response.Header.SetServer("mine") }},
		{"http.SetCookie",
			func(w http.ResponseWriter, r *http.Request) {
				http.SetCookie(w, &http.Cookie{Name: "session", Value: "abc", Path: "/", MaxAge: 60, HttpOnly: true})
			},
			func(ctx *sluice.RequestCtx) {
				c := sluice.AcquireCookie()
				defer sluice.ReleaseCookie(c)
				c.SetKey("session")
				c.SetValue("abc")
				c.SetPath("/")
				c.SetMaxAge(60)
				c.SetHTTPOnly(true)
				ctx.Response.Header.SetCookie(c)
			}},
		{"w.WriteHeader",
			func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) },
			func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(sluice.StatusTeapot) }},
		{"w.Write", body, func(ctx *sluice.RequestCtx) { ctx.WriteString("two "); ctx.Write([]byte("parts")) }},
		{"w.Write.SetBody", body, func(ctx *sluice.RequestCtx) { ctx.SetBodyString("two parts") }},
		{"w.Write.SetBodyStream", body,
			func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(strings.NewReader("two parts"), -1) }},
		{"w.Write.SetBodyStreamWriter", body,
			func(ctx *sluice.RequestCtx) {
				ctx.SetBodyStreamWriter(func(w *bufio.Writer) { w.WriteString("two parts") })
			}},
		{"http.Error",
			func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusForbidden) },
			func(ctx *sluice.RequestCtx) { ctx.Error("no", sluice.StatusForbidden) }},
		{"http.NotFound",
			func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
			func(ctx *sluice.RequestCtx) { ctx.NotFound() }},
		{"http.Redirect", // ctx.Redirect makes the location absolute
			func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/there?x=1", http.StatusSeeOther) },
			func(ctx *sluice.RequestCtx) { ctx.Redirect("/there?x=1", sluice.StatusSeeOther) }},
	}
}
