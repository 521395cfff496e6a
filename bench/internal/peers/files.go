package peers

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/sluicehttp/sluice"
	"github.com/valyala/fasthttp"
)

// NewFiles returns a server of a kind for the files below a folder: sluice's FS
// with ranges and ETags, fasthttp's FS with ranges, net/http's FileServer, which
// always has ranges. fasthttp and net/http make no ETag of a file.
func NewFiles(kind, root string) (Server, error) {
	quiet := log.New(io.Discard, "", 0)
	switch kind {
	case PerConn, Epoll:
		files := &sluice.FS{Root: root, AcceptByteRange: true, GenerateETag: true}
		server := &sluice.Server{Handler: files.NewRequestHandler(), Logger: quiet}
		err := selectEngine(server, kind)
		return serveFunc(func(ln net.Listener) error {
			if err := checkEngine(server, ln); err != nil {
				return err
			}
			return server.Serve(ln)
		}), err
	case FastHTTP:
		files := &fasthttp.FS{Root: root, AcceptByteRange: true}
		return &fasthttp.Server{Handler: files.NewRequestHandler(), Logger: quiet}, nil
	case NetHTTP:
		return &http.Server{Handler: http.FileServer(http.Dir(root)), ErrorLog: quiet}, nil
	default:
		return nil, fmt.Errorf("no file server of kind %q", kind)
	}
}
