// Package conditional decides what a server of static representations answers
// to conditional and to range requests, by RFC 9110 sections 13 and 14: bytes
// in, values out. Nothing in it keeps or changes what it is given, and nothing
// allocates but the append to a destination that is too small.
package conditional

import "github.com/sluicehttp/sluice/internal/ascii"

// Validators of the selected representation (RFC 9110 section 8.8). The zero
// value is a representation that has none.
type Validators struct {
	// ETag is the entity-tag with its quotes, and W/ where it is weak. Empty:
	// none. One that is malformed matches nothing.
	ETag []byte
	// Modified is Last-Modified in seconds since 1970, if HasModified.
	Modified    int64
	HasModified bool
}

// Conditions are the fields of a request that make it conditional (RFC 9110
// section 13.1). The zero value is a request without conditions.
type Conditions struct {
	// IfMatch and IfNoneMatch hold the value of each field line. Without lines
	// the field is absent; a line that is empty is a list that matches nothing.
	IfMatch, IfNoneMatch [][]byte
	// IfModifiedSince and IfUnmodifiedSince are seconds since 1970, if the Has
	// field is true. A date that is missing, repeated or invalid is no
	// condition: leave its Has field false.
	IfModifiedSince, IfUnmodifiedSince       int64
	HasIfModifiedSince, HasIfUnmodifiedSince bool
	// IsGetOrHead tells whether the method is GET or HEAD: they alone are
	// answered with 304, others with 412.
	IsGetOrHead bool
}

// A Verdict says what the conditions of a request demand.
type Verdict uint8

const (
	// Proceed: do what the method says.
	Proceed Verdict = iota
	// NotModified: answer 304, with the validators and without content.
	NotModified
	// PreconditionFailed: answer 412.
	PreconditionFailed
)

// Evaluate holds the conditions against the validators of a representation
// that exists, in the order of RFC 9110 section 13.2.2: If-Match replaces
// If-Unmodified-Since, If-None-Match replaces If-Modified-Since. If-Range comes
// after them and is MayRange. Call it only where the answer would else be a 2xx
// (section 13.2.1).
//
// "*" may stand in a list, too. A malformed member, and what follows it, match
// nothing, so a malformed If-Match fails and a malformed If-None-Match lets the
// request proceed.
func (c *Conditions) Evaluate(v Validators) Verdict {
	switch {
	case len(c.IfMatch) > 0:
		if !matchesAny(c.IfMatch, v.ETag, equalStrong) {
			return PreconditionFailed
		}
	case c.HasIfUnmodifiedSince && v.HasModified:
		if v.Modified > c.IfUnmodifiedSince {
			return PreconditionFailed
		}
	}
	switch {
	case len(c.IfNoneMatch) > 0:
		if matchesAny(c.IfNoneMatch, v.ETag, equalWeak) {
			return c.unchanged()
		}
	case c.IsGetOrHead && c.HasIfModifiedSince && v.HasModified:
		if v.Modified <= c.IfModifiedSince {
			return NotModified
		}
	}
	return Proceed
}

// unchanged is the verdict where If-None-Match is false.
func (c *Conditions) unchanged() Verdict {
	if c.IsGetOrHead {
		return NotModified
	}
	return PreconditionFailed
}

// MayRange tells whether the Range field of a request may be obeyed, by its
// If-Range field (RFC 9110 section 13.1.5); if not, the answer is the whole
// representation. An empty ifRange stands for no such field. An entity-tag must
// match strongly; a date, which the caller parsed into ifRangeDate if isDate,
// must be exactly v.Modified. Anything else is false.
//
// A date is a strong validator only where the server knows that the
// representation did not change twice within that second (section 8.8.2.2). A
// caller that cannot know, say because the second is not over, passes isDate as
// false.
func MayRange(ifRange []byte, ifRangeDate int64, isDate bool, v Validators) bool {
	if len(ifRange) == 0 {
		return true
	}
	if value := ascii.TrimOWS(ifRange); looksLikeTag(value) {
		tag, rest, ok := cutTag(value)
		return ok && len(rest) == 0 && equalStrong(tag, v.ETag)
	}
	return isDate && v.HasModified && ifRangeDate == v.Modified
}

// looksLikeTag tells an entity-tag from a date by a DQUOTE within the first
// three bytes, as RFC 9110 section 13.1.5 says.
func looksLikeTag(value []byte) bool {
	for _, c := range value[:min(3, len(value))] {
		if c == '"' {
			return true
		}
	}
	return false
}
