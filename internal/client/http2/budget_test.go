package http2

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"

	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// Frames that cost us and not the peer end the connection, however many there are.
func TestFloods(t *testing.T) {
	tests := []struct {
		name  string
		frame []byte
	}{
		{"PING", h2.AppendPing(nil, [8]byte{}, false)},
		{"PING ack", h2.AppendPing(nil, [8]byte{}, true)},
		{"SETTINGS", h2.AppendSettings(nil, &h2.Settings{}, &h2.Settings{})},
		{"empty DATA", h2.AppendDataHead(nil, 1, 0, false)},
		{"DATA of a stream that has ended", data(1, "x", false)},
		{"small WINDOW_UPDATE", h2.AppendWindowUpdate(nil, 1, 1)},
		{"WINDOW_UPDATE of a stream that has ended", h2.AppendWindowUpdate(nil, 1, 5000)},
		{"RST_STREAM of a stream that has ended", h2.AppendReset(nil, 1, 0)},
		{"GOAWAY", h2.AppendGoAway(nil, 1, 0, "")},
		{"unknown frame", []byte("\x00\x00\x01\x77\x00\x00\x00\x00\x01x")},
		{"PRIORITY", []byte("\x00\x00\x05\x02\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := newPair(t, Config{}, nil)
				r := newRequest("GET", "")
				done := do(c, r)
				p.await("1 ")
				p.send(settings(nil), p.respond(1, 200, false))
				if bytes.Contains([]byte(test.name), []byte("has ended")) {
					p.send(h2.AppendReset(nil, 1, h2.CodeInternalError))
					wantError(t, <-done, MaybeProcessed, ErrReset)
					done = do(c, newRequest("GET", ""))
					p.await("3 ")
				}
				p.send(bytes.Repeat(test.frame, 5000))
				wantError(t, <-done, MaybeProcessed, h2.ErrExcessiveLoad)
				p.await("goaway ENHANCE_YOUR_CALM")
				p.awaitEnd()
			})
		})
	}
}

// A response may come in any number of small pieces: it was asked for.
func TestSmallPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		defer c.Close()
		r := newRequest("GET", "")
		done := do(c, r)
		p.await("1 ")
		p.send(settings(nil), p.respond(1, 200, false), bytes.Repeat(data(1, "x", false), 20_000), data(1, "", true))
		if err := <-done; err != nil || len(r.body) != 20_000 {
			t.Errorf("%v, %d bytes", err, len(r.body))
		}
	})
}

// The small pieces of a response that is given up have been sent before the peer knew that.
// More than its window admits costs the peer.
func TestSmallPiecesOfGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{StreamWindow: 40_000}, nil)
		defer c.Close()
		r := newRequest("GET", "")
		r.streams = true
		done := do(c, r)
		p.await("1 ")
		p.send(settings(nil), h2.AppendSettingsAck(nil))
		synctest.Wait()
		p.send(p.respond(1, 200, false))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		r.stream.Close()
		p.await("1 reset CANCEL")
		next := newRequest("GET", "")
		done = do(c, next)
		p.await("3 ")
		p.send(bytes.Repeat(data(1, "0123456789", false), 4000), p.respond(3, 200, true))
		if err := <-done; err != nil {
			t.Fatalf("within the window: %v", err)
		}
		done = do(c, newRequest("GET", ""))
		p.send(bytes.Repeat(data(1, "0123456789", false), 3000))
		wantError(t, <-done, MaybeProcessed, h2.ErrExcessiveLoad)
	})
}

// A peer may return the credit of every DATA frame of ours at once.
func TestCreditForSmallPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		defer c.Close()
		r := newRequest("POST", "")
		source, pieces := io.Pipe()
		r.stream.Source, r.stream.Length = source, -1
		done := do(c, r)
		p.await("1 ")
		p.send(settings(nil))
		for range 3000 {
			if _, err := pieces.Write([]byte("piece")); err != nil {
				break
			}
			synctest.Wait()
			p.send(h2.AppendWindowUpdate(nil, 1, 5), h2.AppendWindowUpdate(nil, 0, 5))
			synctest.Wait()
		}
		_ = pieces.Close()
		p.await("1 data 15000 end")
		p.send(p.respond(1, 200, true))
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestFloodsAreBounded: whatever a peer repeats that does not read, the connection ends with an
// error, and holds next to nothing meanwhile.
func TestFloodsAreBounded(t *testing.T) {
	frame := func(kind, flags byte, stream int, payload ...byte) []byte {
		n := len(payload)
		return append([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, 0, 0, 0, byte(stream)}, payload...)
	}
	const headers, pushPromise, continuation, endHeaders, padded = 1, 5, 9, 4, 8
	field := []byte("\x00\x01a\x01b") // literal, not indexed
	const bomb = 3000
	indexed := append([]byte("\x88\x40\x01x\x7f\xb9\x16"), bytes.Repeat([]byte("x"), bomb)...) // status 200, and a field that is indexed
	for _, test := range []struct {
		name        string
		begin, unit []byte
		err         error
	}{
		{"PING", nil, h2.AppendPing(nil, [8]byte{}, false), h2.ErrExcessiveLoad},
		{"SETTINGS", nil, h2.AppendSettings(nil, &h2.Settings{}, &h2.Settings{}), h2.ErrExcessiveLoad},
		{"empty DATA", frame(headers, endHeaders, 1, 0x88), h2.AppendDataHead(nil, 1, 0, false), h2.ErrExcessiveLoad},
		{"padding", frame(headers, endHeaders, 1, 0x88), frame(0, padded, 1, append([]byte{255}, make([]byte, 255)...)...), h2.ErrExcessiveLoad},
		{"DATA of a stream that has ended", h2.AppendReset(nil, 1, h2.CodeInternalError), data(1, "x", false), h2.ErrExcessiveLoad},
		{"small WINDOW_UPDATE", nil, h2.AppendWindowUpdate(nil, 1, 1), h2.ErrExcessiveLoad},
		{"RST_STREAM", nil, h2.AppendReset(nil, 1, h2.CodeInternalError), h2.ErrExcessiveLoad},
		{"PUSH_PROMISE", nil, frame(pushPromise, endHeaders, 1, 0, 0, 0, 2, 0x82), h2.ErrPush},
		{"empty CONTINUATION", frame(headers, 0, 1, 0x88), frame(continuation, 0, 1), h2.ErrContinuations},
		{"full CONTINUATION", frame(headers, 0, 1, 0x88), frame(continuation, 0, 1, bytes.Repeat(field, 3000)...), h2.ErrContinuations},
		{"HPACK bomb", frame(headers, endHeaders, 1, indexed...), frame(headers, endHeaders, 1, bytes.Repeat([]byte{0x80 | 62}, 1000)...), h2.ErrExcessiveLoad},
		{"interim heads", nil, frame(headers, endHeaders, 1, append([]byte("\x08\x03103"), bytes.Repeat(field, 1000)...)...), h2.ErrExcessiveLoad},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := newPair(t, Config{}, nil)
				defer c.Close()
				done := do(c, newRequest("GET", ""))
				p.await("1 ")
				c.mu.Lock()
				c.isWriting = true // a caller that does not come back
				before, now, n := nettest.HeapInUse(), int64(0), 0
				c.parse(append(settings(nil), test.begin...), now)
				for ; c.failure == nil && n < 20_000; n++ {
					c.parse(test.unit, now)
				}
				if held := nettest.HeapInUse() - before; c.failure != test.err || len(c.out) > 40<<10 || held > 128<<10 {
					t.Errorf("after %d: %v, %d bytes wait, %d are held", n, c.failure, len(c.out), held)
				}
				c.isWriting = false
				c.mu.Unlock()
				p.t = t
				_ = c.Close()
				<-done
			})
		})
	}
}

// A body that is not read holds no more than its window, and its stream only.
func TestUnreadBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{StreamWindow: 64 << 10}, nil)
		defer c.Close()
		r := newRequest("GET", "")
		r.streams = true
		done := do(c, r)
		p.await("1 ")
		p.send(settings(nil), h2.AppendSettingsAck(nil), p.respond(1, 200, false))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		other := do(c, newRequest("GET", ""))
		p.await("3 ")
		frame := data(1, string(make([]byte, 8<<10)), false)
		p.send(bytes.Repeat(frame, 8), frame[:h2.FrameHeadSize+1], frame[h2.FrameHeadSize+1:])
		p.await("1 reset FLOW_CONTROL_ERROR")
		p.send(p.respond(3, 200, true))
		if err := <-other; err != nil {
			t.Error(err)
		}
		if n := len(r.stream.inbox); n != 64<<10 {
			t.Errorf("%d bytes are held", n)
		}
		_, err := r.stream.Read(make([]byte, 100<<10))
		if err != nil {
			t.Errorf("what has come cannot be read: %v", err)
		}
		_, err = r.stream.Read(make([]byte, 1))
		wantError(t, err, MaybeProcessed, h2.ErrStreamWindowExceeded)
	})
}
