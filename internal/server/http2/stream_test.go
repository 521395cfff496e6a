package http2

import (
	"testing"
	"testing/synctest"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// checkOwners fails the test if something does not agree with who has a stream.
func (e *fakeEngine) checkOwners() {
	e.t.Helper()
	c := e.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	type counts struct{ deferred, begun, tunnels, waiting int }
	var got counts
	for s := range c.streams.each() {
		isCalled := s.owner == ownerProducer || s.owner == ownerProtocol
		switch {
		case isCalled != (s.streamConn != nil), (s.owner == ownerProtocol) != (s.protocol != nil):
			e.t.Errorf("stream %d: owner %d with %p and %p", s.id, s.owner, s.streamConn, s.protocol)
		case isCalled && s.streamConn.stream != s, s.protocol != nil && s.streamConn != &s.protocol.streamConn:
			e.t.Errorf("stream %d has the streamConn of another one", s.id)
		case s.owner == ownerTunnel && !s.hasTunnel:
			e.t.Errorf("stream %d has no Tunnel", s.id)
		case s.memory == memoryBehind && s.counted == 0, s.isAdmitted() && s.counted > 0:
			e.t.Errorf("stream %d: memory %d with %d bytes", s.id, s.memory, s.counted)
		case s.input == inputHead && s.owner != ownerNone, s.isOver():
			e.t.Errorf("stream %d: owner %d, input %d, output %d", s.id, s.owner, s.input, s.output)
		}
		got.waiting += s.counted
		switch s.owner {
		case ownerAdmission:
			got.deferred++
		case ownerTunnel:
			got.tunnels++
		}
		if s.isAdmitted() {
			got.begun++
		}
	}
	if want := (counts{c.deferred, c.begun, c.tunnels, c.waiting}); got != want {
		e.t.Errorf("the streams have %+v, counted %+v", got, want)
	}
}

// TestOwner: each step gives a stream to another owner, and the end of the connection takes it
// from any.
func TestOwner(t *testing.T) {
	for name, test := range map[string]struct {
		want owner
		open func(e *fakeEngine)
	}{
		"a request arrives": {ownerNone, func(e *fakeEngine) { e.feed(e.peer.request(nil, 1, post, false)) }},
		"its head arrives": {ownerNone, func(e *fakeEngine) {
			in := e.peer.request(nil, 1, post, false)
			in[4] &^= 0x4 // END_HEADERS
			e.feed(in)
		}},
		"its Task is queued": {ownerTask, func(e *fakeEngine) { e.feed(e.peer.request(nil, 1, get, true)) }},
		"its response waits": {ownerConn, func(e *fakeEngine) {
			e.handler = answerWith(1 << 10)
			e.feed(e.peer.request(nil, 1, get, true))
			e.runTasks()
		}},
		"it is deferred": {ownerAdmission, func(e *fakeEngine) {
			e.handler = answerWith(1 << 20)
			e.feed(e.peer.request(nil, 3, get, true))
			e.runTasks()
			e.feed(e.peer.request(nil, 1001, get, true))
		}},
		"a Producer":           {ownerProducer, func(e *fakeEngine) { e.produce(1, "x") }},
		"a Protocol":           {ownerProtocol, func(e *fakeEngine) { e.serveProtocol(1) }},
		"a Tunnel after Serve": {ownerTunnel, func(e *fakeEngine) { e.tunnel(1) }},
		"a Protocol is detached": {ownerTunnel, func(e *fakeEngine) {
			p := e.serveProtocol(1)
			p.next = engine.Detach
			e.feed(data(nil, 1, 3, false))
			e.runTasks()
			synctest.Wait()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngine(t, tunnelConfig())
				e.feed(setting(nil, uint32(h2.SettingInitialWindowSize), 100))
				test.open(e)
				s := e.conn.streams.all[len(e.conn.streams.all)-1].stream
				if e.checkOwners(); s.owner != test.want {
					t.Errorf("the owner is %d, want %d", s.owner, test.want)
				}
				e.close()
				e.checkOwners()
				e.runTasks()
				synctest.Wait()
			})
		})
	}
}
