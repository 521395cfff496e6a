package fasthttpadaptor_test

import (
	"fmt"
	"net/http"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

func ExampleNewFastHTTPHandler() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello/{name}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "Hello, %s!", r.PathValue("name"))
	})
	server := &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandler(mux)}

	// server.ListenAndServe(":8080") would serve it. Here it is called directly.
	var ctx sluice.RequestCtx
	ctx.Init(&sluice.Request{}, nil, nil)
	ctx.Request.Header.SetRequestURI("/hello/Ann")
	server.Handler(&ctx)
	fmt.Println(ctx.Response.StatusCode(), string(ctx.Response.Body()))
	// Output: 200 Hello, Ann!
}
