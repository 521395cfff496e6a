package compress

import "testing"

func TestCodingNames(t *testing.T) {
	for _, c := range []Coding{Gzip, Deflate, Brotli, Zstd} {
		if got, ok := ByName([]byte(c.Name())); !ok || got != c {
			t.Errorf("%s", c.Name())
		}
	}
}

// TestAcceptChooses: weights decide, then the server's order; what is listed is
// preferred to identity that is not.
func TestAcceptChooses(t *testing.T) {
	offers := []Offer{{Brotli, 4}, {Gzip, 6}, {Zstd, 2}}
	for value, want := range map[string]string{
		"": "", "gzip": "gzip", "gzip, br": "br", "br;q=0.5, gzip;q=0.501": "gzip", "GZIP;q=1.000": "gzip", "x-gzip": "gzip",
		"gzip;q=0": "", "deflate": "", "*": "", "*, identity;q=0": "br", "br;q=0, *;q=0.1, identity;q=0": "gzip", "gzip;q=0.5, identity": "",
		"gzip;q=2": "", "gzip;q=0.1234": "", "gzip;p=1": "", "gzip;q=0.x": "", " gzip ; q=0.3 ,": "gzip", "identity;q=0": "", "*;q=0": "",
	} {
		var a Accept
		a.Read([]byte(value))
		got := ""
		if offer, found := a.Choose(offers); found {
			got = offer.Coding.Name()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}

func TestIsCompressible(t *testing.T) {
	for kind, want := range map[string]bool{
		"text/html; charset=utf-8": true, "TEXT/plain": true, "application/json": true, "font/ttf": true, "image/svg+xml": true,
		"": false, "text": false, "image/png": false, "video/mp4": false, "x-text/html": false,
	} {
		if got := IsCompressible([]byte(kind)); got != want {
			t.Errorf("%q: %v", kind, got)
		}
	}
}

// FuzzAcceptEncoding: whatever a client sends, what is chosen was wished for.
func FuzzAcceptEncoding(f *testing.F) {
	f.Add([]byte("gzip;q=0.5, br, *;q=0, identity;q=1.000"))
	offers := []Offer{{Brotli, 4}, {Gzip, 6}, {Deflate, 6}, {Zstd, 2}}
	f.Fuzz(func(t *testing.T, value []byte) {
		var wish Accept
		wish.Read(value)
		offer, found := wish.Choose(offers)
		if !found {
			return
		}
		weight := wish.codings[offer.Coding]
		if weight == refused || weight > 1001 || weight == 0 && wish.any <= refused {
			t.Errorf("%q: %s with weight %d", value, offer.Coding.Name(), weight)
		}
	})
}
