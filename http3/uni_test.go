package http3

import (
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	wire "github.com/sluicehttp/sluice/internal/wire/h3"
)

// Violations on unidirectional streams end the connection.
func TestUniStreams(t *testing.T) {
	addr := serve(t, &sluice.Server{Handler: echo}, Config{})
	settings := wire.AppendSettings(nil, wire.Settings{})
	for _, row := range []struct {
		name string
		do   func(c *rawConn)
		want wire.Code
	}{
		{"second control stream", func(c *rawConn) { c.uni(streamControl, settings); c.uni(streamControl, settings) }, wire.StreamCreationError},
		{"push stream", func(c *rawConn) { c.uni(streamPush, nil) }, wire.StreamCreationError},
		{"no SETTINGS", func(c *rawConn) { c.uni(streamControl, frame(wire.FrameGoAway, []byte{0})) }, wire.MissingSettings},
		{"closed control stream", func(c *rawConn) { c.uni(streamControl, settings).Close() }, wire.ClosedCritical},
		{"reset encoder stream", func(c *rawConn) {
			s := c.uni(streamEncoder, []byte{0x20})
			c.exchange(get("/")) // the stream has arrived then
			s.CancelWrite(quicNoError)
		}, wire.ClosedCritical},
		{"insertion", func(c *rawConn) { c.uni(streamEncoder, []byte{0xc0, 1, 'x'}) }, wire.EncoderStreamError},
		{"acknowledgement", func(c *rawConn) { c.uni(streamDecoder, []byte{0x01}) }, wire.DecoderStreamError},
	} {
		c := dialBare(t, addr)
		row.do(c)
		if code := c.closedWith(); code != row.want {
			t.Errorf("%s: closed with %v", row.name, code)
		}
	}
	c := dialBare(t, addr)
	c.uni(0x21, []byte("grease"))
	c.uni(streamControl, settings)
	if got, err := c.exchange(get("/")); err != nil || len(got) == 0 {
		t.Errorf("after a stream without a meaning: %v", err)
	}
}

// No goroutine waits for more streams than the first one.
func TestUniStreamsEnd(t *testing.T) {
	c := dialRaw(t, serve(t, &sluice.Server{Handler: echo}, Config{}))
	c.uni(streamEncoder, []byte{0x20})
	c.uni(streamDecoder, nil)
	if _, err := c.exchange(get("/")); err != nil {
		t.Fatal(err)
	}
	stacks := make([]byte, 1<<20)
	if !nettest.Poll(10*time.Second, func() bool {
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "AcceptUniStream(")
	}) {
		t.Error("more are waited for")
	}
	if c.uni(streamEncoder, nil); c.Context().Err() != nil {
		t.Error("the connection has ended")
	}
}

// awaitRest sweeps until the unidirectional streams of all connections rest.
func awaitRest(t *testing.T, v *serving) {
	t.Helper()
	if !nettest.Poll(20*time.Second, func() bool {
		v.sweep(clock.Nanos())
		for _, c := range v.all() {
			if !c.uni.rests() {
				return false
			}
		}
		return true
	}) {
		t.Fatal("the streams do not rest")
	}
}

// rests reports whether there are no goroutines of u.
func (u *uniStreams) rests() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, r := range u.readers {
		if !r.isResting {
			return false
		}
	}
	return u.isResting && u.endAccept == nil
}

// sweepUntilClosed sweeps until the server has closed c.
func sweepUntilClosed(v *serving, c *rawConn) {
	nettest.Poll(20*time.Second, func() bool {
		v.sweep(clock.Nanos())
		return c.Context().Err() != nil
	})
}

// What arrives while the streams rest is read at a sweep or with the next request.
func TestUniStreamsRest(t *testing.T) {
	v, addr := serveHTTP3(t, &sluice.Server{Handler: echo}, Config{})
	type peer struct {
		*rawConn
		encoder, decoder io.WriteCloser
	}
	for _, row := range []struct {
		name string
		do   func(c peer)
		want wire.Code
	}{
		{"SETTINGS twice", func(c peer) { c.control.Write(wire.AppendSettings(nil, wire.Settings{})) }, wire.FrameUnexpected},
		{"insertion", func(c peer) { c.encoder.Write([]byte{0xc0}) }, wire.EncoderStreamError},
		{"acknowledgement", func(c peer) { c.decoder.Write([]byte{0x01}) }, wire.DecoderStreamError},
		{"closed control stream", func(c peer) { c.control.Close() }, wire.ClosedCritical},
		{"reset control stream", func(c peer) { c.control.CancelWrite(quicNoError) }, wire.ClosedCritical},
		{"closed decoder stream", func(c peer) { c.decoder.Close() }, wire.ClosedCritical},
		{"late push stream", func(c peer) { c.uni(streamPush, nil) }, wire.StreamCreationError},
		{"late control stream", func(c peer) { c.uni(streamControl, nil) }, wire.StreamCreationError},
	} {
		c := peer{rawConn: dialRaw(t, addr)}
		if !strings.HasPrefix(row.name, "late") {
			c.encoder, c.decoder = c.uni(streamEncoder, []byte{0x20}), c.uni(streamDecoder, nil)
		}
		for range 2 { // the second one ends a rest
			if _, err := c.exchange(get("/")); err != nil {
				t.Errorf("%s: %v", row.name, err)
			}
			awaitRest(t, v)
		}
		row.do(c)
		sweepUntilClosed(v, c.rawConn)
		if code := c.closedWith(); code != row.want {
			t.Errorf("%s: closed with %v", row.name, code)
		}
	}
}

// A type may arrive in two pieces, with a rest between them.
func TestUniStreamsRestInType(t *testing.T) {
	v, addr := serveHTTP3(t, &sluice.Server{Handler: echo}, Config{})
	c := dialRaw(t, addr)
	s, err := c.OpenUniStream()
	if err != nil {
		t.Fatal(err)
	}
	s.Write([]byte{0x40}) // of a varint of two bytes
	if _, err := c.exchange(get("/")); err != nil {
		t.Fatal(err)
	}
	awaitRest(t, v)
	s.Write([]byte{streamPush})
	sweepUntilClosed(v, c)
	if code := c.closedWith(); code != wire.StreamCreationError {
		t.Errorf("closed with %v", code)
	}
}
