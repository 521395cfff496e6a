package conditional

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A request is sent to both sides of the comparison with net/http. An empty field is
// absent. Dates are in seconds relative to modified; noDate means none.
type request struct {
	method              string
	match, noneMatch    string
	unmodified, since   int64
	rangeField, ifRange string
	ifRangeDate         int64
	etag                string
	hasModified         bool
	content             []byte
}

const noDate = -1 << 40

// answerOf is what a client sees of a response: its status, Content-Range, and the
// parts of a 206, each with its own.
type answerOf struct {
	status       int
	contentRange string
	parts        []string
}

func (a answerOf) String() string { return fmt.Sprintf("%d %q %q", a.status, a.contentRange, a.parts) }

// ours answers r as a user of this package does.
func (r request) ours() answerOf {
	size := int64(len(r.content))
	v := Validators{ETag: []byte(r.etag), Modified: modified, HasModified: r.hasModified}
	c := Conditions{
		IsGetOrHead:        r.method == http.MethodGet || r.method == http.MethodHead,
		HasIfModifiedSince: r.since != noDate, IfModifiedSince: modified + r.since,
		HasIfUnmodifiedSince: r.unmodified != noDate, IfUnmodifiedSince: modified + r.unmodified,
	}
	if r.match != "" {
		c.IfMatch = asLines(r.match)
	}
	if r.noneMatch != "" {
		c.IfNoneMatch = asLines(r.noneMatch)
	}
	switch c.Evaluate(v) {
	case NotModified:
		return answerOf{status: 304}
	case PreconditionFailed:
		return answerOf{status: 412}
	}
	ifRange, isDate := r.ifRange, r.ifRangeDate != noDate
	if isDate {
		ifRange = httpDate(r.ifRangeDate)
	}
	if !MayRange([]byte(ifRange), modified+r.ifRangeDate, isDate, v) {
		return answerOf{status: 200}
	}
	spans, verdict := ParseRange(nil, []byte(r.rangeField), size)
	switch verdict {
	case Whole:
		return answerOf{status: 200}
	case Unsatisfiable:
		return answerOf{status: 416, contentRange: string(AppendUnsatisfied(nil, size))}
	}
	made := answerOf{status: 206}
	for _, s := range spans {
		made.parts = append(made.parts, string(AppendContentRange(nil, s, size))+" "+string(r.content[s.Offset:s.end()]))
	}
	return made
}

func httpDate(offset int64) string {
	return time.Unix(modified+offset, 0).UTC().Format(http.TimeFormat)
}

// theirs sends r to net/http's ServeContent.
func (r request) theirs(t *testing.T) answerOf {
	t.Helper()
	in := httptest.NewRequest(r.method, "/", nil)
	set := func(name, value string) {
		if value != "" {
			in.Header.Set(name, value)
		}
	}
	date := func(offset int64) string {
		if offset == noDate {
			return ""
		}
		return httpDate(offset)
	}
	set("If-Match", r.match)
	set("If-None-Match", r.noneMatch)
	set("If-Unmodified-Since", date(r.unmodified))
	set("If-Modified-Since", date(r.since))
	set("Range", r.rangeField)
	set("If-Range", r.ifRange+date(r.ifRangeDate))
	out := httptest.NewRecorder()
	if r.etag != "" {
		out.Header().Set("ETag", r.etag)
	}
	out.Header().Set("Content-Type", "text/plain")
	var at time.Time
	if r.hasModified {
		at = time.Unix(modified, 0)
	}
	http.ServeContent(out, in, "", at, bytes.NewReader(r.content))
	result := out.Result()
	got := answerOf{status: result.StatusCode}
	switch result.StatusCode {
	case 416:
		got.contentRange = result.Header.Get("Content-Range")
	case 206:
		got.parts = partsOf(t, result)
	}
	return got
}

// partsOf lists the parts of a 206, with or without multipart.
func partsOf(t *testing.T, result *http.Response) []string {
	t.Helper()
	kind, parameters, err := mime.ParseMediaType(result.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	if kind != "multipart/byteranges" {
		body, err := io.ReadAll(result.Body)
		if err != nil {
			t.Fatal(err)
		}
		return []string{result.Header.Get("Content-Range") + " " + string(body)}
	}
	var parts []string
	for reader := multipart.NewReader(result.Body, parameters["boundary"]); ; {
		part, err := reader.NextPart()
		if err == io.EOF {
			return parts
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part.Header.Get("Content-Range")+" "+string(body))
	}
}

var digitsOfContent = []byte("0123456789abcdefghijklmnopqrstuvwxyz")

func plainRequest() request {
	return request{method: http.MethodGet, unmodified: noDate, since: noDate, ifRangeDate: noDate, etag: `"a"`, hasModified: true, content: digitsOfContent}
}

// TestAsNetHTTP sends both sides valid requests for which RFC 9110 leaves no choice:
// they must agree.
func TestAsNetHTTP(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	date := func() int64 { return []int64{noDate, noDate, -1, 0, 1}[random.IntN(5)] }
	lists := []string{"", "", "", "*", `"a"`, `W/"a"`, `"b"`, `"b", "a"`, `"b" , W/"a"`, `,"b",,"a,b",`, `"a,b", "c"`}
	seen := map[int]int{}
	for range 20000 {
		r := plainRequest()
		r.method = pick("GET", "GET", "HEAD", "POST", "PUT")
		r.etag = pick("", `"a"`, `"a"`, `W/"a"`, `"a,b"`)
		r.hasModified = random.IntN(4) > 0
		r.match, r.noneMatch = pick(lists...), pick(lists...)
		r.unmodified, r.since = date(), date()
		if r.method == "GET" {
			r.rangeField = randomRange(random, len(r.content))
			if r.ifRangeDate = date(); r.ifRangeDate == noDate {
				r.ifRange = pick("", "", `"a"`, `"b"`, `W/"a"`, `"a,b"`)
			}
		}
		got, want := r.ours(), r.theirs(t)
		if got.String() != want.String() {
			t.Fatalf("%+v:\n     got %s\nnet/http %s", r, got, want)
		}
		seen[got.status]++
	}
	for _, status := range []int{200, 206, 304, 412, 416} {
		if seen[status] < 100 {
			t.Errorf("%d answers are %d: the comparison says little about it", seen[status], status)
		}
	}
}

// randomRange returns a Range field that is not excessive, so that both sides must
// answer alike.
func randomRange(random *rand.Rand, size int) string {
	if random.IntN(3) == 0 {
		return ""
	}
	var members []string
	left := size
	for at := random.IntN(10); at < size && len(members) < 5; {
		length := 1 + random.IntN(6)
		if left -= length; left < 0 {
			break
		}
		members = append(members, fmt.Sprintf("%d-%d", at, at+length-1))
		at += length + random.IntN(8)
	}
	switch random.IntN(6) {
	case 0:
		members = []string{fmt.Sprintf("-%d", 1+random.IntN(2*size))}
	case 1:
		members = []string{fmt.Sprintf("%d-", random.IntN(2*size))}
	case 2:
		members = append(members, fmt.Sprintf("%d-%d", size+random.IntN(9), size+10), "")
	case 3:
		members = []string{fmt.Sprintf("%d-", size), fmt.Sprintf("%d-%d", size+1, size+5)}
	}
	random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return "bytes=" + strings.Join(members, []string{",", ", ", "\t, "}[random.IntN(3)])
}

// TestUnlikeNetHTTP lists the differences and their reasons. A case fails if either
// side changes.
func TestUnlikeNetHTTP(t *testing.T) {
	part := func(contentRange, body string) string {
		return "206 \"\" [\"bytes " + contentRange + " " + body + "\"]"
	}
	const whole, unsatisfied, empty, failed = `200 "" []`, `416 "bytes */36" []`, `416 "bytes */0" []`, `412 "" []`
	for _, c := range []struct {
		why          string
		change       func(*request)
		ours, theirs string
	}{
		{"416 names the length", ranged("bytes=abc"), unsatisfied, `416 "" []`},
		{"the same", ranged("bytes=5-2"), unsatisfied, `416 "" []`},
		{"14.2 lets a list with an invalid range be ignored", ranged("bytes=0-4,abc"), whole, `416 "" []`},
		{"the same", ranged("bytes=0-4,5-2"), whole, `416 "" []`},
		{"14.2: other units MUST be ignored", ranged("items=0-4"), whole, `416 "" []`},
		{"14.1: units are case-insensitive", ranged("BYTES=0-4"), part("0-4/36", "01234"), `416 "" []`},
		{"14.1.1: no number is too large", ranged("bytes=34-99999999999999999999"), part("34-35/36", "yz"), `416 "" []`},
		{"the same", ranged("bytes=99999999999999999999-"), unsatisfied, `416 "" []`},
		{"14.1.1: no blanks within a range", ranged("bytes=0 -4"), unsatisfied, part("0-4/36", "01234")},
		{"5.6.1: no blanks before the first range", ranged("bytes= 0-4"), unsatisfied, part("0-4/36", "01234")},
		{"5.6.1: the same", ranged("bytes= 0-4,20-24"), whole, `206 "" ["bytes 0-4/36 01234" "bytes 20-24/36 klmno"]`},
		{"14.1.2: an empty suffix is unsatisfiable", ranged("bytes=-0"), unsatisfied, part("36-35/36", "")},
		{"15.3.7.2: what overlaps may become one", ranged("bytes=0-19,10-29"), part("0-29/36", "0123456789abcdefghijklmnopqrst"), whole},
		{"17.15: the same", ranged("bytes=0-,0-,0-"), part("0-35/36", string(digitsOfContent)), whole},
		{"15.5.17: no first byte in an empty file", emptied("bytes=0-"), empty, whole},
		{"14.4: bytes 0--1/0 is no Content-Range", emptied("bytes=-5"), whole, part("0--1/0", "")},
		{"8.8.3: text behind a tag makes it none", func(r *request) { r.match = `"b" "a"` }, failed, whole},
		{"13.1.5: one tag, not a list", func(r *request) { r.rangeField, r.ifRange = "bytes=0-4", `"a", "b"` }, whole, part("0-4/36", "01234")},
	} {
		r := plainRequest()
		c.change(&r)
		if got := r.ours().String(); got != c.ours {
			t.Errorf("%s: %+v: got %s, want %s", c.why, r, got, c.ours)
		}
		if got := r.theirs(t).String(); got != c.theirs {
			t.Errorf("%s: %+v: net/http answers %s, no longer %s", c.why, r, got, c.theirs)
		}
	}
}

func ranged(field string) func(*request) { return func(r *request) { r.rangeField = field } }

func emptied(field string) func(*request) {
	return func(r *request) { r.rangeField, r.content = field, nil }
}
