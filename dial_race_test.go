package sluice

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/dial"
)

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

func TestDialTriesAddressesInTurn(t *testing.T) {
	refused, noRoute := fakePeer{err: syscall.ECONNREFUSED}, fakePeer{err: syscall.ENETUNREACH}
	silent := fakePeer{isSilent: true}
	for _, c := range []struct {
		name  string
		addrs []string
		peers map[string]fakePeer
		log   []string
		to    string        // of the connection
		took  time.Duration // all of it
		err   []string      // parts of the error
		up    string        // its Upstream
	}{
		{name: "one address", addrs: []string{"192.0.2.1"}, log: []string{"0s 192.0.2.1:80"}, to: "192.0.2.1"},
		{name: "IPv6 first, families by turns",
			addrs: []string{"192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"},
			peers: map[string]fakePeer{"192.0.2.1": silent, "2001:db8::1": silent, "2001:db8::2": silent},
			log:   []string{"0s [2001:db8::1]:80", "250ms 192.0.2.1:80", "500ms [2001:db8::2]:80", "750ms 192.0.2.2:80"},
			to:    "192.0.2.2", took: 750 * time.Millisecond},
		{name: "the next at once when one fails, then 250 ms from there",
			addrs: []string{"2001:db8::1", "2001:db8::2", "192.0.2.1", "192.0.2.2"},
			peers: map[string]fakePeer{"2001:db8::1": {after: 100 * time.Millisecond, err: syscall.ECONNREFUSED}, "192.0.2.1": silent, "2001:db8::2": silent},
			log:   []string{"0s [2001:db8::1]:80", "100ms 192.0.2.1:80", "350ms [2001:db8::2]:80", "600ms 192.0.2.2:80"},
			to:    "192.0.2.2", took: 600 * time.Millisecond},
		{name: "a slow one may still win",
			addrs: []string{"2001:db8::1", "192.0.2.1"},
			peers: map[string]fakePeer{"2001:db8::1": {after: 300 * time.Millisecond}, "192.0.2.1": {after: 200 * time.Millisecond}},
			log:   []string{"0s [2001:db8::1]:80", "250ms 192.0.2.1:80"},
			to:    "2001:db8::1", took: 300 * time.Millisecond},
		{name: "all fail: what says most comes first, all are told",
			addrs: []string{"2001:db8::1", "192.0.2.1", "192.0.2.2"},
			peers: map[string]fakePeer{"2001:db8::1": noRoute, "192.0.2.1": refused, "192.0.2.2": {err: syscall.ECONNRESET}},
			log:   []string{"0s [2001:db8::1]:80", "0s 192.0.2.1:80", "0s 192.0.2.2:80"},
			err:   []string{"many.test:80", "192.0.2.1:80: connection refused", "2001:db8::1", "unreachable", "reset"}, up: "192.0.2.1:80"},
		{name: "only time-outs",
			addrs: []string{"2001:db8::1", "192.0.2.1"},
			peers: map[string]fakePeer{"2001:db8::1": refused, "192.0.2.1": silent},
			log:   []string{"0s [2001:db8::1]:80", "0s 192.0.2.1:80"}, took: time.Second,
			err: []string{"many.test:80: dialing timed out; ", "2001:db8::1", "refused"}, up: "192.0.2.1:80"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := newFakeNet(c.peers)
				d := &TCPDialer{Resolver: resolvesTo(c.addrs...), dialer: dial.Dialer{Connect: network.connect}}
				conn, err := d.DialDualStackTimeout("many.test:80", time.Second)
				if took := time.Since(network.began); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				synctest.Wait()
				if !slices.Equal(network.log, c.log) {
					t.Errorf("attempts %q, want %q", network.log, c.log)
				}
				checkDialed(t, conn, err, c.to, c.err, c.up)
				if open := network.openConns(); conn == nil && open != 0 || conn != nil && open != 1 {
					t.Errorf("%d connections stay open", open)
				}
			})
		})
	}
}

// checkDialed checks what a dial returned: a connection to the address, or an
// error that tells about all of told.
func checkDialed(t *testing.T, conn net.Conn, err error, to string, told []string, upstream string) {
	t.Helper()
	if to != "" {
		if err != nil || conn.(*fakeConn).to.Addr().String() != to {
			t.Errorf("got %v, %v; want a connection to %s", conn, err, to)
		}
		return
	}
	var dialErr *ErrDialWithUpstream
	if !errors.As(err, &dialErr) || dialErr.Upstream != upstream {
		t.Fatalf("error %#v, want one with upstream %s", err, upstream)
	}
	for _, part := range told {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not tell %q", err, part)
		}
	}
	if isTimeout := errors.Is(err, ErrDialTimeout); isTimeout != strings.Contains(err.Error(), "timed out") {
		t.Errorf("is ErrDialTimeout: %v, error %v", isTimeout, err)
	}
}

func TestDialClosesTheLosers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newFakeNet(map[string]fakePeer{"2001:db8::1": {after: time.Second, isDeaf: true}})
		d := &TCPDialer{Resolver: resolvesTo("2001:db8::1", "192.0.2.1"), dialer: dial.Dialer{Connect: network.connect}}
		conn, err := d.DialDualStack("two.test:80")
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(network.began); took != attemptDelay {
			t.Errorf("took %v, want %v", took, attemptDelay)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(network.conns) != 2 || network.openConns() != 1 || conn.(*fakeConn).isClosed.Load() {
			t.Errorf("%d connections were made and %d are open", len(network.conns), network.openConns())
		}
	})
}

// TestDialRemembersTheFamily: a host whose IPv6 leads nowhere costs the delay
// once, until it is looked up again.
func TestDialRemembersTheFamily(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newFakeNet(map[string]fakePeer{"2001:db8::1": {isSilent: true}})
		d := &TCPDialer{Resolver: resolvesTo("2001:db8::1", "192.0.2.1"), dialer: dial.Dialer{Connect: network.connect}}
		for _, want := range []time.Duration{attemptDelay, 0, 0} {
			before := time.Now()
			if _, err := d.DialDualStack("two.test:80"); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(before); took != want {
				t.Errorf("took %v, want %v", took, want)
			}
		}
		d.FlushDNSCache()
		before := time.Now()
		if _, err := d.DialDualStack("two.test:80"); err != nil || time.Since(before) != attemptDelay {
			t.Errorf("after a flush: %v, %v", err, time.Since(before))
		}
	})
}

// TestDialIPv4Only: what it says about the addresses of a host is of IPv4 alone,
// so that it does not count for the next race.
func TestDialIPv4Only(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newFakeNet(nil)
		d := &TCPDialer{Resolver: resolvesTo("2001:db8::1", "192.0.2.1", "192.0.2.2"), dialer: dial.Dialer{Connect: network.connect}}
		for _, dial := range []DialFunc{d.Dial, d.Dial, d.DialDualStack} {
			if _, err := dial("three.test:80"); err != nil {
				t.Fatal(err)
			}
		}
		if want := []string{"0s 192.0.2.1:80", "0s 192.0.2.2:80", "0s [2001:db8::1]:80"}; !slices.Equal(network.log, want) {
			t.Errorf("attempts %q, want %q", network.log, want)
		}
	})
}

func TestDialSpreadsOverAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newFakeNet(nil)
		d := &TCPDialer{Resolver: resolvesTo("192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.3"), dialer: dial.Dialer{Connect: network.connect}}
		for range 4 {
			if _, err := d.Dial("three.test:80"); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{"0s 192.0.2.1:80", "0s 192.0.2.2:80", "0s 192.0.2.3:80", "0s 192.0.2.1:80"}
		if !slices.Equal(network.log, want) {
			t.Errorf("attempts %q, want %q", network.log, want)
		}
	})
}

// TestDialContextEnds: the context's end interrupts each phase at once, and the
// error tells which. The bubble ends only when no goroutine is left.
func TestDialContextEnds(t *testing.T) {
	cause := errors.New("nobody cares any more")
	silent := fakePeer{isSilent: true}
	hangs := fakeResolver(func(ctx context.Context, _ string) ([]net.IPAddr, error) { <-ctx.Done(); return nil, ctx.Err() })
	for _, c := range []struct {
		name     string
		resolver Resolver
		phase    Phase
		busy     bool // another holds the only place
	}{
		{name: "look-up", resolver: hangs, phase: PhaseDNS},
		{name: "one address", resolver: resolvesTo("192.0.2.1"), phase: PhaseDial},
		{name: "several addresses", resolver: resolvesTo("192.0.2.1", "192.0.2.2", "2001:db8::1"), phase: PhaseDial},
		{name: "waiting for a place", resolver: resolvesTo("192.0.2.1"), phase: PhaseDial, busy: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := newFakeNet(map[string]fakePeer{"192.0.2.1": silent, "192.0.2.2": silent, "2001:db8::1": silent})
				d := &TCPDialer{Resolver: c.resolver, dialer: dial.Dialer{Connect: network.connect}, Concurrency: 1}
				if c.busy {
					go d.DialTimeout("192.0.2.2:80", 2*time.Second)
					synctest.Wait()
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(cause) })
				conn, err := d.DialContext(ctx, "some.test:80")
				if took := time.Since(network.began); took != time.Second {
					t.Errorf("took %v, want 1s", took)
				}
				var phase *PhaseError
				if conn != nil || !errors.As(err, &phase) || phase.Phase != c.phase || !errors.Is(err, cause) {
					t.Errorf("got %v, %#v; want phase %v and the cause", conn, err, c.phase)
				}
				time.Sleep(lookupTimeout) // what goes on without us ends by itself
			})
		})
	}
}
