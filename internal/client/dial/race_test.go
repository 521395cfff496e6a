package dial

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

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
		{name: "three of one family", addrs: []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"},
			peers: map[string]fakePeer{"192.0.2.1": refused, "192.0.2.2": refused},
			log:   []string{"0s 192.0.2.1:80", "0s 192.0.2.2:80", "0s 192.0.2.3:80"}, to: "192.0.2.3"},
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
				d := &testDialer{Dialer: Dialer{Connect: network.connect}, Config: Config{Resolver: resolvesTo(c.addrs...), CacheDuration: time.Minute}}
				conn, err := d.dualStackTimeout("many.test:80", time.Second)
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
	if isTimeout := errors.Is(err, ErrTimeout); isTimeout != strings.Contains(err.Error(), "timed out") {
		t.Errorf("is ErrTimeout: %v, error %v", isTimeout, err)
	}
}

func TestDialClosesTheLosers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newFakeNet(map[string]fakePeer{"2001:db8::1": {after: time.Second, isDeaf: true}})
		d := &testDialer{Dialer: Dialer{Connect: network.connect}, Config: Config{Resolver: resolvesTo("2001:db8::1", "192.0.2.1"), CacheDuration: time.Minute}}
		conn, err := d.dualStack("two.test:80")
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
		d := &testDialer{Dialer: Dialer{Connect: network.connect}, Config: Config{Resolver: resolvesTo("2001:db8::1", "192.0.2.1"), CacheDuration: time.Minute}}
		for _, want := range []time.Duration{attemptDelay, 0, 0} {
			before := time.Now()
			if _, err := d.dualStack("two.test:80"); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(before); took != want {
				t.Errorf("took %v, want %v", took, want)
			}
		}
		d.Flush()
		before := time.Now()
		if _, err := d.dualStack("two.test:80"); err != nil || time.Since(before) != attemptDelay {
			t.Errorf("after a flush: %v, %v", err, time.Since(before))
		}
	})
}

// TestDialIPv4Only: what it says about the addresses of a host is of IPv4 alone,
// so that it does not count for the next race.
func TestDialIPv4Only(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newFakeNet(nil)
		d := &testDialer{Dialer: Dialer{Connect: network.connect}, Config: Config{Resolver: resolvesTo("2001:db8::1", "192.0.2.1", "192.0.2.2"), CacheDuration: time.Minute}}
		for _, dial := range []func(string) (net.Conn, error){d.dial, d.dial, d.dualStack} {
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
		d := &testDialer{Dialer: Dialer{Connect: network.connect}, Config: Config{Resolver: resolvesTo("192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.3"), CacheDuration: time.Minute}}
		for range 4 {
			if _, err := d.dial("three.test:80"); err != nil {
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
		phase    clock.Phase
		busy     bool // another holds the only place
	}{
		{name: "look-up", resolver: hangs, phase: clock.PhaseDNS},
		{name: "one address", resolver: resolvesTo("192.0.2.1"), phase: clock.PhaseDial},
		{name: "several addresses", resolver: resolvesTo("192.0.2.1", "192.0.2.2", "2001:db8::1"), phase: clock.PhaseDial},
		{name: "waiting for a place", resolver: resolvesTo("192.0.2.1"), phase: clock.PhaseDial, busy: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := newFakeNet(map[string]fakePeer{"192.0.2.1": silent, "192.0.2.2": silent, "2001:db8::1": silent})
				d := &testDialer{Dialer: Dialer{Connect: network.connect}, Config: Config{Resolver: c.resolver, Concurrency: 1, CacheDuration: time.Minute}}
				if c.busy {
					go d.dialTimeout("192.0.2.2:80", 2*time.Second)
					synctest.Wait()
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(cause) })
				conn, err := d.dialContext(ctx, "some.test:80")
				if took := time.Since(network.began); took != time.Second {
					t.Errorf("took %v, want 1s", took)
				}
				var phase *clock.PhaseError
				if conn != nil || !errors.As(err, &phase) || phase.Phase != c.phase || !errors.Is(err, cause) {
					t.Errorf("got %v, %#v; want phase %v and the cause", conn, err, c.phase)
				}
				time.Sleep(lookupTimeout) // what goes on without us ends by itself
			})
		})
	}
}

func TestDialServiceName(t *testing.T) {
	_, _ = net.LookupPort("tcp", "http") // package net then has made what it would keep of a first bubble
	synctest.Test(t, func(t *testing.T) {
		network := newFakeNet(nil)
		d := &testDialer{Dialer: Dialer{Connect: network.connect}, Config: Config{CacheDuration: time.Minute}}
		mustDial(t, d, "192.0.2.1:http")
		if want := []string{"0s 192.0.2.1:80"}; !slices.Equal(network.log, want) {
			t.Errorf("dialed %q, want %q", network.log, want)
		}
	})
}

func TestDialConcurrency(t *testing.T) {
	for _, concurrency := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) { testConcurrency(t, concurrency) })
	}
}

// In two and a half seconds, each place has connected twice.
func testConcurrency(t *testing.T, concurrency int) {
	network := newFakeNet(map[string]fakePeer{"192.0.2.1": {after: time.Second}})
	d := &testDialer{Dialer: Dialer{Connect: network.connect}, Config: Config{Concurrency: concurrency, CacheDuration: time.Minute}}
	var dialing sync.WaitGroup
	var late sync.Map
	for i := range 6 {
		dialing.Go(func() {
			_, err := d.dialTimeout("192.0.2.1:80", 2500*time.Millisecond)
			if errors.Is(err, ErrTimeout) {
				late.Store(i, true)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	dialing.Wait()
	n := 0
	late.Range(func(any, any) bool { n++; return true })
	if n != 6-2*concurrency || network.most.Load() != int32(concurrency) {
		t.Errorf("%d dials were late, %d ran at a time; want %d, %d", n, network.most.Load(), 6-2*concurrency, concurrency)
	}
	for range concurrency { // no place stays taken
		mustDial(t, d, "192.0.2.1:80")
	}
}

// TestDialAllocations: what is known costs no look-up.
func TestDialAllocations(t *testing.T) {
	conn := &fakeConn{}
	connect := func(context.Context, netip.AddrPort) (net.Conn, error) { return conn, nil }
	d := &testDialer{Dialer: Dialer{Connect: connect}, Config: Config{Resolver: resolvesTo("192.0.2.1", "2001:db8::1", "192.0.2.2"), CacheDuration: time.Hour}}
	mustDial(t, d, "host.test:80")
	for _, c := range []struct {
		addr string
		most float64
	}{
		{"192.0.2.7:80", 6},  // the call, and a context with its timer
		{"host.test:80", 16}, // a race: another context, timer, channel, goroutine
	} {
		n := testing.AllocsPerRun(100, func() {
			if _, err := d.dial(c.addr); err != nil {
				t.Fatal(err)
			}
		})
		t.Logf("%s: %v allocations", c.addr, n)
		if n > c.most {
			t.Errorf("%s: %v allocations, want at most %v", c.addr, n, c.most)
		}
	}
}

func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []string
		tell := func(parts ...string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, parts...)
		}
		failed := func(err error) string { return " failed: " + strconv.FormatBool(err != nil) }
		trace := &Trace{
			DNSStart:  func(host string) { tell("look up " + host) },
			DNSDone:   func(addrs []net.IPAddr, err error) { tell("found " + strconv.Itoa(len(addrs)) + failed(err)) },
			DialStart: func(network, addr string) { tell("dial " + network + " " + addr) },
			DialDone:  func(network, addr string, err error) { tell("dialed " + network + " " + addr + failed(err)) },
		}
		network := newFakeNet(map[string]fakePeer{"2001:db8::1": {err: syscall.ECONNREFUSED}})
		d := &testDialer{Dialer: Dialer{Connect: network.connect}, Config: Config{Resolver: resolvesTo("192.0.2.1", "2001:db8::1"), CacheDuration: time.Minute}, Trace: trace}
		for range 2 {
			if _, err := d.dialContext(t.Context(), "host.test:80"); err != nil {
				t.Error(err)
			}
		}
		want := []string{"look up host.test", "found 2 failed: false",
			"dial tcp [2001:db8::1]:80", "dialed tcp [2001:db8::1]:80 failed: true",
			"dial tcp 192.0.2.1:80", "dialed tcp 192.0.2.1:80 failed: false",
			"dial tcp 192.0.2.1:80", "dialed tcp 192.0.2.1:80 failed: false"}
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		d = &testDialer{Config: Config{Resolver: &countingResolver{err: errors.New("no")}}, Trace: trace}
		if _, err := d.dialContext(t.Context(), "host.test:80"); err == nil || told[len(told)-1] != "found 0 failed: true" {
			t.Errorf("a failed look-up: %v, told %q", err, told[len(want):])
		}
	})
}

// TestLosersEndWithTheRace, also of a call that has no deadline: the bubble ends only when all
// goroutines have ended.
func TestLosersEndWithTheRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newFakeNet(map[string]fakePeer{"2001:db8::1": {isSilent: true}})
		d := Dialer{Connect: network.connect}
		call := Call{Dialer: &d, Config: Config{Resolver: resolvesTo("2001:db8::1", "192.0.2.1")}, Context: context.Background(), Network: "tcp", Addr: "two.test:80"}
		if conn, err := call.Run(); err != nil || conn.(*fakeConn).to.String() != "192.0.2.1:80" {
			t.Errorf("%v, %v", conn, err)
		}
	})
}
