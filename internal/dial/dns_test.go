package dial

import (
	"context"
	"fmt"
	"net"
	"net/netip"
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
		for i := range 3 * maxLookups {
			go c.find(ctx, fmt.Sprint("host", i), slow{}, time.Hour)
		}
		<-ctx.Done()
		synctest.Wait()
		if lookups, slots := sizes(&c); lookups != maxLookups || slots != maxLookups {
			t.Errorf("%d look-ups with %d places are known, want %d", lookups, slots, maxLookups)
		}
		time.Sleep(lookupTimeout)
		synctest.Wait()
		if lookups, slots := sizes(&c); lookups != 0 || slots != 0 {
			t.Errorf("%d look-ups and %d places are left over", lookups, slots)
		}
	})
}

func TestCacheIsBounded(t *testing.T) {
	var c dnsCache
	store := func(i int, expires int64) {
		c.store(fmt.Sprint("host", i), &hostAddrs{ip4: []netip.Addr{{}}, expires: expires})
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
	if len(c.hosts) >= maxCachedHosts || c.cached("host-1") == nil || c.cached("host1") != nil {
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
