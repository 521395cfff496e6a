// Package sluice is HTTP/1.1 for Go with the API of fasthttp, the strictness of
// net/http and connection engines that hold many connections.
//
// A server is a function:
//
//	err := sluice.ListenAndServe(":8080", func(ctx *sluice.RequestCtx) {
//		fmt.Fprintf(ctx, "Hello, %s!\n", ctx.QueryArgs().Peek("name"))
//	})
//
// Programs written for github.com/valyala/fasthttp switch by changing the
// import path; docs/compatibility.md lists what differs on purpose.
//
// # Who owns what, and for how long
//
// The library reuses memory. Four rules say what that means for callers:
//
//   - A RequestCtx belongs to the handler until it returns, and so does
//     everything reached through it: the Request, the Response, their headers,
//     and every []byte that their methods return. To keep something longer,
//     copy it: string(ctx.Path()), append([]byte(nil), body...), CopyTo.
//   - A []byte returned by a method of a message (Request, Response, their
//     headers, Args, URI, Cookie) is valid until that message is changed, reset
//     or released, whichever comes first. Callers read it and do not write to
//     it.
//   - What AcquireX returned is the caller's until ReleaseX; neither the object
//     nor any slice got from it may be used afterwards. Releasing is optional.
//   - A []byte given to a setter is copied, with the exceptions that say so:
//     SetBodyRaw keeps the slice, SetBodyStream the reader.
//
// A handler that must return while other goroutines still use its ctx calls
// ctx.TimeoutError first: the server then leaves that ctx to them.
//
// Handlers may block, on every engine. A handler's panic is
// logged and answered 500 (Server.CrashOnPanic has it end the process).
//
// # The life of a request
//
// A connection's HTTP is an explicit state machine (serverConn) that does no
// I/O. An engine (internal/engine) feeds it the bytes that arrived and writes
// the bytes that it returns. An idle connection holds neither buffers nor a
// RequestCtx, and on the event engine no goroutine either; memory follows what
// has arrived, never what was announced. Server.Engine chooses the engine, and
// Server.EngineStats shows what it is doing; docs/guide/engines.md has more.
//
// RequestCtx implements context.Context. Its Done channel is closed when the
// client goes away, when the request ends and when the server shuts down; a
// request that never asks for it pays nothing.
//
// # Errors
//
// Malformed input is answered with the status that RFC 9110 and RFC 9112 ask
// for, and the connection is closed: no byte behind an error is ever taken for
// another request. Setters keep bytes off the wire that would end a line: a
// CR, LF or NUL in a value becomes a space.
package sluice
