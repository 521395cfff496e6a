package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/wire/proxy"
)

const saysTCP = "PROXY TCP4 192.0.2.1 198.51.100.2 1234 443\r\n"

// A proxyEnd is one end of a pipe, with the address of a peer.
type proxyEnd struct {
	net.Conn
	remote net.Addr
}

func (c proxyEnd) RemoteAddr() net.Addr { return c.remote }

// from returns a connection of a peer that sends text and then, if it ends, no more.
func from(t *testing.T, remote net.Addr, text string, ends bool) net.Conn {
	t.Helper()
	client, end := net.Pipe()
	t.Cleanup(func() { _, _ = client.Close(), end.Close() })
	go func() {
		_, _ = io.WriteString(client, text) // the end may be closed
		if ends {
			_ = client.Close()
		}
	}()
	return proxyEnd{end, remote}
}

// Who is believed, and what is read of a connection.
func TestProxyRule(t *testing.T) {
	proxied, stranger := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}, &net.TCPAddr{IP: net.IPv4(11, 0, 0, 1), Port: 1}
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for name, c := range map[string]struct {
		rule         ProxyRule
		remote       net.Addr
		text         string
		said, rest   string // the client's address
		err          error
		isAbandoned  bool // more would have to come
		isOnlyHeader bool // the peer ends after text
	}{
		"named":               {ProxyRule{Requires: true, Trusted: trusted}, proxied, saysTCP + "GET", "192.0.2.1:1234", "GET", nil, false, false},
		"unix":                {ProxyRule{Requires: true}, &net.UnixAddr{Net: "unix"}, saysTCP, "192.0.2.1:1234", "", nil, false, false},
		"speaks for itself":   {ProxyRule{Requires: true, Trusted: trusted}, proxied, proxy.Local + "GET", "", "GET", nil, false, false},
		"untrusted, required": {ProxyRule{Requires: true, Trusted: trusted}, stranger, saysTCP, "", "", ErrUntrusted, false, false},
		"untrusted":           {ProxyRule{Trusted: trusted}, stranger, saysTCP, "", "", nil, false, false}, // it is not read
		"absent":              {ProxyRule{Trusted: trusted}, proxied, "GET / HTTP/1.1\r\n", "", "GET / HTTP/1.1\r\n", nil, false, false},
		"absent, required":    {ProxyRule{Requires: true, Trusted: trusted}, proxied, "GET / HTTP/1.1\r\n", "", "", proxy.ErrAbsent, false, false},
		"too large":           {ProxyRule{Trusted: trusted}, proxied, "PROXY TCP4 " + strings.Repeat("1", 200), "", "", proxy.ErrTooLarge, false, false},
		"half":                {ProxyRule{Trusted: trusted}, proxied, saysTCP[:20], "", "", os.ErrDeadlineExceeded, true, false},
		"half, and the end":   {ProxyRule{Trusted: trusted}, proxied, saysTCP[:20], "", "", io.ErrUnexpectedEOF, false, true},
		"nothing":             {ProxyRule{Trusted: trusted}, proxied, "", "", "", io.EOF, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if c.isAbandoned {
				ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
				defer cancel()
			}
			p, rest, err := c.rule.ReceiveBelow(ctx, from(t, c.remote, c.text, c.isOnlyHeader))
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			said := ""
			if remote, local := p.Addrs(); remote != nil {
				said = remote.String()
				if local.String() != "198.51.100.2:443" {
					t.Errorf("to %v", local)
				}
			}
			if said != c.said || string(rest) != c.rest {
				t.Errorf("%q, and %q is left; want %q, %q", said, rest, c.said, c.rest)
			}
		})
	}
	shutDown, cancel := context.WithCancel(t.Context())
	cancel()
	r := ProxyRule{Trusted: trusted}
	if _, _, err := r.Receive(shutDown, from(t, proxied, "", false)); !errors.Is(err, ErrShutdown) {
		t.Errorf("at the end: %v", err)
	}
	r.Refuse(proxied, ErrUntrusted) // nobody asks
	var got []any
	r.Refused = func(remote net.Addr, err error) { got = append(got, remote, err) }
	r.Refuse(proxied, ErrUntrusted)
	if len(got) != 2 || got[0] != net.Addr(proxied) || got[1] != ErrUntrusted {
		t.Errorf("%v", got)
	}
}

// What a Parcel says of a connection is what its header has said.
func TestProxiedInParcel(t *testing.T) {
	var none *ProxyRule
	said := ParseProxied([]byte(saysTCP + "and more"))
	if said == nil || string(none.Parcel(said)) != saysTCP || none.Parcel(nil) != nil {
		t.Errorf("%v, %q", said, none.Parcel(said))
	}
	for _, nothing := range []string{string((&ProxyRule{}).Parcel(nil)), "PROXY UNKNOWN\r\n", "PROXY", "GET /"} {
		if p := ParseProxied([]byte(nothing)); p != nil {
			t.Errorf("%q says %v", nothing, p.Header())
		}
	}
	names := ParseProxied(proxy.Append(nil, proxy.Header{IsUnix: true, SourceName: []byte("a"), DestinationName: []byte("b")}))
	if remote, local := names.Addrs(); remote == nil || remote.Network() != "unix" || remote.String() != "a" || local.String() != "b" {
		t.Errorf("%v, %v", remote, local)
	}
	only := ParseProxied(proxy.Append(nil, proxy.Header{TLVs: proxy.TLVs(nil).Append(proxy.TypeUniqueID, []byte("x"))}))
	if remote, _ := only.Addrs(); remote != nil || string(only.Header().TLVs.Get(proxy.TypeUniqueID)) != "x" {
		t.Errorf("%v, %v", remote, only)
	}
}

// A ProxiedConn has the client's addresses, and below them those of the socket.
func TestProxiedConn(t *testing.T) {
	peer := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}
	plain := from(t, peer, "", false)
	if NewProxiedConn(plain, nil) != plain {
		t.Error("nothing was said")
	}
	c := NewProxiedConn(plain, ParseProxied([]byte(saysTCP)))
	said, by := ProxiedBy(tls.Server(c, &tls.Config{})) // a layer above does not matter
	if c.RemoteAddr().String() != "192.0.2.1:1234" || c.LocalAddr().String() != "198.51.100.2:443" || said == nil || by != net.Addr(peer) {
		t.Errorf("%v, %v; %v by %v", c.RemoteAddr(), c.LocalAddr(), said, by)
	}
	if p, by := ProxiedBy(plain); p != nil || by != nil {
		t.Errorf("%v by %v", p, by)
	}
	if err := c.(*ProxiedConn).CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// A TLS connection may be behind a header if it was made for that. It gets what was read with
// the header.
func TestProxiedTLS(t *testing.T) {
	peer := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}
	r := ProxyRule{Requires: true, Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	secured := Secure(from(t, peer, saysTCP+"hello", true), &tls.Config{}, true).(*tls.Conn)
	below := secured.NetConn().(*ProxiedConn)
	if below.RemoteAddr() != net.Addr(peer) || below.LocalAddr() == nil {
		t.Errorf("before the header: %v", below.RemoteAddr())
	}
	p, rest, err := r.ReceiveBelow(t.Context(), secured)
	if err != nil || p == nil || rest != nil || secured.RemoteAddr().String() != "192.0.2.1:1234" {
		t.Fatalf("%v, %q, %v", p, rest, err)
	}
	if text, err := io.ReadAll(below); string(text) != "hello" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if _, _, err := r.ReceiveBelow(t.Context(), Secure(from(t, peer, "", false), &tls.Config{}, false)); !errors.Is(err, errInsideTLS) {
		t.Errorf("a connection that is TLS already: %v", err)
	}
	r.Requires = false
	if p, _, err := r.ReceiveBelow(t.Context(), Secure(from(t, peer, "", false), &tls.Config{}, false)); p != nil || err != nil {
		t.Errorf("%v, %v", p, err)
	}
}
