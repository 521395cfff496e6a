package ws

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what the Reader finds into the wire scripts")

// A wire script is a text file of cases, separated by empty lines. The lines of a case
// start with
//
//	#  a comment: what the case shows
//	>  input, with Go's escapes; several lines are joined. A masked frame has the key 0,
//	   unless the case is about masks
//	>N input, N times
//	=  what a Reader finds in it; -rewrite writes these lines
//
// A line "reader limit=N fragments=N server=BOOL", with " deflates" at its end if messages
// may be compressed, holds up to the next one.
type wireCase struct {
	reader Reader
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
	blocks := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n\n")
	c, line := wireCase{}, 1
	for i, block := range blocks {
		c = wireCase{reader: c.reader, line: line}
		line += strings.Count(block, "\n") + 2
		if err := c.read(block); err != nil {
			t.Fatalf("%s:%d: %v", file, c.line, err)
		}
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
		case word == "reader":
			rest, c.reader.Deflates = strings.CutSuffix(rest, " deflates")
			if _, err := fmt.Sscanf(rest, "limit=%d fragments=%d server=%t", &c.reader.Limit, &c.reader.MaxFragments, &c.reader.FromServer); err != nil {
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

// run reads the input in pieces that end at the given positions.
func (c *wireCase) run(ends ...int) []string {
	return readAll(c.reader, c.in, ends...)
}

// readAll returns the messages and control frames that r finds in data, which arrives in
// pieces that end at the given positions, and its error.
func readAll(r Reader, data []byte, ends ...int) (found []string) {
	var message []byte
	start := 0
	for _, end := range ends {
		in := bytes.Clone(data[start:end])
		start = end
		for len(in) > 0 {
			missing, from := r.Missing(), in
			used, p, err := r.Next(in)
			in = in[used:]
			switch {
			case err == nil && missing > 0 && (int64(used) != min(missing, int64(len(from))) || len(p.Payload) != used ||
				&p.Payload[0] != &from[0] || r.Missing() != missing-int64(used)):
				return append(found, "what is missing of a frame is not its payload, in place")
			case err != nil:
				return append(found, fmt.Sprintf("%d: %s", err.(*Error).Code, strings.TrimPrefix(err.Error(), "sluice: websocket: ")))
			case p.Opcode == OpContinuation && len(in) > 0:
				return append(found, "nothing found, but input is left")
			case p.Opcode == OpContinuation:
			case p.Opcode.IsControl():
				found = append(found, describeControl(p))
			case p.IsFirst != (message == nil):
				return append(found, "the first piece is not marked")
			default:
				if p.IsFirst && p.IsDeflated {
					found = append(found, "compressed:")
				}
				message = append(message, p.Payload...)
				if message == nil {
					message = []byte{}
				}
				if p.IsLast {
					found = append(found, describe(p.Opcode, message))
					message = nil
				}
			}
		}
	}
	if !r.IsBetween() {
		found = append(found, "...")
	}
	return found
}

func describe(op Opcode, payload []byte) string {
	name := map[Opcode]string{OpText: "text", OpBinary: "binary", OpPing: "ping", OpPong: "pong"}[op]
	if len(payload) > 40 {
		return fmt.Sprintf("%s %d bytes %.10q", name, len(payload), payload)
	}
	return fmt.Sprintf("%s %q", name, payload)
}

func describeControl(p Piece) string {
	if p.Opcode != OpClose {
		return describe(p.Opcode, p.Payload)
	}
	code, reason, err := ParseClose(p.Payload)
	if err != nil {
		return fmt.Sprintf("close %d: %s", err.(*Error).Code, strings.TrimPrefix(err.Error(), "sluice: websocket: "))
	}
	return fmt.Sprintf("close %d %q", code, reason)
}
