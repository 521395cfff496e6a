package http2

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// TestRFC9113 sends frames to a connection whose preface was exchanged, and compares
// what it answers after the Tasks have run.
//
// long: a table
func TestRFC9113(t *testing.T) {
	for _, test := range []struct {
		name  string
		setup func(e *fakeEngine)
		send  func(e *fakeEngine) []byte
		want  string
	}{
		{"5.1: DATA on an idle stream", nil, func(e *fakeEngine) []byte { return data(nil, 1, 5, true) }, "GOAWAY 0 PROTOCOL_ERROR"},
		{"5.1: RST_STREAM of an idle stream", nil, func(e *fakeEngine) []byte { return h2.AppendReset(nil, 1, 0) }, "GOAWAY 0 PROTOCOL_ERROR"},
		{"5.1: WINDOW_UPDATE of an idle stream", nil, func(e *fakeEngine) []byte { return h2.AppendWindowUpdate(nil, 1, 1) }, "GOAWAY 0 PROTOCOL_ERROR"},
		{"5.1: DATA after END_STREAM", nil, func(e *fakeEngine) []byte {
			return data(e.peer.request(nil, 1, get, true), 1, 5, true)
		}, "RST_STREAM 1 STREAM_CLOSED"},
		{"5.1: HEADERS after END_STREAM", nil, func(e *fakeEngine) []byte {
			return e.peer.trailer(e.peer.request(nil, 1, get, true), 1, true)
		}, "RST_STREAM 1 STREAM_CLOSED"},
		{"5.1.1: a lower number", nil, func(e *fakeEngine) []byte {
			return e.peer.request(e.peer.request(nil, 5, get, true), 3, get, true)
		}, "GOAWAY 5 PROTOCOL_ERROR"},
		{"5.1.2: too many streams", func(e *fakeEngine) { e.conn.cfg.Settings.MaxConcurrentStreams = 1 }, func(e *fakeEngine) []byte {
			in := e.peer.request(e.peer.request(nil, 1, get, true), 3, post, false)
			return data(in, 3, 5, true)
		}, "RST_STREAM 3 REFUSED_STREAM, HEADERS 1 200 END"},
		{"6.1: padding counts", nil, func(e *fakeEngine) []byte {
			in := e.peer.request(nil, 1, post, false, "content-length", "5")
			return paddedData(in, 1, 5, 255, true)
		}, "HEADERS 1 200 END"},
		{"6.4: RST_STREAM before the Task", nil, func(e *fakeEngine) []byte {
			return h2.AppendReset(e.peer.request(nil, 1, get, true), 1, h2.CodeCancel)
		}, ""},
		{"6.5.2: a window beyond its limit", func(e *fakeEngine) { e.handler = respondWith(100) }, func(e *fakeEngine) []byte {
			in := e.peer.request(nil, 1, get, true)
			in = h2.AppendWindowUpdate(in, 1, 1<<31-1-65535)
			return setting(in, uint32(h2.SettingInitialWindowSize), 65536)
		}, "GOAWAY 1 FLOW_CONTROL_ERROR"},
		{"RFC 9218, 2.1: another value later", nil, func(*fakeEngine) []byte {
			return setting(nil, uint32(h2.SettingNoRFC7540Priorities), 1)
		}, "GOAWAY 0 PROTOCOL_ERROR"},
		{"6.7: PING", nil, func(e *fakeEngine) []byte { return h2.AppendPing(nil, [8]byte{1}, false) }, "PING ACK"},
		{"6.9: WINDOW_UPDATE of 0", nil, func(e *fakeEngine) []byte {
			return h2.AppendWindowUpdate(e.peer.request(nil, 1, get, true), 1, 0)
		}, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"6.9.1: a stream's window beyond its limit", nil, func(e *fakeEngine) []byte {
			return h2.AppendWindowUpdate(e.peer.request(nil, 1, get, true), 1, 1<<31-1)
		}, "RST_STREAM 1 FLOW_CONTROL_ERROR"},
		{"6.9.1: the connection's window beyond its limit", nil, func(e *fakeEngine) []byte {
			return h2.AppendWindowUpdate(nil, 0, 1<<31-1)
		}, "GOAWAY 0 FLOW_CONTROL_ERROR"},
		{"6.9.1: more than the window of a stream", func(e *fakeEngine) { e.isStreamed = always }, func(e *fakeEngine) []byte {
			in := e.peer.request(nil, 1, post, false)
			for range 4 {
				in = data(in, 1, 16<<10, false)
			}
			return data(in, 1, 1, false)
		}, "RST_STREAM 1 FLOW_CONTROL_ERROR"},
		{"6.9.2: a window of 0, and content later", func(e *fakeEngine) { e.handler = respondWith(100) }, func(e *fakeEngine) []byte {
			return e.peer.request(setting(nil, uint32(h2.SettingInitialWindowSize), 0), 1, get, true)
		}, "SETTINGS ACK, HEADERS 1 200"},
		{"8.1: response before the body", func(e *fakeEngine) { e.refuse = func(*testRequest) error { return errors.New("no") } }, func(e *fakeEngine) []byte {
			return data(e.peer.request(nil, 1, post, false), 1, 100, false)
		}, "HEADERS 1 400 END, RST_STREAM 1 NO_ERROR"},
		{"8.1: a trailer", nil, func(e *fakeEngine) []byte {
			return e.peer.trailer(data(e.peer.request(nil, 1, post, false), 1, 100, false), 1, true)
		}, "HEADERS 1 200 END"},
		{"8.1: a trailer that does not end the stream", nil, func(e *fakeEngine) []byte {
			return e.peer.trailer(data(e.peer.request(nil, 1, post, false), 1, 100, false), 1, false)
		}, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"8.1.1: a shorter body", nil, func(e *fakeEngine) []byte {
			return data(e.peer.request(nil, 1, post, false, "content-length", "6"), 1, 5, true)
		}, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"8.1.1: a longer body", nil, func(e *fakeEngine) []byte {
			return data(e.peer.request(nil, 1, post, false, "content-length", "4"), 1, 5, false)
		}, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"8.1.1: no body", nil, func(e *fakeEngine) []byte {
			return e.peer.request(nil, 1, post, true, "content-length", "4")
		}, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"8.2: a malformed field", nil, func(e *fakeEngine) []byte {
			return e.peer.request(nil, 1, get, true, "te", "gzip")
		}, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"8.6: interim responses", func(e *fakeEngine) {
			e.handler = func(r *testRequest) {
				r.stream.SendHead(fields{status: 103}, true, false)
				r.stream.Respond(fields{status: 200}, []byte("hello"))
			}
		}, func(e *fakeEngine) []byte { return e.peer.request(nil, 1, get, true) }, "HEADERS 1 103, HEADERS 1 200, DATA 1 5 END"},
		{"8.1: HEAD", func(e *fakeEngine) {
			e.handler = func(r *testRequest) { r.stream.SendHead(fields{status: 200}, false, true) }
		}, func(e *fakeEngine) []byte { return e.peer.request(nil, 1, get, true) }, "HEADERS 1 200 END"},
		{"8.1: a trailer of the response", func(e *fakeEngine) {
			e.handler = func(r *testRequest) {
				r.stream.SendHead(fields{status: 200}, false, false)
				r.stream.SendLast(nil, fields{extra: "t"})
			}
		}, func(e *fakeEngine) []byte { return e.peer.request(nil, 1, get, true) }, "HEADERS 1 200, TRAILER 1 END"},
		{"no response", func(e *fakeEngine) { e.handler = func(*testRequest) {} }, func(e *fakeEngine) []byte {
			return e.peer.request(nil, 1, get, true)
		}, "RST_STREAM 1 INTERNAL_ERROR"},
		{"a panic", func(e *fakeEngine) { e.handler = func(*testRequest) { panic("x") } }, func(e *fakeEngine) []byte {
			return e.peer.request(nil, 1, get, true)
		}, "RST_STREAM 1 INTERNAL_ERROR"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := newEngine(t, testConfig())
			if test.setup != nil {
				test.setup(e)
			}
			e.feed(test.send(e))
			e.runTasks()
			if got := e.peer.took(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			e.close()
			e.runTasks()
			e.checkEnded()
		})
	}
}

func always(*testRequest) bool { return true }

func respondWith(n int) func(r *testRequest) {
	return func(r *testRequest) { r.stream.Respond(fields{status: 200}, make([]byte, n)) }
}

// TestPreface: the first frames are our SETTINGS, the window of the connection and the
// PING of the first round trip.
func TestPreface(t *testing.T) {
	e := newSilentEngine(t, testConfig())
	const want = "SETTINGS, WINDOW_UPDATE 0 983041, PING sluicert"
	if got := e.peer.took(); got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	if e.writeTimeout != testConfig().StallTimeout {
		t.Fatalf("write time-out %v", e.writeTimeout)
	}
	e.feed([]byte("GET / HTTP/1.1\r\n\r\n"))
	if got := e.peer.took(); got != "GOAWAY 0 PROTOCOL_ERROR" || !e.isLast {
		t.Fatalf("got %q after HTTP/1.1", got)
	}
}

// TestNegativeWindow: a lower initial window makes windows negative (RFC 9113 section
// 6.9.2); content goes on when WINDOW_UPDATE has made them positive.
func TestNegativeWindow(t *testing.T) {
	e := newEngine(t, testConfig())
	e.handler = respondWith(65535 + 100)
	e.feed(h2.AppendWindowUpdate(e.peer.request(nil, 1, get, true), 0, 1<<20))
	e.runTasks()
	if got := e.peer.data[1]; got != 65535 {
		t.Fatalf("%d bytes within a window of 65535", got)
	}
	e.feed(setting(nil, uint32(h2.SettingInitialWindowSize), 0))
	e.feed(h2.AppendWindowUpdate(nil, 1, 65535))
	if got := e.peer.data[1]; got != 65535 {
		t.Fatalf("%d bytes in a window of 0", got)
	}
	e.feed(h2.AppendWindowUpdate(nil, 1, 99))
	if got := e.peer.data[1]; got != 65535+99 {
		t.Fatalf("%d bytes in a window of 99", got)
	}
	e.feed(setting(nil, uint32(h2.SettingInitialWindowSize), 1))
	if got := e.peer.data[1]; got != 65535+100 || e.streams[0].ended != 1 {
		t.Fatalf("%d bytes, %d ends after the last byte of window", got, e.streams[0].ended)
	}
}

// TestEmptyLast: END_STREAM without content needs no window (RFC 9113 section 6.9.1).
func TestEmptyLast(t *testing.T) {
	e := newEngine(t, testConfig())
	e.handler = func(r *testRequest) {
		r.stream.SendHead(fields{status: 200}, false, false)
		r.stream.Send(make([]byte, 32<<10))
		r.stream.Flush()
		e.pump()
		r.stream.Send(make([]byte, 32<<10-1))
		r.stream.Flush()
		e.pump()
		r.stream.SendLast(nil, nil)
	}
	e.feed(e.peer.request(nil, 1, get, true))
	e.runTasks()
	if e.conn.sendWindow != 0 || e.streams[0].ended != 1 {
		t.Fatalf("window %d, %d ends", e.conn.sendWindow, e.streams[0].ended)
	}
}

// TestEarlyAnswer: a complete response to a request that has not ended resets the
// stream. Its handler is not told that the peer has gone, and what arrives later is
// discarded with its credit returned (RFC 9113 section 8.1).
func TestEarlyAnswer(t *testing.T) {
	e := newEngine(t, testConfig())
	e.isStreamed = always
	isGone := false
	e.handler = func(r *testRequest) {
		r.stream.OnGone(func() { isGone = true })
		r.stream.Respond(fields{status: 200}, nil)
	}
	e.feed(data(e.peer.request(nil, 1, post, false), 1, 100, false))
	e.runTasks()
	if got := e.peer.took(); got != "HEADERS 1 200 END, RST_STREAM 1 NO_ERROR" || isGone {
		t.Fatalf("got %q, gone %v", got, isGone)
	}
	for range 32 {
		e.feed(data(nil, 1, 16<<10, false))
	}
	if held := e.conn.window.Held(); held != 0 || e.peer.hasGone {
		t.Fatalf("%d bytes of the connection's window are held, code %v", held, e.peer.goAway)
	}
	if e.peer.credit[0] < 512<<10 || e.peer.credit[1] != 0 {
		t.Fatalf("credit %v", e.peer.credit)
	}
}

// TestGoneTellsNobody: who wants to know no more that the client has gone is not called, also
// if it has.
func TestGoneTellsNobody(t *testing.T) {
	e := newEngine(t, testConfig())
	told := 0
	e.handler = func(r *testRequest) {
		r.stream.OnGone(func() { told++ })
		e.feed(h2.AppendReset(nil, 1, h2.CodeCancel))
		r.stream.OnGone(nil)
		r.stream.OnGone(func() { told++ })
	}
	e.feed(e.peer.request(nil, 1, get, true))
	e.runTasks()
	if told != 2 {
		t.Errorf("told %d times", told)
	}
}

// TestDrainIgnores: frames on streams above the last one of GOAWAY are discarded, and
// their DATA counts for the connection (RFC 9113 section 6.8).
func TestDrainIgnores(t *testing.T) {
	e := newEngine(t, testConfig())
	e.feed(e.peer.request(nil, 1, get, true))
	e.closing = true
	e.Prompt()
	e.pump()
	if got := e.peer.took(); got != "GOAWAY 2147483647 NO_ERROR, PING sluicego" {
		t.Fatalf("got %q", got)
	}
	e.feed(e.peer.request(nil, 3, get, true)) // before the peer knew
	e.feed(h2.AppendPing(nil, drainPing, true))
	if got := e.peer.took(); got != "GOAWAY 3 NO_ERROR" {
		t.Fatalf("got %q", got)
	}
	in := e.peer.request(nil, 5, post, false)
	in = data(in, 5, 1000, false)
	in = h2.AppendWindowUpdate(in, 5, 5000)
	in = h2.AppendReset(in, 5, h2.CodeCancel)
	e.feed(in)
	if got := e.peer.took(); got != "" || len(e.streams) != 2 {
		t.Fatalf("got %q, %d requests", got, len(e.streams))
	}
	if held := e.conn.window.Held(); held != 0 {
		t.Fatalf("%d bytes held", held)
	}
	e.runTasks()
	if got := e.peer.took(); got != "HEADERS 1 200 END, HEADERS 3 200 END" || !e.isLast {
		t.Fatalf("got %q, last %v", got, e.isLast)
	}
	e.close()
	e.checkEnded()
}

// TestDrainThenError: the last stream of a GOAWAY never rises (RFC 9113 section 6.8).
func TestDrainThenError(t *testing.T) {
	e := newEngine(t, testConfig())
	e.feed(e.peer.request(nil, 1, get, true))
	e.closing = true
	e.Prompt()
	e.pump()
	e.feed(h2.AppendPing(nil, drainPing, true))
	e.peer.took()
	e.feed(data(e.peer.request(nil, 3, post, false), 99, 1, false))
	if got := e.peer.took(); got != "GOAWAY 1 PROTOCOL_ERROR" {
		t.Fatalf("got %q", got)
	}
}

// TestMaxRequests: after the last request, GOAWAY announces the end.
func TestMaxRequests(t *testing.T) {
	cfg := testConfig()
	cfg.MaxRequests = 2
	e := newEngine(t, cfg)
	for id := uint32(1); id < 5; id += 2 {
		e.feed(e.peer.request(nil, id, get, true))
		e.runTasks()
	}
	const want = "HEADERS 1 200 END, GOAWAY 2147483647 NO_ERROR, PING sluicego, HEADERS 3 200 END"
	if got := e.peer.took(); got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	e.feed(h2.AppendPing(nil, drainPing, true))
	if got := e.peer.took(); got != "GOAWAY 3 NO_ERROR" || !e.isLast {
		t.Fatalf("got %q, last %v", got, e.isLast)
	}
}

// TestManyRefused: DATA of refused streams is discarded, however many there are: a
// client may send them before it knows our SETTINGS.
func TestManyRefused(t *testing.T) {
	e := newEngine(t, testConfig())
	e.peer.isQuiet = true
	for id := uint32(1); id < 2*500; id += 2 {
		e.feed(e.peer.request(nil, id, post, false))
	}
	for id := uint32(1); id < 2*500; id += 2 {
		e.feed(data(nil, id, 100, true))
	}
	if e.peer.hasGone || len(e.streams) != 250 {
		t.Fatalf("code %v, %d requests", e.peer.goAway, len(e.streams))
	}
}

// TestRoomReturns: windows that have grown give their room back when their streams end.
func TestRoomReturns(t *testing.T) {
	e := newEngine(t, testConfig())
	c := e.conn
	room := c.growth.Room
	e.feed(e.peer.request(nil, 1, post, false))
	s := e.streams[0].stream.conn.streams.find(1)
	c.growth.RoundTrip.Begin(1)
	c.growth.RoundTrip.End(1 << 40)
	for range 64 {
		e.feed(data(nil, 1, 16<<10, false))
	}
	if s.window.Size() <= 64<<10 {
		t.Fatal("the window has not grown")
	}
	e.feed(h2.AppendReset(nil, 1, 0))
	if got, want := c.growth.Room, room-int64(c.window.Size()-1<<20); got != want {
		t.Fatalf("room %d after the stream, want %d", got, want)
	}
}

// TestRoomAfterEnd: a stream that has ended for the peer leaves room for another, even
// before its Task returns (RFC 9113 section 5.1.2). Tasks that do not return are bounded.
func TestRoomAfterEnd(t *testing.T) {
	cfg := testConfig()
	cfg.Settings.MaxConcurrentStreams = 2
	e := newEngine(t, cfg)
	e.handler = func(r *testRequest) {
		r.stream.Respond(fields{status: 200}, nil)
		if id := r.stream.ID() + 2; id <= 9 {
			e.feed(e.peer.request(nil, id, get, true)) // the peer has the response
			if len(e.tasks) > 0 {
				e.runTask()
			}
		}
	}
	e.feed(e.peer.request(nil, 1, get, true))
	e.runTask()
	e.pump()
	const want = "HEADERS 1 200 END, HEADERS 3 200 END, HEADERS 5 200 END, HEADERS 7 200 END, RST_STREAM 9 REFUSED_STREAM"
	if got := strings.Join(e.peer.lines, ", "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
