package http2

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// TestRoomForDeclaredBody: a peer that has declared a large body needs not wait for the
// window to grow in steps, if the body is consumed as it arrives.
func TestRoomForDeclaredBody(t *testing.T) {
	const streamed, unread = true, true
	for _, test := range []struct {
		declared           int // -1: nothing
		isStreamed, unread bool
		want               int // credit
	}{
		{3 << 20, false, false, 1<<20 - 64<<10},
		{500 << 10, false, false, (500 - 64) << 10},
		{96<<10 - 1, false, false, 0},
		{-1, false, false, 0},
		{3 << 20, streamed, false, 1<<20 - 64<<10},
		{-1, streamed, false, 0},
		{3 << 20, streamed, unread, 0},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngine(t, testConfig())
				e.isStreamed = func(*testRequest) bool { return test.isStreamed }
				e.handler = func(r *testRequest) {
					if !test.unread {
						_, _ = r.readAll()
					}
				}
				var more []string
				if test.declared >= 0 {
					more = []string{"content-length", strconv.Itoa(test.declared)}
				}
				e.feed(e.peer.request(nil, 1, post, false, more...))
				e.goTasks()
				synctest.Wait()
				e.pump()
				if got := e.peer.credit[1]; got != test.want {
					t.Errorf("credit %d, want %d", got, test.want)
				}
				e.close()
				synctest.Wait()
			})
		})
	}
}

// TestRoomIsBounded: what streams get together is at most what windows may grow by, and
// comes back when they end.
func TestRoomIsBounded(t *testing.T) {
	e := newEngine(t, testConfig())
	for round := range uint32(2) {
		for i := range uint32(100) {
			e.feed(e.peer.request(nil, 200*round+2*i+1, post, false, "content-length", "3000000"))
		}
		sum := 0
		for i := range uint32(100) {
			id := 200*round + 2*i + 1
			sum += e.peer.credit[id]
			e.feed(h2.AppendReset(nil, id, h2.CodeCancel))
		}
		if most := int(e.cfg.MaxConnWindow); sum > most || sum < most-1<<20 {
			t.Errorf("round %d: credit %d, want at most %d", round, sum, most)
		}
	}
	e.close()
	e.checkEnded()
}
