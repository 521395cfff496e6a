package h1

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
)

var rewrite = flag.Bool("rewrite", false, "write what the parsers say into the wire scripts")

// A wire script is a text file of cases, separated by empty lines. The lines
// of a case start with
//
//	#  a comment: what the case shows
//	>  input, with Go's escapes; several lines are joined
//	>N input, N times
//	=  what the parser makes of it; -rewrite writes these lines
//
// and between cases stand settings, which hold up to the next of their kind:
//
//	role request | response | trailer | chunked
//	limits line=N head=N fields=N
type wireCase struct {
	role   string
	limits Limits
	in     []byte
	want   []string
	line   int // of its first line in the file
}

func TestWireScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runScript(t, file) })
	}
}

func runScript(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	role, limits := "request", DefaultLimits
	blocks := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n\n")
	line := 1
	for i, block := range blocks {
		c := wireCase{role: role, limits: limits, line: line}
		line += strings.Count(block, "\n") + 2
		if err := c.read(block); err != nil {
			t.Fatalf("%s:%d: %v", file, c.line, err)
		}
		role, limits = c.role, c.limits
		if c.in == nil {
			continue
		}
		got := c.run(len(c.in))
		if *rewrite {
			blocks[i] = withOutcome(block, got)
		} else if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s:%d:\n got %q\nwant %q", file, c.line, got, c.want)
		}
		c.cut(t, file, got)
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(strings.Join(blocks, "\n\n")+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// cut runs the case in two pieces, for every cut, and byte by byte.
func (c *wireCase) cut(t *testing.T, file string, whole []string) {
	for at := 1; at <= len(c.in); at++ {
		cuts := []int{at, len(c.in)}
		if at == len(c.in) {
			cuts = nil
			for i := range c.in {
				cuts = append(cuts, i+1)
			}
		}
		if got := c.run(cuts...); strings.Join(got, "\n") != strings.Join(whole, "\n") {
			t.Fatalf("%s:%d: cut at %d of %d:\n  got %q\nwhole %q", file, c.line, at, len(c.in), got, whole)
		}
	}
}

func (c *wireCase) read(block string) error {
	for _, line := range strings.Split(block, "\n") {
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(line, "#") || line == "":
		case word == "role":
			c.role = rest
		case word == "limits":
			if _, err := fmt.Sscanf(rest, "line=%d head=%d fields=%d", &c.limits.MaxLine, &c.limits.MaxHead, &c.limits.MaxFields); err != nil {
				return err
			}
		case word == "=":
			c.want = append(c.want, rest)
		case strings.HasPrefix(word, ">"):
			n := 1
			if word != ">" {
				var err error
				if n, err = strconv.Atoi(word[1:]); err != nil {
					return err
				}
			}
			in, err := strconv.Unquote(`"` + strings.ReplaceAll(rest, `"`, `\"`) + `"`)
			if err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
			c.in = append(c.in, strings.Repeat(in, n)...)
		default:
			return fmt.Errorf("%q is no line of a script", line)
		}
	}
	return nil
}

func withOutcome(block string, got []string) string {
	var lines []string
	for _, line := range strings.Split(block, "\n") {
		if !strings.HasPrefix(line, "= ") {
			lines = append(lines, line)
		}
	}
	for _, g := range got {
		lines = append(lines, "= "+g)
	}
	return strings.Join(lines, "\n")
}

// run parses the input in pieces that end at the given positions.
func (c *wireCase) run(ends ...int) []string {
	in := input{data: c.in, ends: ends}
	if c.role == "chunked" {
		return runChunked(&in, c.limits)
	}
	p := HeadParser{Limits: c.limits}
	switch c.role {
	case "response":
		p.Role = Responses
	case "trailer":
		p.ResetTrailer()
	}
	return runHead(&p, &in)
}

// input returns pieces. What a parser does not use of one is returned again.
type input struct {
	data []byte
	ends []int
	used int
}

// next returns a copy of the next piece, to detect a parser that writes to it or
// retains it.
func (in *input) next() ([]byte, bool) {
	for len(in.ends) > 0 && in.used >= in.ends[0] {
		in.ends = in.ends[1:]
	}
	if len(in.ends) == 0 {
		return nil, false
	}
	return append([]byte(nil), in.data[in.used:in.ends[0]]...), true
}

func (in *input) rest() []string {
	if in.used == len(in.data) {
		return nil
	}
	return []string{fmt.Sprintf("rest %d", len(in.data)-in.used)}
}

func outcome(err error) []string {
	if e, ok := err.(*Error); ok {
		return []string{fmt.Sprintf("error %d %s", e.Status, e.msg)}
	}
	return []string{"error of an unknown kind: " + err.Error()}
}

func runHead(p *HeadParser, in *input) []string {
	var t field.Table
	isTrailer := p.isTrailer
	for {
		piece, ok := in.next()
		if !ok {
			return []string{"more"}
		}
		sent := string(piece)
		used, done, err := p.Parse(&t, piece)
		if string(piece) != sent {
			return []string{"the parser wrote to its input"}
		}
		if err != nil {
			return outcome(err)
		}
		clear(piece)
		in.used += used
		if done {
			break
		}
	}
	if isTrailer {
		DropForbiddenTrailers(&t)
		return append(fieldsOf(&t), append([]string{"done"}, in.rest()...)...)
	}
	return append(describeHead(p, &t), in.rest()...)
}

func describeHead(p *HeadParser, t *field.Table) []string {
	raw := t.Raw()
	var lines []string
	if p.Role == Requests {
		lines = append(lines, fmt.Sprintf("%s %s %s", p.Method.In(raw), p.Target.In(raw), p.Protocol.In(raw)))
		if p.Authority.End > 0 {
			lines = append(lines, fmt.Sprintf("authority %s", p.Authority.In(raw)))
		}
	} else {
		lines = append(lines, fmt.Sprintf("%d %q %s", p.StatusCode, p.Reason.In(raw), p.Protocol.In(raw)))
	}
	flags := flagNames(p)
	if len(flags) > 0 {
		lines = append(lines, "flags "+strings.Join(flags, " "))
	}
	return append(lines, fieldsOf(t)...)
}

func flagNames(p *HeadParser) (names []string) {
	if p.Has(HasLength) {
		names = append(names, fmt.Sprintf("length=%d", p.ContentLength))
	}
	for _, f := range []struct {
		flag Flags
		name string
	}{{ChunkedBody, "chunked"}, {ConnectionClose, "close"}, {ConnectionKeepAlive, "keep-alive"},
		{ConnectionUpgrade, "upgrade"}, {ExpectContinue, "expect"}, {AbsoluteForm, "absolute"}, {AuthorityForm, "authority"}} {
		if p.Has(f.flag) {
			names = append(names, f.name)
		}
	}
	if p.KeepsAlive() {
		names = append(names, "persists")
	}
	return names
}

func fieldsOf(t *field.Table) (lines []string) {
	for i := range t.Len() {
		lines = append(lines, fmt.Sprintf("%s: %q", t.Name(i), t.Value(i)))
	}
	return lines
}

func runChunked(in *input, limits Limits) []string {
	var c Chunked
	var body []byte
	for !c.Done() {
		piece, ok := in.next()
		if !ok {
			return []string{fmt.Sprintf("data %q", body), "more"}
		}
		used, data, err := c.Next(piece)
		if err != nil {
			return append([]string{fmt.Sprintf("data %q", body)}, outcome(err)...)
		}
		body = append(body, data...)
		in.used += used
	}
	p := HeadParser{Limits: limits}
	p.ResetTrailer()
	return append([]string{fmt.Sprintf("data %q", body)}, runHead(&p, in)...)
}
