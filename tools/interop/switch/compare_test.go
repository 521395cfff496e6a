package switching

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// A request is sent as it is to both programs.
type request struct {
	name   string
	line   string // method, target, version if it is not HTTP/1.1
	fields string // "Name: value" lines, one after the other; Host comes by itself
	body   string
	// onlyKeys compares, of a JSON body, the names of the members.
	onlyKeys bool
}

// wire returns the request's bytes.
func (r request) wire() string {
	line := r.line
	if strings.Count(line, " ") == 1 {
		line += " HTTP/1.1"
	}
	head := line + "\r\n"
	if !strings.Contains(r.fields, "Host: ") {
		head += "Host: example.com\r\n"
	}
	for field := range strings.Lines(r.fields) {
		head += strings.TrimSuffix(field, "\n") + "\r\n"
	}
	if r.body != "" && !strings.Contains(r.fields, "Content-Length: ") && !strings.Contains(r.fields, "Transfer-Encoding: ") {
		head += fmt.Sprintf("Content-Length: %d\r\n", len(r.body))
	}
	return head + "\r\n" + r.body
}

// send returns what a client can tell of the answer: its aspects by name, which
// are "status", "body", "connection", "interim answers" and the names of the
// fields.
func (r request) send(t *testing.T, addr string) map[string]string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	go func() { _, _ = io.WriteString(conn, r.wire()) }() // an answer may come before all of it is sent
	method, _, _ := strings.Cut(r.line, " ")
	in := bufio.NewReader(conn)
	interim := 0
	for {
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			return map[string]string{"status": "none: " + err.Error()}
		}
		if resp.StatusCode < 200 {
			interim++
			continue
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			body = fmt.Append(body, " broken: ", err)
		}
		seen := r.aspects(t, resp, body)
		seen["interim answers"] = fmt.Sprint(interim)
		return seen
	}
}

func (r request) aspects(t *testing.T, resp *http.Response, body []byte) map[string]string {
	t.Helper()
	seen := map[string]string{"status": fmt.Sprint(resp.StatusCode), "connection": fmt.Sprint("close=", resp.Close)}
	for name, values := range resp.Header {
		if name != "Server" && name != "Date" && name != "Connection" {
			seen[name] = strings.Join(values, " | ")
		}
	}
	if len(resp.TransferEncoding) > 0 {
		seen["Transfer-Encoding"] = strings.Join(resp.TransferEncoding, ", ")
	}
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && len(body) > 0 && resp.StatusCode == 200 {
		delete(seen, "Content-Length") // the two compress differently
		var err error
		if body, err = decode(coding, body); err != nil {
			t.Errorf("%s: %s cannot be decoded: %v", r.name, coding, err)
		}
	}
	seen["body"] = string(body)
	if r.onlyKeys {
		seen["body"] = keys(body)
		delete(seen, "Content-Length")
	}
	return seen
}

// decode undoes a content coding with fasthttp's decoders.
func decode(coding string, body []byte) ([]byte, error) {
	switch coding {
	case "gzip":
		return fasthttp.AppendGunzipBytes(nil, body)
	case "br":
		return fasthttp.AppendUnbrotliBytes(nil, body)
	case "deflate":
		return fasthttp.AppendInflateBytes(nil, body)
	case "zstd":
		return fasthttp.AppendUnzstdBytes(nil, body)
	}
	return body, fmt.Errorf("unknown coding %q", coding)
}

// keys returns the names of a JSON object's members.
func keys(body []byte) string {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return err.Error()
	}
	return strings.Join(slices.Sorted(maps.Keys(members)), " ")
}

// A difference is one that docs/compatibility.md has a row about.
type difference struct {
	row      string // and what it says
	requests string // their names, separated by |
	aspects  string // separated by |; each of these of each of the requests differs
}

// expand returns "request: aspect" to row.
func expand(known []difference) map[string]string {
	rows := map[string]string{}
	for _, d := range known {
		for request := range strings.SplitSeq(d.requests, "|") {
			for aspect := range strings.SplitSeq(d.aspects, "|") {
				rows[request+": "+aspect] = d.row
			}
		}
	}
	return rows
}

// compare sends the requests to both programs. Their answers must be equal but
// for known, and each of known must be found.
func compare(t *testing.T, theirs, ours string, requests []request, known ...difference) {
	t.Helper()
	rows, found := expand(known), map[string]bool{}
	for _, r := range requests {
		want, got := r.send(t, theirs), r.send(t, ours)
		names := maps.Clone(want)
		maps.Copy(names, got)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if want[name] == got[name] {
				continue
			}
			key := r.name + ": " + name
			found[key] = true
			if rows[key] == "" {
				t.Errorf("%s:\nfasthttp %.800q\nsluice   %.800q", key, want[name], got[name])
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		if !found[key] {
			t.Errorf("%s: listed as different (%s), and is none", key, rows[key])
		}
	}
}
