package uri

import "testing"

// TestZoneRoundTrip: the zone of a host is decoded, and encoded again in a URI (RFC 6874
// section 2).
func TestZoneRoundTrip(t *testing.T) {
	for _, test := range []struct{ host, decoded, written, sent string }{
		{"[fe80::1%25eth0]:80", "[fe80::1%eth0]:80", "[fe80::1%25eth0]:80", "[fe80::1]:80"},
		{"[fe80::1%25a%5Db]:80", "[fe80::1%a]b]:80", "[fe80::1%25a%5Db]:80", "[fe80::1]:80"},
		{"[fe80::1%25%5d]", "[fe80::1%]]", "[fe80::1%25%5D]", "[fe80::1]"},
		{"[fe80::1%25%C3%A9]", "[fe80::1%\xc3\xa9]", "[fe80::1%25%C3%A9]", "[fe80::1]"},
		{"[FE80::1%25E%74h0]", "[fe80::1%eth0]", "[fe80::1%25eth0]", "[fe80::1]"},
	} {
		u := parsed(t, "http://"+test.host+"/")
		if string(u.Host()) != test.decoded || text(u) != "http://"+test.written+"/" {
			t.Errorf("%s: host %q, written as %q", test.host, u.Host(), text(u))
		}
		if again := parsed(t, "http://"+test.written+"/"); string(again.Host()) != test.decoded {
			t.Errorf("%s, read again: %q", test.host, again.Host())
		}
		if got := WithoutZone(u.Host()); string(got) != test.sent {
			t.Errorf("%s is sent as %q, want %q", test.host, got, test.sent)
		}
		var origin, target, absolute URI
		origin.SetHost([]byte(test.host)) // what an earlier request left is not taken for decoded
		origin.Reset(nil)
		origin.SetOrigin([]byte(test.host), []byte("/"), false)
		if err := target.ParseTarget([]byte(test.host), []byte("/"), false); err != nil {
			t.Errorf("%s: %v", test.host, err)
		}
		if err := absolute.ParseTarget(nil, []byte("http://"+test.host+"/"), false); err != nil {
			t.Errorf("%s: %v", test.host, err)
		}
		for name, got := range map[string]*URI{"SetOrigin": &origin, "ParseTarget": &target, "absolute-form": &absolute} {
			if string(got.Host()) != test.decoded || text(got) != text(u) {
				t.Errorf("%s by %s: host %q, %q", test.host, name, got.Host(), text(got))
			}
		}
	}
}
