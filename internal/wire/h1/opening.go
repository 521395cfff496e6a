package h1

import "github.com/sluicehttp/sluice/internal/wire/field"

// An Opening is where the field section of an earlier request begins: its first lines,
// and what parsing them resulted in. Clients begin the requests of a connection, and
// often those of all connections, with the same lines. If a request begins with exactly
// these bytes, the parser takes the result instead of parsing them again
// (BenchmarkParse/Usual -56 %).
//
// The result depends on these bytes alone: lines about the framing, whose meaning
// depends on others, are never in it. Nor are those that may have a secret, because how
// long a comparison takes tells something about what is compared, and requests of
// different clients use an Opening in turns.
//
// The zero value is empty and ready to use.
type Opening struct {
	fields field.Table // the lines, and the fields
	at     int         // where the lines begin in the head in which the fields have their positions
	flags  Flags       // what Connection among them lists
	// wait is how many requests may begin otherwise before another Opening is made. After
	// the first few of them, requests are not compared with this one any more.
	wait uint8
}

// opening is the set of the fields that an Opening may have.
const opening = 1<<field.Host | 1<<field.UserAgent | 1<<field.Accept | 1<<field.AcceptEncoding | 1<<field.AcceptLanguage |
	1<<field.Connection | 1<<field.CacheControl | 1<<field.ContentType

// An Opening has at most so many bytes and fields.
const (
	maxOpening       = 1 << 10
	maxOpeningFields = 16
)

// openingTries requests in a row may begin otherwise than an Opening before it is not
// looked at any more, and openingLife before there is another. So it costs clients that
// have nothing in common 3 % (BenchmarkParseVaried/Clients).
const (
	openingTries = 8
	openingLife  = 32
)

// isPromising reports whether it is worth the time to look at o, which may be nil.
func (o *Opening) isPromising() bool { return o != nil && o.wait > openingLife-openingTries }

// isRecalled reports whether all fields of a head are from an Opening, which has those of a
// valid head: if Host is among them, no other check needs the whole head.
func (p *HeadParser) isRecalled(t *field.Table) bool {
	return p.recalled > 0 && p.recalled == t.Len() && t.Index(field.Host) >= 0
}

// recall takes the first lines from p.Opening if the field section, which begins at
// p.line, begins with them.
func (p *HeadParser) recall(t *field.Table, raw []byte) {
	o := p.Opening
	lines := o.fields.Raw()
	rest := raw[p.line:]
	if len(rest) < len(lines) || string(rest[:len(lines)]) != string(lines) || t.KeepNames || o.fields.Len() > p.Limits.MaxFields {
		return
	}
	if o.at != p.line { // the request line has another length
		o.fields.Shift(p.line - o.at)
		o.at = p.line
	}
	t.Recall(&o.fields)
	p.recalled = o.fields.Len()
	p.Flags |= o.flags
	p.line += len(lines)
}

// remember makes the first lines of a valid head the Opening if it is time to do so.
func (p *HeadParser) remember(t *field.Table) {
	o := p.Opening
	if p.recalled == 0 && o.wait > 0 {
		o.wait--
		return
	}
	o.wait = openingLife
	if p.recalled > 0 || t.KeepNames {
		return
	}
	o.fields.Reset()
	o.flags = 0
	n := 0
	for n < min(t.Len(), maxOpeningFields) && opening>>t.ID(n)&1 != 0 {
		if t.ID(n) == field.Connection {
			o.flags |= ConnectionOptions(t.Value(n))
		}
		n++
	}
	end := p.Fields.End - len("\r\n")
	if n < t.Len() {
		end = t.Start(n)
	}
	if end-p.Fields.Start <= maxOpening {
		o.fields.Remember(t, n, p.Fields.Start, end)
		o.at = 0
	}
}
