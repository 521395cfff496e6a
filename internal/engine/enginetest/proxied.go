package enginetest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/invariants"
)

func proxiedScenarios() []scenario {
	return []scenario{
		{"proxy: addresses", testProxyAddresses, headers},
		{"proxy: addresses after a hand-over", testProxyMoves, headers | moves},
		{"proxy: headers", testProxyHeaders, headers},
		{"proxy: a slow one", testProxySlow, headers | bare},
		{"proxy: refused", testProxyRefused, headers | bare},
		{"proxy: silent ones", testProxySilent, headers | bare | deadlines | waits},
		{"proxy: shutdown", testProxyShutdown, headers | bare},
	}
}

// anyProxy is the rule that believes everybody.
func anyProxy() *engine.ProxyRule {
	return &engine.ProxyRule{Trusted: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}
}

const (
	version1 = "PROXY TCP6 2001:db8::1 2001:db8::2 1234 443\r\n"
	version2 = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x17\xc0\x00\x02\x01\xc6\x33\x64\x02\x04\xd2\x01\xbb\x02\x00\x08host.tld"
	unnamed  = "PROXY UNKNOWN\r\n"
	local    = "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
)

// A witness notes what an acceptor sees of connections.
type witness struct {
	mu  sync.Mutex
	all []string
}

func (w *witness) see(what string, c net.Conn) {
	said, by := engine.ProxiedBy(c)
	text := fmt.Sprintf("%s %v to %v", what, c.RemoteAddr(), c.LocalAddr())
	if said != nil {
		text += fmt.Sprintf(" %s %q", by.Network(), said.Header().TLVs)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

func (w *witness) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return strings.Join(all, "; ")
}

// testProxyAddresses: all methods that return addresses return those that the proxy has named.
func testProxyAddresses(t *testing.T, f *fixture) {
	a, w := newAcceptor(), &witness{}
	a.rule, a.saw = anyProxy(), w.see
	a.detached = func(c net.Conn) {
		w.see("Detached", c)
		echoUntilEnd(c)
	}
	s := f.start(t, a, options())
	for header, want := range map[string]string{
		version1: "[2001:db8::1]:1234 to [2001:db8::2]:443 network \"\"",
		version2: "192.0.2.1:1234 to 198.51.100.2:443 network \"\\x02\\x00\\bhost.tld\"",
	} {
		p := s.connectWith(t, header)
		want = strings.Replace(want, "network", s.network(), 1)
		p.ask(t, "echo x", "x")
		s.eventuallyIdle(t, 1)
		p.ask(t, "keep", "kept")
		s.engine.Range(func(c engine.Conn) bool {
			w.see("Range", c.NetConn())
			return true
		})
		p.ask(t, "detach", "detaching")
		p.exchange(t, "", "more")
		_ = p.Close()
		s.eventually(t, "it has ended", s.isBalanced)
		s.mu.Lock()
		w.see("later", s.kept[len(s.kept)-1])
		s.mu.Unlock()
		if got, want := w.take(), fmt.Sprintf("Admit %s; Open %[1]s; Range %[1]s; Detached %[1]s; Release %[1]s; later %[1]s", want); got != want {
			t.Errorf("%q: got\n%s, want\n%s", header, got, want)
		}
	}
}

// network is that of the listener's addresses.
func (s *server) network() string { return s.listener.Addr().Network() }

// connectWith is connect with a header.
func (s *server) connectWith(t *testing.T, header string) *peer {
	t.Helper()
	c, err := s.dialWith(header)
	if err != nil {
		t.Fatal(err)
	}
	return newPeer(t, s, c)
}

// testProxyMoves: a connection that goes to another engine keeps its addresses, and one
// without a header is not asked for one again.
func testProxyMoves(t *testing.T, f *fixture) {
	w := &witness{}
	rule := anyProxy()
	rule.Requires = true
	for _, header := range []string{version2, local} {
		from, to := f.startPackersBehind(t, rule)
		p := from.connectWith(t, header)
		p.ask(t, "token key", "known")
		own := ""
		if header == local {
			from.engine.Range(func(c engine.Conn) bool {
				w.see("Release", c.NetConn())
				own = w.take()
				return true
			})
		}
		for range 3 {
			from.eventuallyIdle(t, 1)
			if n := from.engine.DetachIdle(-1, to.adopt(t)); n != 1 {
				t.Fatalf("%d connections were given away", n)
			}
			p.ask(t, "who", "key")
			from, to = to, from
		}
		from.engine.Range(func(c engine.Conn) bool {
			w.see("Release", c.NetConn())
			return true
		})
		want := "Release 192.0.2.1:1234 to 198.51.100.2:443 " + from.network() + " \"\\x02\\x00\\bhost.tld\""
		if header == local {
			want = own
		}
		if got := w.take(); got != want {
			t.Errorf("%q: got %s, want %s", header, got, want)
		}
		_ = p.Close()
	}
}

// startPackersBehind is startPackers with a rule.
func (f *fixture) startPackersBehind(t *testing.T, rule *engine.ProxyRule) (one, other *server) {
	t.Helper()
	for _, s := range []**server{&one, &other} {
		a := newAcceptor()
		a.packs, a.rewinds, a.rule = true, true, rule
		*s = f.start(t, a, options())
	}
	return one, other
}

// testProxyHeaders: headers without addresses, and connections without a header.
func testProxyHeaders(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.rule = anyProxy()
	s := f.start(t, a, options())
	for _, header := range []string{unnamed, local, ""} {
		p := s.connectWith(t, header)
		p.ask(t, "echo x", "x")
		s.engine.Range(func(c engine.Conn) bool {
			if got, want := c.RemoteAddr(), p.LocalAddr(); s.network() == "tcp" && got.String() != want.String() {
				t.Errorf("%q: %v, want %v", header, got, want)
			}
			return true
		})
		_ = p.Close()
		s.eventuallyIdle(t, 0)
	}
}

// testProxySlow: a header comes byte by byte, and what follows with its last one.
func testProxySlow(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.rule = anyProxy()
	s := f.start(t, a, options())
	for _, header := range []string{version1, version2} {
		p := s.connectWith(t, "")
		for i := range len(header) - 1 {
			p.send(t, []byte{header[i]})
			if i%8 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		if n := s.admitted.Load() - s.released.Load(); n != 0 {
			t.Errorf("%d connections are admitted before the header has ended", n)
		}
		p.send(t, append([]byte{header[len(header)-1]}, frames("echo x", "echo y")...))
		p.expect(t, "x", "y")
		_ = p.Close()
		s.eventuallyIdle(t, 0)
	}
}

// testProxyRefused: connections that the rule ends are not admitted, and Refused is told why.
func testProxyRefused(t *testing.T, f *fixture) {
	refused := make(chan error, 1)
	a := newAcceptor()
	a.rule = anyProxy()
	a.rule.Requires, a.rule.Refused = true, func(_ net.Addr, err error) { refused <- err }
	s := f.start(t, a, options())
	for _, header := range []string{
		"GET / HTTP/1.1\r\n", "PROXY TCP4 x\r\n", "\r\n\r\n\x00\r\nQUIT\n\x31",
		"PROXY UNKNOWN " + strings.Repeat("x", 200), strings.Replace(version2, "\x02\x00\x08", "\x02\x00\x09", 1),
	} {
		c, err := s.dialWith(header)
		if err != nil {
			t.Fatal(err)
		}
		p := newPeer(t, s, c)
		p.expectGone(t)
		if err := <-refused; err == nil || !strings.Contains(err.Error(), "PROXY") {
			t.Errorf("%q: refused with %v", header, err)
		}
	}
	// The end of the input in the middle of a header, and before.
	for header, want := range map[string]error{version1[:20]: io.ErrUnexpectedEOF, "": nil} {
		p := s.connectWith(t, header)
		p.closeWrite(t)
		p.expectGone(t)
		if want != nil {
			if err := <-refused; !errors.Is(err, want) {
				t.Errorf("%q: refused with %v, want %v", header, err, want)
			}
		}
	}
	if n := s.admitted.Load(); n != 0 || len(refused) != 0 {
		t.Errorf("%d connections are admitted, %d refused", n, len(refused))
	}
	if s.network() != "unix" {
		testProxyUntrusted(t, f)
	}
}

// testProxyUntrusted: peers that are not trusted are not believed.
func testProxyUntrusted(t *testing.T, f *fixture) {
	for _, requires := range []bool{false, true} {
		refused := make(chan error, 1)
		a := newAcceptor()
		a.rule = &engine.ProxyRule{
			Requires: requires, Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
			Refused: func(_ net.Addr, err error) { refused <- err },
		}
		s := f.start(t, a, options())
		if !requires {
			s.connectWith(t, "").ask(t, "echo x", "x")
			continue
		}
		s.connectWith(t, version1).expectGone(t)
		if err := <-refused; err != engine.ErrUntrusted {
			t.Errorf("refused with %v", err)
		}
	}
}

// testProxySilent: connections on which no header comes, or half of one, end after a while, and
// are no more than a slot until then where the engine has slots.
func testProxySilent(t *testing.T, f *fixture) {
	count := 500
	if testing.Short() || invariants.Enabled {
		count = 50
	}
	var mu sync.Mutex
	late := 0
	a := newAcceptor()
	a.rule = anyProxy()
	a.rule.Requires, a.rule.Refused = true, func(_ net.Addr, err error) {
		mu.Lock()
		defer mu.Unlock()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			late++
		}
	}
	o := options()
	o.HandshakeTimeout = 300 * time.Millisecond
	s := f.start(t, a, o)
	for i := range count {
		s.connectWith(t, version2[:i%2*20])
	}
	p := s.connectWith(t, version2) // others are served meanwhile
	p.ask(t, "echo x", "x")
	s.eventually(t, "all are refused", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return late == count
	})
	p.ask(t, "echo y", "y")
	s.eventuallyIdle(t, 1)
	if n := s.admitted.Load(); n != 1 {
		t.Errorf("%d connections are admitted", n)
	}
}

// testProxyShutdown: Shutdown does not wait for headers, and refuses nobody.
func testProxyShutdown(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.rule = anyProxy()
	a.rule.Refused = func(_ net.Addr, err error) { t.Errorf("refused with %v", err) }
	s := f.start(t, a, options())
	p, q := s.connectWith(t, ""), s.connectWith(t, version1[:10])
	s.eventually(t, "both are there", func() bool { return s.arrived.Load() == 2 })
	s.shutdown(t)
	p.expectGone(t)
	q.expectGone(t)
}
