// Package http3 serves HTTP/3 (RFC 9114) for a sluice.Server, over QUIC (RFC 9000): the same
// handler, the same limits and the same Shutdown, on the same port number of UDP.
//
//	s := &sluice.Server{Handler: handler}
//	err := http3.ListenAndServe(s, ":443", "cert.pem", "key.pem")
//
// Requests reach the handler as those of HTTP/2 do: with streamed bodies, trailer fields,
// interim responses, WebSockets (RFC 9220) and server-sent events.
//
// A Transport sends the requests of a sluice.Client over HTTP/3, and websocket.Dial opens WebSockets
// over it.
package http3
