package h2

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
)

func (e *Encoder) add(dst []byte, name, value string) []byte {
	return e.AppendField(dst, field.Lookup(name), []byte(name), []byte(value))
}

const date = "Sun, 06 Nov 1994 08:49:37 GMT"

// appendHello appends the head of a small response.
func appendHello(dst []byte, e *Encoder, server, contentType, date []byte) []byte {
	dst = e.Begin(dst)
	dst = e.AppendStatus(dst, 200)
	dst = e.AppendServer(dst, server, nil)
	dst = e.AppendDate(dst, date)
	dst = e.AppendField(dst, field.ContentType, field.ContentType.Canonical(), contentType)
	return e.AppendLength(dst, 13)
}

var (
	helloServer = []byte("Sluice")
	helloType   = []byte("text/plain; charset=utf-8")
	helloDate   = []byte(date)
)

func newEncoder(pairs *Pairs) *Encoder {
	e := new(Encoder)
	e.Reset(pairs)
	return e
}

// TestHello: how many bytes the head of a small response needs.
func TestHello(t *testing.T) {
	var pairs Pairs
	e, r := newEncoder(&pairs), newBlockReader()
	var sizes []int
	for i := range 2 * sightings {
		block := appendHello(nil, e, helloServer, helloType, helloDate)
		sizes = append(sizes, len(block))
		if err := r.read(fieldlist.Response, block); err != nil {
			t.Fatal(err)
		}
		want := [][2]string{{":status", "200"}, {"server", "Sluice"}, {"date", date}, {"content-type", "text/plain; charset=utf-8"}, {"content-length", "13"}}
		if got := r.list(); !slices.Equal(got, want) {
			t.Fatalf("block %d: %q", i, got)
		}
	}
	if want := []int{61, 60, 36, 36, 34, 9, 9, 9}; !slices.Equal(sizes, want) {
		t.Errorf("the blocks have %d bytes, want %d", sizes, want)
	}
	e.Reset(&pairs) // another connection
	sizes = sizes[:0]
	for range 4 {
		sizes = append(sizes, len(appendHello(nil, e, helloServer, helloType, helloDate)))
	}
	if want := []int{59, 33, 9, 9}; !slices.Equal(sizes, want) {
		t.Errorf("on the next connection they have %d bytes, want %d", sizes, want)
	}
}

// A serverFields sends responses that have Server and Alt-Svc alone, and reads them.
type serverFields struct {
	*testing.T
	e *Encoder
	r *blockReader
}

// send returns how many bytes the fields take. Empty ones are left out.
func (s serverFields) send(server, altSvc []byte) int {
	s.Helper()
	block := s.e.AppendServer(s.e.AppendStatus(s.e.Begin(nil), 200), server, altSvc)
	if err := s.r.read(fieldlist.Response, block); err != nil {
		s.Fatal(err)
	}
	if got := string(s.r.table.Get(field.Server)); got != string(server) {
		s.Fatalf("server %q became %q", server, got)
	}
	got := ""
	if i := s.r.table.Find(field.Other, altSvcName, 0); i >= 0 {
		got = string(s.r.table.Value(i))
	}
	if got != string(altSvc) {
		s.Fatalf("alt-svc %q became %q", altSvc, got)
	}
	return len(block) - 1 // of the status
}

var helloAltSvc = []byte(`h3=":443"; ma=86400`)

// TestServerFields: Server and Alt-Svc take one byte each from the second response of a connection
// on, and no memory, wherever the values are.
func TestServerFields(t *testing.T) {
	var pairs Pairs
	s := serverFields{t, newEncoder(&pairs), newBlockReader()}
	for range sightings + 1 {
		s.send(helloServer, helloAltSvc)
	}
	if pairs.server.Load() == nil || pairs.altSvc.Load() == nil {
		t.Fatal("no constants")
	}
	for _, same := range [][2][]byte{{helloServer, helloAltSvc}, {slices.Clone(helloServer), slices.Clone(helloAltSvc)}} {
		if n := s.send(same[0], same[1]); n != 2 {
			t.Errorf("a later response has %d bytes, want 2", n)
		}
	}
	if n := s.send(nil, helloAltSvc) + s.send(helloServer, nil) + s.send(nil, nil); n != 2 {
		t.Errorf("%d bytes with one field each, want 1", n)
	}
	s.send(helloServer, helloAltSvc) // after the clones, these are the constants again
	var block []byte
	both := func() { block = s.e.AppendServer(block[:0], helloServer, helloAltSvc) }
	if n := testing.AllocsPerRun(100, both); n > 0 || len(block) != 2 {
		t.Errorf("%v allocations, %x", n, block)
	}
	for range sightings + 1 {
		s.send(helloServer[:3], helloAltSvc[:9]) // parts of the same memory
	}
}

// TestServerFieldsAreSentAgain: on another connection, and when the peer's table has lost them.
func TestServerFieldsAreSentAgain(t *testing.T) {
	var pairs Pairs
	s := serverFields{t, newEncoder(&pairs), newBlockReader()}
	for range sightings + 1 {
		s.send(helloServer, helloAltSvc)
	}
	s.e, s.r = newEncoder(&pairs), newBlockReader()
	if first, second := s.send(helloServer, helloAltSvc), s.send(helloServer, helloAltSvc); first <= 2 || second != 2 {
		t.Errorf("on the next connection they have %d and %d bytes", first, second)
	}
	for i := range 2 * maxKnown {
		for range sightings + 1 {
			if err := s.r.read(fieldlist.Trailer, s.e.add(nil, fmt.Sprint("x-", i), "v")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if first, second := s.send(helloServer, helloAltSvc), s.send(helloServer, helloAltSvc); first <= 2 || second != 2 {
		t.Errorf("after others they have %d and %d bytes", first, second)
	}
	s.e.SetLimit(0)
	s.r.d.SetLimit(0)
	for range 3 {
		if n := s.send(helloServer, helloAltSvc); n <= 2 {
			t.Errorf("without a table they have %d bytes", n)
		}
	}
}

// TestDates: a new date is put into the table when it is sent again.
func TestDates(t *testing.T) {
	var pairs Pairs
	e, r := newEncoder(&pairs), newBlockReader()
	for second := range 40 {
		text := fmt.Sprintf("Sun, 06 Nov 1994 08:49:%02d GMT", second)
		for i := range second % 4 {
			block := e.AppendDate(e.AppendStatus(e.Begin(nil), 200), []byte(text))
			if err := r.read(fieldlist.Response, block); err != nil {
				t.Fatal(err)
			}
			if got := string(r.table.Get(field.Date)); got != text {
				t.Fatalf("%s became %s", text, got)
			}
			if isIndexed := len(block) == 2; isIndexed != (i == 2) {
				t.Errorf("second %d, response %d: %x", second, i, block)
			}
		}
	}
	if r.d.table.count != 20 { // of those that were sent twice or more
		t.Errorf("the peer has %d entries", r.d.table.count)
	}
}

// TestSecretsAreNeverIndexed: RFC 7541 section 7.1.3.
func TestSecretsAreNeverIndexed(t *testing.T) {
	var pairs Pairs
	e := newEncoder(&pairs)
	for _, name := range []string{"Cookie", "set-cookie", "Authorization", "Proxy-Authorization"} {
		for range 3 * sightings {
			block := e.add(nil, name, "secret")
			r := newBlockReader()
			if err := r.read(fieldlist.Trailer, block); err != nil || block[0]&0xf0 != 0x10 || r.d.table.count != 0 {
				t.Fatalf("%s: %x, %v", name, block, err)
			}
		}
	}
	if pairs.count.Load() != 0 {
		t.Error("there are pairs")
	}
}

// TestVolatileFieldsAreNotIndexed: neither are long ones.
func TestVolatileFieldsAreNotIndexed(t *testing.T) {
	var pairs Pairs
	e, r := newEncoder(&pairs), newBlockReader()
	for range 3 * sightings {
		block := e.AppendRequest(e.Begin(nil), fieldlist.RequestFields{Method: []byte("GET"), Scheme: []byte("http"), Path: []byte("/path"), Authority: []byte(strings.Repeat("a", 500))})
		block = e.add(block, "etag", "x")
		block = e.add(block, "content-length", "1")
		block = e.add(block, "x-long", strings.Repeat("v", maxPairText))
		if err := r.read(fieldlist.Request, block); err != nil || r.d.table.count != 0 {
			t.Fatal(err, r.d.table.lines())
		}
	}
}

func TestConnectionFieldsAreLeftOut(t *testing.T) {
	e := newEncoder(new(Pairs))
	for _, name := range []string{"Connection", "keep-alive", "Transfer-Encoding", "Upgrade", "Proxy-Connection"} {
		if got := e.add(nil, name, "x"); len(got) != 0 {
			t.Errorf("%s: %x", name, got)
		}
	}
}

// TestPairsAreBounded: in number, for each name, and in the peer's table.
func TestPairsAreBounded(t *testing.T) {
	var pairs Pairs
	e, r := newEncoder(&pairs), newBlockReader()
	for i := range 40 {
		for j := range 40 {
			for range sightings + 2 {
				block := e.add(e.Begin(nil), fmt.Sprint("X-Name-", i), fmt.Sprint("value", j))
				if err := r.read(fieldlist.Trailer, block); err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprintf("%s=%s", r.table.Name(0), r.table.Value(0)); got != fmt.Sprintf("X-Name-%d=value%d", i, j) {
					t.Fatal(got)
				}
			}
		}
	}
	byName, count := map[string]int{}, 0
	for i := range pairs.slots {
		if p := pairs.slots[i].Load(); p != nil {
			count++
			byName[string(p.name)]++
		}
	}
	for name, n := range byName {
		if n > maxNamesakes {
			t.Errorf("%d pairs of %s", n, name)
		}
	}
	if count != maxPairs || e.count != maxKnown {
		t.Errorf("%d pairs, %d known", count, e.count)
	}
}

// TestEncoderLimits: size updates, and no more entries than fit.
func TestEncoderLimits(t *testing.T) {
	var pairs Pairs
	learn := newEncoder(&pairs)
	for i := range 10 * sightings {
		learn.add(nil, "x-a", fmt.Sprint(i%10))
	}
	e, r := newEncoder(&pairs), newBlockReader()
	send := func(wantUpdate string) {
		t.Helper()
		block := e.Begin(nil)
		if got := hex.EncodeToString(block); got != wantUpdate {
			t.Errorf("update %s, want %s", got, wantUpdate)
		}
		var want []string
		for i := range 10 {
			block = e.add(block, "x-a", fmt.Sprint(i))
			want = append(want, fmt.Sprint(i))
		}
		for _, i := range []int{9, 3, 9, 9, 0} {
			block = e.add(block, "x-a", fmt.Sprint(i))
			want = append(want, fmt.Sprint(i))
		}
		if err := r.read(fieldlist.Trailer, block); err != nil {
			t.Fatal(err)
		}
		for i, value := range want {
			if got := string(r.table.Value(i)); got != value {
				t.Fatalf("value %d is %s, want %s", i, got, value)
			}
		}
		size := 0
		for i := range e.count {
			size += e.sizeOf(i)
		}
		if size > e.limit || r.d.table.size > e.limit {
			t.Errorf("%d bytes, the peer has %d, of %d", size, r.d.table.size, e.limit)
		}
	}
	limit := func(size int) {
		e.SetLimit(size)
		r.d.SetLimit(size)
	}
	send("")
	limit(120)
	send("3f59")
	limit(0)
	send("20")
	limit(4096)
	send("3fe11f")
	limit(0)
	limit(100)
	send("203f45")
	limit(100)
	send("")
	limit(1 << 20)
	send("3fe11f")
	limit(40) // less than the date
	send("3f09")
	for range 3 {
		if err := r.read(fieldlist.Trailer, e.AppendDate(e.Begin(nil), []byte(date))); err != nil || string(r.table.Get(field.Date)) != date {
			t.Error(err)
		}
	}
}

// TestEncodesRequests: every pseudo-field, and names in lower case.
func TestEncodesRequests(t *testing.T) {
	var pairs Pairs
	e, r := newEncoder(&pairs), newBlockReader()
	for _, c := range []fieldlist.RequestFields{
		{Method: []byte("GET"), Scheme: []byte("https"), Authority: []byte("a.b"), Path: []byte("/")},
		{Method: []byte("POST"), Scheme: []byte("http"), Authority: []byte("a.b"), Path: []byte("/index.html?a=b")},
		{Method: []byte("PATCH"), Scheme: []byte("https"), Authority: []byte("a.b"), Path: []byte("/x")},
		{Method: []byte("CONNECT"), Authority: []byte("a.b:1")},
		{Method: []byte("CONNECT"), Scheme: []byte("https"), Authority: []byte("a.b"), Path: []byte("/x"), Protocol: []byte("websocket")},
	} {
		for range sightings + 2 {
			block := e.add(e.AppendRequest(e.Begin(nil), c), "User-Agent", "Sluice")
			block = e.add(block, "Access-Control-Request-Method", "X")
			block = e.add(block, "Accept-Charset", "utf-8")
			if err := r.read(fieldlist.Request, block); err != nil {
				t.Fatalf("%q: %v", c, err)
			}
			raw := r.table.Raw()
			got := fieldlist.RequestFields{Method: r.head.Method.In(raw), Scheme: r.head.Scheme.In(raw), Authority: r.head.Authority.In(raw), Path: r.head.Target.In(raw), Protocol: r.head.Connect.In(raw)}
			want := c
			if c.Path == nil {
				want.Path = c.Authority
			}
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
				t.Fatalf("%q, want %q", got, want)
			}
			if got := string(r.table.Get(field.UserAgent)) + string(r.table.Value(1)) + string(r.table.Value(2)); got != "SluiceXutf-8" {
				t.Fatal(got)
			}
		}
	}
	// All of it is indexed but the path, and :protocol by its name.
	block := e.AppendRequest(e.Begin(nil), fieldlist.RequestFields{Method: []byte("PATCH"), Scheme: []byte("https"), Authority: []byte("a.b"), Path: []byte("/"), Protocol: []byte("websocket")})
	if len(block) != 5 {
		t.Errorf("%x", block)
	}
}

func TestStatuses(t *testing.T) {
	e, r := newEncoder(new(Pairs)), newBlockReader()
	for range sightings + 2 {
		for status := 100; status < 600; status += 3 {
			if status == 101 {
				continue
			}
			if err := r.read(fieldlist.Response, e.AppendStatus(e.Begin(nil), status)); err != nil || r.head.StatusCode != status {
				t.Errorf("%d became %d: %v", status, r.head.StatusCode, err)
			}
		}
		for _, status := range []int{200, 204, 206, 304, 400, 404, 500} {
			block := e.AppendStatus(e.Begin(nil), status)
			if err := r.read(fieldlist.Response, block); err != nil || r.head.StatusCode != status || len(block) != 1 {
				t.Errorf("%d became %d: %v", status, r.head.StatusCode, err)
			}
		}
	}
}

// TestPairsConcurrently: connections share a list.
func TestPairsConcurrently(t *testing.T) {
	var pairs Pairs
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			e, r := newEncoder(&pairs), newBlockReader()
			for i := range 2000 {
				value := fmt.Sprint(i * (g + 1) % 20)
				block := e.add(e.add(e.Begin(nil), "X-A", value), "Server", value)
				if err := r.read(fieldlist.Trailer, block); err != nil || string(r.table.Value(0)) != value || string(r.table.Value(1)) != value {
					t.Errorf("%s became %s: %v", value, r.table.Raw(), err)
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for i := range pairs.slots {
		if p := pairs.slots[i].Load(); p != nil {
			key := fmt.Sprintf("%d %s %s", p.code, p.name, p.value)
			if seen[key] {
				t.Errorf("%s is there twice", key)
			}
			seen[key] = true
		}
	}
	if len(seen) == 0 || len(seen) != int(pairs.count.Load()) {
		t.Errorf("%d pairs, %d counted", len(seen), pairs.count.Load())
	}
}

func TestHotPathAllocatesNothing(t *testing.T) {
	var pairs Pairs
	e, r := newEncoder(&pairs), newBlockReader()
	blocks := browserBlocks(t)
	var block []byte
	hello := func() {
		block = appendHello(block[:0], e, helloServer, helloType, helloDate)
		block = e.AppendField(block, field.Other, []byte("X-Request-Id"), blocks[0][:8])
		block = e.AppendField(block, field.SetCookie, []byte("Set-Cookie"), helloType)
	}
	request := func() {
		for _, b := range blocks {
			if err := r.read(fieldlist.Request, b[:len(b)/2], b[len(b)/2:]); err != nil {
				t.Fatal(err)
			}
		}
		r.d.Reset()
	}
	for range 10 {
		hello()
		request()
	}
	if n := testing.AllocsPerRun(100, hello); n != 0 {
		t.Errorf("encoding: %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, request); n > 0 {
		t.Errorf("decoding: %v allocations", n)
	}
	unwanted := func() {
		r.d.Begin(fieldlist.Unwanted, nil, nil)
		if err := r.d.Push(blocks[0]); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, unwanted); n > 0 {
		t.Errorf("decoding an unwanted block: %v allocations", n)
	}
}

// browserBlocks are the first and the second request of a browser.
func browserBlocks(t testing.TB) [][]byte {
	fields := [][2]string{
		{":method", "GET"}, {":authority", "www.example.com"}, {":scheme", "https"}, {":path", "/index.html?a=b"},
		{"sec-ch-ua", `"Not/A)Brand";v="8", "Chromium";v="126", "Google Chrome";v="126"`}, {"sec-ch-ua-mobile", "?0"},
		{"sec-ch-ua-platform", `"Linux"`}, {"upgrade-insecure-requests", "1"},
		{"user-agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"},
		{"accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8"},
		{"sec-fetch-site", "none"}, {"sec-fetch-mode", "navigate"}, {"sec-fetch-user", "?1"}, {"sec-fetch-dest", "document"},
		{"accept-encoding", "gzip, deflate, br, zstd"}, {"accept-language", "en-US,en;q=0.9"},
		{"cookie", "session=0123456789abcdef"}, {"cookie", "theme=dark"}, {"priority", "u=0, i"},
	}
	var first, second []byte
	for i, f := range fields {
		switch f[1] {
		case "GET":
			first, second = append(first, 0x82), append(second, 0x82)
		case "https":
			first, second = append(first, 0x87), append(second, 0x87)
		case "/index.html?a=b":
			first, second = fieldlist.AppendString(append(first, 4), 0, 7, []byte(f[1])), fieldlist.AppendString(append(second, 4), 0, 7, []byte(f[1]))
		default:
			first = appendLiteral(first, 0x40, 6, fieldlist.CodeOf([]byte(f[0])), []byte(f[0]))
			first = fieldlist.AppendString(first, 0, 7, []byte(f[1]))
			inserted := len(fields) - 1 - i
			if i == 1 {
				inserted -= 2
			}
			second = append(second, 0x80|byte(62+inserted))
		}
	}
	r := newBlockReader()
	for i, block := range [][]byte{first, second} {
		if err := r.read(fieldlist.Request, block); err != nil {
			t.Fatal(err)
		}
		if got := r.list(); len(got) != len(fields)-1 || got[0][1] != "www.example.com" || got[len(got)-1][1] != "u=0, i" {
			t.Fatalf("block %d: %q", i, got)
		}
	}
	return [][]byte{first, second}
}

func BenchmarkEncodeHello(b *testing.B) {
	var pairs Pairs
	e := newEncoder(&pairs)
	var block []byte
	for range 10 {
		block = appendHello(block[:0], e, helloServer, helloType, helloDate)
	}
	for b.Loop() {
		block = appendHello(block[:0], e, helloServer, helloType, helloDate)
	}
	b.ReportMetric(float64(len(block)), "wire-bytes")
}

func BenchmarkDecodeBrowser(b *testing.B) {
	blocks := browserBlocks(b)
	r := newBlockReader()
	b.Run("First", func(b *testing.B) {
		for b.Loop() {
			r.d.Reset()
			if err := r.read(fieldlist.Request, blocks[0]); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(blocks[0])), "wire-bytes")
	})
	b.Run("Repeated", func(b *testing.B) {
		r.d.Reset()
		if err := r.read(fieldlist.Request, blocks[0]); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if err := r.read(fieldlist.Request, blocks[1]); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(blocks[1])), "wire-bytes")
	})
}

// TestEncodesStories: with lists of all kinds, another decoder reads what was
// encoded, whatever the limits.
func TestEncodesStories(t *testing.T) {
	s := readStories(t, "testdata/stories.json.gz")
	var pairs Pairs
	for range 3 { // pairs are found in the first rounds
		for _, lists := range s.Headers {
			e, r := newEncoder(&pairs), newBlockReader()
			for _, list := range lists {
				list = slices.DeleteFunc(slices.Clone(list), func(f [2]string) bool {
					return fieldlist.IsConnectionOnly(field.Lookup(f[0]), []byte(f[0])) || strings.TrimSpace(f[1]) != f[1]
				})
				if wantError(list) != nil {
					continue
				}
				block := e.Begin(nil)
				for _, f := range list {
					block = e.append(block, fieldlist.CodeOf([]byte(f[0])), []byte(f[0]), []byte(f[1]))
				}
				half := len(block) / 2
				r.check(t, "encoded", list, r.read(storyKind(list), block[:half], block[half:]))
			}
		}
	}
}
