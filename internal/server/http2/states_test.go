package http2

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// A streamCase is a state of RFC 9113 section 5.1 that stream 1 is in, and the answers to
// frames that depend on it. "-" is no answer, a code alone RST_STREAM with it, a code after
// ! the end of the connection.
type streamCase struct {
	name  string
	setup func(e *fakeEngine)
	// isAnswering: the frames arrive after the response, before the Task returns.
	isAnswering bool
	id          uint32 // 0: 1
	answers     [len(stateFrames)]string
}

// stateFrames are the frames whose answer depends on the state.
var stateFrames = [...]struct {
	name string
	of   func(e *fakeEngine, id uint32) []byte
}{
	{"DATA", func(_ *fakeEngine, id uint32) []byte { return data(nil, id, 5, false) }},
	{"HEADERS", func(e *fakeEngine, id uint32) []byte { return e.peer.request(nil, id, get, true) }},
	{"trailers", func(e *fakeEngine, id uint32) []byte { return e.peer.trailer(nil, id, true) }},
	{"RST_STREAM", func(_ *fakeEngine, id uint32) []byte { return h2.AppendReset(nil, id, h2.CodeCancel) }},
	{"WINDOW_UPDATE", func(_ *fakeEngine, id uint32) []byte { return h2.AppendWindowUpdate(nil, id, 1) }},
	{"WINDOW_UPDATE of 0", func(_ *fakeEngine, id uint32) []byte { return h2.AppendWindowUpdate(nil, id, 0) }},
	{"PRIORITY of itself", func(_ *fakeEngine, id uint32) []byte {
		return frame(nil, 0x2, 0, id, []byte{0, 0, 0, byte(id), 9})
	}},
	{"PRIORITY of 4 bytes", func(_ *fakeEngine, id uint32) []byte { return frame(nil, 0x2, 0, id, []byte{0, 0, 0, 9}) }},
}

// otherFrames are those with the same answer in each state.
var otherFrames = []struct {
	name, answer string
	of           func(id uint32) []byte
}{
	{"PRIORITY", "-", func(id uint32) []byte { return frame(nil, 0x2, 0, id, []byte{0, 0, 0, 9, 9}) }},
	{"PRIORITY_UPDATE", "-", func(id uint32) []byte { return h2.AppendPriorityUpdate(nil, id|1, fieldlist.Priority{Urgency: 1}) }},
	{"unknown", "-", func(id uint32) []byte { return frame(nil, 0x77, 0xff, id, []byte("abc")) }},
	{"RST_STREAM of 3 bytes", "!FRAME_SIZE_ERROR", func(id uint32) []byte { return frame(nil, 0x3, 0, id, []byte{0, 0, 0}) }},
	{"WINDOW_UPDATE of 3 bytes", "!FRAME_SIZE_ERROR", func(id uint32) []byte { return frame(nil, 0x8, 0, id, []byte{0, 0, 1}) }},
	{"HEADERS of 4 bytes with a priority", "!FRAME_SIZE_ERROR", func(id uint32) []byte { return frame(nil, 0x1, 0x24, id|1, make([]byte, 4)) }},
	{"DATA with nothing but padding", "!PROTOCOL_ERROR", func(id uint32) []byte { return frame(nil, 0x0, 0x8, id|1, []byte{1}) }},
	{"SETTINGS", "!PROTOCOL_ERROR", func(id uint32) []byte { return frame(nil, 0x4, 0, id, nil) }},
	{"PUSH_PROMISE", "!PROTOCOL_ERROR", func(id uint32) []byte { return frame(nil, 0x5, 0x4, id, []byte{0, 0, 0, 2, 0x82}) }},
	{"PING", "!PROTOCOL_ERROR", func(id uint32) []byte { return frame(nil, 0x6, 0, id, make([]byte, 8)) }},
	{"GOAWAY", "!PROTOCOL_ERROR", func(id uint32) []byte { return frame(nil, 0x7, 0, id, make([]byte, 8)) }},
	{"CONTINUATION", "!PROTOCOL_ERROR", func(id uint32) []byte { return frame(nil, 0x9, 0x4, id, []byte{0x82}) }},
	{"PRIORITY_UPDATE on a stream", "!PROTOCOL_ERROR", func(id uint32) []byte { return frame(nil, 0x10, 0, id, make([]byte, 4)) }},
}

var (
	ofIdle   = [...]string{"!PROTOCOL_ERROR", "200", "PROTOCOL_ERROR", "!PROTOCOL_ERROR", "!PROTOCOL_ERROR", "!PROTOCOL_ERROR", "!PROTOCOL_ERROR", "!FRAME_SIZE_ERROR"}
	ofOpen   = [...]string{"-", "PROTOCOL_ERROR", "200", "-", "-", "PROTOCOL_ERROR", "PROTOCOL_ERROR", "FRAME_SIZE_ERROR"}
	ofRemote = [...]string{"STREAM_CLOSED", "STREAM_CLOSED", "STREAM_CLOSED", "-", "-", "PROTOCOL_ERROR", "PROTOCOL_ERROR", "FRAME_SIZE_ERROR"}
	ofEnded  = [...]string{"!STREAM_CLOSED", "!STREAM_CLOSED", "!STREAM_CLOSED", "-", "-", "PROTOCOL_ERROR", "PROTOCOL_ERROR", "FRAME_SIZE_ERROR"}
	ofOurs   = [...]string{"-", "-", "-", "-", "-", "-", "-", "-"}
	ofTheirs = [...]string{"STREAM_CLOSED", "STREAM_CLOSED", "STREAM_CLOSED", "-", "-", "PROTOCOL_ERROR", "PROTOCOL_ERROR", "FRAME_SIZE_ERROR"}
	ofEven   = [...]string{"!PROTOCOL_ERROR", "!PROTOCOL_ERROR", "!PROTOCOL_ERROR", "!PROTOCOL_ERROR", "!PROTOCOL_ERROR", "!PROTOCOL_ERROR", "!PROTOCOL_ERROR", "!FRAME_SIZE_ERROR"}
)

// ofSkipped: the stream has ended, and no request may have its number (section 5.1.1).
var ofSkipped = [...]string{"!STREAM_CLOSED", "!PROTOCOL_ERROR", "!PROTOCOL_ERROR", "-", "-", "PROTOCOL_ERROR", "PROTOCOL_ERROR", "FRAME_SIZE_ERROR"}

// ofHalfLocal: a fault of the peer after the response ends the stream.
var ofHalfLocal = [...]string{"NO_ERROR", "PROTOCOL_ERROR", "-", "-", "NO_ERROR", "PROTOCOL_ERROR", "PROTOCOL_ERROR", "FRAME_SIZE_ERROR"}

func streamCases() []streamCase {
	opens := func(r fieldlist.RequestFields, isLast bool, then ...[]byte) func(e *fakeEngine) {
		return func(e *fakeEngine) {
			in := e.peer.request(nil, 1, r, isLast)
			e.feed(append(in, strings.Join(toStrings(then), "")...))
		}
	}
	zero, cancel := h2.AppendWindowUpdate(nil, 1, 0), h2.AppendReset(nil, 1, h2.CodeCancel)
	return []streamCase{
		{name: "idle", answers: ofIdle},
		{name: "idle, of the server", id: 2, answers: ofEven},
		{name: "open", setup: opens(post, false), answers: ofOpen},
		{name: "half-closed (local)", setup: func(e *fakeEngine) {
			e.isStreamed = func(r *testRequest) bool { return r.id == 1 }
			opens(post, false)(e)
		}, isAnswering: true, answers: ofHalfLocal},
		{name: "half-closed (remote)", setup: opens(get, true), answers: ofRemote},
		{name: "half-closed (remote), content waits", setup: func(e *fakeEngine) {
			e.handler = respondWith(70 << 10)
			opens(get, true)(e)
			e.runTasks()
			e.handler = respondWith(0)
		}, answers: ofRemote},
		{name: "closed by END_STREAM of both", setup: func(e *fakeEngine) {
			opens(get, true)(e)
			e.runTasks()
		}, answers: ofEnded},
		{name: "closed by RST_STREAM sent", setup: opens(post, false, zero), answers: ofOurs},
		{name: "closed by RST_STREAM sent, a Task waits", setup: opens(get, true, zero), answers: ofOurs},
		{name: "closed by RST_STREAM of both", setup: opens(post, false, zero, cancel), answers: ofOurs},
		{name: "closed by REFUSED_STREAM", setup: func(e *fakeEngine) {
			e.conn.cfg.Settings.MaxConcurrentStreams = 0
			opens(post, false)(e)
			e.conn.cfg.Settings.MaxConcurrentStreams = 250
		}, answers: ofOurs},
		{name: "closed by RST_STREAM received", setup: opens(post, false, cancel), answers: ofTheirs},
		{name: "closed by RST_STREAM received, a Task waits", setup: opens(get, true, cancel), answers: ofTheirs},
		{name: "closed because it was skipped", setup: func(e *fakeEngine) {
			e.feed(e.peer.request(nil, 5, get, true))
			e.runTasks()
		}, answers: ofSkipped},
	}
}

func toStrings(pieces [][]byte) (s []string) {
	for _, p := range pieces {
		s = append(s, string(p))
	}
	return s
}

// TestStreamStates sends each frame in each state of a stream.
func TestStreamStates(t *testing.T) {
	for _, c := range streamCases() {
		t.Run(c.name, func(t *testing.T) {
			for i, f := range stateFrames {
				c.check(t, f.name, c.answers[i], f.of)
			}
			for _, f := range otherFrames {
				answer := f.answer
				if c.id == 2 && answer == "!FRAME_SIZE_ERROR" {
					continue // either is right
				}
				if c.isAnswering && answer == "-" {
					answer = "NO_ERROR"
				}
				c.check(t, f.name, answer, func(_ *fakeEngine, id uint32) []byte { return f.of(id) })
			}
		})
	}
}

// check sends one frame in the state, and then a request, which must be answered unless the
// connection has ended.
func (c *streamCase) check(t *testing.T, name, want string, of func(e *fakeEngine, id uint32) []byte) {
	t.Helper()
	e := newEngine(t, testConfig())
	if c.setup != nil {
		c.setup(e)
	}
	e.peer.took()
	id := max(c.id, 1)
	if c.isAnswering {
		e.handler = func(r *testRequest) {
			r.stream.Respond(fields{status: 200}, nil)
			e.pump()
			e.handler = respondWith(0)
			e.peer.took()
			e.feed(of(e, id))
		}
		e.runTasks()
	} else {
		e.feed(of(e, id))
		if strings.HasPrefix(want, "-") || strings.HasPrefix(want, "200") || e.peer.hasGone {
			e.runTasks()
		}
	}
	var got []string
	for _, line := range e.peer.lines {
		var number uint32
		var code string
		if n, _ := fmt.Sscanf(line, "GOAWAY %d %s", &number, &code); n == 2 {
			got = append(got, "!"+code)
		} else if n, _ := fmt.Sscanf(line, "RST_STREAM %d %s", &number, &code); n == 2 && number == id {
			got = append(got, code)
		} else if want == "200" && strings.HasPrefix(line, "HEADERS 1 200") {
			got = append(got, "200")
		}
	}
	if s := strings.Join(append(got, "-")[:max(len(got), 1)], " "); s != want {
		t.Errorf("%s: the answer is %s, want %s", name, s, want)
		return
	}
	if e.peer.took(); !strings.HasPrefix(want, "!") {
		e.feed(e.peer.request(nil, 99, get, true))
		e.runTasks()
		if s := e.peer.took(); !strings.Contains(s, "HEADERS 99 200") {
			t.Errorf("%s: the next request gets %s", name, s)
		}
	}
	e.close()
	e.runTasks()
	e.checkEnded()
}
