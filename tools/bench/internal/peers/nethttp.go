package peers

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
)

func newNetHTTP(o Options) (Server, error) {
	handler, err := NetHTTPHandler(o)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	if o.HTTP2 {
		server.Protocols = new(http.Protocols)
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetHTTP2(true)
		server.Protocols.SetUnencryptedHTTP2(true)
	}
	if !o.TLS {
		return server, nil
	}
	server.TLSConfig, err = TLSConfig()
	return serveFunc(func(ln net.Listener) error { return server.ServeTLS(ln, "", "") }), err
}

// NetHTTPHandler returns the handler of a net/http server.
func NetHTTPHandler(o Options) (http.Handler, error) {
	switch o.Answer {
	case AnswerFile:
		return http.FileServer(http.Dir(o.Root)), nil
	case AnswerGzip:
		return nil, fmt.Errorf("net/http does not compress")
	}
	work := o.Handler.work()
	answer, err := o.Answer.content()
	if err != nil {
		return nil, err
	}
	contents := o.Handler.contents()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, _ := io.Copy(io.Discard, r.Body); n != int64(o.BodySize) || !isGood(r.URL.Path, r.UserAgent(), r.URL.Query().Get("page")) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if work != nil {
			work([]byte(r.URL.Path))
		}
		w.Header().Set("Content-Type", answer.contentType)
		if p := contents([]byte(r.URL.Path)); p != nil {
			w.Write(p)
			return
		}
		w.Write(answer.body())
	}), nil
}
