// Command files serves a folder, and files that are compiled into the program.
//
//	go run ./examples/files -dir .
//	curl http://127.0.0.1:8080/ http://127.0.0.1:8080/app/
//	curl -i -r 0-9 http://127.0.0.1:8080/README.md
//	curl -i --compressed http://127.0.0.1:8080/README.md
package main

import (
	"embed"
	"flag"
	"io/fs"
	"log"
	"os"
	"strings"

	"github.com/sluicehttp/sluice"
)

//go:embed app
var app embed.FS

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	dir := flag.String("dir", ".", "folder to serve")
	flag.Parse()
	copies, err := os.MkdirTemp("", "compressed-") // or a permanent folder, to keep the copies for the next start
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on http://%s", *addr)
	log.Fatal(sluice.ListenAndServe(*addr, newHandler(*dir, copies)))
}

// newHandler serves /app/ from the program, and everything else from dir.
func newHandler(dir, copies string) sluice.RequestHandler {
	folder, embedded := folder(dir, copies), embedded()
	return func(ctx *sluice.RequestCtx) {
		if strings.HasPrefix(string(ctx.Path()), "/app/") {
			embedded(ctx)
		} else {
			folder(ctx)
		}
		setCacheControl(ctx)
	}
}

// folder returns the handler of the files below dir. Make it once, because it holds
// the cache.
func folder(dir, copies string) sluice.RequestHandler {
	files := &sluice.FS{
		Root:               dir,
		IndexNames:         []string{"index.html"},
		GenerateIndexPages: true, // if there is no index.html
		AcceptByteRange:    true,
		GenerateETag:       true,
		Compress:           true,
		CompressBrotli:     true,
		CompressRoot:       copies, // otherwise they are stored beside the files
	}
	return files.NewRequestHandler()
}

// embedded returns the handler of the files that were compiled in.
func embedded() sluice.RequestHandler {
	content, err := fs.Sub(app, "app")
	if err != nil {
		panic(err) // "app" is not a valid name
	}
	files := &sluice.FS{
		FS:           content,
		IndexNames:   []string{"index.html"},
		GenerateETag: true, // of the content: embedded files have no times
		Compress:     true, // copies are kept in memory
		PathRewrite:  sluice.NewPathPrefixStripper(len("/app")),
	}
	return files.NewRequestHandler()
}

// setCacheControl tells clients how long they may use a file: for ever if its name
// changes with its content. For other files they must ask again, which costs a 304.
func setCacheControl(ctx *sluice.RequestCtx) {
	switch status := ctx.Response.StatusCode(); {
	case status != sluice.StatusOK && status != sluice.StatusPartialContent && status != sluice.StatusNotModified:
		return // errors must not be cached
	case strings.HasPrefix(string(ctx.Path()), "/immutable/"):
		ctx.Response.Header.Set(sluice.HeaderCacheControl, "public, max-age=31536000, immutable")
	default:
		ctx.Response.Header.Set(sluice.HeaderCacheControl, "no-cache")
	}
}
