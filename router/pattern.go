package router

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/sluicehttp/sluice/internal/server/route"
)

// A pattern is the set of requests that a route takes.
type pattern struct {
	text     string // as it was registered, with the prefix of its group
	method   string // empty: every method
	host     string // in lower case; empty: every host
	segments []segment
	names    []string // of the parameters, in their order
}

// A segment matches the text between two slashes. A path that ends with a slash has an empty
// segment after it, which is also what {$} stands for.
type segment struct {
	kind kind
	text string // of a literal, decoded; otherwise the name
}

// A kind says which texts a segment matches. The later kinds match more than the earlier ones.
type kind uint8

const (
	literal kind = iota
	single       // one segment, which is not the empty one after a slash at the end
	rest         // one or more segments; the last one of a pattern
)

// parse parses [METHOD ][HOST]/[PATH].
func parse(text string) (*pattern, error) {
	p := &pattern{text: text}
	target := text
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		p.method, target = shared(text[:i]), strings.TrimLeft(text[i+1:], " \t")
	}
	if !isMethod(p.method) {
		return nil, p.refuse("the method " + strconv.Quote(p.method) + " is not a token")
	}
	slash := strings.IndexByte(target, '/')
	if slash < 0 {
		return nil, p.refuse("there is no path: it begins with a slash")
	}
	host := target[:slash]
	switch p.host = strings.ToLower(host); {
	case strings.Contains(host, "{"):
		return nil, p.refuse("a host has no wildcards")
	case strings.ContainsAny(host, " \t"): // a second method, mostly
		return nil, p.refuse("a host has no spaces: " + strconv.Quote(host))
	}
	target = target[slash:]
	if p.method != "" && p.method != "CONNECT" && target != clean(target) {
		return nil, p.refuse("no request matches it, because paths are cleaned first: " + clean(target))
	}
	for rest, more := target[1:], true; more; {
		var text string
		text, rest, more = strings.Cut(rest, "/")
		s, reason := parseSegment(text, !more)
		if reason == "" && s.kind != literal && s.text != "" {
			if slices.Contains(p.names, s.text) {
				reason = "there are two wildcards named " + s.text
			}
			p.names = append(p.names, s.text)
		}
		if reason != "" {
			return nil, p.refuse(reason)
		}
		p.segments = append(p.segments, s)
	}
	return p, nil
}

// parseSegment parses the text between two slashes, or after the last one. reason says what is
// wrong with it.
func parseSegment(text string, isLast bool) (s segment, reason string) {
	brace := strings.IndexByte(text, '{')
	switch {
	case text == "" && isLast:
		return segment{kind: rest}, ""
	case text == "":
		return s, "a segment is empty"
	case brace < 0:
		if strings.IndexByte(text, '%') >= 0 {
			text = string(route.AppendDecoded(nil, []byte(text)))
		}
		return segment{literal, text}, ""
	case brace > 0 || text[len(text)-1] != '}':
		return s, "a wildcard is a whole segment: " + strconv.Quote(text)
	}
	name := text[1 : len(text)-1]
	if name == "$" {
		if !isLast {
			return s, "{$} is not at the end"
		}
		return segment{kind: literal}, ""
	}
	name, isRest := strings.CutSuffix(name, "...")
	switch {
	case isRest && !isLast:
		return s, "{" + name + "...} is not at the end"
	case !isIdentifier(name):
		return s, "the name of a wildcard is not an identifier: " + strconv.Quote(name)
	case isRest:
		return segment{rest, name}, ""
	}
	return segment{single, name}, ""
}

func (p *pattern) refuse(reason string) error { return &PatternError{p.text, reason} }

// shared returns method, in memory that all its routes share: it is read with each request.
func shared(method string) string {
	for _, known := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		if method == known {
			return known
		}
	}
	return method
}

// isMethod reports whether s is a token (RFC 9110 section 5.6.2), or empty.
func isMethod(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// isIdentifier reports whether s has the form of an identifier of Go.
func isIdentifier(s string) bool {
	for i, c := range s {
		if c != '_' && !unicode.IsLetter(c) && (i == 0 || !unicode.IsDigit(c)) {
			return false
		}
	}
	return s != ""
}

// clean returns p, which begins with a slash, without empty segments and dot segments. It
// does not decode it.
func clean(p string) string {
	cleaned := path.Clean(p)
	if p[len(p)-1] == '/' && cleaned != "/" {
		cleaned += "/"
	}
	return cleaned
}

// A relation says how a set of requests compares with another one.
type relation uint8

const (
	disjoint relation = iota
	equal
	narrower // a strict subset
	wider    // a strict superset
	overlaps // each has requests that the other has not
)

// and returns the relation of two sets of pairs, from those of their parts.
func (r relation) and(with relation) relation {
	switch {
	case r == disjoint || with == disjoint:
		return disjoint
	case r == equal:
		return with
	case with == equal || with == r:
		return r
	}
	return overlaps
}

// compare compares the requests of p with those of q, which has the same host.
func (p *pattern) compare(q *pattern) relation {
	return compareMethods(p.method, q.method).and(comparePaths(p.segments, q.segments))
}

func compareMethods(a, b string) relation {
	switch {
	case a == b:
		return equal
	case a == "" || a == "GET" && b == "HEAD":
		return wider
	case b == "" || b == "GET" && a == "HEAD":
		return narrower
	}
	return disjoint
}

func comparePaths(a, b []segment) relation {
	result := equal
	for i := 0; i < len(a) || i < len(b); i++ {
		if i >= len(a) || i >= len(b) {
			return disjoint
		}
		s, t := a[i], b[i]
		switch {
		case s.kind == rest && t.kind == rest:
			return result
		case s.kind == rest:
			return result.and(wider)
		case t.kind == rest:
			return result.and(narrower)
		case s.kind == single && t.kind == single:
		case s.kind == literal && t.kind == literal:
			if s.text != t.text {
				return disjoint
			}
		case s == segment{} || t == segment{}: // {$}
			return disjoint
		case s.kind == single:
			result = result.and(wider)
		default:
			result = result.and(narrower)
		}
	}
	return result
}

// common returns a request that both p and q match, for an error. They overlap.
func (p *pattern) common(q *pattern) string {
	method := p.method
	if method == "" || method == "GET" && q.method == "HEAD" {
		method = q.method
	}
	if method == "" {
		method = "GET"
	}
	text := method + " " + p.host
	for i := 0; i < len(p.segments) || i < len(q.segments); i++ {
		var s segment
		switch {
		case i >= len(p.segments):
			s = q.segments[i]
		case i >= len(q.segments) || p.segments[i].kind <= q.segments[i].kind:
			s = p.segments[i]
		default:
			s = q.segments[i]
		}
		if s.kind == single {
			s.text = "x"
		}
		if s.kind == rest {
			s.text = ""
		}
		text += "/" + s.text
	}
	return text
}

// A PatternError says why a pattern is refused.
type PatternError struct {
	Pattern string // with the prefix of its group
	Reason  string
}

// Error has the pattern and the reason.
func (e *PatternError) Error() string {
	return "sluice: pattern " + strconv.Quote(e.Pattern) + ": " + e.Reason
}

// A ConflictError says that a pattern is refused because of another one: for some requests,
// neither of them is more specific.
type ConflictError struct {
	Pattern  string // which is refused
	Previous string // which was registered before
	Request  string // that both match: method, host and path
	IsEqual  bool   // both match the same requests
}

// Error has both patterns, and a request that both match.
func (e *ConflictError) Error() string {
	reason := "both match " + e.Request + ", and each matches requests that the other one does not"
	if e.IsEqual {
		reason = "both match the same requests"
	}
	return "sluice: pattern " + strconv.Quote(e.Pattern) + " conflicts with " + strconv.Quote(e.Previous) + ": " + reason
}
