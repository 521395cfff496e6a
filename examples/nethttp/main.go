// Command nethttp shows net/http code beside the same code for sluice. Each row has a
// function for either, and the test compares the responses.
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

// A row answers the path "/NAME" and paths below it on both servers.
type row struct {
	name    string // the expression of net/http
	nethttp http.HandlerFunc
	sluice  sluice.RequestHandler
}

// rows returns all rows. Three lines of the usual conversion table are in ../files:
// http.FileServer (FS), http.ServeFile (ServeFile) and http.StripPrefix
// (FS.PathRewrite).
func rows() []row {
	var all []row
	all = append(all, requestRows()...)
	all = append(all, formRows()...)
	all = append(all, responseRows()...)
	return append(all, connectionRows()...)
}

// mux finds the row of a request on both servers. A map and a switch replace
// http.ServeMux here; routers for fasthttp also work.
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

// newServer gives form values of the body precedence over those of the query, as
// net/http does. By default the query has precedence.
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
