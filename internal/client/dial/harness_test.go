package dial

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A testDialer is a Dialer with a Config, and with the Trace of its calls.
type testDialer struct {
	Dialer
	Config
	Trace *Trace
}

func (d *testDialer) run(ctx context.Context, network, addr string, timeout time.Duration) (net.Conn, error) {
	call := Call{Dialer: &d.Dialer, Config: d.Config, Context: ctx, Deadline: time.Now().Add(timeout), Network: network, Addr: addr, Trace: d.Trace}
	return call.Run()
}

func (d *testDialer) dial(addr string) (net.Conn, error) { return d.dialTimeout(addr, 3*time.Second) }

func (d *testDialer) dialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return d.run(context.Background(), Network(false), addr, timeout)
}

func (d *testDialer) dualStack(addr string) (net.Conn, error) {
	return d.dualStackTimeout(addr, 3*time.Second)
}

func (d *testDialer) dualStackTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return d.run(context.Background(), Network(true), addr, timeout)
}

func (d *testDialer) dialContext(ctx context.Context, addr string) (net.Conn, error) {
	return d.run(ctx, Network(true), addr, 3*time.Second)
}

func mustDial(t *testing.T, d *testDialer, addr string) {
	t.Helper()
	if _, err := d.dial(addr); err != nil {
		t.Error(err)
	}
}

// fakeResolver answers look-ups.
type fakeResolver func(ctx context.Context, host string) ([]net.IPAddr, error)

func (f fakeResolver) LookupIPAddr(ctx context.Context, host string) ([]net.IPAddr, error) {
	return f(ctx, host)
}

// resolvesTo answers every look-up with addrs.
func resolvesTo(addrs ...string) fakeResolver {
	return func(context.Context, string) ([]net.IPAddr, error) { return ipAddrs(addrs...), nil }
}

func ipAddrs(addrs ...string) []net.IPAddr {
	list := make([]net.IPAddr, len(addrs))
	for i, addr := range addrs {
		list[i].IP = net.ParseIP(addr)
	}
	return list
}

// fakePeer is what connecting to an address comes to.
type fakePeer struct {
	after    time.Duration // 0: at once
	err      error
	isDeaf   bool // connecting takes its time though ctx ends
	isSilent bool // connecting never ends but with ctx
}

// fakeNet stands in for the network; in a bubble its log is exact.
type fakeNet struct {
	peers map[string]fakePeer // by IP; others connect at once

	mu      sync.Mutex
	began   time.Time
	log     []string // "after address"
	conns   []*fakeConn
	running atomic.Int32
	most    atomic.Int32
}

// fakeConn is a connection that nothing is sent on.
type fakeConn struct {
	net.Conn
	to       netip.AddrPort
	isClosed atomic.Bool
}

func (c *fakeConn) Close() error { c.isClosed.Store(true); return nil }

func newFakeNet(peers map[string]fakePeer) *fakeNet {
	return &fakeNet{peers: peers, began: time.Now()}
}

func (n *fakeNet) connect(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	n.mu.Lock()
	n.log = append(n.log, fmt.Sprint(time.Since(n.began), " ", to))
	n.mu.Unlock()
	if running := n.running.Add(1); running > n.most.Load() {
		n.most.Store(running)
	}
	defer n.running.Add(-1)
	peer := n.peers[to.Addr().String()]
	ended, after := ctx.Done(), time.After(peer.after)
	if peer.isDeaf {
		ended = nil
	}
	if peer.isSilent {
		after = nil
	}
	select {
	case <-ended:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
	case <-after:
	}
	if peer.err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: peer.err}
	}
	conn := &fakeConn{to: to}
	n.mu.Lock()
	n.conns = append(n.conns, conn)
	n.mu.Unlock()
	return conn, nil
}

// openConns returns how many connections were made and not closed.
func (n *fakeNet) openConns() (open int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, conn := range n.conns {
		if !conn.isClosed.Load() {
			open++
		}
	}
	return open
}

// countingResolver counts look-ups, each of which takes a while.
type countingResolver struct {
	takes   time.Duration
	err     error
	count   atomic.Int32
	running atomic.Int32
	most    atomic.Int32
}

func (r *countingResolver) LookupIPAddr(ctx context.Context, _ string) ([]net.IPAddr, error) {
	r.count.Add(1)
	if running := r.running.Add(1); running > r.most.Load() {
		r.most.Store(running)
	}
	defer r.running.Add(-1)
	select {
	case <-time.After(r.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return ipAddrs("192.0.2.1"), r.err
}

// expect checks how many look-ups there were.
func (r *countingResolver) expect(t *testing.T, want int32) {
	t.Helper()
	if got := r.count.Load(); got != want {
		t.Errorf("%d look-ups, want %d", got, want)
	}
}
