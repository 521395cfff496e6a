// Package http2 is the client's end of an HTTP/2 connection (RFC 9113): streams,
// flow control, limits, health and time-outs, over any net.Conn. It knows no request or
// response type: a Stream has a Request, which appends and receives fields.
//
// A connection has no goroutine. Callers of Do and Read write and read:
//   - Frames are appended to Conn.out with the lock. Who finds no writer writes them; who
//     finds one leaves them to it. A goroutine writes what is longer than asideSize, for
//     as long as there is something to write, because such a write may wait for the peer.
//   - Of the callers that wait, one leads: it reads, handles the frames of all streams and
//     wakes those callers that can go on. When it can go on itself, another one leads.
//
// Only a Stream with a Source has a goroutine of its own, because a Source may block. The
// stream of an extended CONNECT becomes a net.Conn: a Tunnel.
package http2
