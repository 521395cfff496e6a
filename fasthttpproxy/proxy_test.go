package fasthttpproxy

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
)

func TestParseProxy(t *testing.T) {
	for _, c := range []struct {
		text, scheme string
		want         proxy
		user         string
		err          error
	}{
		{"localhost:3128", "http", proxy{scheme: "http", host: "localhost", addr: "localhost:3128"}, "", nil},
		{"localhost:9050", "socks5", proxy{scheme: "socks5", host: "localhost", addr: "localhost:9050"}, "", nil},
		{"http://proxy.test", "socks5", proxy{scheme: "http", host: "proxy.test", addr: "proxy.test:80"}, "", nil},
		{"HTTPS://proxy.test/", "http", proxy{scheme: "https", host: "proxy.test", addr: "proxy.test:443"}, "", nil},
		{"socks5h://u@proxy.test", "http", proxy{scheme: "socks5", host: "proxy.test", addr: "proxy.test:1080"}, "u", nil},
		{"u%40x:p%3aw@[2001:db8::1]:8080", "http", proxy{scheme: "http", host: "2001:db8::1", addr: "[2001:db8::1]:8080"}, "u%40x:p%3Aw", nil},
		{"socks5://u%3Ax:p@proxy.test", "http", proxy{scheme: "socks5", host: "proxy.test", addr: "proxy.test:1080"}, "u%3Ax:p", nil},
		{"ftp://proxy.test", "http", proxy{}, "", errProxyScheme},
		{"socks4://proxy.test", "http", proxy{}, "", errProxyScheme},
		{"http://", "http", proxy{}, "", errProxyHost},
		{"", "http", proxy{}, "", errProxyHost},
		{"http://:80", "http", proxy{}, "", errProxyHost},
		{"http://proxy.test/pac", "http", proxy{}, "", errProxyPath},
		{"http://proxy.test?x", "http", proxy{}, "", errProxyPath},
		{"proxy.test#x", "http", proxy{}, "", errProxyPath},
	} {
		p, err := parseProxy(c.text, c.scheme)
		if !errors.Is(err, c.err) || err == nil && (p.scheme != c.want.scheme || p.host != c.want.host || p.addr != c.want.addr || p.user.String() != c.user) {
			t.Errorf("%q: got %+v, %v; want %+v, %v", c.text, p, err, c.want, c.err)
		}
	}
}

// The error of a proxy with an unknown scheme names the scheme, without the password.
func TestUnknownSchemeIsNamed(t *testing.T) {
	_, err := FasthttpHTTPDialer("ftp://user:secret@proxy.test")("e.test:80")
	if err == nil || !strings.Contains(err.Error(), "proxy: unknown scheme: ftp") || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
}

func TestMalformedProxyKeepsItsPassword(t *testing.T) {
	for _, text := range []string{"http://user:secret@[::1", "::::", "http://user:secret@host:port", "http://us er:secret@host", "\x7f", "user:secret@]",
		"http://us%0D%0Aer:secret@host", "http://user:secret%00@host", "socks5://user:secret%7f@host", "https://us%3Aer:secret@host"} {
		var malformed *malformedProxyError
		_, err := parseProxy(text, "http")
		if !errors.As(err, &malformed) || strings.Contains(err.Error(), "secret") || errors.Unwrap(err) == nil {
			t.Errorf("%q: error %v", text, err)
		}
		if _, err := FasthttpHTTPDialer(text)("127.0.0.1:1"); !errors.As(err, &malformed) {
			t.Errorf("%q is not told of: %v", text, err)
		}
	}
}

func TestCheckTarget(t *testing.T) {
	for addr, isGood := range map[string]bool{
		"e.test:80": true, "[2001:db8::1]:443": true, "127.0.0.1:1": true, "xn--a.test:65535": true,
		"e.test": false, "e.test:": false, ":80": false, "e.test:http": false, "e.test:65536": false, "e.test:-1": false,
		"a b:80": false, "a\r\nX: y:80": false, "a:80\r\nX: y": false, "u@a:80": false, "a/b:80": false, "a\x00:80": false, "ä.test:80": false, "a\x7f:80": false,
		"a%0:80": false, "[fe80::1%25eth0]:80": false, "[a:b]:80": false, "[::1]": false,
	} {
		if err := checkTarget(addr); (err == nil) != isGood {
			t.Errorf("%q: %v", addr, err)
		} else if addrErr := (*net.AddrError)(nil); err != nil && !errors.As(err, &addrErr) {
			t.Errorf("%q: %T is no *net.AddrError", addr, err)
		}
	}
}

func FuzzProxyAddress(f *testing.F) {
	for _, seed := range []string{"localhost:3128", "http://u:p@h", "socks5h://[::1]:1", "https://h/", "://", "a@b@c:1"} {
		f.Add(seed, "e.test:80")
	}
	f.Fuzz(func(t *testing.T, text, target string) {
		p, err := parseProxy(text, "http")
		if err != nil {
			return
		}
		host, _, err := net.SplitHostPort(p.addr)
		if err != nil || host != p.host {
			t.Fatalf("%q: address %q, host %q, %v", text, p.addr, p.host, err)
		}
		if checkTarget(target) != nil {
			return
		}
		request := string(p.appendConnect(nil, target))
		lines := strings.Split(request, "\r\n")
		want := 4
		if p.user != nil {
			want++
		}
		if len(lines) != want || strings.Count(lines[0], " ") != 2 {
			t.Fatalf("%q, %q: request %q", text, target, request)
		}
		if _, err := url.Parse("http://" + target); err != nil {
			t.Fatalf("target %q: %v", target, err)
		}
	})
}
