// A static file server with compression, ranges, index pages, virtual hosts and
// counters.
package main

import (
	"bytes"
	"embed"
	"expvar"
	"flag"
	"fmt"
	"log"
	"net"
	"path/filepath"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/expvarhandler"
)

var (
	addr    = flag.String("addr", ":8080", "where to listen")
	root    = flag.String("root", ".", "folder with the files")
	ranges  = flag.Bool("ranges", false, "serve parts of files")
	encode  = flag.Bool("encode", false, "serve files compressed")
	listing = flag.Bool("listing", true, "list folders that have no index.html")
	hosts   = flag.Bool("hosts", false, "each host name has a folder of its own")
)

var (
	requests = expvar.NewInt("requests")
	hits     = expvar.NewInt("hits")
	sent     = expvar.NewInt("bytes")
)

//go:embed page
var page embed.FS

func count(ctx *fasthttp.RequestCtx) {
	requests.Add(1)
	if ctx.Response.StatusCode() == fasthttp.StatusOK {
		hits.Add(1)
		sent.Add(int64(ctx.Response.Header.ContentLength()))
	}
}

func main() {
	flag.Parse()
	static := &fasthttp.FS{
		Root:               *root,
		IndexNames:         []string{"index.html"},
		GenerateIndexPages: *listing,
		Compress:           *encode,
		CompressBrotli:     *encode,
		AcceptByteRange:    *ranges,
		CacheDuration:      time.Minute,
		PathNotFound: func(ctx *fasthttp.RequestCtx) {
			ctx.SetStatusCode(fasthttp.StatusNotFound)
			ctx.SetContentType("text/html")
			ctx.WriteString("<h1>Nothing here</h1>")
		},
	}
	if *hosts {
		static.PathRewrite = fasthttp.NewVHostPathRewriter(0)
	}
	staticHandler := static.NewRequestHandler()

	assets := (&fasthttp.FS{
		Root:            *root,
		AcceptByteRange: true,
		PathRewrite:     fasthttp.NewPathSlashesStripper(1),
	}).NewRequestHandler()
	prefixed := (&fasthttp.FS{
		Root:        *root,
		PathRewrite: fasthttp.NewPathPrefixStripper(len("/prefix")),
	}).NewRequestHandler()
	embedded := (&fasthttp.FS{
		FS:                 page,
		Root:               "page",
		IndexNames:         []string{"index.html"},
		GenerateIndexPages: true,
		Compress:           true,
		AcceptByteRange:    true,
		PathRewrite:        fasthttp.NewPathSlashesStripper(1),
	}).NewRequestHandler()
	classic := fasthttp.FSHandler(*root, 1)
	hello := fasthttp.CompressHandler(func(ctx *fasthttp.RequestCtx) {
		ctx.SetContentType("text/html; charset=utf-8")
		ctx.Write(bytes.Repeat([]byte("<p>hello, world</p>\n"), 500))
	})

	handler := func(ctx *fasthttp.RequestCtx) {
		path := ctx.Path()
		switch {
		case string(path) == "/stats":
			expvarhandler.ExpvarHandler(ctx)
		case string(path) == "/hello":
			hello(ctx)
		case string(path) == "/license":
			fasthttp.ServeFile(ctx, filepath.Join(*root, "text", "license.txt"))
		case string(path) == "/license-plain":
			fasthttp.ServeFileUncompressed(ctx, filepath.Join(*root, "text", "license.txt"))
		case string(path) == "/download":
			ctx.Response.Header.Set(fasthttp.HeaderContentDisposition, `attachment; filename="data.bin"`)
			ctx.SendFile(filepath.Join(*root, "data.bin"))
		case string(path) == "/missing":
			fasthttp.ServeFile(ctx, filepath.Join(*root, "missing.txt"))
		case bytes.HasPrefix(path, []byte("/assets/")):
			ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "public, max-age=31536000, immutable")
			assets(ctx)
		case bytes.HasPrefix(path, []byte("/prefix/")):
			prefixed(ctx)
		case bytes.HasPrefix(path, []byte("/embedded/")):
			embedded(ctx)
		case bytes.HasPrefix(path, []byte("/classic/")):
			classic(ctx)
		default:
			staticHandler(ctx)
			count(ctx)
		}
	}

	ln, err := net.Listen("tcp4", *addr)
	if err != nil {
		log.Fatalf("error in net.Listen: %s", err)
	}
	fmt.Println("listening on", ln.Addr())
	log.Printf("serving %q", *root)
	if err := fasthttp.Serve(ln, handler); err != nil {
		log.Fatalf("error in Serve: %s", err)
	}
}
