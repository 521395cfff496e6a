package uri

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// ones and tops have the lowest and the highest bit of each byte of a word.
const ones, tops = 0x0101010101010101, 0x8080808080808080

// isNormalPath reports whether AppendNormalPath returns path unchanged. It may
// return false for such a path.
func isNormalPath(path []byte) bool {
	return len(path) > 0 && path[0] == '/' && normalEnd(path, '%') == len(path)
}

// normalEnd returns the position of the first byte of s that is end or "%", or a "/"
// before "." or "/"; or len(s). It may also stop at a byte that is not ASCII.
func normalEnd(s []byte, end byte) int {
	n, ends := len(s), uint64(end)*ones
	if n < 8 {
		for i, c := range s {
			if c == end || c == '%' || c == '/' && i+1 < n && s[i+1]|1 == '/' {
				return i
			}
		}
		return n
	}
	last := binary.LittleEndian.Uint64(s[n-8:])
	for ; len(s) > 8; s = s[8:] { // a word, and the one that begins one byte later
		if m := notNormal(binary.LittleEndian.Uint64(s), binary.LittleEndian.Uint64(s[1:]), ends); m != 0 {
			return n - len(s) + bits.TrailingZeros64(m)/8
		}
	}
	if m := notNormal(last, last>>8, ends); m != 0 {
		return n - 8 + bits.TrailingZeros64(m)/8
	}
	return n
}

// notNormal marks the bytes of w at which normalEnd stops by their top bits. It may also
// mark bytes after one that it marks. next has the byte after each byte of w: "." and
// "/" differ in their last bit.
func notNormal(w, next, ends uint64) uint64 {
	stop, percent, slash, after := w^ends, w^'%'*ones, w^'/'*ones, next|ones^'/'*ones
	return ((stop - ones) | (percent - ones) | (slash-ones)&(after-ones)) & tops
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
