// Package http2 is the server's end of HTTP/2 connections (RFC 9113): streams, flow
// control, priorities, limits and time-outs, and the Exchange of a request. It knows no
// handlers: a Host makes the requests.
//
// A Conn is the engine.Protocol of one connection. Feed parses all input and never
// blocks. Each request is served by an engine.Task, so that frames are read while
// handlers run. What a Task sends is kept in the Conn until the engine calls Run or
// Prompted.
//
// Conn.mu guards a connection and all of its streams. The engine's calls and the
// Tasks lock it. Those methods of a Host and of a server.Request are called with mu locked
// that come before Exchange.serve, and Holds, IsClosing and Stage: they must neither block nor
// call the Exchange.
package http2
