package h1

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func TestValidHost(t *testing.T) {
	valid := []string{
		"a", "a.b", "a.", "A-b_c~.", "1.2.3.4", "256.1.1.1", "xn--bcher-kva.example", "a:80", "a:", "a:0", "a:65535", "a:00080",
		"a!$&'()*+,;=b", "%c3%A4", "%80%8F", "[::]", "[::1]", "[1::]", "[1:2:3:4:5:6:7:8]", "[1:2:3:4:5:6:7::]", "[::2:3:4:5:6:7:8]",
		"[1::8]:80", "[::ffff:1.2.3.4]", "[::0.0.0.0]", "[::255.10.0.200]", "[1:2:3:4:5::1.2.3.4]", "[1:2:3:4:5:6:1.2.3.4]", "[fe80::1%25eth0]", "[fe80::1%25e%20]:1", "[v1.a:b]", "[VaF.!]:1",
	}
	for _, s := range valid {
		if !ValidHost([]byte(s)) {
			t.Errorf("%q is refused", s)
		}
	}
	invalid := []string{
		"", ":", ":80", " a", "a ", "a b", "a\tb", "a:b", "a:80:80", "a:65536", "a:000080", "a:-1", "a:+1", "a: 80", "u@a", "u:p@a", "a/", "a?b",
		"a#", "a\\b", "a<b>", "a\"", "a|b", "a^b", "a`b", "a{b}", "a\x00", "a\x7f", "a\x80", "ä", "%41", "a%2e", "%", "%4", "%4g", "a%zz:80",
		"[", "]", "[]", "[::1", "::1", "[::1]a", "[::1]:a", "[::1]:65536", "[::1]]", "[[::1]]", "a[::1]", "[x]", "[1.2.3.4]",
		"[1]", "[1:2:3:4:5:6:7]", "[1:2:3:4:5:6:7:8:9]", "[1:2:3:4:5:6:7::8]", "[1:2:3:4:5::6:1.2.3.4]", "[1:2:3:4:5:6::1.2.3.4]", "[::1::]", "[:::]", "[:1]", "[1:]", "[12345::]", "[::g]",
		"[::1.2.3]", "[::1.2.3.4.5]", "[::256.1.1.1]", "[::01.2.3.4]", "[::1.2.3.4:1]", "[1:2:3:4:5:6:7:1.2.3.4]", "[::1.2.3.]",
		"[fe80::1%eth0]", "[fe80::1%25]", "[fe80::1%25%]", "[fe80::1%25a b]", "[v.a]", "[v1.]", "[v1a]", "[vg.a]", "[v1.%41]", "[v1.a/b]",
	}
	for _, s := range invalid {
		if ValidHost([]byte(s)) {
			t.Errorf("%q is accepted", s)
		}
	}
}

func TestHasPort(t *testing.T) {
	for s, want := range map[string]bool{"a": false, "a:": false, "a:1": true, "[::1]": false, "[::1]:": false, "[::1]:1": true, "": false} {
		if HasPort([]byte(s)) != want {
			t.Errorf("HasPort(%q) = %v", s, !want)
		}
	}
}

// FuzzHost compares ValidHost with net/netip, for addresses, and net/url, which is
// never stricter than RFC 3986.
func FuzzHost(f *testing.F) {
	for _, s := range []string{"a:80", "[::1]", "[1:2::1.2.3.4]:8", "[fe80::1%25e]", "%c3%a4", "[v1.a]", "u@a", "1::2", "::ffff:1.2.3.4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if valid := ValidHost([]byte(s)); valid {
			checkURL(t, s)
		}
		// netip writes a zone with a bare percent sign, URLs with %25.
		addr, err := netip.ParseAddr(s)
		if isIPv6 := err == nil && addr.Is6() && addr.Zone() == ""; isIPv6 != ValidHost([]byte("["+s+"]")) && !isFutureOrZone(s) {
			t.Errorf("[%s]: netip says %v (%v), ValidHost does not", s, isIPv6, err)
		}
	})
}

func checkURL(t *testing.T, host string) {
	u, err := url.Parse("http://" + host + "/p")
	switch {
	case err != nil && strings.ContainsRune(host, '%'):
		// net/url allows escapes of few bytes only in a host.
	case err != nil && isFutureOrZone(strings.TrimPrefix(host, "[")):
		// net/url does not know IPvFuture.
	case err != nil:
		t.Errorf("ValidHost(%q), but net/url: %v", host, err)
	case u.User != nil || u.Path != "/p" || u.RawQuery != "" || u.Fragment != "":
		t.Errorf("ValidHost(%q), but net/url finds more than a host: %#v", host, u)
	case !strings.ContainsRune(host, '%') && u.Host != host:
		t.Errorf("ValidHost(%q), but net/url finds the host %q", host, u.Host)
	}
}

func isFutureOrZone(s string) bool {
	return strings.Contains(s, "%") || strings.HasPrefix(s, "v") || strings.HasPrefix(s, "V")
}
