// Package fasthttpadaptor runs handlers of net/http on a sluice.Server, and
// converts requests between the two packages.
//
// A handler of net/http sees the http.Request and http.ResponseWriter that it
// knows, at the price of the allocations that these make and of a goroutine.
// What it writes stays in memory until it returns or calls Flush, however much
// it is: a handler of large answers has to call Flush. What differs from
// http.Server is said at NewFastHTTPHandler.
package fasthttpadaptor
