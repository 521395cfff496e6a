package h1

import (
	"math"

	"github.com/sluicehttp/sluice/internal/wire/field"
)

// fieldLines reads field lines up to the empty line that ends the section. It returns
// where that line ends, or 0 if it has not arrived yet.
func (p *HeadParser) fieldLines(t *field.Table, raw []byte) (end int, err error) {
	for {
		switch p.phase {
		case atField:
			if p.line < len(raw) && raw[p.line] != '\r' {
				if err := p.plainLines(t, raw, math.MaxInt); err != nil {
					return 0, err
				}
			}
			if p.line >= len(raw) {
				return 0, nil
			}
			if raw[p.line] == '\r' {
				return p.lastLine(raw)
			}
			if t.Len() >= p.Limits.MaxFields {
				return 0, ErrTooManyFields
			}
			p.phase, p.seen = inName, p.line
			fallthrough
		case inName:
			if done, err := p.fieldName(raw); !done {
				return 0, err
			}
			p.phase, p.seen = inValue, p.colon+1
		}
		stop, done, err := p.fieldValue(t, raw)
		if !done {
			return 0, err
		}
		if len(t.Raw()) != 0 {
			raw = t.Raw() // unfolding has moved it
		}
		if err := p.record(t, raw, stop); err != nil {
			return 0, err
		}
		p.phase, p.line = atField, stop+2
	}
}

// plainLines is a fast path for complete and simple field lines
// (BenchmarkParse/Browser: -22 %). At the first other line it stops, and the general
// code continues. Both have the same result for every line, so plainLines may stop
// anywhere. It reads most lines at most.
func (p *HeadParser) plainLines(t *field.Table, raw []byte, most int) error {
	line := p.line
	for room := min(most, p.Limits.MaxFields-t.Len()); room > 0 && line < len(raw) && raw[line] != '\r'; room-- {
		colon := nameColon(raw, line)
		if colon <= line {
			break
		}
		name := raw[line:colon]
		id := field.Lookup(name)
		if id == field.Other && !IsToken(name) {
			break // the bytes of a known field's name need no check
		}
		start := colon + 1
		for start < len(raw) && isBlank(raw[start]) {
			start++
		}
		stop := valueEnd(raw, start)
		next := stop + 2
		if next >= len(raw) || string(raw[stop:next]) != "\r\n" || p.Role == Responses && isBlank(raw[next]) {
			break
		}
		for stop > start && isBlank(raw[stop-1]) {
			stop--
		}
		t.PushParsed(id, line, colon, start, stop)
		if noted>>id&1 != 0 && !p.isTrailer {
			if err := p.note(id, raw[start:stop]); err != nil {
				return err
			}
		}
		line = next
	}
	p.line = line
	return nil
}

// lastLine reads the CRLF that ends the section; its CR has arrived.
func (p *HeadParser) lastLine(raw []byte) (end int, err error) {
	if p.line+1 == len(raw) {
		return 0, nil
	}
	if raw[p.line+1] != '\n' {
		return 0, ErrBareCR
	}
	p.Fields.End = p.line + 2
	return p.Fields.End, nil
}

// fieldName reads up to the colon. Only tokens are names: a space before the colon
// and a folded line are refused (RFC 9112 sections 5.1, 5.2).
func (p *HeadParser) fieldName(raw []byte) (done bool, err error) {
	i := tokenEnd(raw, p.seen)
	p.seen = i
	if i == len(raw) {
		return false, nil
	}
	if c := raw[i]; c != ':' || i == p.line {
		return false, nameError(c, i == p.line)
	}
	p.id = field.Lookup(raw[p.line:i])
	p.colon = i
	return true, nil
}

// nameError returns the error for an invalid byte c in a name. isFirst reports whether
// c is at the start of the line.
func nameError(c byte, isFirst bool) error {
	switch {
	case isFirst && (c == ' ' || c == '\t'):
		return ErrFolding
	case c == '\n':
		return ErrBareLF
	case c == '\r':
		return ErrFieldLine
	}
	return ErrFieldName
}

// fieldValue reads up to the CRLF after the value and returns the position of its CR.
// A folded line of a response is joined to the line before: the CRLF becomes two
// spaces (RFC 9112 section 5.2). For this the head must be in t, because the caller's
// input is never written to.
func (p *HeadParser) fieldValue(t *field.Table, raw []byte) (stop int, done bool, err error) {
	for {
		i := valueEnd(raw, p.seen)
		p.seen = i
		if i+1 >= len(raw) {
			if i < len(raw) && raw[i] != '\r' {
				return 0, false, valueError(raw[i])
			}
			return 0, false, nil
		}
		if raw[i] != '\r' || raw[i+1] != '\n' {
			return 0, false, valueError(raw[i])
		}
		if p.Role == Requests {
			return i, true, nil
		}
		if i+2 == len(raw) {
			return 0, false, nil // the first byte of the next line decides
		}
		if next := raw[i+2]; next != ' ' && next != '\t' {
			return i, true, nil
		}
		if len(t.Raw()) == 0 {
			t.Append(raw)
		}
		raw = t.Raw()
		raw[i], raw[i+1] = ' ', ' '
	}
}

// valueError returns the error for an invalid byte c in a value.
func valueError(c byte) error {
	switch c {
	case '\n':
		return ErrBareLF
	case '\r':
		return ErrBareCR
	}
	return ErrControl
}

// record adds the field whose line ends before stop, without white space around its
// value, and applies what it says about the message.
func (p *HeadParser) record(t *field.Table, raw []byte, stop int) error {
	start := p.colon + 1
	for start < stop && (raw[start] == ' ' || raw[start] == '\t') {
		start++
	}
	for stop > start && (raw[stop-1] == ' ' || raw[stop-1] == '\t') {
		stop--
	}
	t.PushParsed(p.id, p.line, p.colon, start, stop)
	if noted>>p.id&1 == 0 || p.isTrailer {
		return nil
	}
	return p.note(p.id, raw[start:stop])
}
