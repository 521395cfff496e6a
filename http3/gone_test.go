package http3

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// A goroutine of a handler may read the body while the handler asks whether the client is gone,
// moves deadlines and answers. The race detector finds what is not guarded.
func TestReadingOnAnotherGoroutine(t *testing.T) {
	begun, ended := make(chan bool), make(chan bool, 1)
	addr := serve(t, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
		body := ctx.RequestBodyStream()
		go func() {
			_, _ = io.Copy(io.Discard, body)
			ended <- true
		}()
		begun <- true
		ctx.SetReadDeadline(time.Now().Add(20 * time.Second))
		if string(ctx.Path()) == "/done" {
			<-ctx.Done()
		} else {
			ctx.SetBodyString("answer")
		}
	}}, Config{})
	c := dialRaw(t, addr)
	for _, path := range []string{"/done", "/answer"} {
		for range 50 {
			s := c.open(concat(head("POST", path), data("a part")))
			<-begun
			s.CancelWrite(quic.StreamErrorCode(h3.RequestCancelled))
			_, _ = io.ReadAll(s)
			<-ended
		}
	}
}

// ConnState is told nothing of a connection after its end.
func TestStateAfterTheEnd(t *testing.T) {
	var mu sync.Mutex
	closed := 0
	begun, goOn := make(chan bool), make(chan bool)
	v, addr := serveHTTP3(t, &sluice.Server{
		Handler: func(*sluice.RequestCtx) { begun <- true; <-goOn },
		ConnState: func(_ net.Conn, state sluice.ConnState) {
			mu.Lock()
			defer mu.Unlock()
			if state == sluice.StateIdle {
				t.Error("idle after its end")
			}
			if state == sluice.StateClosed {
				closed++
			}
		},
	}, Config{})
	const rounds = 20
	for range rounds {
		c := dialRaw(t, addr)
		c.open(get("/")).Close()
		<-begun
		c.CloseWithError(quic.ApplicationErrorCode(h3.NoError), "")
		nettest.Poll(10*time.Second, func() bool { // the server has learned it
			for _, c := range v.all() {
				c.mu.Lock()
				phase := c.phase
				c.mu.Unlock()
				if phase != phaseClosed {
					return false
				}
			}
			return true
		})
		goOn <- true
	}
	nettest.Poll(10*time.Second, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return closed == rounds
	})
	mu.Lock()
	defer mu.Unlock()
	if closed != rounds {
		t.Errorf("%d of %d connections have ended", closed, rounds)
	}
}

// A handshake is counted until its connection is.
func TestHandshakesAreCounted(t *testing.T) {
	s := &sluice.Server{Handler: echo}
	counted := make(chan int, 1)
	s.ConnState = func(_ net.Conn, state sluice.ConnState) {
		if state == sluice.StateNew {
			counted <- s.Control().Handshakes()
		}
	}
	addr := serve(t, s, Config{})
	if n := s.Control().Handshakes(); n != 0 {
		t.Errorf("%d handshakes before the first", n)
	}
	dialRaw(t, addr)
	if n := <-counted; n != 1 {
		t.Errorf("%d handshakes when the connection is admitted", n)
	}
	if !nettest.Poll(10*time.Second, func() bool { return s.Control().Handshakes() == 0 }) {
		t.Error("the handshake does not end")
	}
}

// A section that was announced takes the memory of what has arrived.
func TestAnnouncedSection(t *testing.T) {
	s := &stream{conn: &conn{open: 1}}
	defer s.dropSection()
	s.frames.Left = 60 << 10
	s.keepSection([]byte{0, 0})
	if cap(s.section) > 2*inputSize {
		t.Errorf("%d bytes for 2", cap(s.section))
	}
	for range 15 {
		s.keepSection(make([]byte, inputSize))
	}
	if len(s.section) != 2+15*inputSize {
		t.Errorf("%d bytes were kept", len(s.section))
	}
}

// Limits count a client by the address of the beginning, even if it goes on at another one.
func TestMigratedConnection(t *testing.T) {
	v, addr := serveHTTP3(t, &sluice.Server{Handler: echo, MaxConnsPerIP: 1}, Config{})
	var transports []*quic.Transport
	for _, ip := range []string{"127.0.0.1", "127.0.0.2"} {
		socket, err := net.ListenPacket("udp", ip+":0")
		if err != nil {
			t.Skip(err) // not Linux
		}
		tr := &quic.Transport{Conn: socket}
		defer func() { tr.Close(); socket.Close() }()
		transports = append(transports, tr)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	to, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	q, err := transports[0].Dial(ctx, to, clientTLS.Clone(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &rawConn{t: t, Conn: q}
	path, err := c.AddPath(transports[1])
	if err != nil {
		t.Fatal(err)
	}
	other := transports[1].Conn
	if err := path.Probe(ctx); err != nil {
		t.Fatal(err)
	}
	if err := path.Switch(); err != nil {
		t.Fatal(err)
	}
	nettest.Poll(10*time.Second, func() bool {
		if _, err := c.exchange(get("/")); err != nil {
			t.Fatal(err)
		}
		return v.all()[0].quic.RemoteAddr().String() == other.LocalAddr().String()
	})
	if got := v.all()[0].quic.RemoteAddr().String(); got != other.LocalAddr().String() {
		t.Fatalf("the client is still at %s", got)
	}
	c.CloseWithError(quic.ApplicationErrorCode(h3.NoError), "")
	nettest.Poll(10*time.Second, func() bool { return len(v.all()) == 0 })
	if _, err := dialRaw(t, addr).exchange(get("/")); err != nil {
		t.Errorf("the next connection: %v", err)
	}
}

// A handler may return while another goroutine closes its tunnel. The race detector finds what
// is not guarded.
func TestClosingOnAnotherGoroutine(t *testing.T) {
	addr := serve(t, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		c := ctx.Conn()
		go c.Close()
	}}, Config{})
	c := dialRaw(t, addr)
	for range 100 {
		s := c.open(head("CONNECT", "/", ":protocol", "websocket", "sec-websocket-version", "13"))
		_, _ = io.ReadAll(s)
	}
}

// OnPeerGone with nil waits for what it has arranged before: a proxy uses the memory of that for
// another request.
func TestPeerWatchEnds(t *testing.T) {
	for name, end := range map[string]func(cancel func(), w *peerWatch){
		"the stream ends":      func(cancel func(), w *peerWatch) { cancel() },
		"the request is reset": func(_ func(), w *peerWatch) { go w.gone() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var w peerWatch
			var calls atomic.Int32
			begun, goOn, over := make(chan bool), make(chan bool), make(chan bool)
			w.set(ctx, func() { t.Error("called, but it was replaced") })
			w.set(ctx, func() {
				calls.Add(1)
				begun <- true
				<-goOn
			})
			end(cancel, &w)
			<-begun
			go func() {
				w.set(ctx, nil)
				over <- true
			}()
			select {
			case <-over:
				t.Error("it still runs")
				goOn <- true
			case <-time.After(20 * time.Millisecond):
				goOn <- true
				<-over
			}
			if w.end(); calls.Load() != 1 {
				t.Errorf("called %d times", calls.Load())
			}
		})
	}
}
