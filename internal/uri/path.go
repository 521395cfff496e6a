package uri

import (
	"bytes"
	"encoding/binary"

	"github.com/sluicehttp/sluice/internal/ascii"
)

// isNormalPath tells whether AppendNormalPath returns path unchanged. It may
// return false for such a path.
func isNormalPath(path []byte) bool {
	if len(path) == 0 || path[0] != '/' {
		return false
	}
	i := 0
	for ; i+9 <= len(path); i += 8 { // a word, and the word that begins one byte later
		w, next := binary.LittleEndian.Uint64(path[i:]), binary.LittleEndian.Uint64(path[i+1:])
		if equals(w, '%')|equals(w, '/')&(equals(next, '/')|equals(next, '.')) != 0 {
			return false
		}
	}
	for ; i < len(path); i++ {
		if c := path[i]; c == '%' || c == '/' && i+1 < len(path) && (path[i+1] == '/' || path[i+1] == '.') {
			return false
		}
	}
	return true
}

// equals marks the bytes of w that are c by their top bits. It may also mark bytes
// after one that it marks.
func equals(w uint64, c byte) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	w ^= uint64(c) * ones
	return (w - ones) &^ w & tops
}

// AppendNormalPath appends path in normal form. It decodes percent-encodings,
// then collapses "//" and removes dot segments. The result begins with "/".
// Unlike in RFC 3986 section 6.2.2, decoding comes first, so that an encoded "/"
// or "." cannot create a new dot segment. path must not be part of dst.
func AppendNormalPath(dst, path []byte) []byte {
	at := len(dst)
	if len(path) == 0 || path[0] != '/' {
		dst = append(dst, '/')
	}
	dst = ascii.AppendUnescaped(dst, path)
	return dst[:at+len(removeDotSegments(dst[at:]))]
}

// removeDotSegments rewrites path, which begins with "/", in place. It removes
// empty segments and ".", and removes ".." together with the segment before it
// (RFC 3986 section 5.2.4). A final "/" stays, and so does the "/" before a final
// dot segment.
func removeDotSegments(path []byte) []byte {
	written := 0
	for i := 0; i < len(path); {
		end := bytes.IndexByte(path[i+1:], '/')
		isLast := end < 0
		if isLast {
			end = len(path)
		} else {
			end += i + 1
		}
		switch segment := path[i+1 : end]; {
		case string(segment) == "..":
			written = max(bytes.LastIndexByte(path[:written], '/'), 0)
		case len(segment) == 0, string(segment) == ".":
		default:
			written += copy(path[written:], path[i:end])
			i = end
			continue
		}
		if isLast {
			path[written] = '/'
			written++
		}
		i = end
	}
	return path[:written]
}

// AppendAfterPath returns "/", folder and rest, which may be parts of u, in the
// unused memory after the path. The result is valid until the path changes.
func (u *URI) AppendAfterPath(folder, rest []byte) []byte {
	n := len(u.path)
	u.path = append(u.path, '/')
	u.path = append(u.path, folder...)
	u.path = append(u.path, rest...) // may be part of u.path itself, before the bytes written here
	result := u.path[n:]
	u.path = u.path[:n]
	return result
}
