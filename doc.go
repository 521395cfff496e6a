// Package sluice implements servers and clients of HTTP/1.1 and HTTP/2 with the exported API
// of fasthttp, the strictness of net/http, and connection engines that hold many
// connections.
//
// A server needs one function, its handler:
//
//	err := sluice.ListenAndServe(":8080", func(ctx *sluice.RequestCtx) {
//		fmt.Fprintf(ctx, "Hello, %s!\n", ctx.QueryArgs().Peek("name"))
//	})
//
// To port a program from github.com/valyala/fasthttp, change the import path;
// docs/compatibility.md lists the intended differences.
//
// # Ownership and lifetime
//
// The library reuses memory. Five rules follow for callers:
//
//   - The handler owns its RequestCtx until it returns, and everything reached
//     through it: the Request, the Response, their headers, and every []byte
//     that their methods return. To retain something longer, copy it:
//     string(ctx.Path()), append([]byte(nil), body...), CopyTo.
//   - A []byte returned by a method of a message (Request, Response, their
//     headers, Args, URI, Cookie) is valid until that message is changed, reset
//     or released, whichever comes first. Read it; do not write to it.
//   - The caller owns what AcquireX returns until ReleaseX. Do not use the
//     object, or any slice obtained from it, afterwards. Releasing is optional.
//   - A message must not be copied, because its memory has one owner (use CopyTo), and
//     not be used by several goroutines at once.
//   - A setter copies the []byte that it is given. The comments of the
//     exceptions say so: SetBodyRaw retains the slice, SetBodyStream the reader.
//
// If other goroutines still use ctx when the handler must return, the handler
// calls ctx.TimeoutError first. The server then never reuses that ctx.
//
// Handlers may block, on every engine. The server logs a handler's panic and
// answers 500 (with Server.CrashOnPanic, the panic ends the process).
//
// # The life of a request
//
// The HTTP of a connection is an explicit state machine (internal/server/http1) that does
// no I/O. An engine (internal/engine) feeds it the bytes that arrived and writes
// the bytes that it returns. An idle connection holds neither buffers nor a
// RequestCtx, and on the event engine no goroutine either. Memory grows with
// what has arrived, never with an announced length. Server.Engine selects the
// engine, and Server.EngineStats reports its state; see docs/guide/engines.md.
//
// RequestCtx implements context.Context. Its Done channel is closed when the
// client disconnects, when the request ends and when the server shuts down. The
// channel costs nothing if the handler never calls Done.
//
// # Errors
//
// The server answers malformed input with the status that RFC 9110 and RFC 9112
// require, and closes the connection: it never parses bytes after an error as
// another request. Setters prevent injected lines: a CR, LF or NUL in a value
// becomes a space.
package sluice
