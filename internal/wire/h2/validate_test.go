package h2

import (
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// fieldLines makes a block of "name: value" lines; a name may begin with ":".
func fieldLines(lines string) (block []byte) {
	for line := range strings.SplitSeq(lines, "\n") {
		if line == "" {
			continue
		}
		at := strings.Index(line[1:], ":") + 1
		block = append(block, inserted(line[:at], strings.TrimPrefix(line[at+1:], " "))...)
	}
	return block
}

const plainGet = ":method: GET\n:scheme: http\n:path: /\n:authority: a\n"

// malformedBy is what End returns for a Violation.
func malformedBy(v fieldlist.Violation) error {
	if v == fieldlist.None {
		return nil
	}
	return malformed[v]
}

// TestViolations: package fieldlist has the rules. A block that breaks one resets the stream,
// wherever it is cut, and the dynamic table stays synchronized.
func TestViolations(t *testing.T) {
	for lines, want := range map[string]error{
		plainGet:                                    nil,
		plainGet + "A: b":                           malformedBy(fieldlist.ErrFieldName),
		plainGet + "a: b\x00c\nx: y":                malformedBy(fieldlist.ErrFieldValue),
		plainGet + "transfer-encoding: chunked":     malformedBy(fieldlist.ErrConnectionOnly),
		plainGet + "te: gzip":                       malformedBy(fieldlist.ErrTE),
		plainGet + "a: b\n:version: 1":              malformedBy(fieldlist.ErrPseudoUnknown),
		plainGet + "cookie: a\ncookie: b\nhost: b":  malformedBy(fieldlist.ErrHostDisagrees),
		plainGet + ":status: 200":                   malformedBy(fieldlist.ErrPseudoForbidden),
		plainGet + "content-length: 1, 1":           malformedBy(fieldlist.ErrLength),
		"a: b\n" + plainGet:                         malformedBy(fieldlist.ErrPseudoOrder),
		plainGet + "expect: x":                      h1.ErrExpectation,
		strings.Replace(plainGet, "http", "a+b", 1): h1.ErrMisdirected,
	} {
		block := fieldLines(lines)
		r := newBlockReader()
		if err := r.read(fieldlist.Request, block); err != want {
			t.Errorf("%q: %v, want %v", lines, err, want)
		}
		table := r.d.AppendPacked(nil)
		for i := range block { // the result does not depend on cuts, and the table stays in step
			r := newBlockReader()
			if err := r.read(fieldlist.Request, block[:i], block[i:]); err != want {
				t.Errorf("%q cut at %d: %v, want %v", lines, i, err, want)
			}
			if got := r.d.AppendPacked(nil); string(got) != string(table) {
				t.Fatalf("%q cut at %d: another table", lines, i)
			}
		}
	}
}

// TestFlawsAreKept: an entry of the table is malformed as often as it is used, and its
// name is not because its value was.
func TestFlawsAreKept(t *testing.T) {
	for line, want := range map[string]error{"A: b": malformed[fieldlist.ErrFieldName], "a: b\r": malformed[fieldlist.ErrFieldValue], "te: gzip": malformed[fieldlist.ErrTE], "connection: x": malformed[fieldlist.ErrConnectionOnly], "x: y": nil} {
		r := newBlockReader()
		if err := r.read(fieldlist.Request, requestWith(fieldLines(line))); err != want {
			t.Errorf("%s: %v, want %v", line, err, want)
		}
		if err := r.read(fieldlist.Request, requestWith([]byte{0xbe})); err != want {
			t.Errorf("%s indexed: %v, want %v", line, err, want)
		}
		if want == malformed[fieldlist.ErrFieldValue] || want == malformed[fieldlist.ErrTE] {
			want = nil
		}
		if err := r.read(fieldlist.Request, requestWith([]byte{0x0f, 62 - 15, 8}, []byte("trailers"))); err != want {
			t.Errorf("%s, only its name: %v, want %v", line, err, want)
		}
	}
}

func TestUnwantedBlock(t *testing.T) {
	r := newBlockReader()
	r.d.Begin(fieldlist.Unwanted, nil, nil)
	if err := r.d.Push(fieldLines("A: b\n:x: y\ncookie: z\nconnection: close")); err != nil {
		t.Fatal(err)
	}
	if err := r.d.End(); err != nil {
		t.Fatal(err)
	}
	if r.d.table.count != 4 {
		t.Errorf("%d entries", r.d.table.count)
	}
}
