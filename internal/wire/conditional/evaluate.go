// Package conditional decides how a server of static representations answers
// conditional requests and range requests (RFC 9110 sections 13 and 14): bytes in,
// values out. It neither retains nor changes its arguments, and allocates only if a
// destination is too small.
package conditional

import "github.com/sluicehttp/sluice/internal/wire/ascii"

// Validators belong to the selected representation (RFC 9110 section 8.8). The zero
// value is a representation without any.
type Validators struct {
	// ETag is the entity-tag with its quotes, and with W/ if it is weak. Empty: none.
	// A malformed one matches nothing.
	ETag []byte
	// Modified is Last-Modified in seconds since 1970, if HasModified.
	Modified    int64
	HasModified bool
}

// Conditions are the fields of a request that make it conditional (RFC 9110
// section 13.1). The zero value is a request without conditions.
type Conditions struct {
	// IfMatch and IfNoneMatch hold the value of each field line. Without lines the
	// field is absent. An empty line is a list that matches nothing.
	IfMatch, IfNoneMatch [][]byte
	// IfModifiedSince and IfUnmodifiedSince are seconds since 1970, if the Has field
	// is true. For a missing, repeated or invalid date leave it false: that is no
	// condition.
	IfModifiedSince, IfUnmodifiedSince       int64
	HasIfModifiedSince, HasIfUnmodifiedSince bool
	// IsGetOrHead reports whether the method is GET or HEAD. Only these are answered
	// with 304, others with 412.
	IsGetOrHead bool
}

// A Verdict is the result of the conditions of a request.
type Verdict uint8

const (
	// Proceed: carry out the method.
	Proceed Verdict = iota
	// NotModified: answer 304, with the validators and without content.
	NotModified
	// PreconditionFailed: answer 412.
	PreconditionFailed
)

// Evaluate compares the conditions with the validators of an existing representation,
// in the order of RFC 9110 section 13.2.2: If-Match replaces If-Unmodified-Since, and
// If-None-Match replaces If-Modified-Since. For If-Range, which follows, call
// MayRange. Call Evaluate only if the answer would otherwise be a 2xx (section
// 13.2.1).
//
// A field with a malformed member matches nothing, and "*" is one beside others: a
// malformed If-Match fails, and a malformed If-None-Match lets the request proceed.
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

// unchanged is the verdict if If-None-Match is false.
func (c *Conditions) unchanged() Verdict {
	if c.IsGetOrHead {
		return NotModified
	}
	return PreconditionFailed
}

// MayRange reports whether the If-Range field of a request permits its Range field (RFC
// 9110 section 13.1.5). Otherwise the answer is the whole representation. An empty
// ifRange means that there is no If-Range. An entity-tag must match strongly. A date,
// which the caller has parsed into ifRangeDate if isDate, must equal v.Modified.
// Anything else is false.
//
// A date is a strong validator only if the server knows that the representation did
// not change twice within that second (section 8.8.2.2). A caller that does not know
// this, for example because the second is not over, passes false as isDate.
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

// looksLikeTag distinguishes an entity-tag from a date: it has a DQUOTE within the
// first three bytes (RFC 9110 section 13.1.5).
func looksLikeTag(value []byte) bool {
	for _, c := range value[:min(3, len(value))] {
		if c == '"' {
			return true
		}
	}
	return false
}
