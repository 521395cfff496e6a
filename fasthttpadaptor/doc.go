// Package fasthttpadaptor runs handlers of net/http on a sluice.Server, has its clients
// send by a sluice.Client (Transport), gives that a cookie jar, and converts requests between the two packages.
//
// A handler of net/http gets a usual http.Request and http.ResponseWriter. Each
// request costs their allocations and a goroutine. What the handler writes stays
// in memory, without a limit, until it returns or calls Flush: a handler that
// writes large responses must call Flush. NewFastHTTPHandler documents the
// differences from http.Server.
package fasthttpadaptor
