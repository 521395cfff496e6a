package http2

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// Responses that are not read hold 64 KiB each, however fast the server is and however many
// there are, and do not keep others from their ends.
func TestUnreadResponses(t *testing.T) {
	const streams, window = 50, 64 << 10
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		defer c.Close()
		var unread []*testRequest
		for i := range uint32(streams) {
			r := newRequest("GET", "")
			r.streams = true
			unread = append(unread, r)
			done := do(c, r)
			p.await(fmt.Sprint(2*i+1, " "))
			if i == 0 {
				p.send(settings(nil), h2.AppendSettingsAck(nil))
			}
			p.send(p.respond(2*i+1, 200, false, "content-length", "10000000"))
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		other := do(c, newRequest("GET", "")) // it reads for all
		p.await(fmt.Sprint(2*streams+1, " "))
		for i, r := range unread {
			id := uint32(2*i + 1)
			for c.streams[id] != nil && len(r.stream.inbox) <= window { // until it is too much
				p.send(data(id, strings.Repeat("x", 16<<10), false))
				synctest.Wait()
			}
		}
		p.send(p.respond(2*streams+1, 200, true))
		if err := <-other; err != nil {
			t.Error(err)
		}
		for i, r := range unread {
			if n := len(r.stream.inbox); n != window {
				t.Errorf("response %d holds %d bytes", i, n)
			}
		}
	})
}

// A server that has declared a large response needs not wait for the window to grow in steps,
// if the response is kept as it arrives. What windows get together is bounded, and comes
// back when the streams end.
func TestRoomForDeclaredResponse(t *testing.T) {
	const least = 64 << 10
	for _, test := range []struct {
		declared   int // -1: nothing
		isStreamed bool
		want       uint32
	}{
		{3 << 20, false, 3 << 20},
		{100 << 20, false, 4 << 20},
		{80 << 10, false, least},
		{-1, false, least},
		{3 << 20, true, least},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := newPair(t, Config{}, nil)
				defer c.Close()
				r := newRequest("GET", "")
				r.streams = test.isStreamed
				done := do(c, r)
				p.await("1 ")
				var fields []string
				if test.declared >= 0 {
					fields = []string{"content-length", fmt.Sprint(test.declared)}
				}
				p.send(settings(nil), h2.AppendSettingsAck(nil), p.respond(1, 200, false, fields...))
				synctest.Wait()
				if got := r.stream.window.Size(); got != test.want {
					t.Errorf("the window has %d bytes, want %d", got, test.want)
				}
				if test.want > least {
					p.await("1 window")
				}
				if test.isStreamed {
					<-done
					_ = r.stream.Close()
				} else {
					p.send(h2.AppendReset(nil, 1, h2.CodeCancel))
					<-done
				}
				if c.growth.Room != int64(c.cfg.MaxConnWindow) {
					t.Errorf("windows may grow by %d bytes afterwards", c.growth.Room)
				}
			})
		})
	}
}
