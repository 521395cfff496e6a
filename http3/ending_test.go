package http3

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/testutils/simnet"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// Shutdown cuts tunnels also of connections that have been told before to leave.
func TestShutdownOfLeavingConn(t *testing.T) {
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.SetStatusCode(101)
		ctx.Hijack(func(c net.Conn) { io.Copy(io.Discard, c) })
	}}
	v, addr := serveHTTP3(t, s, Config{})
	r := dialRaw(t, addr).connect("/")
	s.Control().CloseOnNextResponse()
	if !nettest.Poll(10*time.Second, func() bool {
		for _, c := range v.all() {
			c.mu.Lock()
			phase := c.phase
			c.mu.Unlock()
			return phase == phaseEnding
		}
		return false
	}) {
		t.Fatal("the connection does not end")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := s.ShutdownWithContext(ctx); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(r); err == nil {
		t.Error("the tunnel ends in order")
	}
}

// A write deadline that was removed limits no write.
func TestWriteDeadlineRemoved(t *testing.T) {
	part := bytes.Repeat([]byte("x"), 1<<20)
	failed := make(chan error, 1)
	addr := serve(t, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.SetWriteDeadline(time.Now().Add(time.Second))
		ctx.Write(part[:64<<10])
		err := ctx.Flush()
		ctx.SetWriteDeadline(time.Time{})
		time.Sleep(1100 * time.Millisecond)
		ctx.Write(part)
		failed <- errors.Join(err, ctx.Flush())
	}}, Config{})
	s := dialRaw(t, addr).open(get("/"))
	s.Close()
	go io.Copy(io.Discard, s)
	if err := <-failed; err != nil {
		t.Error(err)
	}
}

// ConnState is called for one change of a connection at a time, and for its end last.
func TestStatesInOrder(t *testing.T) {
	idle, goOn, closed := make(chan bool), make(chan bool), make(chan bool, 1)
	v, addr := serveHTTP3(t, &sluice.Server{Handler: echo, ConnState: func(_ net.Conn, state sluice.ConnState) {
		switch state {
		case sluice.StateIdle:
			idle <- true
			<-goOn
		case sluice.StateClosed:
			closed <- true
		}
	}}, Config{})
	c := dialRaw(t, addr)
	c.open(get("/")).Close()
	<-idle
	c.CloseWithError(quic.ApplicationErrorCode(h3.NoError), "")
	if !nettest.Poll(10*time.Second, func() bool {
		for _, c := range v.all() {
			if c.quic.Context().Err() == nil {
				return false
			}
		}
		return true
	}) {
		t.Fatal("the server does not learn the end")
	}
	select {
	case <-closed:
		t.Error("closed while ConnState is told that the connection is idle")
		goOn <- true
	case <-time.After(50 * time.Millisecond):
		goOn <- true
		<-closed
	}
}

// Read deadlines of a tunnel lose nothing of what has arrived.
func TestReadDeadlineLosesNothing(t *testing.T) {
	const size = 4 << 20
	result := make(chan error, 1)
	var total atomic.Int64
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.SetStatusCode(101)
		ctx.Hijack(func(c net.Conn) {
			p := make([]byte, 64<<10)
			next, passed := byte(0), 0
			for passed < size {
				c.SetReadDeadline(time.Now().Add(time.Duration(rand.IntN(100)) * time.Microsecond))
				n, err := c.Read(p)
				if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
					result <- err
					return
				}
				for _, b := range p[:n] {
					if b != next {
						result <- errors.New("bytes are missing")
						return
					}
					next++
				}
				passed += n
				total.Store(int64(passed))
			}
			result <- nil
		})
	}}
	r := dialRaw(t, serve(t, s, Config{})).connect("/")
	p := make([]byte, 256)
	for i := range p {
		p[i] = byte(i)
	}
	go func() {
		for range size / len(p) {
			if _, err := r.Stream.Write(frame(h3.FrameData, p)); err != nil {
				return
			}
		}
	}()
	select {
	case err := <-result:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Errorf("not all arrives: %d", total.Load())
	}
}

// The heads of the open requests of a connection have a common limit, while they arrive as well.
// Requests beyond it may be sent again.
func TestHeadsOfConn(t *testing.T) {
	goOn := make(chan bool)
	v, addr := serveHTTP3(t, &sluice.Server{ReadBufferSize: 64 << 10, Handler: func(*sluice.RequestCtx) {
		select {
		case <-goOn:
		case <-t.Context().Done(): // it has failed
		}
	}}, Config{})
	c := dialRaw(t, addr)
	const size, streams = 16000, 100
	whole := get("/", "x", strings.Repeat("x", size))
	for name, sent := range map[string][]byte{"complete": whole, "arriving": whole[:len(whole)-1]} {
		rejected := make(chan bool, streams)
		for range streams {
			s := c.open(sent)
			if len(sent) == len(whole) {
				s.Close()
			}
			go func() {
				_, err := io.ReadAll(s)
				var reset *quic.StreamError
				rejected <- errors.As(err, &reset) && h3.Code(reset.ErrorCode) == h3.RequestRejected
				s.CancelWrite(quic.StreamErrorCode(h3.RequestCancelled))
			}()
		}
		const most = maxHeads / size
		for range streams - most - 1 {
			select {
			case is := <-rejected:
				if !is {
					t.Errorf("%s: a request has ended, and was not rejected", name)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%s: too few requests are rejected", name)
			}
		}
		for _, c := range v.all() {
			c.mu.Lock()
			if c.heads > maxHeads+64<<10 {
				t.Errorf("%s: heads of %d bytes", name, c.heads)
			}
			c.mu.Unlock()
		}
		for left := most + 1; left > 0; { // the last ones may not have arrived before
			select {
			case goOn <- true: // complete
			case <-time.After(time.Millisecond): // arriving
				v.sweep(clock.Nanos() + int64(defaultHeadTimeout) + int64(time.Second))
			case <-rejected:
				left--
			}
		}
		if !nettest.Poll(10*time.Second, func() bool { return v.Stats().Streams == 0 }) {
			t.Fatalf("%s: streams remain", name)
		}
		for _, c := range v.all() {
			c.mu.Lock()
			if c.heads != 0 {
				t.Errorf("%s: %d bytes are counted at the end", name, c.heads)
			}
			c.mu.Unlock()
		}
	}
}

// A connection that a server has admitted just before Shutdown serves what its client has sent.
func TestShutdownWhileAdmitted(t *testing.T) {
	admitted, sent := make(chan bool), make(chan bool)
	var v *serving
	s := &sluice.Server{Handler: echo}
	s.ConnState = func(_ net.Conn, state sluice.ConnState) {
		if state != sluice.StateNew {
			return
		}
		admitted <- true
		<-sent
		go s.Shutdown()
		nettest.Poll(10*time.Second, func() bool {
			v.mu.Lock()
			defer v.mu.Unlock()
			return v.isEnding
		})
	}
	v, addr := serveHTTP3(t, s, Config{})
	c := dialRaw(t, addr)
	<-admitted
	r := c.open(get("/"))
	r.Close()
	sent <- true
	if answer, err := io.ReadAll(r); err != nil || !bytes.Contains(answer, statusLine("200")) {
		t.Errorf("%q, %v", answer, err)
	}
}

// A connection whose client does not react to GOAWAY is closed soon when its server shuts down, and
// seconds later when another server takes its place.
func TestClientIgnoresGoAway(t *testing.T) {
	for name, c := range map[string]struct {
		isReplaced bool
		shutDown   time.Duration
		closed     time.Duration
	}{
		"shut down":                 {false, 0, leastLeaving + leastWaiting},
		"replaced":                  {true, time.Hour, leastLeaving + replacedWaiting},
		"replaced, then shut down":  {true, 2 * time.Second, 2*time.Second + leastWaiting},
		"shut down soon after that": {true, leastLeaving / 2, leastLeaving + leastWaiting},
	} {
		synctest.Test(t, func(t *testing.T) {
			network := &simnet.Simnet{Router: &simnet.PerfectRouter{}}
			endpoint := func(ip byte) net.PacketConn {
				return network.NewEndpoint(&net.UDPAddr{IP: net.IPv4(10, 0, 0, ip), Port: 443}, simnet.NodeBiDiLinkSettings{Latency: time.Millisecond})
			}
			socket, client := endpoint(1), &quic.Transport{Conn: endpoint(2)}
			network.Start()
			t.Cleanup(func() { network.Close() })
			t.Cleanup(func() { client.Close() })
			s := &sluice.Server{Engine: sluice.EnginePerConn, Handler: echo}
			serveOn(t, s, Config{}, socket)
			q, err := client.Dial(t.Context(), socket.LocalAddr(), clientTLS.Clone(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := q.AcceptUniStream(t.Context()); err != nil { // the server has admitted it
				t.Fatal(err)
			}
			began := time.Now()
			if c.isReplaced {
				s.Control().CloseOnNextResponse()
			}
			time.AfterFunc(c.shutDown, func() { s.Shutdown() })
			<-q.Context().Done()
			if took := time.Since(began).Round(20 * time.Millisecond); took != c.closed { // packets take 1 ms
				t.Errorf("%s: closed after %v, want %v: %v", name, took, c.closed, context.Cause(q.Context()))
			}
		})
	}
}
