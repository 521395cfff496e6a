package h2

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// stories is recorded traffic: header lists, and how several encoders wrote them.
type stories struct {
	Headers  map[string][][][2]string           `json:"headers"`
	Encoders map[string]map[string][]storyBlock `json:"encoders"`
}

type storyBlock struct {
	Wire      string      `json:"w"`
	TableSize *int        `json:"t"`
	List      [][2]string `json:"h"`
}

// readStories reads a corpus; the test is skipped if the file does not exist.
func readStories(t *testing.T, file string) *stories {
	t.Helper()
	compressed, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("no %s", file)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	var s stories
	if err := json.NewDecoder(r).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return &s
}

var wideLimits = h1.Limits{MaxLine: 1 << 16, MaxHead: 1 << 20, MaxFields: 1 << 10}

// A blockReader decodes blocks for tests.
type blockReader struct {
	d     Decoder
	table field.Table
	head  fieldlist.Head
}

func newBlockReader() *blockReader {
	r := &blockReader{d: Decoder{List: fieldlist.List{Limits: wideLimits, AcceptsConnect: true}}}
	r.d.Reset()
	return r
}

// read decodes a block in the given pieces.
func (r *blockReader) read(block fieldlist.Kind, pieces ...[]byte) error {
	r.table.Reset()
	r.d.Begin(block, &r.table, &r.head)
	for _, piece := range pieces {
		if err := r.d.Push(piece); err != nil {
			return err
		}
	}
	return r.d.End()
}

// list returns what was decoded, with names in lower case: the pseudo-fields in the
// order of their codes, then the fields without a Host that was added.
func (r *blockReader) list() (list [][2]string) {
	raw := r.table.Raw()
	for _, p := range []struct {
		code fieldlist.Code
		name string
		span h1.Span
	}{
		{fieldlist.PseudoAuthority, ":authority", r.head.Authority}, {fieldlist.PseudoMethod, ":method", r.head.Method},
		{fieldlist.PseudoPath, ":path", r.head.Target}, {fieldlist.PseudoScheme, ":scheme", r.head.Scheme}, {fieldlist.PseudoProtocol, ":protocol", r.head.Connect},
	} {
		if r.head.HasPseudo(p.code) {
			list = append(list, [2]string{p.name, string(p.span.In(raw))})
		}
	}
	if r.head.HasPseudo(fieldlist.PseudoStatus) {
		list = append(list, [2]string{":status", fmt.Sprint(r.head.StatusCode)})
	}
	for i := range r.table.Len() {
		isAdded := r.table.ID(i) == field.Host && i == r.table.Len()-1 && r.head.HasPseudo(fieldlist.PseudoAuthority)
		if name := strings.ToLower(string(r.table.Name(i))); !isAdded {
			list = append(list, [2]string{name, string(r.table.Value(i))})
		}
	}
	return list
}

// sortedList puts a list into the order of blockReader.list and joins its cookies: at
// their place, or at the end if they are not together.
func sortedList(list [][2]string) [][2]string {
	var sorted [][2]string
	for _, name := range []string{":authority", ":method", ":path", ":scheme", ":protocol", ":status"} {
		for _, f := range list {
			if f[0] == name {
				sorted = append(sorted, f)
			}
		}
	}
	cookie, isApart, previous := -1, false, ""
	var runs []string // cookies that follow each other: empty ones are dropped, but for the first
	for _, f := range list {
		switch {
		case strings.HasPrefix(f[0], ":"):
		case f[0] != "cookie":
			sorted = append(sorted, f)
		case previous == "cookie":
			if f[1] != "" {
				runs[len(runs)-1] += "; " + f[1]
			}
		default:
			runs = append(runs, f[1])
			if isApart = cookie >= 0; !isApart {
				cookie = len(sorted)
				sorted = append(sorted, f)
			}
		}
		previous = f[0]
	}
	if isApart {
		runs = slices.DeleteFunc(runs, func(run string) bool { return run == "" })
		sorted = append(slices.Delete(sorted, cookie, cookie+1), [2]string{"cookie", strings.Join(runs, "; ")})
	} else if cookie >= 0 {
		sorted[cookie][1] = runs[0]
	}
	return sorted
}

// wantError returns the error for a recorded list: some responses were not meant for
// HTTP/2.
func wantError(list [][2]string) error {
	isPlain := false
	for _, f := range list {
		isPseudo := strings.HasPrefix(f[0], ":")
		switch {
		case isPseudo && isPlain:
			return malformed[fieldlist.ErrPseudoOrder]
		case isPseudo:
		case strings.Contains(" connection transfer-encoding keep-alive proxy-connection upgrade ", " "+f[0]+" "):
			return malformed[fieldlist.ErrConnectionOnly]
		case strings.Trim(f[1], " \t") != f[1]:
			return malformed[fieldlist.ErrFieldValue]
		}
		isPlain = isPlain || !isPseudo
	}
	return nil
}

// check compares a decoded block with the list. In a malformed one, a late
// pseudo-field is not stored, and cookies are not joined.
func (r *blockReader) check(t *testing.T, at string, list [][2]string, err error) {
	t.Helper()
	want := wantError(list)
	if err != want {
		t.Fatalf("%s: %v, want %v", at, err, want)
	}
	got := r.list()
	if list = sortedList(list); want != nil {
		differs := func(f [2]string) bool { return f[0][0] == ':' || f[0] == "cookie" }
		got, list = slices.DeleteFunc(got, differs), slices.DeleteFunc(list, differs)
	}
	if !slices.Equal(got, list) {
		t.Fatalf("%s:\n got %q\nwant %q", at, got, list)
	}
}

func storyKind(list [][2]string) fieldlist.Kind {
	for _, f := range list {
		if f[0] == ":status" {
			return fieldlist.Response
		}
	}
	return fieldlist.Request
}

// testStories decodes all blocks of all encoders: whole, and cut by cuts.
func testStories(t *testing.T, s *stories, cuts func(wire []byte, decode func(pieces ...[]byte))) {
	for encoder, recorded := range s.Encoders {
		if testing.Short() && encoder != "nghttp2-change-table-size" {
			continue
		}
		for story, blocks := range recorded {
			r := newBlockReader()
			for i, b := range blocks {
				at := fmt.Sprintf("%s %s %d", encoder, story, i)
				wire, err := hex.DecodeString(b.Wire)
				if err != nil {
					t.Fatal(err)
				}
				list := s.Headers[story][i]
				if b.List != nil {
					list = b.List
				}
				if b.TableSize != nil {
					r.d.SetLimit(*b.TableSize)
				}
				before := r.d.AppendPacked(nil)
				cuts(wire, func(pieces ...[]byte) {
					if err := r.d.Unpack(before); err != nil {
						t.Fatalf("%s: %v", at, err)
					}
					r.check(t, at, list, r.read(storyKind(list), pieces...))
				})
			}
		}
	}
}

func TestStories(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	testStories(t, readStories(t, "../../../../shared/hpack/stories.json.gz"), func(wire []byte, decode func(pieces ...[]byte)) {
		a, b := random.IntN(len(wire)+1), random.IntN(len(wire)+1)
		a, b = min(a, b), max(a, b)
		decode(wire[:a], wire[a:b], wire[b:])
		decode(wire)
	})
}

// TestStoriesAtEveryOffset cuts each block of a few stories at every offset.
func TestStoriesAtEveryOffset(t *testing.T) {
	testStories(t, readStories(t, "testdata/stories.json.gz"), func(wire []byte, decode func(pieces ...[]byte)) {
		for i := range wire {
			decode(wire[:i], wire[i:])
		}
		var bytewise [][]byte
		for i := range wire {
			bytewise = append(bytewise, wire[i:i+1])
		}
		decode(bytewise...)
		decode(wire)
	})
}
