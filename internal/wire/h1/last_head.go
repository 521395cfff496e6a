package h1

import "github.com/sluicehttp/sluice/internal/wire/field"

// A LastHead has the first field lines of an earlier response, and what parsing them resulted in.
// Servers begin most responses with the same lines, or with lines of which few differ. A line with
// exactly the bytes of its counterpart is not parsed again.
//
// What a line results in depends on its bytes alone, except for those about the framing, whose
// values are read again unless all lines are the same. Lines that may have a secret are not
// compared: see Opening.
//
// The zero value is empty and ready to use.
type LastHead struct {
	fields field.Table // the lines, and the fields
	at     int         // where the lines begin in the head in which the fields have their positions
	isOpen bool        // all lines may be compared
	flags  Flags       // what all lines say, and the length
	length int64
	wait   uint8 // how many responses may differ before another LastHead is made
}

// openLines is the set of the fields whose lines are compared.
const openLines = 1<<field.Server | 1<<field.Date | 1<<field.ContentType | 1<<field.ContentLength | 1<<field.TransferEncoding |
	1<<field.Connection | 1<<field.KeepAlive | 1<<field.CacheControl | 1<<field.ContentEncoding | 1<<field.Vary | 1<<field.AcceptRanges

// A LastHead has at most so many bytes and lines.
const (
	maxLastHead  = 1 << 10
	maxLastLines = 32
)

// lastHeadLife responses may differ from a LastHead before there is another.
const lastHeadLife = 16

// recallLines reads the first field lines as fieldLines does, and takes from p.Last those that are
// the same. It may stop anywhere.
func (p *HeadParser) recallLines(t *field.Table, raw []byte) error {
	last := p.Last
	n := last.fields.Len()
	if n == 0 || t.KeepNames {
		return nil
	}
	lines := last.fields.Raw()
	next := p.line + len(lines)
	if !last.isOpen || next >= len(raw) || string(raw[p.line:next]) != string(lines) || isBlank(raw[next]) || n > p.Limits.MaxFields {
		return p.recallEach(t, raw)
	}
	if last.at != p.line { // the status line has another length
		last.fields.Shift(p.line - last.at)
		last.at = p.line
	}
	t.Recall(&last.fields)
	p.recalled = n
	p.Flags |= last.flags
	p.ContentLength = last.length
	p.line = next
	return nil
}

// recallEach is recallLines if some lines differ.
func (p *HeadParser) recallEach(t *field.Table, raw []byte) error {
	fields, at := &p.Last.fields, p.Last.at
	lines := fields.Raw()
	for i := range fields.Len() {
		id := fields.ID(i)
		start, colon, from, to := fields.Offsets(i)
		end := at + len(lines)
		if i+1 < fields.Len() {
			end = fields.Start(i + 1)
		}
		next := p.line + end - start
		if openLines>>id&1 == 0 || next >= len(raw) || string(raw[p.line:next]) != string(lines[start-at:end-at]) || isBlank(raw[next]) || t.Len() >= p.Limits.MaxFields {
			line := p.line
			if err := p.plainLines(t, raw, 1); err != nil || p.line == line {
				return err
			}
			continue
		}
		delta := p.line - start
		t.PushParsed(id, p.line, colon+delta, from+delta, to+delta)
		p.line = next
		p.recalled++
		if noted>>id&1 != 0 {
			if err := p.note(id, raw[from+delta:to+delta]); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep makes the first lines of a valid head those of p.Last if it is time to do so.
func (p *HeadParser) keep(t *field.Table) {
	last := p.Last
	switch {
	case p.recalled == t.Len(), t.KeepNames:
		return
	case last.wait > 0:
		last.wait--
		return
	}
	start, end, n := p.Fields.Start, p.Fields.End-len("\r\n"), t.Len()
	for n > 0 && (n > maxLastLines || end-start > maxLastHead) {
		n--
		end = t.Start(n)
	}
	last.wait, last.at, last.flags, last.length = lastHeadLife, 0, p.Flags, p.ContentLength
	last.isOpen = n == t.Len()
	for i := range n {
		last.isOpen = last.isOpen && openLines>>t.ID(i)&1 != 0
	}
	last.fields.Reset()
	last.fields.Remember(t, n, start, end)
}
