// Package tcp serves protocols of your own on the engines that sluice serves
// HTTP with: a goroutine for each connection, or epoll with next to no memory
// for the idle ones.
//
// A [Handler] gets the bytes that have come, says how many of them it has used,
// and writes its reply:
//
//	func echo(c *tcp.Conn, in []byte) (used int, err error) { return c.Write(in) }
//
//	log.Fatal(tcp.ListenAndServe(":9000", echo))
//
// What a handler does not use is kept and comes again with the bytes that
// follow, so a handler never sees half a message without being able to wait for
// the other half. Handlers may block.
//
// # Who owns what
//
// The [Conn] and the bytes of in are the callback's until it returns; then they
// are used again for other connections. What must live longer is copied. To
// write to a connection from elsewhere, or later, take its [Sender] along.
//
// # What a connection costs
//
// On EngineEpoll an idle connection costs a slot in the engine and nothing in
// this package, unless it has something to remember: a state, a Sender,
// time-outs of its own, a part of a message, or a Server with OnClose.
package tcp
