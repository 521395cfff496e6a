package h1

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// maxEmptyLines bounds the empty lines that are skipped before a start line. RFC 9112
// section 2.2 recommends at least one for servers. Peers that send extra CRLFs after
// a body send only a few.
const maxEmptyLines = 4

// versionPart is the least length of what follows a request target.
const versionPart = len(" HTTP/1.1")

// requestLine reads method SP request-target SP HTTP-version CRLF (RFC 9112 section
// 3), with exactly one space between the parts and nothing else.
func (p *HeadParser) requestLine(raw []byte) (done bool, err error) {
	switch p.phase {
	case atStart:
		if done, err := p.skipEmptyLines(raw); !done {
			return false, err
		}
		p.phase = inMethod
		fallthrough
	case inMethod:
		if done, err := p.method(raw); !done {
			return false, err
		}
		p.phase = inTarget
		fallthrough
	case inTarget, inQuery:
		if done, err := p.target(raw); !done {
			return false, err
		}
		p.phase = inVersion
	}
	if done, err := p.requestVersion(raw); !done {
		return false, err
	}
	return true, p.targetForm(p.Method.In(raw), p.Target.In(raw))
}

// plainGet is a fast path for a complete request line of GET in HTTP/1.1 whose target
// is a path of plain characters, with or without a query. For every other input it
// changes nothing and returns false. It has the result of the general code.
func (p *HeadParser) plainGet(raw []byte) bool {
	const start = len("GET ")
	if len(raw) <= start || string(raw[:start+1]) != "GET /" || p.line != 0 {
		return false
	}
	end := plainEnd(raw, start, '&'*ones)
	if rest := raw[end:]; len(rest) < 11 || string(rest[:11]) != " HTTP/1.1\r\n" || end > p.Limits.MaxLine-versionPart {
		return false
	}
	p.Method = Span{0, start - 1}
	p.Target = Span{start, end}
	p.Protocol = Span{end + 1, end + versionPart}
	p.Flags = MethodGet
	p.Minor = 1
	p.seen = end + len(" HTTP/1.1\r\n")
	return true
}

// skipEmptyLines moves to the first byte that is not part of an empty line.
func (p *HeadParser) skipEmptyLines(raw []byte) (done bool, err error) {
	for p.line < len(raw) {
		if raw[p.line] != '\r' {
			p.seen = p.line
			return true, nil
		}
		if p.emptyLines == maxEmptyLines {
			return false, p.startLineError()
		}
		if p.line+1 == len(raw) {
			return false, nil
		}
		if raw[p.line+1] != '\n' {
			return false, ErrBareCR
		}
		p.line += 2
		p.emptyLines++
	}
	return false, nil
}

// startLineError is the error for an invalid start line.
func (p *HeadParser) startLineError() error {
	if p.Role == Responses {
		return ErrStatusLine
	}
	return ErrRequestLine
}

// method reads the method and the space after it.
func (p *HeadParser) method(raw []byte) (done bool, err error) {
	i := p.seen
	if rest := raw[i:]; i == p.line && len(rest) >= 4 && string(rest[:4]) == "GET " { // most requests
		i += 3
	} else {
		i = tokenEnd(raw, i)
	}
	p.seen = i
	switch {
	case i-p.line > p.Limits.MaxLine-versionPart:
		return false, ErrLineTooLong
	case i == len(raw):
		return false, nil
	case raw[i] == '\n' && i == p.line:
		return false, ErrBareLF
	case raw[i] != ' ' || i == p.line:
		return false, ErrMethod
	}
	p.Method = Span{p.line, i}
	p.seen = i + 1
	return true, nil
}

// target reads the request target and the space after it. It ends at the first byte
// that may not be in a target or, before the query, at an invalid escape.
func (p *HeadParser) target(raw []byte) (done bool, err error) {
	start, i := p.Method.End+1, p.seen
	if p.phase == inTarget {
		i = pathEnd(raw, i)
		if i < len(raw) && raw[i] == '?' {
			p.phase = inQuery
		}
	}
	if p.phase == inQuery {
		i = queryEnd(raw, i)
	}
	p.seen = i
	switch {
	case i-p.line > p.Limits.MaxLine-versionPart:
		return false, ErrLineTooLong
	case i == len(raw):
		return false, nil
	case raw[i] != ' ' || i == start:
		return false, targetError(raw[i:], i == start)
	}
	p.Target = Span{start, i}
	p.seen = i + 1
	return true, nil
}

// targetError returns the error for a target that ends before rest. It returns nil if
// rest is the incomplete beginning of an escape.
func targetError(rest []byte, isEmpty bool) error {
	switch {
	case rest[0] == '%':
		return escapeError(rest)
	case rest[0] == '\r' && !isEmpty:
		return ErrVersion // HTTP/0.9 has no version
	case rest[0] == '\n' && !isEmpty:
		return ErrBareLF
	}
	return ErrTarget
}

// escapeError returns an error for s, which starts with "%", unless it is the
// incomplete beginning of an escape.
func escapeError(s []byte) error {
	if len(s) == 1 || len(s) == 2 && ascii.Is(s[1], ascii.Hex) {
		return nil
	}
	return ErrTarget
}

// requestVersion reads the version and the CRLF after it. These are only ten bytes,
// so it reads them again with each piece.
func (p *HeadParser) requestVersion(raw []byte) (done bool, err error) {
	rest := raw[p.seen:]
	if len(rest) >= 10 && string(rest[:10]) == "HTTP/1.1\r\n" {
		p.Minor = 1
	} else if done, err := p.otherVersion(rest); !done {
		return false, err
	}
	p.Protocol = Span{p.seen, p.seen + 8}
	p.seen += 10
	return true, nil
}

// otherVersion is requestVersion for versions other than HTTP/1.1 and for incomplete
// ones.
func (p *HeadParser) otherVersion(rest []byte) (done bool, err error) {
	if err := p.version(rest); err != nil {
		return false, err
	}
	switch {
	case len(rest) <= 8:
		return false, nil
	case rest[8] == '\n':
		return false, ErrBareLF
	case rest[8] != '\r':
		return false, ErrVersion
	case len(rest) == 9:
		return false, nil
	case rest[9] != '\n':
		return false, ErrBareCR
	}
	return true, nil
}

// version reads HTTP-version, "HTTP/" DIGIT "." DIGIT, as far as it has arrived. A
// higher minor version counts as 1.1 (RFC 9110 section 2.5).
func (p *HeadParser) version(v []byte) error {
	const form = "HTTP/1.1"
	v = v[:min(len(v), len(form))]
	for i, c := range v {
		switch {
		case c == form[i]:
		case c == '\n':
			return ErrBareLF
		case i != 5 && i != 7 || !ascii.Is(c, ascii.Digit):
			return ErrVersion
		}
	}
	if len(v) < len(form) {
		return nil
	}
	if v[5] != '1' {
		return ErrMajorVersion
	}
	p.Minor = min(v[7]-'0', 1)
	return nil
}

// statusLine reads HTTP-version SP 3DIGIT SP [reason] CRLF (RFC 9112 section 4). It
// also accepts what some servers send: no space before an absent reason, several
// spaces before the code, and a line end after the body of the last response.
func (p *HeadParser) statusLine(raw []byte) (done bool, err error) {
	switch p.phase {
	case atStart:
		if p.plainStatus(raw) {
			p.phase = inReason
			break
		}
		if done, err := p.skipEmptyLines(raw); !done {
			return false, err
		}
		p.phase = inStatus
		fallthrough
	case inStatus:
		if done, err := p.status(raw); !done {
			return false, err
		}
		p.phase = inReason
	}
	i := valueEnd(raw, p.seen)
	p.seen = i
	switch {
	case i-p.line > p.Limits.MaxLine:
		return false, ErrLineTooLong
	case i == len(raw):
		return false, nil
	case raw[i] != '\r':
		return false, valueError(raw[i])
	case i+1 == len(raw):
		return false, nil
	case raw[i+1] != '\n':
		return false, ErrBareCR
	}
	p.Reason.End = i
	if p.Reason.Start < i {
		p.Reason.Start++ // the space
	}
	p.seen = i + 2
	return true, nil
}

// plainStatus is a fast path for a status line of HTTP/1.1 with single spaces, up to its
// code. For every other input it changes nothing and returns false. It has the result of
// the general code.
func (p *HeadParser) plainStatus(raw []byte) bool {
	const start = len("HTTP/1.1 ")
	if len(raw) <= start+3 || p.line != 0 || string(raw[:start]) != "HTTP/1.1 " || raw[start+3] != ' ' {
		return false
	}
	a, b, c := raw[start]-'0', raw[start+1]-'0', raw[start+2]-'0'
	if a == 0 || a > 9 || b > 9 || c > 9 {
		return false
	}
	p.StatusCode = int(a)*100 + int(b)*10 + int(c)
	p.Minor = 1
	p.Protocol = Span{0, start - 1}
	p.seen = start + 3
	p.Reason.Start = p.seen
	return true
}

// status reads a status line up to the byte after the code. Version and code are only
// twelve bytes, so it reads them again with each piece, but the spaces between them
// once.
func (p *HeadParser) status(raw []byte) (done bool, err error) {
	line := raw[p.line:]
	if err := p.version(line); err != nil {
		return false, err
	}
	const version = len("HTTP/1.1")
	if len(line) <= version {
		return false, nil
	}
	if p.seen == p.line {
		if line[version] != ' ' {
			return false, statusError(line[version])
		}
		p.Protocol = Span{p.line, p.line + version}
		p.seen = p.Protocol.End + 1
	}
	for p.seen < len(raw) && raw[p.seen] == ' ' {
		p.seen++
	}
	if p.seen-p.line > p.Limits.MaxLine {
		return false, ErrLineTooLong
	}
	return p.statusCode(raw[p.seen:])
}

// statusCode reads a status code and checks the byte after it.
func (p *HeadParser) statusCode(rest []byte) (done bool, err error) {
	code := 0
	for i, c := range rest[:min(len(rest), 4)] {
		switch {
		case i == 0 && c == '0', i < 3 && !ascii.Is(c, ascii.Digit), i == 3 && c != ' ' && c != '\r':
			return false, statusError(c)
		case i < 3:
			code = code*10 + int(c-'0')
		}
	}
	if len(rest) < 4 {
		return false, nil
	}
	p.StatusCode = code
	p.seen += 3
	p.Reason.Start = p.seen
	return true, nil
}

// statusError returns the error for an unexpected byte c in a status line.
func statusError(c byte) error {
	if c == '\n' {
		return ErrBareLF
	}
	return ErrStatusLine
}

// targetForm checks that the form of the request target fits the method (RFC 9112
// section 3.2).
func (p *HeadParser) targetForm(method, target []byte) error {
	isConnect := string(method) == "CONNECT"
	if string(method) == "GET" {
		p.Flags |= MethodGet
	}
	switch {
	case isConnect:
		if !ValidHost(target) || !HasPort(target) {
			return ErrTargetForm
		}
		p.Authority = p.Target
		p.Flags |= AuthorityForm
		return nil
	case target[0] == '/':
		return nil
	case len(target) == 1 && target[0] == '*':
		if string(method) != "OPTIONS" {
			return ErrTargetForm
		}
		return nil
	}
	return p.absoluteTarget(target)
}

// absoluteTarget checks scheme "://" authority path-abempty [ "?" query ].
func (p *HeadParser) absoluteTarget(target []byte) error {
	sep := bytes.Index(target, []byte("://"))
	if sep <= 0 {
		return ErrTarget
	}
	scheme := target[:sep]
	if !ascii.EqualFold(scheme, "http") && !ascii.EqualFold(scheme, "https") {
		return ErrMisdirected
	}
	rest := target[sep+3:]
	end := bytes.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	if end == 0 || !ValidHost(rest[:end]) {
		return ErrHost
	}
	start := p.Target.Start + sep + 3
	p.Authority = Span{start, start + end}
	p.Flags |= AbsoluteForm
	return nil
}
