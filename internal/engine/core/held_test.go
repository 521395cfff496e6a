//go:build linux && (amd64 || arm64)

package core

import (
	"bytes"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

// Input that waits with a connection for room to write is kept from what its
// worker reads meanwhile, also when some was kept before. What held it is given
// back.
func TestBlockedInputIsKept(t *testing.T) {
	const much = 8 << 20 // more than the sockets take
	var written atomic.Int32
	ln := listen(t)
	d := serveOn(t, ln, &script{run: func(c *conn, out []byte) ([]byte, engine.Next) {
		command := c.Buffered()[0]
		c.Discard(1)
		out = append(out, command)
		if command == 'B' {
			written.Add(1)
			out = append(out, make([]byte, much)...)
		}
		return out, engine.Read
	}}, engine.Options{MaxWorkers: 1, Loops: 1})
	blocked, other := dial(t, ln), dial(t, ln)
	_ = blocked.(*net.TCPConn).SetReadBuffer(64 << 10) // or it grows
	answers := int32(0)
	for round := range 3 {
		for _, input := range []string{"BBx", "BB"} {
			send(t, blocked, input)
			for range 2 {
				answers++
				eventually(t, "the input is read as it was sent", func() bool { return written.Load() == answers })
				ask(t, other, "something else") // by the only worker, when it is free
				expectMuch(t, blocked, much)
			}
			expect(t, blocked, input[2:])
			eventually(t, "it waits for input", func() bool { return d.Stats() == engine.Stats{Open: 2} })
			if n := d.Loops()[0].Buffers; n != 0 {
				t.Errorf("round %d: %d buffers are held for idle connections after %q", round, n, input)
			}
		}
	}
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// expectMuch reads the answer to B.
func expectMuch(t *testing.T, c net.Conn, much int) {
	t.Helper()
	expect(t, c, "B")
	got := make([]byte, much)
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatal(err)
	}
	if at := bytes.IndexFunc(got, func(r rune) bool { return r != 0 }); at >= 0 {
		t.Fatalf("%q at %d of the answer", got[at], at)
	}
}
