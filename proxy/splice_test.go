package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// tunnelTo returns the URL of an upstream that accepts every upgrade, and serves the tunnel
// with serve, after early. r has what came after the head.
func tunnelTo(t testing.TB, early string, serve func(conn *net.TCPConn, r *bufio.Reader)) string {
	t.Helper()
	return listenTo(t, func(conn io.Writer, r *bufio.Reader) {
		if _, err := io.WriteString(conn, switches+early); err == nil {
			serve(conn.(*net.TCPConn), r)
		}
	})
}

// openTunnel opens a tunnel, and sends early with the request.
func openTunnel(t testing.TB, addr, early string) (*net.TCPConn, *bufio.Reader) {
	t.Helper()
	conn := dialFront(t, addr)
	send(t, conn, get(upgrading)+early)
	r := bufio.NewReader(conn)
	answerTo(t, r, 101)
	return conn, r
}

// needsEvents skips a test where there is no event engine.
func needsEvents(t testing.TB) {
	if (&sluice.Server{}).EngineInfo(nil).Engine != sluice.EngineEpoll {
		t.Skip("there is no event engine")
	}
}

func awaitTunnels(t testing.TB, p *Proxy, n int) {
	t.Helper()
	if !nettest.Poll(longEnough, func() bool { return p.Status()[0].Tunnels == n && p.Status()[0].Pending == n }) {
		t.Fatalf("%+v, want %d tunnels", p.Status()[0], n)
	}
}

// A pour is what one side sends: pieces of random sizes, with pauses.
func pour(conn net.Conn, seed uint64, size int) {
	random := rand.New(rand.NewPCG(seed, 1))
	for text := content(seed, size); len(text) > 0; {
		n := min(1+random.IntN(1<<random.IntN(17)), len(text))
		if _, err := conn.Write(text[:n]); err != nil {
			return
		}
		text = text[n:]
		if random.IntN(8) == 0 {
			time.Sleep(time.Duration(random.IntN(300)) * time.Microsecond)
		}
	}
}

func content(seed uint64, size int) []byte {
	var key [32]byte
	key[0] = byte(seed)
	text := make([]byte, size)
	_, _ = rand.NewChaCha8(key).Read(text)
	return text
}

// drink reads slowly, if it isSlow, and returns the hash of what has come to the end.
func drink(r io.Reader, isSlow bool) [32]byte {
	sum, piece := sha256.New(), make([]byte, 5000)
	for i := 0; ; i++ {
		n, err := r.Read(piece)
		sum.Write(piece[:n])
		if err != nil {
			return [32]byte(sum.Sum(nil))
		}
		if isSlow && i%16 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

// TestSpliceCarries: all bytes arrive in order, in both directions at the same time, with slow
// readers, from peers that end their output when they have sent everything.
func TestSpliceCarries(t *testing.T) {
	needsEvents(t)
	const size = 3 << 20
	for _, slow := range []struct{ client, upstream bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		t.Run(fmt.Sprintf("slow client %v, slow upstream %v", slow.client, slow.upstream), func(t *testing.T) {
			got := make(chan [32]byte, 1)
			to := tunnelTo(t, "", func(conn *net.TCPConn, r *bufio.Reader) {
				var sending sync.WaitGroup
				sending.Go(func() {
					pour(conn, 2, size)
					_ = conn.CloseWrite()
				})
				got <- drink(r, slow.upstream)
				sending.Wait()
			})
			p := newProxy(t, Options{To: []string{to}})
			conn, r := openTunnel(t, front(t, p, sluice.EngineEpoll), "")
			awaitTunnels(t, p, 1)
			go func() {
				pour(conn, 1, size)
				_ = conn.CloseWrite()
			}()
			if drink(r, slow.client) != sha256.Sum256(content(2, size)) {
				t.Error("the client has got something else")
			}
			if wait(t, got, "the upstream has no end") != sha256.Sum256(content(1, size)) {
				t.Error("the upstream has got something else")
			}
			awaitTunnels(t, p, 0)
		})
	}
}

// TestSpliceOfDeaf: a client that does not read until all is sent, and the upstream has it, gets
// everything: one direction does not wait for the other.
func TestSpliceOfDeaf(t *testing.T) {
	needsEvents(t)
	const size = 1 << 20
	got := make(chan [32]byte, 1)
	to := tunnelTo(t, "", func(conn *net.TCPConn, r *bufio.Reader) {
		drunk := make(chan struct{})
		go func() {
			got <- drink(r, false)
			close(drunk)
		}()
		pour(conn, 2, size) // the client's side is full until the client reads
		<-drunk
	})
	p := newProxy(t, Options{To: []string{to}})
	conn, r := openTunnel(t, front(t, p, sluice.EngineEpoll), "")
	_ = conn.SetReadBuffer(64 << 10) // more than a segment: less makes the sender probe
	pour(conn, 1, size)
	_ = conn.CloseWrite()
	if wait(t, got, "the upstream has no end") != sha256.Sum256(content(1, size)) {
		t.Error("the upstream has got something else")
	}
	if drink(r, false) != sha256.Sum256(content(2, size)) {
		t.Error("the client has got something else")
	}
}

// TestSpliceBuffered: bytes after the heads, in both directions, belong to the tunnel.
func TestSpliceBuffered(t *testing.T) {
	early := strings.Repeat("early ", 400) // it shares a segment with the head
	for _, engine := range engines {
		t.Run(engine.String(), func(t *testing.T) {
			got := make(chan string, 1)
			to := tunnelTo(t, early, func(conn *net.TCPConn, r *bufio.Reader) {
				text := make([]byte, len(early)+4)
				_, _ = io.ReadFull(r, text)
				got <- string(text)
			})
			conn, r := openTunnel(t, front(t, newProxy(t, Options{To: []string{to}}), engine), early)
			send(t, conn, "late")
			if text := wait(t, got, "the upstream has got nothing"); text != early+"late" {
				t.Errorf("the upstream has got %d bytes", len(text))
			}
			if text, err := io.ReadAll(r); string(text) != early || err != nil {
				t.Errorf("the client has got %d bytes, %v", len(text), err)
			}
		})
	}
}

// TestSpliceHalfClose: the end of one side's output is forwarded, and the other direction stays
// open.
func TestSpliceHalfClose(t *testing.T) {
	needsEvents(t)
	answer := strings.Repeat("answer", 100_000)
	t.Run("client first", func(t *testing.T) {
		to := tunnelTo(t, "", func(conn *net.TCPConn, r *bufio.Reader) {
			question, err := io.ReadAll(r)
			if err == nil && string(question) == "question" {
				_, _ = io.WriteString(conn, answer)
			}
		})
		p := newProxy(t, Options{To: []string{to}})
		conn, r := openTunnel(t, front(t, p, sluice.EngineEpoll), "ques")
		send(t, conn, "tion")
		_ = conn.CloseWrite()
		if text, err := io.ReadAll(r); string(text) != answer || err != nil {
			t.Errorf("%d bytes, %v", len(text), err)
		}
		awaitTunnels(t, p, 0)
	})
	t.Run("upstream first", func(t *testing.T) {
		got := make(chan string, 1)
		to := tunnelTo(t, "all of it", func(conn *net.TCPConn, r *bufio.Reader) {
			_ = conn.CloseWrite()
			text, _ := io.ReadAll(r)
			got <- string(text)
		})
		p := newProxy(t, Options{To: []string{to}})
		conn, r := openTunnel(t, front(t, p, sluice.EngineEpoll), "")
		if text, err := io.ReadAll(r); string(text) != "all of it" || err != nil {
			t.Fatalf("%q, %v", text, err)
		}
		for range 100 {
			send(t, conn, answer[:600])
			time.Sleep(100 * time.Microsecond) // so that there are idle times between them
		}
		_ = conn.CloseWrite()
		if text := wait(t, got, "no end"); len(text) != 60_000 {
			t.Errorf("%d bytes", len(text))
		}
		awaitTunnels(t, p, 0)
	})
}

// TestUpgradeWithBody: a short body goes along with a request for another protocol, as Docker's
// clients send it. With a long one, the request is an ordinary one.
func TestUpgradeWithBody(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Upgrade") == "" {
			fmt.Fprintf(w, "%d bytes, Connection %q", len(body), r.Header.Get("Connection"))
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n%s to %s", body, r.URL.Path)
	}
	const head = "POST /exec HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
	onEachEngine(t, Options{}, handler, func(t *testing.T, _ *Proxy, conn *net.TCPConn) {
		long := strings.Repeat("x", blockSize+1)
		r := bufio.NewReader(conn)
		for _, ordinary := range []string{
			fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(long), long),
			fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(long), long),
		} {
			send(t, conn, head+ordinary)
			if got := bodyOf(t, answerTo(t, r, 200)); got != `16385 bytes, Connection ""` {
				t.Errorf("a long body: %q", got)
			}
		}
		send(t, conn, head+"Content-Length: 4\r\n\r\nbody")
		answerTo(t, r, 101)
		if got, err := io.ReadAll(r); err != nil || string(got) != "body to /exec" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// TestSpliceTimeouts: a tunnel ends after silence, sooner if one side has ended its output, and
// if a side takes no more.
func TestSpliceTimeouts(t *testing.T) {
	needsEvents(t)
	silence := func(_ *net.TCPConn, r *bufio.Reader) { _, _ = io.Copy(io.Discard, r) }
	for _, c := range []struct {
		name   string
		o      Options
		serve  func(conn *net.TCPConn, r *bufio.Reader)
		client func(conn *net.TCPConn)
	}{
		{"silence", Options{TunnelTimeout: 50 * time.Millisecond}, silence, func(*net.TCPConn) {}},
		{"half-closed by the client", Options{Timeout: 50 * time.Millisecond}, func(_ *net.TCPConn, r *bufio.Reader) {
			_, _ = io.Copy(io.Discard, r)
			_, _ = r.ReadByte()
			time.Sleep(time.Second)
		}, func(conn *net.TCPConn) { _ = conn.CloseWrite() }},
		{"half-closed by the upstream", Options{Timeout: 50 * time.Millisecond}, func(conn *net.TCPConn, r *bufio.Reader) {
			_ = conn.CloseWrite()
			silence(conn, r)
		}, func(*net.TCPConn) {}},
		{"deaf client", Options{Timeout: 200 * time.Millisecond}, func(conn *net.TCPConn, _ *bufio.Reader) {
			for _, err := conn.Write(make([]byte, 1<<16)); err == nil; _, err = conn.Write(make([]byte, 1<<16)) {
			}
		}, func(*net.TCPConn) {}},
		{"deaf upstream", Options{Timeout: 200 * time.Millisecond}, func(conn *net.TCPConn, _ *bufio.Reader) {
			time.Sleep(3 * time.Second)
		}, func(conn *net.TCPConn) {
			for _, err := conn.Write(make([]byte, 1<<16)); err == nil; _, err = conn.Write(make([]byte, 1<<16)) {
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.o.To = []string{tunnelTo(t, "", c.serve)}
			p := newProxy(t, c.o)
			conn, _ := openTunnel(t, front(t, p, sluice.EngineEpoll), "")
			c.client(conn)
			awaitTunnels(t, p, 0)
		})
	}
}

// TestSpliceReset: the reset of one side ends the other one, whatever waits.
func TestSpliceReset(t *testing.T) {
	needsEvents(t)
	reset := func(conn *net.TCPConn) {
		_ = conn.SetLinger(0)
		conn.Close()
	}
	for _, isBusy := range []bool{false, true} {
		for _, at := range []side{clientSide, upstreamSide} {
			t.Run(fmt.Sprintf("side %d, busy %v", at, isBusy), func(t *testing.T) {
				ended, start := make(chan bool, 1), make(chan bool)
				to := tunnelTo(t, "hello", func(conn *net.TCPConn, r *bufio.Reader) {
					if isBusy {
						go pour(conn, 3, 64<<20) // its output is not read
					}
					if at == upstreamSide {
						<-start
						reset(conn)
					}
					_, _ = io.Copy(io.Discard, r)
					ended <- true
				})
				p := newProxy(t, Options{To: []string{to}})
				conn, r := openTunnel(t, front(t, p, sluice.EngineEpoll), "")
				if _, err := r.Discard(5); err != nil {
					t.Fatal(err)
				}
				if isBusy {
					time.Sleep(20 * time.Millisecond) // the buffers become full
				}
				if at == clientSide {
					reset(conn)
				} else {
					close(start)
					_, _ = io.Copy(io.Discard, r) // it ends before its deadline, or awaitTunnels fails
				}
				wait(t, ended, "the upstream's side stays")
				awaitTunnels(t, p, 0)
			})
		}
	}
}

// TestSpliceShutdown: Shutdown ends idle tunnels at once.
func TestSpliceShutdown(t *testing.T) {
	needsEvents(t)
	p := newProxy(t, Options{To: []string{tunnelTo(t, "", func(_ *net.TCPConn, r *bufio.Reader) { _, _ = io.Copy(io.Discard, r) })}})
	s := &sluice.Server{Handler: p.Handle, Engine: sluice.EngineEpoll, Logger: silent}
	addr := serveUntilEnd(t, s.Serve, s.Shutdown)
	var readers []*bufio.Reader
	for range 20 {
		_, r := openTunnel(t, addr, "x")
		readers = append(readers, r)
	}
	awaitTunnels(t, p, 20)
	ctx, cancel := context.WithTimeout(context.Background(), longEnough)
	defer cancel()
	if err := s.ShutdownWithContext(ctx); err != nil {
		t.Error(err)
	}
	for _, r := range readers {
		if n, err := io.Copy(io.Discard, r); n != 0 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
	awaitTunnels(t, p, 0)
}

// TestSpliceLeaks: idle tunnels have no goroutines, and nothing of a thousand remains.
func TestSpliceLeaks(t *testing.T) {
	needsEvents(t)
	const count, spare = 1000, 100 // workers of engines, which end later
	upstream := &sluice.Server{Logger: silent, Handler: func(ctx *sluice.RequestCtx) {
		ctx.SetStatusCode(101)
		ctx.Response.Header.Set("Connection", "Upgrade")
		ctx.Response.Header.Set("Upgrade", "x")
		ctx.Hijack(func(conn net.Conn) {
			_, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}) // package net would keep pipes
		})
	}}
	p := newProxy(t, Options{To: []string{"http://" + serveUntilEnd(t, upstream.Serve, upstream.Shutdown)}})
	addr := front(t, p, sluice.EngineEpoll)
	conn, _ := openTunnel(t, addr, "")
	conn.Close()
	awaitTunnels(t, p, 0)
	time.Sleep(50 * time.Millisecond)
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	var conns []*net.TCPConn
	for range count {
		conn, r := openTunnel(t, addr, "ping")
		if text, err := r.Peek(4); string(text) != "ping" || err != nil {
			t.Fatalf("%q, %v", text, err)
		}
		conns = append(conns, conn)
	}
	awaitTunnels(t, p, count)
	if n := runtime.NumGoroutine() - goroutines; n > count+spare { // the upstream has one for each
		t.Errorf("%d goroutines for %d tunnels", n-count, count)
	}
	for i, conn := range conns {
		if i%3 == 0 {
			_ = conn.SetLinger(0)
		}
		conn.Close()
	}
	awaitTunnels(t, p, 0)
	if !nettest.Poll(longEnough, func() bool { return runtime.NumGoroutine() <= goroutines+spare && openFiles(t) <= files }) {
		t.Fatalf("%d goroutines, were %d; %d descriptors, were %d", runtime.NumGoroutine(), goroutines, openFiles(t), files)
	}
}

func openFiles(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(entries)
}

// TestSpliceWithTLS: a client with TLS has its end on the engine, too.
func TestSpliceWithTLS(t *testing.T) {
	needsEvents(t)
	cert, key, err := sluice.GenerateTestCertificate("localhost")
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, Options{To: []string{tunnelTo(t, "hello ", func(conn *net.TCPConn, r *bufio.Reader) {
		text, _ := io.ReadAll(r)
		_, _ = conn.Write(text)
	})}})
	s := &sluice.Server{Handler: p.Handle, Logger: silent}
	addr := serveUntilEnd(t, func(ln net.Listener) error { return s.ServeTLSEmbed(ln, cert, key) }, s.Shutdown)
	conn := dialTLS(t, addr)
	send(t, conn, get(upgrading))
	r := bufio.NewReader(conn)
	answerTo(t, r, 101)
	awaitTunnels(t, p, 1)
	text := content(4, 1<<20)
	if _, err := conn.Write(text); err != nil {
		t.Fatal(err)
	}
	_ = conn.CloseWrite()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, append([]byte("hello "), text...)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	awaitTunnels(t, p, 0)
}
