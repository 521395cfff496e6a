package files

import (
	"mime"
	"strings"
	"testing"
)

// The system's table is used only for extensions that ours does not have.
func TestMediaTypesOfTheSystem(t *testing.T) {
	for extension, value := range map[string]string{".sluice-own": "application/x-own", ".css": "application/x-other"} {
		if err := mime.AddExtensionType(extension, value); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"a.sluice-own": "application/x-own", "a.css": "text/css; charset=utf-8"} {
		if got := mediaType(name, nil); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestMediaType(t *testing.T) {
	const text, binary = "text/plain; charset=utf-8", "application/octet-stream"
	for _, c := range []struct{ name, head, want string }{
		{"index.html", "", "text/html; charset=utf-8"},
		{"a/b/INDEX.HTM", "", "text/html; charset=utf-8"},
		{"app.js", "", "text/javascript; charset=utf-8"},
		{"app.mjs", "", "text/javascript; charset=utf-8"},
		{"app.min.css", "", "text/css; charset=utf-8"},
		{"data.json", "", "application/json"},
		{"x.wasm", "", "application/wasm"},
		{"x.svg", "", "image/svg+xml"},
		{"x.avif", "", "image/avif"},
		{"x.woff2", "", "font/woff2"},
		{"x.tar.gz", "", "application/gzip"},
		{"README", "words\nand umlauts äöü\r\n\ttabs\f", text},
		{"README", "", text},
		{"page", "<html><script>alert(1)</script>", text},
		{"a.b/file", "<html>", text},
		{"x.unknown-extension", "words", text},
		{"x.unknown-extension", "\x00\x01", binary},
		{"x", "\x89PNG\r\n\x1a\n", "image/png"},
		{"x.unknown-extension", "\xff\xd8\xff\xe0", "image/jpeg"},
		{"x", "GIF89a<html><script>alert(1)</script>", "image/gif"},
		{"x", "RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"},
		{"x", "BM\x00\x01", "image/bmp"},
		{"x", "BMW and others", text},
		{"x", "ID3\x03", "audio/mpeg"},
		{"x", "RIFF\x00\x00\x00\x00WAVE", "audio/wave"},
		{"x", "OggS\x00", "application/ogg"},
		{"x", "\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom", "video/mp4"},
		{"x", "\x1a\x45\xdf\xa3", "video/webm"},
		{"x", "wOF2\x00\x01", "font/woff2"},
		{"x", "\x00\x01\x00\x00", "font/ttf"},
		{"x", "<svg xmlns=\"http://www.w3.org/2000/svg\"><script/></svg>", text},
		{"x", "<?xml version=\"1.0\"?><svg/>", text},
		{"x", "  <!DOCTYPE html>\x00", binary},
		{"x", "\xfe\xff\x00<\x00h", binary},
		{"x", "%PDF-1.7\x00", binary},
		{"x", "%!PS-Adobe-", text},
		{"x", "\x1f\x8b\x08", binary},
		{"x.html", "\x89PNG\r\n\x1a\n", "text/html; charset=utf-8"},
		{"x", "words \x7f", binary},
		{"x", "words \u0085", binary},
		{"x", "words \x1b[0m", binary},
		{"x", "\xff\xfe", binary},
		{"x", "\xffwords that go on", binary},
		{"x", strings.Repeat("a", 511) + "ä", text},
		{"x", strings.Repeat("a", 510) + "\xe2\x82", text},
		{"x", strings.Repeat("a", 510) + "\xe2(", binary},
		{"x", strings.Repeat("a", 600) + "\x00", text},
		{".", "words", text},
		{"x.", "words", text},
	} {
		if got := mediaType(c.name, []byte(c.head)); got != c.want {
			t.Errorf("%s with %.20q is %q, want %q", c.name, c.head, got, c.want)
		}
	}
}

func TestMediaTypesAreValid(t *testing.T) {
	for extension, value := range mediaTypes {
		base, params, err := mime.ParseMediaType(value)
		if err != nil || !strings.Contains(base, "/") || mime.FormatMediaType(base, params) != value {
			t.Errorf("%s: %q: %v", extension, value, err)
		}
		if extension != strings.ToLower(extension) || strings.Contains(extension, ".") {
			t.Errorf("extension %q", extension)
		}
	}
}

func TestIsEncodable(t *testing.T) {
	for value, want := range map[string]bool{
		"text/html; charset=utf-8": true, "TEXT/PLAIN": true, "application/json": true, "image/svg+xml": true,
		"application/ld+json": true, "application/wasm": true, "text/javascript;charset=utf-8": true,
		"image/png": false, "video/mp4": false, "application/gzip": false, "font/woff2": false, "application/octet-stream": false, "": false,
	} {
		if IsEncodable(value) != want {
			t.Errorf("IsEncodable(%q) = %v", value, !want)
		}
	}
}
