// Package peers makes the servers that are compared: sluice, fasthttp and
// net/http, with the same handler and their default options.
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

// Kinds of servers.
const (
	Sluice          = "sluice"
	FastHTTP        = "fasthttp"
	FastHTTPReduced = "fasthttp reduced" // with ReduceMemoryUsage
	NetHTTP         = "net/http"
)

// Body is what every handler answers, as ContentType.
const (
	Body        = "Hello, World!"
	ContentType = "text/plain"
)

// A Server serves a listener until that fails, and returns its error.
type Server interface {
	Serve(ln net.Listener) error
}

// New returns a server of a kind. Its handler answers Body if the request's
// body has bodySize bytes, else status 400.
func New(kind string, bodySize int) (Server, error) {
	switch kind {
	case Sluice:
		return newSluice(bodySize), nil
	case FastHTTP:
		return newFastHTTP(bodySize, false), nil
	case FastHTTPReduced:
		return newFastHTTP(bodySize, true), nil
	case NetHTTP:
		return newNetHTTP(bodySize), nil
	default:
		return nil, fmt.Errorf("no server of kind %q", kind)
	}
}

func newSluice(bodySize int) Server {
	return &sluice.Server{
		Handler: func(ctx *sluice.RequestCtx) {
			if len(ctx.PostBody()) != bodySize {
				ctx.SetStatusCode(sluice.StatusBadRequest)
				return
			}
			ctx.SetContentType(ContentType)
			ctx.WriteString(Body)
		},
		Logger: log.New(io.Discard, "", 0),
	}
}

func newFastHTTP(bodySize int, reduced bool) Server {
	return &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) {
			if len(ctx.PostBody()) != bodySize {
				ctx.SetStatusCode(fasthttp.StatusBadRequest)
				return
			}
			ctx.SetContentType(ContentType)
			ctx.WriteString(Body)
		},
		Logger:            log.New(io.Discard, "", 0),
		ReduceMemoryUsage: reduced,
	}
}

func newNetHTTP(bodySize int) Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n, _ := io.Copy(io.Discard, r.Body); n != int64(bodySize) {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			w.Header().Set("Content-Type", ContentType)
			io.WriteString(w, Body)
		}),
		ErrorLog: log.New(io.Discard, "", 0),
	}
}
