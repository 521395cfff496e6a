package middleware

import (
	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/accesslog"
)

// AccessLog returns a middleware that logs requests by package accesslog. What is outside is
// not logged: requests that an outer middleware refuses. accesslog.Attach logs also those that
// the server refuses itself.
//
// Put RealIP outside, so that the log has the clients' addresses, and RequestID.
func AccessLog(o accesslog.Options) func(sluice.RequestHandler) sluice.RequestHandler {
	return func(h sluice.RequestHandler) sluice.RequestHandler { return accesslog.Handler(h, o) }
}
