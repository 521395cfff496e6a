package files

import (
	"mime"
	"path"
	"strings"
	"unicode/utf8"
)

// sniffed is how many bytes of a file without a known extension are looked at.
const sniffed = 512

// mediaType returns the content type of a file by its extension, or else by its
// first bytes, head: text or anything. It never guesses a type that a browser
// runs.
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
	if isText(head) {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// isText tells whether the beginning of a file is UTF-8 without control
// characters. Its last character may be cut off.
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

// IsEncodable tells whether files of a type get smaller by encoding.
func IsEncodable(contentType string) bool {
	t, _, _ := strings.Cut(contentType, ";")
	t = strings.ToLower(strings.TrimSpace(t))
	switch {
	case strings.HasPrefix(t, "text/"), strings.HasSuffix(t, "+xml"), strings.HasSuffix(t, "+json"):
		return true
	}
	return encodableTypes[t]
}
