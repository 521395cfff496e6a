package programs

import (
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"
)

func TestRouter(t *testing.T) {
	r := router.New()
	r.GET("/package", func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString(packageOf(ctx)) })
	r.GET("/hello/{name}", func(ctx *fasthttp.RequestCtx) {
		ctx.SetBodyString(ctx.UserValue("name").(string))
	})
	r.GET("/optional/{word?:[a-z]+}", func(ctx *fasthttp.RequestCtx) {
		word, _ := ctx.UserValue("word").(string)
		ctx.SetBodyString("<" + word + ">")
	})
	r.POST("/form", func(ctx *fasthttp.RequestCtx) { ctx.SetBody(ctx.FormValue("word")) })
	r.ANY("/any", func(ctx *fasthttp.RequestCtx) { ctx.SetBody(ctx.Method()) })
	r.ServeFiles("/files/{filepath:*}", "testdata")
	r.GET("/adapted", fasthttpadaptor.NewFastHTTPHandlerFunc(adapted))
	r.PanicHandler = func(ctx *fasthttp.RequestCtx, reason any) { ctx.Error(reason.(string), fasthttp.StatusBadGateway) }
	r.GET("/panic", func(*fasthttp.RequestCtx) { panic("oops") })
	server := &fasthttp.Server{Handler: r.Handler}
	addr := serve(t, func(l net.Listener) error { return server.Serve(l) }, server.Shutdown)
	do(t, addr, []request{
		{line: "GET /package", status: 200, want: sluice},
		{line: "GET /hello/ann", status: 200, want: "ann"},
		{line: "GET /optional", status: 200, want: "<>"},
		{line: "GET /optional/abc", status: 200, want: "<abc>"},
		{line: "POST /form", fields: "Content-Type: application/x-www-form-urlencoded", body: "word=b+c", status: 200, want: "b c"},
		{line: "PATCH /any", status: 200, want: "PATCH"},
		{line: "GET /files/page.txt", status: 200, want: "a page\n"},
		{line: "GET /adapted", status: 202, want: "/adapted"},
		{line: "GET /panic", status: 502, want: "oops"},
		{line: "POST /hello/ann", status: 405, want: "Method Not Allowed"},
		{line: "GET /hello/ann/", status: 301, want: ""},
	})
	status, body, err := fasthttp.Get(nil, "http://"+addr+"/hello/bob")
	if err != nil || status != fasthttp.StatusOK || string(body) != "bob" {
		t.Errorf("the client has %d %q, %v", status, body, err)
	}
}

// adapted is a handler of net/http.
func adapted(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, r.URL.Path)
}
