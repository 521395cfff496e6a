package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A slow resolver looks up until ctx ends.
type slow struct{}

func (slow) LookupIPAddr(ctx context.Context, _ string) ([]net.IPAddr, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A known resolver knows every host.
type known []net.IPAddr

func (k known) LookupIPAddr(context.Context, string) ([]net.IPAddr, error) { return k, nil }

// sizes returns how many look-ups c knows, and how many places are taken. It
// locks: the look-ups are removed by goroutines that only the clock wakes.
func sizes(c *dnsCache) (lookups, slots int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lookups), len(c.slots)
}

// No more look-ups are kept than may run, and none when they have ended.
func TestLookupsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c dnsCache
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		const maxLookups = 64
		for i := range 3 * maxLookups {
			go c.find(ctx, fmt.Sprint("host", i), slow{}, time.Hour)
		}
		<-ctx.Done()
		synctest.Wait()
		if lookups, slots := sizes(&c); lookups != maxLookups || slots != maxLookups {
			t.Errorf("%d look-ups with %d places are known, want %d", lookups, slots, maxLookups)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if lookups, slots := sizes(&c); lookups != 0 || slots != 0 {
			t.Errorf("%d look-ups and %d places are left over", lookups, slots)
		}
	})
}

func TestCacheIsBounded(t *testing.T) {
	const maxCachedHosts, sample = 4096, 16
	var c dnsCache
	store := func(i int, expires int64) {
		c.storeLocked(fmt.Sprint("host", i), &hostAddrs{ip4: []netip.Addr{{}}, expires: expires})
	}
	for i := range 2 * maxCachedHosts {
		store(i, 1<<62)
		if c.cached(fmt.Sprint("host", i)) == nil {
			t.Fatalf("host %d is not there", i)
		}
	}
	if len(c.hosts) != maxCachedHosts {
		t.Errorf("%d hosts are kept, want %d", len(c.hosts), maxCachedHosts)
	}
	c.flush()
	for i := range maxCachedHosts {
		store(i, 0)
	}
	store(-1, 1<<62)
	if len(c.hosts) != maxCachedHosts-sample+1 || c.cached("host-1") == nil || c.cached("host1") != nil {
		t.Errorf("expired hosts are kept: %d", len(c.hosts))
	}
}

func TestMappedAddressesAndZones(t *testing.T) {
	h, err := newHostAddrs("host.test", []net.IPAddr{
		{IP: net.ParseIP("192.0.2.1")}, {IP: net.ParseIP("fe80::1"), Zone: "eth0"}, {IP: net.IP{192, 0, 2, 1}},
	})
	if err != nil || len(h.ip4) != 1 || len(h.ip6) != 1 || h.ip6[0].String() != "fe80::1%eth0" {
		t.Errorf("got %+v, %v", h, err)
	}
}

// A name server may send thousands of addresses: those of each IP version are bounded, and so are the
// attempts to connect.
func TestAddressesAreBounded(t *testing.T) {
	const maxAddrs = 32
	var all []net.IPAddr
	for i := range 4000 {
		all = append(all, net.IPAddr{IP: net.IP{10, 0, byte(i >> 8), byte(i)}})
	}
	all = append(all, ipAddrs("2001:db8::1")...)
	h, err := newHostAddrs("host.test", all)
	if err != nil || len(h.ip4) != maxAddrs || len(h.ip6) != 1 || len(h.all) != maxAddrs+1 || cap(h.all) > 2*maxAddrs {
		t.Errorf("%d and %d addresses, %d of %d for traces, %v", len(h.ip4), len(h.ip6), len(h.all), cap(h.all), err)
	}
}

// If no address of a host can be connected to, they are looked up again after a second: the host may
// have moved. It is not looked up for each dial, while it is down.
func TestLookupAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const old, now = "192.0.2.1", "192.0.2.2"
		network := newFakeNet(map[string]fakePeer{old: {err: syscall.ECONNREFUSED}})
		at, lookups := old, 0
		d := testDialer{Config: Config{CacheDuration: time.Minute, Resolver: fakeResolver(func(context.Context, string) ([]net.IPAddr, error) {
			lookups++
			return ipAddrs(at), nil
		})}}
		d.Connect = network.connect
		for range 50 { // 5 s
			if _, err := d.dial("host.test:80"); err == nil {
				t.Fatal("connected to what is down")
			}
			time.Sleep(100 * time.Millisecond)
		}
		if lookups != 5 {
			t.Errorf("%d look-ups in 5 s", lookups)
		}
		at = now
		time.Sleep(time.Second)
		lookups = 0
		for range 50 {
			mustDial(t, &d, "host.test:80")
			time.Sleep(time.Second)
		}
		if lookups != 1 {
			t.Errorf("%d look-ups in 50 s of a host that is up", lookups)
		}
	})
}

// What is known costs nothing to find.
func TestResolveAllocations(t *testing.T) {
	all := known{{IP: net.ParseIP("192.0.2.1")}, {IP: net.ParseIP("2001:db8::1")}, {IP: net.ParseIP("192.0.2.2")}}
	call := &Call{Dialer: new(Dialer), Config: Config{Resolver: all, CacheDuration: time.Hour}, ctx: t.Context()}
	for _, host := range []string{"host.test", "192.0.2.7", "2001:db8::7", ""} {
		resolve := func() {
			var few [8]netip.Addr
			if addrs, _, err := call.resolve(few[:0], host); err != nil || len(addrs) == 0 {
				t.Fatal(len(addrs), err)
			}
		}
		resolve()
		if n := testing.AllocsPerRun(100, resolve); n != 0 {
			t.Errorf("%q: %v allocations", host, n)
		}
	}
}

func TestDNSCacheDuration(t *testing.T) {
	for _, c := range []struct {
		set, wait time.Duration
		lookups   int32 // of three dials
	}{
		{time.Minute, 59 * time.Second / 2, 1},
		{time.Minute, 30 * time.Second, 2},
		{time.Minute, time.Minute, 3},
		{time.Hour, time.Minute, 1},
		{time.Millisecond, time.Millisecond, 3},
		{1, 0, 1},
		{0, 0, 3},
		{-1, 0, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			resolver := &countingResolver{}
			d := &testDialer{Dialer: Dialer{Connect: newFakeNet(nil).connect}, Config: Config{Resolver: resolver, CacheDuration: c.set}}
			for range 3 {
				mustDial(t, d, "host.test:80")
				time.Sleep(c.wait)
			}
			if got := resolver.count.Load(); got != c.lookups {
				t.Errorf("CacheDuration %v, a dial each %v: %d look-ups, want %d", c.set, c.wait, got, c.lookups)
			}
		})
	}
}

func TestDNSCacheFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resolver := &countingResolver{takes: time.Second}
		d := &testDialer{Dialer: Dialer{Connect: newFakeNet(nil).connect}, Config: Config{Resolver: resolver, CacheDuration: time.Minute}}
		mustDial(t, d, "host.test:80")
		mustDial(t, d, "host.test:443")
		resolver.expect(t, 1)
		d.Flush()
		mustDial(t, d, "host.test:80")
		resolver.expect(t, 2)

		// What was asked before a flush is not remembered after it.
		d.Flush()
		var dialing sync.WaitGroup
		dialing.Go(func() { mustDial(t, d, "host.test:80") })
		time.Sleep(time.Second / 2)
		d.Flush()
		dialing.Wait()
		resolver.expect(t, 3)
		mustDial(t, d, "host.test:80")
		resolver.expect(t, 4)
	})
}

func TestDNSCacheForgetsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resolver := &countingResolver{err: &net.DNSError{Err: "server misbehaving", Name: "host.test", IsTemporary: true}}
		d := &testDialer{Dialer: Dialer{Connect: newFakeNet(nil).connect}, Config: Config{Resolver: resolver, CacheDuration: time.Minute}}
		for range 2 {
			var dnsErr *net.DNSError
			if _, err := d.dial("host.test:80"); !errors.As(err, &dnsErr) || !dnsErr.IsTemporary {
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
		d := &testDialer{Config: Config{Resolver: fakeResolver(func(context.Context, string) ([]net.IPAddr, error) { return found, nil }), CacheDuration: time.Minute}}
		var dnsErr *net.DNSError
		if _, err := d.dial("none.test:80"); !errors.As(err, &dnsErr) || !dnsErr.IsNotFound || dnsErr.Name != "none.test" {
			t.Errorf("%v: error %#v", found, err)
		}
	}
}

// TestDNSLookupIsShared: one look-up serves all who wait, and those who do not
// wait for long neither end it nor fail the others.
func TestDNSLookupIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resolver := &countingResolver{takes: 2 * time.Second}
		d := &testDialer{Dialer: Dialer{Connect: newFakeNet(nil).connect}, Config: Config{Resolver: resolver, CacheDuration: time.Minute}}
		began := time.Now()
		var dialing sync.WaitGroup
		for i := range 10 {
			patience := time.Duration(i%2+1) * 1500 * time.Millisecond // the first of all gives up
			dialing.Go(func() {
				_, err := d.dialTimeout("host.test:80", patience)
				took := time.Since(began)
				if patience < resolver.takes {
					var dialErr *ErrDialWithUpstream
					if !errors.Is(err, ErrTimeout) || !errors.As(err, &dialErr) || dialErr.Upstream != "host.test:80" || took != patience {
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
		d := &testDialer{Dialer: Dialer{Connect: newFakeNet(nil).connect}, Config: Config{Resolver: resolver, CacheDuration: time.Minute}}
		for range 2 { // the second joins it
			if _, err := d.dialTimeout("host.test:80", time.Second-1); !errors.Is(err, ErrTimeout) {
				t.Errorf("error %v, want ErrTimeout", err)
			}
		}
		time.Sleep(time.Second)
		mustDial(t, d, "host.test:80")
		resolver.expect(t, 1)
	})
}

// lookingUp counts the goroutines of look-ups. Other tests may have some of their own.
func lookingUp() int {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return strings.Count(string(stacks), "(*countingResolver).LookupIPAddr(")
}

// TestDNSLookupsAreBounded: so many run at a time, the others wait for their
// turn, and those whose waiters have left never begin.
func TestDNSLookupsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const maxLookups = 64
		resolver := &countingResolver{takes: time.Minute} // longer than they may
		d := &testDialer{Dialer: Dialer{Connect: newFakeNet(nil).connect}, Config: Config{Resolver: resolver, CacheDuration: time.Minute}}
		var dialing sync.WaitGroup
		for i := range 3 * maxLookups {
			dialing.Go(func() {
				if _, err := d.dialTimeout(fmt.Sprintf("host%d.test:80", i), time.Second); !errors.Is(err, ErrTimeout) {
					t.Errorf("error %v, want ErrTimeout", err)
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
		if _, err := d.dialTimeout("another.test:80", time.Minute); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 9*time.Second {
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
		d := &testDialer{Dialer: Dialer{Connect: newFakeNet(nil).connect}, Config: Config{Resolver: resolver, CacheDuration: time.Minute}}
		var dialing sync.WaitGroup
		for i := range maxLookups {
			dialing.Go(func() { _, _ = d.dialTimeout(fmt.Sprintf("host%d.test:80", i), time.Minute) })
		}
		synctest.Wait()
		began := time.Now()
		for _, patience := range []time.Duration{time.Second, time.Minute, time.Second} {
			dialing.Go(func() {
				_, err := d.dialTimeout("queued.test:80", patience)
				if took := time.Since(began); errors.Is(err, ErrTimeout) != (patience == time.Second) || took != min(patience, 10*time.Second) {
					t.Errorf("patience %v: %v after %v", patience, err, took)
				}
			})
			synctest.Wait()
		}
		dialing.Wait()
		resolver.expect(t, maxLookups+1)
	})
}

// TestLookupsWithoutWaiters: a look-up whose last waiter leaves before it begins does not begin,
// and keeps no place.
func TestLookupsWithoutWaiters(t *testing.T) {
	resolver := &countingResolver{}
	c := dnsCache{slots: make(chan struct{}, 1)}
	c.run(&lookup{host: "host.test", resolver: resolver, done: make(chan struct{})})
	resolver.expect(t, 0)
	if len(c.slots) != 0 {
		t.Error("it keeps a place")
	}
}

// TestResolverThatDoesNotReturn: its waiters learn that, and the next look-up is another one.
func TestResolverThatDoesNotReturn(t *testing.T) {
	ends := true
	d := &testDialer{Dialer: Dialer{Connect: newFakeNet(nil).connect}, Config: Config{CacheDuration: time.Minute,
		Resolver: fakeResolver(func(context.Context, string) ([]net.IPAddr, error) {
			if ends {
				runtime.Goexit()
			}
			return ipAddrs("192.0.2.1"), nil
		})}}
	if conn, err := d.dial("host.test:80"); conn != nil || err != errLookupPanicked {
		t.Errorf("%v, %v", conn, err)
	}
	ends = false
	mustDial(t, d, "host.test:80")
}
