// Command relay answers with its input in upper case, while it arrives.
//
//	go run ./examples/relay
//	curl -N -T - http://127.0.0.1:8080/stream   # type lines
//	curl -N -T - http://127.0.0.1:8080/flush    # the same, implemented in another way
//
// Memory is constant: input is read only after the input before it was sent, so TCP
// slows down a sender that is faster than its receiver.
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
		StreamRequestBody: true, // call the handler when the head has arrived
		// For the whole request; both handlers change it.
		ReadTimeout: 10 * time.Second,
		// For each blocked write: a receiver that reads nothing is cut off.
		WriteTimeout: 10 * time.Second,
		Logger:       logger,
	}
}

// stream makes the request's body, converted, the response's body. The server reads
// it when the handler has returned, and sends the result of each Read at once. The
// response has a Content-Length if the request has one.
//
// If the client stops in the middle, Read fails and the connection is closed, so the
// part does not look complete.
func stream(ctx *sluice.RequestCtx) {
	body := ctx.RequestBodyStream()
	if body == nil {
		return
	}
	ctx.SetReadDeadline(time.Now().Add(time.Hour)) // for the whole body
	ctx.SetBodyStream(upperReader{body}, ctx.Request.Header.ContentLength())
}

// flush copies step by step. This permits more: writing something else in between,
// trailer fields, and an error response as long as nothing was flushed. Here each
// step has its own deadline, and the whole may take any time.
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
				return // the client has disconnected
			}
		}
		switch {
		case err == io.EOF:
			return // the verified end
		case err != nil:
			// Close the connection, so that the response does not look complete.
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
