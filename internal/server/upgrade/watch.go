package upgrade

import "context"

// A Watcher waits for the end of what outlives its handler: a WebSocket, or a stream of
// server-sent events. It is a user value of the request, under WatchKey.
type Watcher struct {
	// Ended is called once after the end, with its reason, on any goroutine. It must not
	// block. In this process a connection ends also when it moves to another one.
	Ended func(err error)
	// Expected tells that Ended will be called if the response is the one that was
	// arranged. It is set while the handler runs, by Watched.
	Expected bool
}

// WatchKey is the key of the user value that holds a *Watcher.
type WatchKey struct{}

// Watched returns Ended of the request's Watcher, and that it is expected; nil without one.
func Watched(ctx context.Context) func(err error) {
	w, _ := ctx.Value(WatchKey{}).(*Watcher)
	if w == nil {
		return nil
	}
	w.Expected = true
	return w.Ended
}
