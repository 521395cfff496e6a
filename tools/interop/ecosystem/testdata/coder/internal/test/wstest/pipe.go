//go:build !js

package wstest

import (
	"context"
	"net/http"

	"github.com/coder/websocket"
	"github.com/coder/websocket/internal/test/httptest"
)

// Pipe returns both ends of a connection between a client and a Server.
func Pipe(dial *websocket.DialOptions, accept *websocket.AcceptOptions) (client, server *websocket.Conn) {
	accepted := make(chan *websocket.Conn, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, accept)
		if err != nil {
			panic(err)
		}
		accepted <- c
	}))
	defer s.Close()
	var transport http.Transport
	defer transport.CloseIdleConnections()
	var options websocket.DialOptions
	if dial != nil {
		options = *dial
	}
	options.HTTPClient = &http.Client{Transport: &transport}
	client, _, err := websocket.Dial(context.Background(), s.URL, &options)
	if err != nil {
		panic(err)
	}
	return client, <-accepted
}
