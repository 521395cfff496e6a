package files

import (
	"mime"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"
)

// sniffed is how many bytes are read of a file without a known extension.
const sniffed = 512

// mediaType returns the content type of a file by its extension, or else by its first
// bytes, head: media, a font, text, or unknown. It never guesses a type that a
// browser executes.
func mediaType(name string, head []byte) string {
	extension := strings.ToLower(path.Ext(path.Base(name)))
	if t, ok := mediaTypes[strings.TrimPrefix(extension, ".")]; ok {
		return t
	}
	if extension != "" {
		if t := mime.TypeByExtension(extension); t != "" {
			return t
		}
	}
	if t := http.DetectContentType(head); isPassive(t) && (t != "image/bmp" || !isText(head)) { // text may begin with "BM", too
		return t
	}
	if isText(head) {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// isPassive reports whether a type contains nothing that a browser executes, whatever
// the content, unlike HTML, XML with SVG, scripts and PDF.
func isPassive(t string) bool {
	kind, rest, _ := strings.Cut(t, "/")
	switch kind {
	case "image", "audio", "video", "font":
		return !strings.HasSuffix(rest, "+xml")
	}
	return t == "application/ogg"
}

// isText reports whether the beginning of a file is UTF-8 without control characters.
// The last character may be incomplete.
func isText(head []byte) bool {
	head = head[:min(len(head), sniffed)]
	for len(head) > 0 {
		r, size := utf8.DecodeRune(head)
		switch {
		case r == utf8.RuneError && size == 1:
			return len(head) < utf8.UTFMax && !utf8.FullRune(head)
		case r < ' ' && r != '\t' && r != '\n' && r != '\r' && r != '\f', 0x7f <= r && r < 0xa0:
			return false
		}
		head = head[size:]
	}
	return true
}

// IsEncodable reports whether files of a type get smaller by encoding.
func IsEncodable(contentType string) bool {
	t, _, _ := strings.Cut(contentType, ";")
	t = strings.ToLower(strings.TrimSpace(t))
	switch {
	case strings.HasPrefix(t, "text/"), strings.HasSuffix(t, "+xml"), strings.HasSuffix(t, "+json"):
		return true
	}
	return encodableTypes[t]
}
