// Package requestid finds the id of a request, which package middleware sets and package
// accesslog logs.
package requestid

import "context"

// Key is the key of the user value, which is a string.
type Key struct{}

// Of returns the id of a request, from its RequestCtx or from a context that was derived of
// it; empty if there is none.
func Of(ctx context.Context) string {
	id, _ := ctx.Value(Key{}).(string)
	return id
}
