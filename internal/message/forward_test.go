package message

import (
	"bufio"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

func parseFields(fields string, keepsNames bool) (*RequestHeader, error) {
	h := new(RequestHeader)
	h.SetKeepNames(keepsNames)
	b := bufio.NewReader(strings.NewReader("GET / HTTP/1.1\r\n" + fields + "\r\n"))
	return h, h.Read(b, ReaderLimits(b))
}

func mustParse(t *testing.T, fields string, keepsNames bool) *RequestHeader {
	t.Helper()
	h, err := parseFields(fields, keepsNames)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestForwardRequest: what concerns one connection goes, and so does what Connection lists. The
// memory of the copy had another head before.
func TestForwardRequest(t *testing.T) {
	var out RequestHeader
	for _, test := range []struct{ fields, want string }{
		{"Host: h\r\nAccept: a\r\nX: 1\r\nx: 2\r\n", "Host: h|Accept: a|X: 1|X: 2"},
		{"Host: h\r\nConnection: keep-alive\r\nKeep-Alive: 5\r\nX: 1\r\n", "Host: h|X: 1"},
		{"Host: h\r\nConnection: close, x\r\nX: 1\r\nClose: 1\r\nY: 2\r\n", "Host: h|Y: 2"},
		{"Host: h\r\nConnection: a, cookie\r\nConnection: User-Agent, , host, content-length\r\nContent-Length: 3\r\nA: 1\r\nCookie: c=1\r\nUser-Agent: u\r\n", "Host: h|Content-Length: 3"},
		{"Host: h\r\nTE: trailers\r\nUpgrade: x\r\nExpect: 100-continue\r\nHTTP2-Settings: s\r\nProxy-Connection: p\r\nProxy-Authenticate: p\r\nproxy-authorization: p\r\nProxy-Authentication-Info: p\r\nTee: 1\r\n", "Host: h|Tee: 1"},
		{"Host: h\r\nTransfer-Encoding: chunked\r\nTrailer: Sum\r\n", "Host: h|Transfer-Encoding: chunked"},
		{"Host: h\r\nForwarded: for=1\r\nX-Forwarded-For: 1\r\nX_Forwarded-Proto: https\r\nx-real_ip: 1\r\nX-Forwarded-Port: 1\r\nX-Forwarde: 1\r\n", "Host: h|X-Forwarde: 1"},
	} {
		for _, keepsNames := range []bool{false, true} {
			in := mustParse(t, test.fields, keepsNames)
			hadTE := in.ForwardTo(&out, false)
			want := test.want
			if keepsNames {
				want = strings.Replace(want, "X: 2", "x: 2", 1)
			}
			if got := visited(out.Visit); got != want || hadTE != strings.Contains(test.fields, "TE:") {
				t.Errorf("%q: %s, TE %v", test.fields, got, hadTE)
			}
			in.ForwardTo(&out, true)
			if got := len(out.Peek([]byte("X-Forwarded-Port"))); got != strings.Count(test.fields, "Forwarded-Port") {
				t.Errorf("%q: kept %d", test.fields, got)
			}
		}
	}
}

// TestForwardTrailers: an announced name, or a trailer field, neither moves what is set later out
// of the head, nor brings what Connection lists.
func TestForwardTrailers(t *testing.T) {
	in := mustParse(t, "Host: h\r\nTransfer-Encoding: chunked\r\nConnection: b\r\nTrailer: X-Forwarded-For, A, B\r\n", false)
	for _, name := range []string{"X-Forwarded-For", "A", "B"} {
		in.trailers().receive(field.Lookup(name), []byte(name), []byte("t"))
	}
	var out RequestHeader
	in.ForwardTo(&out, false)
	new(ForwardedFields).AddTo(&out, netip.MustParseAddr("1.2.3.4"), []byte("h"), "http")
	if got, want := visited(out.Visit), `Host: h|Transfer-Encoding: chunked|X-Forwarded-For: 1.2.3.4|X-Forwarded-Host: h|X-Forwarded-Proto: http|Forwarded: for=1.2.3.4;host="h";proto=http`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := string(out.AppendTrailers(nil)); got != "A: t\r\n\r\n" {
		t.Errorf("trailers %q", got)
	}
}

func TestForwardResponse(t *testing.T) {
	var h, out ResponseHeader
	b := bufio.NewReader(strings.NewReader("HTTP/1.0 200 OK\r\nServer: s\r\nConnection: server, keep-alive, date\r\nX-Forwarded-For: 1\r\nDate: d\r\nSet-Cookie: c=1\r\nContent-Length: 3\r\n\r\n"))
	if err := h.Read(b, ReaderLimits(b), nil); err != nil {
		t.Fatal(err)
	}
	out.DefaultServer, out.ShowsServer = []byte("own"), true
	h.ForwardTo(&out)
	if got, want := visited(out.Visit), "Content-Length: 3|Set-Cookie: c=1|X-Forwarded-For: 1"; got != want || out.IsHTTP10 || out.ConnectionClose {
		t.Errorf("%s, want %s; HTTP/1.0 %v, close %v", got, want, out.IsHTTP10, out.ConnectionClose)
	}
}

// TestForwardedFields: a request gets the fields of its own client and host, whatever the one before had,
// and each field is apart from the others.
func TestForwardedFields(t *testing.T) {
	var forwarded ForwardedFields
	for _, test := range []struct{ client, host, proto, want string }{
		{"1.2.3.4", "h:8", "https", `1.2.3.4|h:8|https|for=1.2.3.4;host="h:8";proto=https`},
		{"1.2.3.4", "h:8", "http", `1.2.3.4|h:8|http|for=1.2.3.4;host="h:8";proto=http`},
		{"1.2.3.4", "h:9", "http", `1.2.3.4|h:9|http|for=1.2.3.4;host="h:9";proto=http`},
		{"1.2.3.5", "h:9", "http", `1.2.3.5|h:9|http|for=1.2.3.5;host="h:9";proto=http`},
		{"::ffff:1.2.3.5", "h:9", "http", `1.2.3.5|h:9|http|for=1.2.3.5;host="h:9";proto=http`},
		{"fe80::1%eth0", "", "https", `fe80::1||https|for="[fe80::1]";proto=https`},
		{"", `a"\b`, "https", `unknown|a"\b|https|for=unknown;host="a\"\\b";proto=https`},
		{"1.2.3.4", "a\r\nb\x00", "https", "1.2.3.4|a  b |https|for=1.2.3.4;host=\"a  b \";proto=https"},
	} {
		for _, keepsNames := range []bool{false, true} {
			var h RequestHeader
			h.SetKeepNames(keepsNames)
			client, _ := netip.ParseAddr(test.client)
			forwarded.AddTo(&h, client, []byte(test.host), test.proto)
			all := func() string {
				var values []string
				for _, id := range []field.ID{field.XForwardedFor, field.XForwardedHost, field.XForwardedProto, field.Forwarded} {
					values = append(values, string(h.Get(id)))
				}
				return strings.Join(values, "|")
			}
			if got := all(); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			wire := ""
			h.Visit(func(key, value []byte) bool {
				wire += string(key) + ": " + string(value) + "\r\n"
				return true
			})
			if got := string(h.AppendHead(nil, Framing{Length: -2})); got != "GET / HTTP/1.1\r\n"+wire+"\r\n" {
				t.Errorf("%q, want %q", got, wire)
			}
			h.SetKnown(field.Forwarded, []byte("x"))
			h.SetKnown(field.XForwardedHost, []byte("y"))
			parts := strings.Split(test.want, "|")
			if got := all(); got != parts[0]+"|y|"+parts[2]+"|x" {
				t.Errorf("after a change: %s", got)
			}
			if got := string(h.AppendHead(nil, Framing{Length: -2})); !strings.Contains(got, "\r\nX-Forwarded-Host: y\r\n") || !strings.Contains(got, "\r\nForwarded: x\r\n") {
				t.Errorf("after a change: %q", got)
			}
		}
	}
}

func TestForwardAllocations(t *testing.T) {
	in := mustParse(t, "Host: h\r\nUser-Agent: u\r\nConnection: close\r\nX: 1\r\n", false)
	var out RequestHeader
	var forwarded ForwardedFields
	client := netip.MustParseAddr("1.2.3.4")
	forward := func() {
		client = client.Next()
		in.ForwardTo(&out, false)
		forwarded.AddTo(&out, client, []byte("h"), "http")
	}
	if n := testing.AllocsPerRun(100, forward); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzForward: what goes out are the fields that came, in their order, without those that
// concern one connection and those that Connection lists.
func FuzzForward(f *testing.F) {
	f.Add("Host: h\r\nConnection: a, close\r\nA: 1\r\nB: 2\r\nTE: trailers\r\n", false)
	f.Add("Host: h\r\nconnection: Content-Type,x-y\r\ncontent-type: t\r\nX-Y: 1\r\nx_forwarded_for: 1\r\n", true)
	f.Fuzz(func(t *testing.T, fields string, keepsNames bool) {
		in, err := parseFields(fields, keepsNames)
		if err != nil {
			return
		}
		listed := []string{"connection", "transfer-encoding"}
		for i := range in.Table.Len() {
			if ascii.EqualFold(in.Table.Name(i), "Connection") {
				for name := range strings.SplitSeq(strings.ToLower(string(in.Table.Value(i))), ",") {
					if name = strings.Trim(name, " \t"); name != "host" && name != "content-length" {
						listed = append(listed, name)
					}
				}
			}
		}
		var want []string
		for i := range in.Table.Len() {
			name := string(in.Table.Name(i))
			if !slices.Contains(listed, strings.ToLower(name)) && ForwardKindOf([]byte(name)) == EndToEnd {
				want = append(want, name+": "+string(in.Table.Value(i)))
			}
		}
		var out RequestHeader
		in.ForwardTo(&out, false)
		var got []string
		for i := range out.Table.Len() {
			got = append(got, string(out.Table.Name(i))+": "+string(out.Table.Value(i)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", fields, got, want)
		}
	})
}

// TestStartOfForwarded: heads that follow each other through one header are those of headers of their
// own, whatever the start of the last one was.
func TestStartOfForwarded(t *testing.T) {
	var kept ResponseHeader
	kept.DefaultServer, kept.ShowsServer = []byte("own"), true
	f := Framing{Date: 1, Length: 2}
	isUsed := false
	for _, head := range []string{
		"200 OK\r\nServer: a\r\nX: 1", "200 OK\r\nServer: a\r\nX: 2", "200 OK\r\nServer: b", "200 Why\r\nServer: b", "404 Not Found\r\nServer: b",
		"404 Not Found", "200 OK\r\nServer: own\r\nContent-Type: t", "200 OK\r\nServer:", "200 OK\r\nServer: " + strings.Repeat("s", 200), "999 Unknown Status Code\r\nServer: a",
	} {
		var h ResponseHeader
		b := bufio.NewReader(strings.NewReader("HTTP/1.1 " + head + "\r\nContent-Length: 2\r\n\r\n"))
		if err := h.Read(b, ReaderLimits(b), nil); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var fresh ResponseHeader
			fresh.DefaultServer = kept.DefaultServer
			h.ForwardTo(&kept)
			h.ForwardTo(&fresh)
			want := fresh.appendHead(nil, nil, &f)
			if got := kept.AppendHead(nil, f); string(got) != string(want) {
				t.Errorf("%q: %q, want %q", head, got, want)
			}
			isUsed = isUsed || kept.startFor(&f) != nil
		}
	}
	if !isUsed {
		t.Error("no start is used")
	}
}
