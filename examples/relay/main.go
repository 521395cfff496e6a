// Command relay answers with what it gets, in upper case, while it gets it.
//
//	go run ./examples/relay
//	curl -N -T - http://127.0.0.1:8080/stream   # type lines
//	curl -N -T - http://127.0.0.1:8080/flush    # the same, made in another way
//
// Memory is constant: nothing is read that has not been passed on before, so TCP
// makes a sender wait that is faster than its receiver.
package main

import (
	"flag"
	"io"
	"log"
	"time"

	"github.com/sluicehttp/sluice"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	log.Printf("listening on http://%s", *addr)
	log.Fatal(newServer(log.Default()).ListenAndServe(*addr))
}

func newServer(logger sluice.Logger) *sluice.Server {
	return &sluice.Server{
		Handler: func(ctx *sluice.RequestCtx) {
			switch string(ctx.Path()) {
			case "/stream":
				stream(ctx)
			case "/flush":
				flush(ctx)
			default:
				ctx.NotFound()
			}
		},
		StreamRequestBody: true, // call the handler when the head is there
		// The request as a whole; both handlers change that.
		ReadTimeout: 10 * time.Second,
		// Every write that is blocked: a receiver that takes nothing is gone.
		WriteTimeout: 10 * time.Second,
		Logger:       logger,
	}
}

// stream makes the request's body, converted, the response's. The server reads
// it when the handler has returned, and sends at once what a Read returns. The
// response has a Content-Length if the request has one.
//
// When the client stops in the middle, Read fails, and the connection is closed:
// nobody takes the half for the whole.
func stream(ctx *sluice.RequestCtx) {
	body := ctx.RequestBodyStream()
	if body == nil {
		return
	}
	ctx.SetReadDeadline(time.Now().Add(time.Hour)) // for all of it
	ctx.SetBodyStream(upperReader{body}, ctx.Request.Header.ContentLength())
}

// flush does it step by step, which allows more: to write something else in
// between, trailer fields behind, to answer an error as long as nothing was
// flushed. Here each step has a deadline of its own: the client may take as long
// as it likes for the whole.
func flush(ctx *sluice.RequestCtx) {
	body := ctx.RequestBodyStream()
	if body == nil {
		return
	}
	block := make([]byte, 16<<10)
	for {
		ctx.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, err := upperReader{body}.Read(block)
		if n > 0 {
			ctx.Write(block[:n])
			if ctx.Flush() != nil {
				return // nobody takes it any more
			}
		}
		switch {
		case err == io.EOF:
			return // the verified end
		case err != nil:
			// The response must not look complete either.
			panic(sluice.ErrAbortHandler)
		}
	}
}

// An upperReader converts what it reads.
type upperReader struct{ from io.Reader }

// Read implements io.Reader.
func (r upperReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	for i, c := range p[:n] {
		if 'a' <= c && c <= 'z' {
			p[i] = c - 'a' + 'A'
		}
	}
	return n, err
}
