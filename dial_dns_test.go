package sluice

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/dial"
)

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

func mustDial(t *testing.T, d *TCPDialer, addr string) {
	t.Helper()
	if _, err := d.Dial(addr); err != nil {
		t.Error(err)
	}
}

func TestDNSCacheDuration(t *testing.T) {
	for _, c := range []struct {
		set, wait time.Duration
		lookups   int32 // of three dials
	}{
		{0, 59 * time.Second / 2, 1},
		{0, 30 * time.Second, 2},
		{0, time.Minute, 3},
		{time.Hour, time.Minute, 1},
		{time.Millisecond, time.Millisecond, 3},
		{-1, 0, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			resolver := &countingResolver{}
			d := &TCPDialer{Resolver: resolver, DNSCacheDuration: c.set, dialer: dial.Dialer{Connect: newFakeNet(nil).connect}}
			for range 3 {
				mustDial(t, d, "host.test:80")
				time.Sleep(c.wait)
			}
			if got := resolver.count.Load(); got != c.lookups {
				t.Errorf("DNSCacheDuration %v, a dial each %v: %d look-ups, want %d", c.set, c.wait, got, c.lookups)
			}
		})
	}
}

func TestDNSCacheFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resolver := &countingResolver{takes: time.Second}
		d := &TCPDialer{Resolver: resolver, dialer: dial.Dialer{Connect: newFakeNet(nil).connect}}
		mustDial(t, d, "host.test:80")
		mustDial(t, d, "host.test:443")
		resolver.expect(t, 1)
		d.FlushDNSCache()
		mustDial(t, d, "host.test:80")
		resolver.expect(t, 2)

		// What was asked before a flush is not remembered after it.
		d.FlushDNSCache()
		var dialing sync.WaitGroup
		dialing.Go(func() { mustDial(t, d, "host.test:80") })
		time.Sleep(time.Second / 2)
		d.FlushDNSCache()
		dialing.Wait()
		resolver.expect(t, 3)
		mustDial(t, d, "host.test:80")
		resolver.expect(t, 4)
	})
}

func TestDNSCacheForgetsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resolver := &countingResolver{err: &net.DNSError{Err: "server misbehaving", Name: "host.test", IsTemporary: true}}
		d := &TCPDialer{Resolver: resolver, dialer: dial.Dialer{Connect: newFakeNet(nil).connect}}
		for range 2 {
			var dnsErr *net.DNSError
			if _, err := d.Dial("host.test:80"); !errors.As(err, &dnsErr) || !dnsErr.IsTemporary {
				t.Errorf("error %#v is not the resolver's", err)
			}
		}
		resolver.expect(t, 2)
		resolver.err = nil
		mustDial(t, d, "host.test:80")
	})
}

func TestDNSNoAddresses(t *testing.T) {
	for _, found := range [][]net.IPAddr{nil, {{IP: net.IP{1, 2, 3}}}} {
		d := &TCPDialer{Resolver: fakeResolver(func(context.Context, string) ([]net.IPAddr, error) { return found, nil })}
		var dnsErr *net.DNSError
		if _, err := d.Dial("none.test:80"); !errors.As(err, &dnsErr) || !dnsErr.IsNotFound || dnsErr.Name != "none.test" {
			t.Errorf("%v: error %#v", found, err)
		}
	}
}

// TestDNSLookupIsShared: one look-up serves all who wait, and those who do not
// wait for long neither end it nor fail the others.
func TestDNSLookupIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resolver := &countingResolver{takes: 2 * time.Second}
		d := &TCPDialer{Resolver: resolver, dialer: dial.Dialer{Connect: newFakeNet(nil).connect}}
		began := time.Now()
		var dialing sync.WaitGroup
		for i := range 10 {
			patience := time.Duration(i%2+1) * 1500 * time.Millisecond // the first of all gives up
			dialing.Go(func() {
				_, err := d.DialTimeout("host.test:80", patience)
				took := time.Since(began)
				if patience < resolver.takes {
					var dialErr *ErrDialWithUpstream
					if !errors.Is(err, ErrDialTimeout) || !errors.As(err, &dialErr) || dialErr.Upstream != "host.test:80" || took != patience {
						t.Errorf("patience %v: %v after %v", patience, err, took)
					}
				} else if err != nil || took != resolver.takes {
					t.Errorf("patience %v: %v after %v", patience, err, took)
				}
			})
			synctest.Wait()
		}
		dialing.Wait()
		resolver.expect(t, 1)
	})
}

// TestDNSAbandonedLookup: what a look-up finds after its last waiter has left
// is there for the next.
func TestDNSAbandonedLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resolver := &countingResolver{takes: 2 * time.Second}
		d := &TCPDialer{Resolver: resolver, dialer: dial.Dialer{Connect: newFakeNet(nil).connect}}
		for range 2 { // the second joins it
			if _, err := d.DialTimeout("host.test:80", time.Second-1); !errors.Is(err, ErrDialTimeout) {
				t.Errorf("error %v, want ErrDialTimeout", err)
			}
		}
		time.Sleep(time.Second)
		mustDial(t, d, "host.test:80")
		resolver.expect(t, 1)
	})
}

// What package dial allows, whose own tests hold it to that.
const (
	maxLookups    = 64
	lookupTimeout = 10 * time.Second
	attemptDelay  = 250 * time.Millisecond
)

// lookingUp counts the goroutines of look-ups. Other tests may have some of their own.
func lookingUp() int {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return strings.Count(string(stacks), "(*countingResolver).LookupIPAddr(")
}

// TestDNSLookupsAreBounded: so many run at a time, the others wait for their
// turn, and those that nobody waits for any more never begin.
func TestDNSLookupsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resolver := &countingResolver{takes: time.Minute} // longer than they may
		d := &TCPDialer{Resolver: resolver, dialer: dial.Dialer{Connect: newFakeNet(nil).connect}}
		var dialing sync.WaitGroup
		for i := range 3 * maxLookups {
			dialing.Go(func() {
				if _, err := d.DialTimeout(fmt.Sprintf("host%d.test:80", i), time.Second); !errors.Is(err, ErrDialTimeout) {
					t.Errorf("error %v, want ErrDialTimeout", err)
				}
			})
		}
		dialing.Wait()
		synctest.Wait()
		resolver.expect(t, maxLookups)
		if n := lookingUp(); n != maxLookups {
			t.Errorf("%d goroutines look up, want %d", n, maxLookups)
		}
		resolver.takes = 0
		began := time.Now()
		if _, err := d.DialTimeout("another.test:80", time.Minute); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != lookupTimeout-time.Second {
			t.Errorf("the next look-up had its turn after %v", took)
		}
		if most := resolver.most.Load(); most != maxLookups {
			t.Errorf("%d look-ups at the same time, want %d", most, maxLookups)
		}
	})
}

// TestDNSQueuedLookupIsShared: one that waits for its turn does so for all.
func TestDNSQueuedLookupIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resolver := &countingResolver{takes: 5 * time.Second}
		d := &TCPDialer{Resolver: resolver, dialer: dial.Dialer{Connect: newFakeNet(nil).connect}}
		var dialing sync.WaitGroup
		for i := range maxLookups {
			dialing.Go(func() { d.DialTimeout(fmt.Sprintf("host%d.test:80", i), time.Minute) })
		}
		synctest.Wait()
		began := time.Now()
		for _, patience := range []time.Duration{time.Second, time.Minute, time.Second} {
			dialing.Go(func() {
				_, err := d.DialTimeout("queued.test:80", patience)
				if took := time.Since(began); errors.Is(err, ErrDialTimeout) != (patience == time.Second) || took != min(patience, 10*time.Second) {
					t.Errorf("patience %v: %v after %v", patience, err, took)
				}
			})
			synctest.Wait()
		}
		dialing.Wait()
		resolver.expect(t, maxLookups+1)
	})
}

// TestDialAllocations: what is known costs no look-up.
func TestDialAllocations(t *testing.T) {
	conn := &fakeConn{}
	connect := func(context.Context, netip.AddrPort) (net.Conn, error) { return conn, nil }
	d := &TCPDialer{Resolver: resolvesTo("192.0.2.1", "2001:db8::1", "192.0.2.2"), DNSCacheDuration: time.Hour, dialer: dial.Dialer{Connect: connect}}
	mustDial(t, d, "host.test:80")
	for _, c := range []struct {
		addr string
		most float64
	}{
		{"192.0.2.7:80", 6},  // the call, and a context with its timer
		{"host.test:80", 16}, // a race: another context, timer, channel, goroutine
	} {
		n := testing.AllocsPerRun(100, func() {
			if _, err := d.Dial(c.addr); err != nil {
				t.Fatal(err)
			}
		})
		t.Logf("%s: %v allocations", c.addr, n)
		if n > c.most {
			t.Errorf("%s: %v allocations, want at most %v", c.addr, n, c.most)
		}
	}
}
