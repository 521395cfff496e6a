// Package http1 is the server's end of HTTP/1.1 connections (RFC 9112): the phases of a
// request, framing, pipelining, time-outs, and when a connection ends. It knows no
// handlers and no rules about statuses: a Host makes the requests, and a Request says
// what follows.
//
// A Conn is the engine.Protocol of one connection. Feed consumes input without waiting;
// Run serves the request that Feed has completed, and appends the response to the
// engine's output. An Exchange is the state of one request on the wire. The Request in
// it sends the response by its methods.
package http1
