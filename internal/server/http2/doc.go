// Package http2 is the server's end of HTTP/2 connections (RFC 9113): streams, flow
// control, priorities, limits and time-outs. It knows no handlers and no messages: a
// Host makes the requests.
//
// A Conn is the engine.Protocol of one connection. Feed parses all input and never
// blocks. Each request is served by an engine.Task, so that frames are read while
// handlers run. What a Task sends is kept in the Conn until the engine calls Run or
// Prompted.
//
// Conn.mu guards a connection and all of its streams. The engine's calls and the
// Tasks lock it. No method of a Host or Request is called with mu locked, except those
// whose comments say so.
package http2
