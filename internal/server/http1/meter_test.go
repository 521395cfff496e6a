package http1_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/server/http1/http1test"
)

// fullMeter returns a Meter that counts everything.
func fullMeter() *sluice.Meter {
	words := make([]struct {
		word atomic.Uint64
		_    [56]byte
	}, 9)
	m := &sluice.Meter{Accepted: &words[0].word, Done: &words[1].word, BytesRead: &words[2].word, BytesWritten: &words[3].word}
	for i := range m.Status {
		m.Status[i] = &words[4+i].word
	}
	return m
}

// TestEmptyMeter: words that are not there are not counted in.
func TestEmptyMeter(t *testing.T) {
	m := &sluice.Meter{}
	c := newMeteredConn(m)
	for range 3 {
		c.RoundTrip(t, []byte(simpleGet))
	}
	if n := m.Requests(); n != 0 {
		t.Errorf("%d requests without a word for them", n)
	}
}

// TestMeterCountsBytes: all that came and all that was sent is counted, once, whoever wrote it.
func TestMeterCountsBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	const fileSize = 20_000
	if err := os.WriteFile(path, make([]byte, fileSize), 0o600); err != nil {
		t.Fatal(err)
	}
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n" }
	const sized = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
	const chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n"
	for name, in := range map[string]string{
		"one": get("/"), "some": get("/") + get("/") + get("/"), "bodies": sized + chunked + sized,
		"unread":  get("/") + strings.ReplaceAll(sized+chunked, "POST /", "POST /unread") + get("/"),
		"flushed": get("/") + get("/flush") + get("/flush") + get("/"), "large": get("/") + get("/large") + get("/large") + get("/"),
		"a file": get("/") + get("/file"), "hints": get("/") + get("/hints") + get("/hints"),
	} {
		for _, streams := range []bool{false, true} {
			m := fullMeter()
			s := &sluice.Server{Logger: silence{}, StreamRequestBody: streams, Handler: func(ctx *sluice.RequestCtx) {
				if m.InFlight() != 1 {
					t.Errorf("%s: %d requests in flight", name, m.InFlight())
				}
				switch string(ctx.Path()) {
				case "/flush":
					ctx.SetBodyString("a")
					_ = ctx.Flush()
				case "/large":
					ctx.SetBody(make([]byte, 100<<10))
				case "/file":
					f, err := os.Open(path)
					if err != nil {
						t.Fatal(err)
					}
					ctx.SetBodyStream(f, fileSize)
				case "/hints":
					ctx.Response.Header.Add(sluice.HeaderLink, "</a>")
					_ = ctx.EarlyHints()
				case "/unread":
				default:
					ctx.Write(ctx.PostBody())
				}
			}}
			s.Control().Meter = m
			c := http1test.OpenSteady(acceptorOf(s), false)
			c.DropsFiles = true
			sent := len(c.RoundTrip(t, []byte(in))) + len(c.Sent)
			if name == "a file" {
				sent += fileSize
			}
			if read, written := m.BytesRead.Load(), m.BytesWritten.Load(); read != uint64(len(in)) || written != uint64(sent) || m.InFlight() != 0 {
				t.Errorf("%s, streams %v: %d of %d bytes read, %d of %d written, %d in flight", name, streams, read, len(in), written, sent, m.InFlight())
			}
		}
	}
}

// TestMeterAge: a request is in progress from when it is complete, or, if it came at once, from
// when it came.
func TestMeterAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fullMeter()
		var ages []time.Duration
		s := &sluice.Server{Logger: silence{}, Handler: func(*sluice.RequestCtx) {
			time.Sleep(3 * time.Second)
			ages = append(ages, time.Since(m.Oldest(time.Now())).Round(time.Second))
		}}
		s.Control().Meter = m
		c := &http1test.Conn{}
		p := c.Open(acceptorOf(s))
		body := len(smallPost) - 3
		for _, in := range []string{simpleGet, simpleGet + simpleGet, simpleGet[:9], simpleGet[9:], smallPost[:body], smallPost[body:]} {
			c.Feed(t, p, []byte(in))
			time.Sleep(5 * time.Second)
		}
		p.Closed(nil)
		for i, age := range ages {
			if age < time.Second || age > 4*time.Second { // the words of a Meter count seconds
				t.Errorf("request %d is %v old", i, age)
			}
		}
		if len(ages) != 5 {
			t.Errorf("%d requests", len(ages))
		}
	})
}

// newMeteredConn returns a connection of a server with a Meter, or without.
func newMeteredConn(m *sluice.Meter) *http1test.Steady {
	s := &sluice.Server{Handler: plainTextHandler, Logger: silence{}}
	s.Control().Meter = m
	return http1test.OpenSteady(acceptorOf(s), false)
}

func TestMeterDoesNotAllocate(t *testing.T) {
	m := fullMeter()
	c := newMeteredConn(m)
	in := []byte(simpleGet)
	c.RoundTrip(t, in)
	if n := testing.AllocsPerRun(1000, func() { c.RoundTrip(t, in) }); n != 0 && !invariants.Enabled {
		t.Errorf("%v allocations", n)
	}
	if m.Requests() < 1000 || m.InFlight() != 0 {
		t.Errorf("%d requests, %d in flight", m.Requests(), m.InFlight())
	}
}

// BenchmarkServerMeter is what a Meter adds to a request that costs nothing
// else: both kinds take turns, and the quickest turns count, so that the noise of
// a busy machine hits neither.
func BenchmarkServerMeter(b *testing.B) {
	conns := [2]*http1test.Steady{newMeteredConn(nil), newMeteredConn(fullMeter())}
	least := [2]time.Duration{time.Hour, time.Hour}
	in := []byte(simpleGet)
	const batch = 200
	for turn := 0; b.Loop(); turn++ {
		for i := range conns {
			which := (i + turn) % 2
			begin := time.Now()
			for range batch {
				conns[which].RoundTrip(b, in)
			}
			least[which] = min(least[which], time.Since(begin))
		}
	}
	b.ReportMetric(float64(least[0].Nanoseconds())/batch, "ns/request-without")
	b.ReportMetric(float64(least[1].Nanoseconds())/batch, "ns/request-with")
}
