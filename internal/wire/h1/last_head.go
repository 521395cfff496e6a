package h1

import "github.com/sluicehttp/sluice/internal/wire/field"

// A LastHead has the head of an earlier response, or its first lines, and what parsing them resulted
// in. Servers begin most responses with the same lines, or with lines of which few differ. A head
// that has exactly the same bytes is not parsed again, nor is a line with the bytes of its
// counterpart.
//
// What a line results in depends on its bytes alone, except for those about the framing, whose
// values are read again unless all lines are the same. Lines that may have a secret are not
// compared: see Opening.
//
// The zero value is empty and ready to use.
type LastHead struct {
	fields field.Table // the head, or its first lines, and the fields
	head   Head        // of which Fields.End is where the last of the lines ends
	at     int         // where the lines begin in the head in which the fields have their positions
	isOpen bool        // it is a whole head, of which all lines may be compared
	wait   uint8       // how many responses may differ before another LastHead is made
}

// openLines is the set of the fields whose lines are compared.
const openLines uint64 = 1<<field.Server | 1<<field.Date | 1<<field.ContentType | 1<<field.ContentLength | 1<<field.TransferEncoding |
	1<<field.Connection | 1<<field.KeepAlive | 1<<field.CacheControl | 1<<field.ContentEncoding | 1<<field.Vary | 1<<field.AcceptRanges

// A LastHead has at most so many bytes and lines.
const (
	maxLastHead  = 1 << 10
	maxLastLines = 32
)

// lastHeadLife responses may differ from a LastHead before there is another.
const lastHeadLife = 16

// lines returns the field lines.
func (l *LastHead) lines() []byte { return l.head.Fields.In(l.fields.Raw()) }

// shift gives the fields their positions in a head whose lines begin at start.
func (l *LastHead) shift(start int) {
	if l.at != start { // the status line has another length
		l.fields.Shift(start - l.at)
		l.at = start
	}
}

// recallHead takes the head from p.Last if in begins with the same bytes, and returns the length,
// otherwise 0.
func (p *HeadParser) recallHead(t *field.Table, in []byte) (used int) {
	last := p.Last
	raw := last.fields.Raw()
	n := len(raw)
	if !last.isOpen || n > len(in) || string(in[:n]) != string(raw) || t.KeepNames ||
		n > p.Limits.MaxHead || last.head.Reason.End > p.Limits.MaxLine || last.fields.Len() > p.Limits.MaxFields {
		return 0
	}
	last.shift(last.head.Fields.Start)
	t.Append(raw)
	t.Seal(n)
	t.Recall(&last.fields)
	p.Head = last.head
	p.Fields.End, p.recalled = n, last.fields.Len()
	return n
}

// recallLines reads the first field lines as fieldLines does, and takes from p.Last those that are
// the same. It may stop anywhere.
func (p *HeadParser) recallLines(t *field.Table, raw []byte) error {
	last := p.Last
	n := last.fields.Len()
	if n == 0 || t.KeepNames {
		return nil
	}
	lines := last.lines()
	next := p.line + len(lines)
	if !last.isOpen || next >= len(raw) || string(raw[p.line:next]) != string(lines) || isBlank(raw[next]) || n > p.Limits.MaxFields {
		return p.recallEach(t, raw)
	}
	last.shift(p.line)
	t.Recall(&last.fields)
	p.recalled = n
	p.Flags |= last.head.Flags
	p.ContentLength = last.head.ContentLength
	p.line = next
	return nil
}

// recallEach is recallLines if some lines differ.
func (p *HeadParser) recallEach(t *field.Table, raw []byte) error {
	fields, at := &p.Last.fields, p.Last.at
	lines := p.Last.lines()
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
	end, n := p.Fields.End, t.Len()
	for n > 0 && (n > maxLastLines || end > maxLastHead) {
		n--
		end = t.Start(n)
	}
	last.wait, last.at, last.head = lastHeadLife, p.Fields.Start, p.Head
	if last.isOpen = n == t.Len(); last.isOpen {
		last.head.Fields.End -= len("\r\n")
	} else {
		last.head.Fields.End = end
	}
	for i := range n {
		last.isOpen = last.isOpen && openLines>>t.ID(i)&1 != 0
	}
	last.fields.Reset()
	last.fields.Remember(t, n, 0, end)
}
