package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// A burst is what many clients do at the same time.
type burst struct {
	name   string
	engine sluice.Engine
	conns  int
	send   string // by each of them
	answer bool   // it is a whole request
	stay   bool   // the connections remain open afterwards
}

// TestMemoryAfterBurst: a server that is idle after a burst returns the burst's
// memory to the system long before the runtime would, which takes four minutes.
// The server is a process of its own: this test, started again.
func TestMemoryAfterBurst(t *testing.T) {
	if engine := os.Getenv("SLUICE_TEST_BURST"); engine != "" {
		serveBurst(t, engine)
		return
	}
	if testing.Short() || invariants.Enabled {
		t.Skip("takes half a minute; the race detector keeps memory of its own")
	}
	t.Parallel() // it mostly waits
	const head = "POST / HTTP/1.1\r\nHost: h\r\n"
	largeHead := head + "X: " + strings.Repeat("x", 60<<10)
	body := head + "Content-Length: 100000\r\n\r\n" + strings.Repeat("b", 100_000)
	for _, b := range []burst{
		{name: "heads", engine: sluice.EngineEpoll, conns: 1500, send: largeHead},
		{name: "heads", engine: sluice.EnginePerConn, conns: 1500, send: largeHead},
		{name: "small heads", engine: sluice.EngineEpoll, conns: 6000, send: largeHead[:5000]},
		{name: "bodies", engine: sluice.EngineEpoll, conns: 800, send: body, answer: true, stay: true},
	} {
		t.Run(fmt.Sprintf("%s/%s", b.name, b.engine), func(t *testing.T) {
			if (&sluice.Server{}).EngineInfo(nil).Engine != sluice.EngineEpoll && b.engine == sluice.EngineEpoll {
				t.Skip("there is no event engine")
			}
			t.Parallel()
			b.run(t)
		})
	}
}

func (b burst) run(t *testing.T) {
	server := exec.Command(os.Args[0], "-test.run=^TestMemoryAfterBurst$")
	server.Env = append(os.Environ(), "SLUICE_TEST_BURST="+b.engine.String(), "GOGC=100", "GOMEMLIMIT=off")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		server.Process.Kill()
		server.Wait()
	}()
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	start := nettest.PrivateMemory(t, server.Process.Pid)

	conns := make([]net.Conn, b.conns)
	for i := range conns {
		if conns[i], err = net.Dial("tcp", strings.TrimSpace(addr)); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
		sent := b.send
		if b.answer {
			sent = sent[:len(sent)-1]
		}
		if _, err := io.WriteString(conns[i], sent); err != nil {
			t.Fatal(err)
		}
	}
	least := start + int64(b.conns*len(b.send))*3/4
	for end := time.Now().Add(20 * time.Second); nettest.PrivateMemory(t, server.Process.Pid) < least; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the server holds %d KiB, from %d KiB: less than what was sent", nettest.PrivateMemory(t, server.Process.Pid)>>10, start>>10)
		}
	}
	for _, c := range conns {
		if b.answer {
			fmt.Fprint(c, "b")
			if _, err := c.Read(make([]byte, 512)); err != nil {
				t.Fatal(err)
			}
		}
		if !b.stay {
			c.Close()
		}
	}
	limit := start*3/2 + 12<<20
	for end := time.Now().Add(100 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		now := nettest.PrivateMemory(t, server.Process.Pid)
		if now <= limit {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the server has %d KiB, and %d KiB before the burst", now>>10, start>>10)
		}
	}
}

// serveBurst is the server of TestMemoryAfterBurst. It prints its address.
func serveBurst(t *testing.T, engine string) {
	s := &sluice.Server{
		Handler:        func(ctx *sluice.RequestCtx) { ctx.SetBodyString("ok") },
		ReadBufferSize: 64 << 10,
	}
	if engine == sluice.EnginePerConn.String() {
		s.Engine = sluice.EnginePerConn
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(ln.Addr())
	t.Error(s.Serve(ln)) // until it is killed
}
