package dial

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// attemptDelay is the time after which the next address is tried as well (RFC
// 8305 section 5).
const attemptDelay = 250 * time.Millisecond

// attempt is the outcome of connecting to an address.
type attempt struct {
	to   netip.AddrPort
	conn net.Conn
	err  error
}

// connectAny connects to one of addrs and returns that address.
func (c *Call) connectAny(addrs []netip.Addr, port uint16) (net.Conn, netip.Addr, error) {
	won := attempt{to: netip.AddrPortFrom(addrs[0], port)}
	if len(addrs) == 1 { // no race, so no goroutine
		won.conn, won.err = c.open(c.ctx, won.to)
	} else {
		won = c.race(addrs, port)
	}
	if won.err == nil {
		return won.conn, won.to.Addr(), nil
	}
	c.upstream = won.to.String()
	return nil, netip.Addr{}, join(won.err, c.failed)
}

// race tries addrs in order, each at most attemptDelay after the previous one,
// and returns the first connection. If all fail, it returns the most
// informative failure; if the context ends, it returns the last attempt, with
// the context's error.
func (c *Call) race(addrs []netip.Addr, port uint16) attempt {
	// When race returns, the attempts in progress are interrupted. A connection
	// that comes too late is closed.
	ctx, stop := context.WithCancel(c.ctx)
	defer stop()
	ended := make(chan attempt)
	delay := time.NewTimer(attemptDelay)
	defer delay.Stop()

	var best, last attempt
	next, running := 0, 0
	for next < len(addrs) || running > 0 {
		if next < len(addrs) {
			last = attempt{to: netip.AddrPortFrom(addrs[next], port)}
			go c.tryOne(ctx, last.to, ended)
			next++
			running++
			delay.Reset(attemptDelay)
		}
		select {
		case <-delay.C:
		case a := <-ended:
			running--
			if a.err == nil {
				return a
			}
			c.failed = append(c.failed, a.err)
			if best.err == nil || isUnreachable(best.err) && !isUnreachable(a.err) {
				best = a
			}
		case <-c.ctx.Done():
			last.err = c.ctx.Err()
			return last
		}
	}
	return best
}

// tryOne connects to an address and sends the outcome, unless the race has
// ended.
func (c *Call) tryOne(ctx context.Context, to netip.AddrPort, ended chan<- attempt) {
	conn, err := c.open(ctx, to)
	select {
	case ended <- attempt{to, conn, err}:
	case <-ctx.Done():
		if err == nil {
			conn.Close()
		}
	}
}

// isUnreachable reports whether err means that this machine has no route for an
// IP version. The error of the other version is more informative.
func isUnreachable(err error) bool {
	for _, errno := range [...]syscall.Errno{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EADDRNOTAVAIL, syscall.EAFNOSUPPORT} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// join returns first and the rest of all as one error. first is the most
// informative one.
func join(first error, all []error) error {
	joined := addrErrors{first}
	for _, err := range all {
		if err != first {
			joined = append(joined, err)
		}
	}
	if len(joined) == 1 {
		return first
	}
	return joined
}

// addrErrors are the errors of several addresses of a host.
type addrErrors []error

func (e addrErrors) Error() string {
	texts := make([]string, len(e))
	for i, err := range e {
		texts[i] = strings.TrimPrefix(err.Error(), "sluice: ")
	}
	return strings.Join(texts, "; ")
}

func (e addrErrors) Unwrap() []error { return e }
