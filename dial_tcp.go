package sluice

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/sluicehttp/sluice/internal/dial"
)

// TCPDialer makes TCP connections and remembers the addresses of hosts. The zero
// value is ready for use; its fields must not be changed once it is used. It is
// safe for concurrent use and must not be copied after the first use.
//
// A host with several addresses is dialed as RFC 8305 ("happy eyeballs") says:
// IPv6 and IPv4 by turns, the next address 250 ms after the one before, or at
// once when that fails; the first connection is taken and the others are closed.
// Within a family each dial begins with the next address.
type TCPDialer struct {
	// Concurrency bounds how many dials connect at the same time; the others
	// wait, and their time-out runs. A host of several addresses counts once.
	// 0 is no bound.
	Concurrency int

	// LocalAddr is the address to dial from: only addresses of its IP version
	// are then dialed. nil leaves it to the system.
	LocalAddr *net.TCPAddr

	// Resolver looks up hosts. nil is net.DefaultResolver.
	Resolver Resolver

	// DNSCacheDuration is how long the addresses of a host are used before they
	// are looked up again. 0 is DefaultDNSCacheDuration; negative remembers
	// nothing. Failed look-ups are not remembered.
	DNSCacheDuration time.Duration

	// DisableDNSResolution hands addresses to net.Dialer as they are: hosts are
	// looked up by the system for each connection, without Resolver and cache.
	DisableDNSResolution bool

	// KeepAlive is the time between TCP keep-alive probes, and before the first.
	// 0 is 15 s; negative sends none.
	KeepAlive time.Duration

	dialer dial.Dialer
}

// Dial connects to addr, "host:port", within DefaultDialTimeout. The port may be
// a service's name; an empty host is this machine.
//
// The error is an *ErrDialWithUpstream when connecting failed (with
// ErrDialTimeout when the time passed), the Resolver's when looking up failed,
// and *net.AddrError when addr is malformed or has no port.
func (d *TCPDialer) Dial(addr string) (net.Conn, error) {
	return d.DialTimeout(addr, DefaultDialTimeout)
}

// DialTimeout is Dial with another time-out. It covers waiting for others (see
// Concurrency), looking up and connecting; one that is not positive fails with
// ErrDialTimeout at once.
func (d *TCPDialer) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return d.dial(context.Background(), addr, time.Now().Add(timeout), nil)
}

// DialDualStack is Dial.
func (d *TCPDialer) DialDualStack(addr string) (net.Conn, error) { return d.Dial(addr) }

// DialDualStackTimeout is DialTimeout.
func (d *TCPDialer) DialDualStackTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return d.DialTimeout(addr, timeout)
}

// DialContext is Dial until ctx ends; where ctx has no deadline, for
// DefaultDialTimeout at most. When ctx ends the error is *PhaseError and tells
// whether that was while looking up or connecting; a context that ends with the
// cause ErrDialTimeout is a time-out as Dial's. The ClientTrace of ctx is told of
// both.
func (d *TCPDialer) DialContext(ctx context.Context, addr string) (net.Conn, error) {
	var deadline time.Time
	if _, hasOwn := ctx.Deadline(); !hasOwn {
		deadline = time.Now().Add(DefaultDialTimeout)
	}
	return d.dial(ctx, addr, deadline, traceOf(ctx))
}

// FlushDNSCache forgets the addresses of all hosts.
func (d *TCPDialer) FlushDNSCache() { d.dialer.Flush() }

// dialContext dials for clients: until ctx ends, for DefaultDialTimeout at most.
// See DialContext for what it returns then. trace may be nil.
func (d *TCPDialer) dialContext(ctx context.Context, addr string, trace *ClientTrace) (net.Conn, error) {
	return d.dial(ctx, addr, time.Now().Add(DefaultDialTimeout), trace)
}

// dial is what all of them do. The zero deadline is none but ctx's.
func (d *TCPDialer) dial(parent context.Context, addr string, deadline time.Time, trace *ClientTrace) (net.Conn, error) {
	host, port, err := splitDialAddr(addr)
	if err != nil {
		return nil, err
	}
	ctx := parent
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(parent, deadline)
		defer cancel()
	}
	call := &dial.Call{Dialer: &d.dialer, Config: d.config(), Context: ctx, Addr: addr, Trace: trace.ofDial()}
	conn, err := call.Run(host, port)
	if err != nil {
		return nil, explainDial(call, parent, err)
	}
	return conn, nil
}

// config returns what the fields say.
func (d *TCPDialer) config() dial.Config {
	keep := d.DNSCacheDuration
	if keep == 0 {
		keep = DefaultDNSCacheDuration
	}
	return dial.Config{
		Concurrency:   d.Concurrency,
		LocalAddr:     d.LocalAddr,
		Resolver:      d.Resolver,
		CacheDuration: keep,
		Unresolved:    d.DisableDNSResolution,
		KeepAlive:     d.KeepAlive,
	}
}

// ofDial returns what a dial tells t of; nil is nothing.
func (t *ClientTrace) ofDial() *dial.Trace {
	if t == nil {
		return nil
	}
	return &dial.Trace{DNSStart: t.DNSStart, DNSDone: t.DNSDone, DialStart: t.DialStart, DialDone: t.DialDone}
}

// explainDial returns the error of a call for parent that failed with err.
func explainDial(c *dial.Call, parent context.Context, err error) error {
	if at, ok := c.Context.Deadline(); ok && isDeadline(err) && !time.Now().Before(at) {
		<-c.Context.Done() // the socket's timer fired before the context's
	}
	switch {
	case parent.Err() != nil && context.Cause(parent) != ErrDialTimeout:
		phase := PhaseDNS
		if c.IsConnecting {
			phase = PhaseDial
		}
		return &PhaseError{Phase: phase, Err: context.Cause(parent)}
	case c.Context.Err() != nil:
		own := slices.DeleteFunc(c.Failed, func(err error) bool { // that were not the end of the context
			return isDeadline(err) || errors.Is(err, context.Canceled)
		})
		return &ErrDialWithUpstream{Upstream: cmp.Or(c.Upstream, c.Addr), addr: c.Addr, wrapErr: dial.Join(ErrDialTimeout, own)}
	case c.Upstream != "":
		return &ErrDialWithUpstream{Upstream: c.Upstream, addr: c.Addr, wrapErr: err}
	}
	return err
}

// splitDialAddr splits addr at its port, which must not be missing.
func splitDialAddr(addr string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(addr)
	if err == nil && port == "" {
		err = &net.AddrError{Err: "missing port in address", Addr: addr}
	}
	return host, port, err
}
