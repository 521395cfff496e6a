package http2

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// raw returns any frame.
func raw(kind, flags byte, stream uint32, payload ...byte) []byte {
	n := len(payload)
	return append([]byte{0, byte(n >> 8), byte(n), kind, flags, 0, 0, 0, byte(stream)}, payload...)
}

// stateFrames are the frames whose answer depends on the state of their stream.
var stateFrames = [...]struct {
	name string
	of   func(p *fakePeer, id uint32) []byte
}{
	{"DATA", func(_ *fakePeer, id uint32) []byte { return data(id, "hello", false) }},
	{"HEADERS", func(p *fakePeer, id uint32) []byte { return p.respond(id, 200, false) }},
	{"trailers", func(p *fakePeer, id uint32) []byte { return p.respond(id, 0, true, "x-end", "1") }},
	{"RST_STREAM", func(_ *fakePeer, id uint32) []byte { return h2.AppendReset(nil, id, h2.CodeCancel) }},
	{"WINDOW_UPDATE", func(_ *fakePeer, id uint32) []byte { return h2.AppendWindowUpdate(nil, id, 1) }},
	{"WINDOW_UPDATE of 0", func(_ *fakePeer, id uint32) []byte { return h2.AppendWindowUpdate(nil, id, 0) }},
	{"PRIORITY of 4 bytes", func(_ *fakePeer, id uint32) []byte { return raw(0x2, 0, id, 0, 0, 0, 9) }},
}

// otherFrames are those with the same answer in each state.
var otherFrames = []struct {
	name, answer string
	of           func(id uint32) []byte
}{
	{"PRIORITY", "-", func(id uint32) []byte { return raw(0x2, 0, id, 0, 0, 0, 9, 9) }},
	{"unknown", "-", func(id uint32) []byte { return raw(0x77, 0xff, id, 1, 2, 3) }},
	{"RST_STREAM of 3 bytes", "!FRAME_SIZE_ERROR", func(id uint32) []byte { return raw(0x3, 0, id|1, 0, 0, 0) }},
	{"WINDOW_UPDATE of 3 bytes", "!FRAME_SIZE_ERROR", func(id uint32) []byte { return raw(0x8, 0, id|1, 0, 0, 1) }},
	{"DATA with nothing but padding", "!PROTOCOL_ERROR", func(id uint32) []byte { return raw(0x0, 0x8, id|1, 1) }},
	{"SETTINGS", "!PROTOCOL_ERROR", func(id uint32) []byte { return raw(0x4, 0, id) }},
	{"PUSH_PROMISE", "!PROTOCOL_ERROR", func(id uint32) []byte { return raw(0x5, 0x4, id, 0, 0, 0, 2, 0x82) }},
	{"PING", "!PROTOCOL_ERROR", func(id uint32) []byte { return raw(0x6, 0, id, make([]byte, 8)...) }},
	{"GOAWAY", "!PROTOCOL_ERROR", func(id uint32) []byte { return raw(0x7, 0, id, make([]byte, 8)...) }},
	{"CONTINUATION", "!PROTOCOL_ERROR", func(id uint32) []byte { return raw(0x9, 0x4, id, 0x88) }},
	{"PRIORITY_UPDATE", "!PROTOCOL_ERROR", func(id uint32) []byte { return raw(0x10, 0, 0, 0, 0, 0, byte(id)) }},
}

// A streamCase is a state of RFC 9113 section 5.1 that stream 1 is in. In its answers, "-" is
// none, a code alone RST_STREAM with it, a code after ! the end of the connection.
type streamCase struct {
	name    string
	request func() *testRequest
	setup   func(p *fakePeer)
	id      uint32 // 0: 1
	answers [len(stateFrames)]string
}

// ignoring: what has ended for us may not have ended for the peer.
var ignoring = [...]string{"-", "-", "-", "-", "-", "-", "-"}

func streamCases() []streamCase {
	get := func() *testRequest { return newRequest("GET", "") }
	upload := func() *testRequest {
		r := newRequest("POST", "")
		r.stream.Source, _ = io.Pipe()
		r.stream.Length = -1
		return r
	}
	streamed := func() *testRequest {
		r := newRequest("GET", "")
		r.streams = true
		return r
	}
	sends := func(frames ...func(p *fakePeer) []byte) func(p *fakePeer) {
		return func(p *fakePeer) {
			for _, f := range frames {
				p.send(f(p))
			}
		}
	}
	head := func(p *fakePeer) []byte { return p.respond(1, 200, false) }
	answer := func(p *fakePeer) []byte { return p.respond(1, 200, true) }
	cancel := func(*fakePeer) []byte { return h2.AppendReset(nil, 1, h2.CodeCancel) }
	zero := func(*fakePeer) []byte { return h2.AppendWindowUpdate(nil, 1, 0) }
	waits := [...]string{"PROTOCOL_ERROR", "-", "PROTOCOL_ERROR", "-", "-", "PROTOCOL_ERROR", "FRAME_SIZE_ERROR"}
	reads := [...]string{"-", "PROTOCOL_ERROR", "-", "-", "-", "PROTOCOL_ERROR", "FRAME_SIZE_ERROR"}
	uploads := reads
	uploads[2] = "CANCEL" // the rest of the request is not wanted
	idle := [...]string{"!PROTOCOL_ERROR", "!PROTOCOL_ERROR", "!PROTOCOL_ERROR", "!PROTOCOL_ERROR", "!PROTOCOL_ERROR", "!PROTOCOL_ERROR", "!FRAME_SIZE_ERROR"}
	pushed := idle
	pushed[6] = "-" // nothing may be sent on it
	return []streamCase{
		{name: "idle", request: get, id: 5, answers: idle},
		{name: "idle, of the server", request: get, id: 2, answers: pushed},
		{name: "open", request: upload, answers: waits},
		{name: "open, after the head", request: upload, setup: sends(head), answers: uploads},
		{name: "half-closed (local)", request: get, answers: waits},
		{name: "half-closed (local), after the head", request: get, setup: sends(head), answers: reads},
		{name: "half-closed (local), read slowly", request: streamed, setup: sends(head), answers: reads},
		{name: "half-closed (remote)", request: upload, setup: sends(answer), answers: ignoring},
		{name: "closed by END_STREAM of both", request: get, setup: sends(answer), answers: ignoring},
		{name: "closed by RST_STREAM sent", request: get, setup: sends(zero), answers: ignoring},
		{name: "closed by RST_STREAM received", request: get, setup: sends(cancel), answers: ignoring},
	}
}

// TestStreamStates sends each frame in each state of a stream.
func TestStreamStates(t *testing.T) {
	for _, c := range streamCases() {
		t.Run(c.name, func(t *testing.T) {
			check := func(name, want string, of func(p *fakePeer, id uint32) []byte) {
				synctest.Test(t, func(t *testing.T) {
					if got := c.answer(t, of); got != want {
						t.Errorf("%s: the answer is %s, want %s", name, got, want)
					}
				})
			}
			for i, f := range stateFrames {
				check(f.name, c.answers[i], f.of)
			}
			for _, f := range otherFrames {
				check(f.name, f.answer, func(_ *fakePeer, id uint32) []byte { return f.of(id) })
			}
		})
	}
}

// answer returns what the client says to one frame in the state. Another request must be
// answered then, unless the connection has ended.
func (c *streamCase) answer(t *testing.T, of func(p *fakePeer, id uint32) []byte) string {
	conn, p := newPair(t, Config{}, nil)
	defer conn.Close()
	r, other := c.request(), newRequest("GET", "")
	done := do(conn, r)
	p.await("1 ")
	otherDone := do(conn, other) // reads
	p.await("3 ")
	p.send(settings(nil))
	if c.setup != nil {
		c.setup(p)
	}
	synctest.Wait()
	before := len(p.seen())
	id := max(c.id, 1)
	p.send(of(p, id))
	synctest.Wait()
	for _, line := range p.seen()[before:] {
		code := ""
		if n, _ := fmt.Sscanf(line, "goaway %s", &code); n == 1 {
			return "!" + code
		}
		if n, _ := fmt.Sscanf(line, fmt.Sprintf("%d reset %%s", id), &code); n == 1 {
			defer func() { <-done }()
			return code + c.finish(t, p, otherDone)
		}
		if strings.HasPrefix(line, "violation") {
			return line
		}
	}
	return "-" + c.finish(t, p, otherDone)
}

// finish answers the other request.
func (c *streamCase) finish(t *testing.T, p *fakePeer, done <-chan error) (flaw string) {
	p.send(p.respond(3, 200, true))
	if err := <-done; err != nil {
		return ", then " + err.Error()
	}
	return ""
}
