// Package fasthttpadaptor runs handlers of net/http on a sluice.Server, and
// converts requests between the two packages.
//
// A handler of net/http sees the http.Request and http.ResponseWriter that it
// knows, at the price of the allocations that these make. What differs from
// http.Server is said at NewFastHTTPHandler.
package fasthttpadaptor
