// Package tcp serves custom protocols over TCP with the engines that sluice uses
// for HTTP: one goroutine for each connection, or epoll with very little memory
// for idle connections.
//
// A [Handler] receives the bytes that have arrived, returns how many of them it
// has used, and writes its reply:
//
//	func echo(c *tcp.Conn, in []byte) (used int, err error) { return c.Write(in) }
//
//	log.Fatal(tcp.ListenAndServe(":9000", echo))
//
// The server keeps unused bytes and passes them again, together with the bytes
// that follow. A handler that gets half a message can therefore return 0 and wait
// for the rest. Handlers may block.
//
// # Ownership
//
// A callback may use its [Conn] and the bytes of in until it returns; then both
// are reused for other connections. Copy what must live longer. To write to a
// connection later, or from another goroutine, retain its [Sender].
//
// # What a connection costs
//
// On EngineEpoll an idle connection costs a slot in the engine. It costs memory in
// this package only if it has a state, a Sender, its own time-outs, a part of a
// message, or a Server with OnClose.
package tcp
