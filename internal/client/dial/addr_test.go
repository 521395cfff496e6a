package dial

import (
	"slices"
	"testing"
)

func TestAddMissingPort(t *testing.T) {
	for addr, want := range map[string][2]string{
		"":             {"", ""},
		"host":         {"host:80", "host:443"},
		"host:":        {"host:", "host:"},
		"host:8080":    {"host:8080", "host:8080"},
		"192.0.2.1":    {"192.0.2.1:80", "192.0.2.1:443"},
		"[2001:db8::]": {"[2001:db8::]:80", "[2001:db8::]:443"},
		"[::1]:8080":   {"[::1]:8080", "[::1]:8080"},
		"[::1":         {"[::1", "[::1"},
		"::1":          {"::1", "::1"},
	} {
		if got := AddMissingPort(addr, false); got != want[0] {
			t.Errorf("%q: %q, want %q", addr, got, want[0])
		}
		if got := AddMissingPort(addr, true); got != want[1] {
			t.Errorf("%q with TLS: %q, want %q", addr, got, want[1])
		}
	}
}

func TestAddrs(t *testing.T) {
	for _, tc := range []struct {
		list                 string
		plain, tls, verbatim []string
	}{
		{"", nil, nil, []string{""}},
		{" , ", nil, nil, nil},
		{"a, b:1 ,", []string{"a:80", "b:1"}, []string{"a:443", "b:1"}, []string{"a", "b:1"}},
		{"/run/x.sock", []string{"/run/x.sock:80"}, []string{"/run/x.sock:443"}, []string{"/run/x.sock"}},
	} {
		for i, want := range [][]string{tc.plain, tc.tls, tc.verbatim} {
			if got := Addrs(tc.list, i == 1, i == 2); !slices.Equal(got, want) {
				t.Errorf("%q, %d: %q, want %q", tc.list, i, got, want)
			}
		}
	}
}
