package interop_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// seen is what a parser makes of the bytes that a connection begins with.
type seen struct {
	method, target, host string
	body                 []byte
	used                 int // bytes of the message
}

// FuzzRequestAgainstNetHTTP: two parsers that disagree about where a request
// ends or whom it is for are how requests are smuggled. Whatever package sluice
// accepts, net/http must read in the same way or refuse for a reason that is
// known to be harmless (toleratedRefusals).
func FuzzRequestAgainstNetHTTP(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"\r\nGET http://a.b:80/c?d HTTP/1.0\r\n\r\nrest",
		"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"POST /a%20b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloGET",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\"b\"\r\nhello\r\n0\r\nX: y\r\n\r\nGET",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5 ;a\r\nhello\r\n000\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: [::1]:80\r\nX:\t\xff \r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	for _, s := range caseRequests(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 1<<14 {
			t.Skip()
		}
		ours, err := readWithSluice(in)
		if err != nil {
			return // to refuse more than net/http does is no harm
		}
		in, empty := skipEmptyLines(in)
		theirs, err := readWithNetHTTP(in)
		if err != nil {
			if !isTolerated(err) {
				t.Fatalf("sluice accepts what net/http refuses: %v\n%q\n%s", err, in, ours)
			}
			return
		}
		theirs.used += empty
		compare(t, in, ours, theirs)
	})
}

func compare(t *testing.T, in []byte, ours, theirs seen) {
	t.Helper()
	same := ours.method == theirs.method && ours.target == theirs.target && strings.EqualFold(ours.host, theirs.host) &&
		bytes.Equal(ours.body, theirs.body) && ours.used == theirs.used
	if !same {
		t.Fatalf("%q\n  sluice: %s\nnet/http: %s", in, ours, theirs)
	}
}

// String shows everything that is compared.
func (s seen) String() string {
	return fmt.Sprintf("%s %s for %q, body %q, %d bytes", s.method, s.target, s.host, s.body, s.used)
}

// readWithSluice reads one request. The body of one that expects 100-continue
// is read as if the answer had been given.
func readWithSluice(in []byte) (seen, error) {
	var req sluice.Request
	src := bytes.NewReader(in)
	br := bufio.NewReaderSize(src, 64<<10)
	if err := req.Read(br); err != nil {
		return seen{}, err
	}
	if req.MayContinue() {
		if err := req.ContinueReadBody(br, 0); err != nil {
			return seen{}, err
		}
	}
	return seen{
		method: string(req.Header.Method()),
		target: string(req.Header.RequestURI()),
		host:   string(hostOf(&req)),
		body:   bytes.Clone(req.Body()),
		used:   len(in) - src.Len() - br.Buffered(),
	}, nil
}

// hostOf returns whom the request is for: the target's authority if it has one,
// else the Host field (RFC 9112 section 3.3).
func hostOf(req *sluice.Request) []byte {
	if target := req.Header.RequestURI(); string(req.Header.Method()) == "CONNECT" {
		return target
	} else if len(target) > 0 && target[0] != '/' && target[0] != '*' {
		return req.URI().Host()
	}
	return req.Header.Host()
}

func readWithNetHTTP(in []byte) (seen, error) {
	src := bytes.NewReader(in)
	br := bufio.NewReaderSize(src, 64<<10)
	req, err := http.ReadRequest(br)
	if err != nil {
		return seen{}, err
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return seen{}, err
	}
	return seen{
		method: req.Method,
		target: req.RequestURI,
		host:   req.Host,
		body:   body,
		used:   len(in) - src.Len() - br.Buffered(),
	}, nil
}

// skipEmptyLines does what RFC 9112 section 2.2 asks of servers, and what
// http.ReadRequest leaves to its caller.
func skipEmptyLines(in []byte) (rest []byte, skipped int) {
	rest = in
	for bytes.HasPrefix(rest, []byte("\r\n")) {
		rest = rest[2:]
	}
	return rest, len(in) - len(rest)
}

// toleratedRefusals are what net/http says of requests that package sluice
// accepts with good reason.
var toleratedRefusals = []struct {
	message *regexp.Regexp
	reason  string
}{
	{regexp.MustCompile(`^parse ".*": (invalid URL escape|invalid host|invalid IP-literal|invalid character .* in host name)`),
		"net/url knows neither IPvFuture nor all escapes in a host (RFC 3986 section 3.2.2)"},
	{regexp.MustCompile(`^bad trailer key`), "net/http checks what Trailer announces; announcements bind nobody (RFC 9110 section 6.6.2)"},
}

func isTolerated(err error) bool {
	for _, r := range toleratedRefusals {
		if r.message.MatchString(err.Error()) {
			return true
		}
	}
	return false
}

// caseRequests returns what the raw HTTP/1.1 cases send, where they are there.
func caseRequests(f *testing.F) (requests [][]byte) {
	f.Helper()
	files, _ := filepath.Glob(filepath.Join(h1cases, "*cases.json")) // the pattern is well formed
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var doc struct {
			Cases []struct {
				Send []json.RawMessage `json:"send"`
			} `json:"cases"`
		}
		if err := json.Unmarshal(text, &doc); err != nil {
			f.Fatalf("%s: %v", file, err)
		}
		for _, c := range doc.Cases {
			requests = append(requests, joinSegments(c.Send))
		}
	}
	return requests
}

// joinSegments joins the texts of a case, in which a character is a byte, and
// the text of a repetition once.
func joinSegments(segments []json.RawMessage) (out []byte) {
	for _, s := range segments {
		var text string
		var repeated struct {
			Repeat string `json:"repeat"`
		}
		if json.Unmarshal(s, &text) != nil && json.Unmarshal(s, &repeated) == nil {
			text = repeated.Repeat
		}
		for _, r := range text {
			out = append(out, byte(r))
		}
	}
	return out
}
