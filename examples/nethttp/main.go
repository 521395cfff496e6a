// Command nethttp shows how net/http code reads with sluice: each row is one
// function for either, and the test compares what the two answer.
//
//	go run ./examples/nethttp
//	curl http://127.0.0.1:8080/r.URL.Path http://127.0.0.1:8081/r.URL.Path
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"
	"strings"

	"github.com/sluicehttp/sluice"
)

// A row answers the path "/NAME" (and what is below it) on both servers.
type row struct {
	name    string // the expression of net/http
	nethttp http.HandlerFunc
	sluice  sluice.RequestHandler
}

// rows lists all of them. Three lines of the usual conversion table are in
// ../files: http.FileServer (FS), http.ServeFile (ServeFile) and
// http.StripPrefix (FS.PathRewrite).
func rows() []row {
	var all []row
	all = append(all, requestRows()...)
	all = append(all, formRows()...)
	all = append(all, responseRows()...)
	return append(all, connectionRows()...)
}

// mux is how both servers find the row of a request. A plain map and a switch
// replace http.ServeMux here; routers written for fasthttp serve as well.
func mux(all []row) (http.Handler, sluice.RequestHandler) {
	byName := make(map[string]row)
	for _, r := range all {
		byName[r.name] = r
	}
	nethttp := func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if row, ok := byName[name]; ok {
			row.nethttp(w, r)
			return
		}
		http.NotFound(w, r)
	}
	return http.HandlerFunc(nethttp), func(ctx *sluice.RequestCtx) {
		name, _, _ := strings.Cut(strings.TrimPrefix(string(ctx.Path()), "/"), "/")
		if row, ok := byName[name]; ok {
			row.sluice(ctx)
			return
		}
		ctx.NotFound()
	}
}

// newServer has form values of the body go before those of the query, as
// net/http does; by default the query goes first.
func newServer(handler sluice.RequestHandler) *sluice.Server {
	return &sluice.Server{Handler: handler, FormValueFunc: sluice.NetHttpFormValueFunc}
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address of the sluice server")
	other := flag.String("nethttp-addr", "127.0.0.1:8081", "address of the net/http server")
	flag.Parse()
	nethttp, handler := mux(rows())
	go func() { log.Fatal(http.ListenAndServe(*other, nethttp)) }()
	for _, r := range rows() {
		fmt.Printf("http://%s/%s\n", *addr, r.name)
	}
	log.Fatal(newServer(handler).ListenAndServe(*addr))
}
