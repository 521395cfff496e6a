// Package load puts load on a server of HTTP/1.1 or HTTP/2 and measures what comes back.
//
// A run has connections, spread over threads. On Linux a thread is an event loop
// over non-blocking sockets: the bytes of the requests are made once, and
// responses are framed where they are received, by the strict parser of package
// h1. Over HTTP/2 a session makes frames of requests and finds responses in frames, in the
// same loops, by the parser of package h2. Over TLS and on other systems each connection has a goroutine; the framing
// and what is measured are the same.
//
// In a closed loop a connection sends its next request when the response is
// complete. In an open loop requests are due at times that do not depend on the
// server, and their latency counts from then.
package load
