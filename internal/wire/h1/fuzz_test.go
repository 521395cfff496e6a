package h1

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
)

// seedWith seeds a fuzz target with the inputs of the wire scripts.
func seedWith(f *testing.F, seeds ...string) {
	for i, s := range append(seeds, browserHead) {
		f.Add([]byte(s), uint16(i*7+1), uint16(i*31+5))
	}
}

func FuzzRequestHead(f *testing.F) {
	seedWith(f, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\r\n\r\nPOST http://a:1/%20?b HTTP/1.0\r\nContent-Length: 5, 5\r\nConnection: close,x\r\n\r\nhello",
		"CONNECT [::1]:1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "OPTIONS * HTTP/1.2\r\nhost: a\r\nX-\xff: \t\r\n\r\n",
		"GET / HTTP/1.1\r\nHost:\t\xff~\x7f\r\n f\r\n\r\n")
	f.Fuzz(func(t *testing.T, in []byte, a, b uint16) { checkHead(t, Requests, in, int(a), int(b)) })
}

func FuzzResponseHead(f *testing.F) {
	seedWith(f, "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\t d\r\n\r\nbody", "HTTP/1.0 404\r\n\r\n", "HTTP/1.1 200 \r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
		"HTTP/1.1 204 x\x80y\r\nConnection:\r\n \r\n close\r\nContent-Length: 0\r\n\r\n",
		"\r\n\r\nHTTP/1.1   200  OK\r\nA: b\r\n\r\n")
	f.Fuzz(func(t *testing.T, in []byte, a, b uint16) { checkHead(t, Responses, in, int(a), int(b)) })
}

// checkHead compares a parse of the whole input with a parse of pieces cut at a and
// b, one byte by byte, and one of the parsed head written again.
func checkHead(t *testing.T, role Role, in []byte, a, b int) {
	if len(in) > 4096 {
		t.Skip()
	}
	c := wireCase{limits: Limits{MaxLine: 100, MaxHead: 400, MaxFields: 8}, in: in}
	if role == Responses {
		c.role = "response"
	}
	whole := c.run(len(in))
	cuts := []int{min(a, b, len(in)), min(max(a, b), len(in)), len(in)}
	each := make([]int, len(in))
	for i := range each {
		each[i] = i + 1
	}
	for _, ends := range [][]int{cuts, each} {
		if got := c.run(ends...); !slices.Equal(got, whole) {
			t.Fatalf("cut at %v:\n  got %q\nwhole %q", ends, got, whole)
		}
	}
	checkAppended(t, role, c.limits, in)
}

// checkAppended writes a parsed head and parses it again. The results must be equal,
// so nothing in it has two meanings.
func checkAppended(t *testing.T, role Role, limits Limits, in []byte) {
	p := HeadParser{Limits: limits, Role: role}
	tab := field.Table{KeepNames: true}
	used, done, err := p.Parse(&tab, in)
	if !done || err != nil {
		return
	}
	if used > limits.MaxHead || tab.Len() > limits.MaxFields || p.Fields.End != used {
		t.Fatalf("used %d, %d fields, field lines end at %d", used, tab.Len(), p.Fields.End)
	}
	raw := tab.Raw()
	wire := startLineOf(&p, raw)
	for i := range tab.Len() {
		if v := tab.Value(i); bytes.ContainsAny(v, "\r\n\x00") || len(bytes.Trim(v, " \t")) != len(v) || !IsToken(tab.Name(i)) {
			t.Fatalf("field %q = %q", tab.Name(i), v)
		}
		wire = AppendField(wire, tab.Name(i), tab.Value(i))
	}
	wire = append(wire, "\r\n"...)
	q := HeadParser{Limits: DefaultLimits, Role: role}
	again := field.Table{KeepNames: true}
	n, done, err := q.Parse(&again, wire)
	if !done || err != nil || n != len(wire) {
		t.Fatalf("%q: used %d of %d, done=%v, %v", wire, n, len(wire), done, err)
	}
	if got, want := describe(&q, &again), describe(&p, &tab); got != want {
		t.Fatalf("appended and parsed:\n got %s\nwant %s", got, want)
	}
}

func startLineOf(p *HeadParser, raw []byte) []byte {
	var parts []string
	if p.Role == Requests {
		parts = []string{string(p.Method.In(raw)), string(p.Target.In(raw)), string(p.Protocol.In(raw))}
	} else {
		code := []byte{'0' + byte(p.StatusCode/100), '0' + byte(p.StatusCode/10%10), '0' + byte(p.StatusCode%10)}
		parts = []string{string(p.Protocol.In(raw)), string(code), string(p.Reason.In(raw))}
	}
	return []byte(strings.Join(parts, " ") + "\r\n")
}
