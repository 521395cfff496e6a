//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package http1

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/client/pool"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// turnExchange returns an Exchange whose connection takes a turn, and the other end.
func turnExchange(t *testing.T) (x *Exchange, m *textMessage, server *net.TCPConn) {
	t.Helper()
	near, far := nettest.TCPPair(t)
	m = &textMessage{}
	m.x = &Exchange{Bounds: new(clock.Bounds), ReadBuffer: 4096, WriteBuffer: 4096, Content: []byte("go")}
	c := new(Conn)
	c.Init(near, m.x, m)
	if c.IsQuiet(false); c.takesTurn || !c.IsQuiet(true) || !c.takesTurn {
		t.Fatal("a TCP connection takes no turn")
	}
	return m.x, m, far
}

// TestTurn: what a request that takes a turn leaves the connection as.
func TestTurn(t *testing.T) {
	for _, tc := range []struct {
		name    string
		set     func(x *Exchange)
		size    int // of the request; 0: 2
		answer  string
		outcome Outcome
		err     error
		hasSent bool
	}{
		{"answered", nil, 0, "yes\n", Reusable, nil, true},
		{"in time", func(x *Exchange) { x.ReadTimeout = time.Hour }, 0, "yes\n", Reusable, nil, true},
		{"more than the answer", nil, 0, "yes\nno", MustClose, nil, true},
		{"the end", nil, 0, "", MustCut, io.EOF, true},
		{"the socket has no room", func(x *Exchange) { x.WriteTimeout, x.ReadTimeout = time.Hour, time.Hour }, 16 << 20, "yes\n", Reusable, nil, true},
		{"no answer in time", func(x *Exchange) { x.Bounds.Deadline = 1 }, 0, "", MustCut, os.ErrDeadlineExceeded, false},
		{"closed", func(x *Exchange) { x.ReadTimeout = time.Hour; x.Conn.Net.Close() }, 0, "", MustCut, pool.ErrNotQuiet, false},
		{"closed, no limit", func(x *Exchange) { x.Conn.Net.Close() }, 0, "", MustCut, pool.ErrNotQuiet, false},
	} {
		x, m, server := turnExchange(t)
		if tc.size > 0 {
			x.Content = make([]byte, tc.size)
		}
		if tc.set != nil {
			tc.set(x)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := io.CopyN(io.Discard, server, int64(len(x.Content)))
			if err == nil {
				_, err = io.WriteString(server, tc.answer)
			}
			if tc.answer == "" {
				_ = server.CloseWrite()
			}
			ended <- err
		}()
		outcome, err := x.Run()
		if outcome != tc.outcome || !errors.Is(err, tc.err) || x.Conn.HasWritten() != tc.hasSent {
			t.Errorf("%s: outcome %d, %v, sent %v", tc.name, outcome, err, x.Conn.HasWritten())
		}
		if want := map[bool]string{true: "yes\n", false: ""}[tc.err == nil]; m.line != want {
			t.Errorf("%s: %q", tc.name, m.line)
		}
		_ = x.Conn.Net.Close()
		<-ended
	}
}

// TestTurnOfAConnectionThatIsNotQuiet: nothing is written.
func TestTurnOfAConnectionThatIsNotQuiet(t *testing.T) {
	x, _, server := turnExchange(t)
	if _, err := io.WriteString(server, "unsolicited"); err != nil {
		t.Fatal(err)
	}
	for x.Conn.isQuiet() {
		time.Sleep(time.Millisecond) // until it has arrived
	}
	if outcome, err := x.Run(); outcome != MustCut || !errors.Is(err, pool.ErrNotQuiet) || x.Conn.HasWritten() {
		t.Errorf("outcome %d, %v, sent %v", outcome, err, x.Conn.HasWritten())
	}
}
