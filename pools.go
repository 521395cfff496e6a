package sluice

import "sync"

// The pools of the small message types. The caller owns an object from the time
// that it is acquired until it is released.
var (
	argsPool   = sync.Pool{New: func() any { return new(Args) }}
	uriPool    = sync.Pool{New: func() any { return new(URI) }}
	cookiePool = sync.Pool{New: func() any { return new(Cookie) }}
)

// maxPooledBytes is how many bytes of memory an object may hold when it is
// returned to a pool. The memory of a single huge query must not be kept.
const maxPooledBytes = 64 << 10

// AcquireArgs returns an empty Args from a pool, to which ReleaseArgs may return it.
func AcquireArgs() *Args {
	a := argsPool.Get().(*Args)
	a.owned.Acquired()
	return a
}

// ReleaseArgs returns a to the pool. Do not use a, or a slice of it, afterwards.
func ReleaseArgs(a *Args) {
	a.owned.Released("Args")
	if a.heldBytes() > maxPooledBytes {
		return
	}
	a.Reset()
	argsPool.Put(a)
}

// AcquireURI returns a zero URI from a pool, to which ReleaseURI may return it.
func AcquireURI() *URI {
	u := uriPool.Get().(*URI)
	u.owned.Acquired()
	return u
}

// ReleaseURI returns u to the pool. Do not use u, or a slice of it, afterwards.
func ReleaseURI(u *URI) {
	u.owned.Released("URI")
	if u.heldBytes() > maxPooledBytes {
		return
	}
	u.Reset()
	uriPool.Put(u)
}

// AcquireCookie returns an empty Cookie from a pool, to which ReleaseCookie may return it.
func AcquireCookie() *Cookie {
	c := cookiePool.Get().(*Cookie)
	c.owned.Acquired()
	return c
}

// ReleaseCookie returns c to the pool. Do not use c, or a slice of it, afterwards.
func ReleaseCookie(c *Cookie) {
	c.owned.Released("Cookie")
	if c.heldBytes() > maxPooledBytes {
		return
	}
	c.Reset()
	cookiePool.Put(c)
}

// heldBytes is the memory that a keeps for its next use.
func (a *Args) heldBytes() int { return a.m.HeldBytes() }

// heldBytes is the memory that u keeps for its next use.
func (u *URI) heldBytes() int {
	return u.m.HeldBytes() + u.queryArgs.m.HeldBytes() + cap(u.requestURI) + cap(u.fullURI)
}

// heldBytes is the memory that c keeps for its next use.
func (c *Cookie) heldBytes() int { return c.m.HeldBytes() }

// singlePool is for ServeConn.
var singlePool = sync.Pool{New: func() any { return new(single) }}

// acquireSingle returns the state of one ServeConn of s.
func acquireSingle(s *Server) *single {
	one := singlePool.Get().(*single)
	s.resolve(&one.config, one.name)
	if one.config.name != nil {
		one.name = one.config.name
	}
	one.config.single, one.config.IsSingle = one, true
	one.acceptor = acceptor{server: s, cfg: &one.config}
	return one
}

// releaseSingle returns one to the pool, unless it may still be in use.
func releaseSingle(one *single) {
	if !one.isRetained {
		*one = single{name: one.name}
		singlePool.Put(one)
	}
}
