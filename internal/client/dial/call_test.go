package dial

import (
	"context"
	"errors"
	"net"
	"os"
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

// TestTimeoutOmitsItsOwnEffects: attempts that the time-out ended do not explain
// it.
func TestTimeoutOmitsItsOwnEffects(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	call := &Call{
		Context: t.Context(), ctx: ctx, Addr: "host.test:80", phase: clock.PhaseDial,
		failed: []error{&net.OpError{Op: "dial", Err: context.Canceled}, refused, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}},
	}
	got := call.explain(ctx.Err())
	want := &ErrDialWithUpstream{"host.test:80", "host.test:80", join(ErrTimeout, []error{refused})}
	if !errors.Is(got, ErrTimeout) || got.Error() != want.Error() {
		t.Errorf("got %v, want %v", got, want)
	}
	if known := (*ErrDialWithUpstream)(nil); !errors.As(got, &known) || known.Upstream != want.Upstream {
		t.Errorf("%T", got)
	}
}

// A lateContext has a deadline that passes before the context ends.
type lateContext struct {
	context.Context
	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

// The timer of a socket may fire before that of the context: it is the call's time-out, too.
func TestSocketTimesOutFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		call := &Call{Context: t.Context(), ctx: lateContext{ended, time.Now()}, Addr: "host.test:80", phase: clock.PhaseDial}
		if got := call.explain(os.ErrDeadlineExceeded); !errors.Is(got, ErrTimeout) {
			t.Errorf("got %v", got)
		}
		call = &Call{Context: t.Context(), ctx: lateContext{t.Context(), time.Now().Add(time.Hour)}} // no reason to wait
		if got := call.explain(os.ErrDeadlineExceeded); got != os.ErrDeadlineExceeded {
			t.Errorf("before the deadline: %v", got)
		}
	})
}

func TestDialNeedsAPort(t *testing.T) {
	for addr, reason := range map[string]string{"192.0.2.1": "missing port", "192.0.2.1:": "missing port", "[::1": "missing ']'", "a:b:80": "too many colons"} {
		network := newFakeNet(nil)
		d := &testDialer{Dialer: Dialer{Connect: network.connect}}
		conn, err := d.dial(addr)
		var addrErr *net.AddrError
		if conn != nil || !errors.As(err, &addrErr) || addrErr.Addr != addr || !strings.Contains(addrErr.Err, reason) || len(network.log) > 0 {
			t.Errorf("%s: %v, %v, dialed %q", addr, conn, err, network.log)
		}
	}
}

// Hosts that are IP addresses are not looked up, others are.
func TestAddressesAreNotLookedUp(t *testing.T) {
	for host, want := range map[string]int32{
		"192.0.2.0": 0, "192.0.2.9": 0, "[2001:db8::a]": 0, "[fe80::1%lo]": 0,
		"host.test": 1, "host9": 1, "192.0.2.300": 1, "192.0.2.1a": 1,
	} {
		resolver := &countingResolver{}
		d := &testDialer{Dialer: Dialer{Connect: newFakeNet(nil).connect}, Config: Config{Resolver: resolver}}
		if _, err := d.dualStack(host + ":80"); err != nil {
			t.Errorf("%s: %v", host, err)
		}
		resolver.expect(t, want)
	}
}

// LocalAddr excludes the addresses of the other IP version, unless it has none itself.
func TestDialFromALocalAddress(t *testing.T) {
	for local, want := range map[string]string{
		"192.0.2.9:0": "192.0.2.1:80", "[2001:db8::9]:0": "[2001:db8::1]:80", ":0": "[2001:db8::1]:80", "[::ffff:192.0.2.9]:0": "192.0.2.1:80",
	} {
		addr, err := net.ResolveTCPAddr("tcp", local)
		if err != nil {
			t.Fatal(err)
		}
		network := newFakeNet(nil)
		d := &testDialer{Dialer: Dialer{Connect: network.connect}, Config: Config{Resolver: resolvesTo("192.0.2.1", "2001:db8::1"), LocalAddr: addr}}
		if conn, err := d.dualStack("host.test:80"); err != nil || conn.(*fakeConn).to.String() != want {
			t.Errorf("from %s: %q, %v, want %s", local, network.log, err, want)
		}
		other := &testDialer{Dialer: Dialer{Connect: network.connect}, Config: d.Config}
		if strings.HasPrefix(local, "[2") {
			other.Resolver = resolvesTo("192.0.2.1")
		} else {
			other.Resolver = resolvesTo("2001:db8::1")
		}
		_, err = other.dualStack("other.test:80")
		if reason := "no address of LocalAddr's IP version"; (local == ":0") != (err == nil) || err != nil && !strings.Contains(err.Error(), reason) {
			t.Errorf("from %s to the other version: %v", local, err)
		}
	}
}

// What is set for the system's dialer reaches it.
func TestSystem(t *testing.T) {
	local := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 9)}
	call := Call{Config: Config{LocalAddr: local, KeepAlive: time.Minute}}
	if d := call.system(); d.LocalAddr != local || d.KeepAlive != time.Minute {
		t.Errorf("%+v", d)
	}
	if d := new(Call).system(); d.LocalAddr != nil {
		t.Errorf("%+v", d)
	}
}

// TestUnresolved: net.Dialer gets the address. Its result is traced, and its place is free
// afterwards.
func TestUnresolved(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	var mu sync.Mutex
	var told []string
	d := &testDialer{Config: Config{Unresolved: true, Concurrency: 1}, Trace: &Trace{DialDone: func(network, addr string, err error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, network+" "+addr+" "+strconv.FormatBool(err == nil))
	}}}
	var want []string
	for range 2 {
		conn, err := d.dial(ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		var upstream *ErrDialWithUpstream
		if conn, err := d.dial(closed.Addr().String()); conn != nil || !errors.As(err, &upstream) || upstream.Upstream != closed.Addr().String() {
			t.Errorf("%v, %v", conn, err)
		}
		want = append(want, "tcp4 "+ln.Addr().String()+" true", "tcp4 "+closed.Addr().String()+" false")
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// TestContextHasEnded: then nothing is looked up.
func TestContextHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	resolver, network := &countingResolver{}, newFakeNet(nil)
	d := &testDialer{Dialer: Dialer{Connect: network.connect}, Config: Config{Resolver: resolver}}
	var ended *clock.PhaseError
	if conn, err := d.dialContext(ctx, "host.test:80"); conn != nil || !errors.As(err, &ended) || ended.Phase != clock.PhaseDial || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %#v", conn, err)
	}
	resolver.expect(t, 0)
	if len(network.log) > 0 {
		t.Errorf("dialed %q", network.log)
	}
}

// TestUnknownService: its name has no port.
func TestUnknownService(t *testing.T) {
	network := newFakeNet(nil)
	d := &testDialer{Dialer: Dialer{Connect: network.connect}}
	var dnsErr *net.DNSError
	if conn, err := d.dial("192.0.2.1:no-such-service"); conn != nil || !errors.As(err, &dnsErr) || len(network.log) > 0 {
		t.Errorf("%v, %v, dialed %q", conn, err, network.log)
	}
}

// TestNoAddressOfTheVersion: the error tells what would help.
func TestNoAddressOfTheVersion(t *testing.T) {
	for network, want := range map[string]struct{ addr, reason string }{
		"tcp4": {"2001:db8::1", "no IPv4 address, and IPv6 is used with DialDualStack only"},
		"tcp6": {"192.0.2.1", "no IPv6 address"},
	} {
		d := &testDialer{Dialer: Dialer{Connect: newFakeNet(nil).connect}, Config: Config{Resolver: resolvesTo(want.addr)}}
		var addrErr *net.AddrError
		if conn, err := d.run(t.Context(), network, "host.test:80", time.Minute); conn != nil || !errors.As(err, &addrErr) || addrErr.Err != want.reason || addrErr.Addr != "host.test:80" {
			t.Errorf("%s: %v, %v", network, conn, err)
		}
		d.Resolver = resolvesTo("192.0.2.1", "2001:db8::1")
		conn, err := d.run(t.Context(), network, "host.test:80", time.Minute)
		if err != nil || conn.(*fakeConn).to.Addr().Is4() != (network == "tcp4") {
			t.Errorf("%s: %v, %v", network, conn, err)
		}
	}
}

// TestEmptyHost: it is this machine.
func TestEmptyHost(t *testing.T) {
	for network, want := range map[string]string{"tcp": "[::1]:80", "tcp4": "127.0.0.1:80"} {
		d := &testDialer{Dialer: Dialer{Connect: newFakeNet(nil).connect}}
		if conn, err := d.run(t.Context(), network, ":80", time.Minute); err != nil || conn.(*fakeConn).to.String() != want {
			t.Errorf("%s: %v, %v", network, conn, err)
		}
	}
}

// TestEmptyTrace: none of its functions is needed.
func TestEmptyTrace(t *testing.T) {
	d := &testDialer{Dialer: Dialer{Connect: newFakeNet(nil).connect}, Config: Config{Resolver: resolvesTo("192.0.2.1", "2001:db8::1")}, Trace: new(Trace)}
	if _, err := d.dualStack("host.test:80"); err != nil {
		t.Error(err)
	}
}

// TestDefaultResolver: it knows this machine.
func TestDefaultResolver(t *testing.T) {
	d := &testDialer{Dialer: Dialer{Connect: newFakeNet(nil).connect}}
	if conn, err := d.dualStack("localhost:80"); err != nil || !conn.(*fakeConn).to.Addr().IsLoopback() {
		t.Errorf("%v, %v", conn, err)
	}
}
