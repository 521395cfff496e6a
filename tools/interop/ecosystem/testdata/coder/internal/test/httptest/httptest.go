// Package httptest takes the place of net/http/httptest: its servers are those of fasthttp,
// and fasthttpadaptor calls the handlers.
package httptest

import (
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"
	"github.com/valyala/fasthttp/tcplisten"
)

// ResponseRecorder is that of net/http/httptest.
type ResponseRecorder = httptest.ResponseRecorder

// NewRecorder is that of net/http/httptest.
func NewRecorder() *ResponseRecorder { return httptest.NewRecorder() }

// NewRequest is that of net/http/httptest.
func NewRequest(method, target string, body io.Reader) *http.Request {
	return httptest.NewRequest(method, target, body)
}

// A Server serves on a port of its own until Close.
type Server struct {
	URL string

	server fasthttp.Server
	served chan error
}

// NewServer starts a Server.
func NewServer(handler http.Handler) *Server {
	ln, err := new(tcplisten.Config).NewListener("tcp4", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s := &Server{URL: "http://" + ln.Addr().String(), served: make(chan error, 1)}
	s.server.Handler = fasthttpadaptor.NewFastHTTPHandler(handler)
	go func() { s.served <- s.server.Serve(ln) }()
	return s
}

// Close ends the service, and not the connections that were hijacked.
func (s *Server) Close() {
	if err := s.server.Shutdown(); err != nil {
		panic(err)
	}
	if err := <-s.served; err != nil {
		panic(err)
	}
}
