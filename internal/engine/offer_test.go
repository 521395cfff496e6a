package engine

import (
	"crypto/tls"
	"slices"
	"testing"
)

func TestOfferProtocols(t *testing.T) {
	for name, c := range map[string]struct {
		config *tls.Config
		http2  bool
		others []string
		want   []string
	}{
		"nothing set":    {nil, false, nil, []string{"http/1.1"}},
		"HTTP/2":         {nil, true, nil, []string{"h2", "http/1.1"}},
		"a list":         {&tls.Config{NextProtos: []string{"x"}}, true, []string{"y", "x"}, []string{"x", "y", "http/1.1"}},
		"with HTTP/1.1":  {&tls.Config{NextProtos: []string{"http/1.1"}}, true, nil, []string{"http/1.1"}},
		"another's h2":   {nil, false, []string{"h2"}, []string{"h2", "http/1.1"}},
		"TLS 1.3 only":   {&tls.Config{MinVersion: tls.VersionTLS13}, true, nil, []string{"h2", "http/1.1"}},
		"old TLS, no h2": {&tls.Config{MinVersion: tls.VersionTLS10}, false, nil, []string{"http/1.1"}},
	} {
		var before []string
		if c.config != nil {
			before = slices.Clone(c.config.NextProtos)
		}
		got := OfferProtocols(c.config, c.http2, c.others)
		if !slices.Equal(got.NextProtos, c.want) || got.GetConfigForClient != nil {
			t.Errorf("%s: %q, want %q", name, got.NextProtos, c.want)
		}
		if c.config != nil && (got == c.config || !slices.Equal(c.config.NextProtos, before)) {
			t.Errorf("%s: the program's config was changed", name)
		}
	}
}

// TestOldTLSHasNoHTTP2: clients without TLS 1.2 are not offered HTTP/2.
func TestOldTLSHasNoHTTP2(t *testing.T) {
	config := OfferProtocols(&tls.Config{MinVersion: tls.VersionTLS10}, true, nil)
	for version, want := range map[uint16][]string{tls.VersionTLS11: {"http/1.1"}, tls.VersionTLS12: {"h2", "http/1.1"}} {
		chosen, err := config.GetConfigForClient(&tls.ClientHelloInfo{SupportedVersions: []uint16{tls.VersionTLS10, version}})
		if chosen == nil {
			chosen = config
		}
		if err != nil || !slices.Equal(chosen.NextProtos, want) {
			t.Errorf("%x: %q, %v; want %q", version, chosen.NextProtos, err, want)
		}
	}
}
