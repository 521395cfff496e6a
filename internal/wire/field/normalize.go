package field

import "github.com/sluicehttp/sluice/internal/wire/ascii"

// Normalize rewrites a field name in place: the first letter and each letter after a
// hyphen in upper case, all others in lower case. It does not change names that are
// not tokens, because an application may depend on their spelling.
func Normalize(name []byte) {
	if !ascii.All(name, ascii.Token) {
		return
	}
	upper := true
	for i, c := range name {
		if upper {
			name[i] = ascii.Upper(c)
		} else {
			name[i] = ascii.Lower(c)
		}
		upper = c == '-'
	}
}

// IsNormalized reports whether Normalize would change nothing.
func IsNormalized(name []byte) bool {
	upper := true
	for _, c := range name {
		if upper && 'a' <= c && c <= 'z' || !upper && 'A' <= c && c <= 'Z' {
			return false
		}
		upper = c == '-'
	}
	return true
}
