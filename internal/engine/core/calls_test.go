//go:build linux && (amd64 || arm64)

package core

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/sock"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// A countingSource counts its calls.
type countingSource struct {
	*pollSource
	accepts, peeks, reads, writes, more, adds atomic.Int64
}

func (s *countingSource) Open() (Poller, error) {
	p, err := s.pollSource.Open()
	return &countingPoller{p, s}, err
}

func (s *countingSource) Accept(listener int, peer *sock.Address) (int, syscall.Errno) {
	s.accepts.Add(1)
	return s.pollSource.Accept(listener, peer)
}

func (s *countingSource) Recv(fd int, p []byte) (int, syscall.Errno) {
	s.reads.Add(1)
	return s.pollSource.Recv(fd, p)
}

func (s *countingSource) Peek(fd int, p []byte) (int, syscall.Errno) {
	s.peeks.Add(1)
	return s.pollSource.Peek(fd, p)
}

func (s *countingSource) Send(fd int, p []byte, more bool) (int, syscall.Errno) {
	s.writes.Add(1)
	if more {
		s.more.Add(1)
	}
	return s.pollSource.Send(fd, p, more)
}

func (s *countingSource) SendBuffers(fd int, v *net.Buffers) (int64, syscall.Errno) {
	s.writes.Add(1)
	return s.pollSource.SendBuffers(fd, v)
}

// calls are how many system calls were made. more are the writes that something follows
// at once.
type calls struct{ accepts, peeks, reads, writes, more, adds int64 }

func (s *countingSource) calls() calls {
	return calls{s.accepts.Load(), s.peeks.Load(), s.reads.Load(), s.writes.Load(), s.more.Load(), s.adds.Load()}
}

type countingPoller struct {
	Poller
	source *countingSource
}

func (p *countingPoller) Add(fd int, token uint64) error {
	p.source.adds.Add(1)
	return p.Poller.Add(fd, token)
}

// A request on a connection that is open takes one read and one write, also over TLS.
func TestCallsOfARequest(t *testing.T) {
	for _, isTLS := range []bool{false, true} {
		source := &countingSource{pollSource: newPollSource()}
		ln := listen(t)
		served, connect := net.Listener(ln), dial
		if isTLS {
			served, connect = &engine.TLSListener{Listener: ln, Config: serverTLS(t)}, dialTLS
		}
		d := serveOver(t, source, served, newEcho(), engine.Options{})
		c := connect(t, ln)
		isIdle := func() bool { return d.Stats().Active == 0 }
		ask(t, c, "the first may be read in several pieces")
		eventually(t, "the connection is idle", isIdle)
		const requests = 10
		before := source.calls()
		for range requests {
			ask(t, c, "request")
			eventually(t, "the connection is idle", isIdle)
		}
		before.reads += requests
		before.writes += requests
		if got := source.calls(); got != before {
			t.Errorf("TLS %t: calls are %+v, want %+v", isTLS, got, before)
		}
	}
}

// A speakers is an Acceptor whose protocols answer prompts. They sleep.
type speakers struct {
	*echoAcceptor
	opened chan engine.Prompter
}

func (a *speakers) Open(c engine.Conn) (engine.Protocol, []byte) {
	a.opened <- c.Prompter()
	return a.Wake(c, engine.Memo{}), nil
}

func (a *speakers) Wake(c engine.Conn, m engine.Memo) engine.Protocol {
	return &speaker{a.echoAcceptor.Wake(c, m).(*echo), false}
}

// What a connection sends because of a prompt takes one write, also over TLS.
func TestCallsOfAPrompt(t *testing.T) {
	for _, isTLS := range []bool{false, true} {
		source := &countingSource{pollSource: newPollSource()}
		ln, a := listen(t), &speakers{newEcho(), make(chan engine.Prompter, 1)}
		served, connect := net.Listener(ln), dial
		if isTLS {
			served, connect = &engine.TLSListener{Listener: ln, Config: serverTLS(t)}, dialTLS
		}
		d := serveOver(t, source, served, a, engine.Options{})
		c := connect(t, ln)
		isIdle := func() bool { return d.Stats().Active == 0 }
		ask(t, c, "the first may be read in several pieces")
		p := <-a.opened
		eventually(t, "the connection is idle", isIdle)
		const prompts = 10
		before := source.calls()
		for range prompts {
			p.Prompt()
			expect(t, c, "prompted")
			eventually(t, "the connection is idle", isIdle)
		}
		before.writes += prompts
		if got := source.calls(); got != before {
			t.Errorf("TLS %t: calls are %+v, want %+v", isTLS, got, before)
		}
	}
}

// A connection for one request that is there is accepted, read, written, read again for
// further input, and closed. If the peer has said that there is none, it is read once. The
// answer waits for the FIN.
func TestCallsOfAConnection(t *testing.T) {
	const connections = 20
	// The listener is added. Nothing is accepted in vain.
	multipath, err := nettest.ListenMultipath()
	if err != nil {
		multipath = listen(t)
	}
	for _, c := range []struct {
		ln   net.Listener
		next engine.Next
		want calls
	}{
		{listen(t), engine.Close, calls{connections, 0, 2 * connections, connections, connections, 1}},
		{listen(t), engine.CloseQuiet, calls{connections, 0, connections, connections, connections, 1}},
		{multipath, engine.CloseQuiet, calls{connections, 0, connections, connections, connections, 1}},
	} {
		ln, next, want := c.ln, c.next, c.want
		all := make([]net.Conn, connections)
		for i := range all {
			all[i] = dial(t, ln)
			if _, err := all[i].Write([]byte("request")); err != nil {
				t.Fatal(err)
			}
		}
		source := &countingSource{pollSource: newPollSource()}
		once := &script{run: func(c *conn, out []byte) ([]byte, engine.Next) {
			return append(out, inputOf(c)...), next
		}}
		d := serveOver(t, source, ln, once, engine.Options{})
		for _, c := range all {
			expect(t, c, "request")
		}
		eventually(t, "they are closed", func() bool { return d.countOpen() == 0 })
		if got := source.calls(); got != want {
			t.Errorf("next %v: calls are %+v, want %+v", next, got, want)
		}
	}
}

// Over TLS, the last output and the closing alert are one packet.
func TestCallsOfATLSEnd(t *testing.T) {
	for _, next := range []engine.Next{engine.Close, engine.CloseQuiet, engine.CloseLinger} {
		ln := listen(t)
		source := &countingSource{pollSource: newPollSource()}
		once := &script{run: func(c *conn, out []byte) ([]byte, engine.Next) {
			return append(out, inputOf(c)...), next
		}}
		d := serveOver(t, source, &engine.TLSListener{Listener: ln, Config: serverTLS(t)}, once, engine.Options{})
		c := dialTLS(t, ln)
		before := source.calls()
		ask(t, c, "request")
		if n, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("next %v: %d, %v", next, n, err)
		}
		_ = c.Close()
		eventually(t, "it is closed", func() bool { return d.countOpen() == 0 })
		if got := source.calls(); got.writes != before.writes+2 || got.more != before.more+1 {
			t.Errorf("next %v: %+v before the request, %+v at the end", next, before, got)
		}
	}
}

// A tellingConn tells of the first Flush.
type tellingConn struct {
	*nettest.CorkedConn
	hasFlushed chan struct{}
	once       sync.Once
}

func (c *tellingConn) Read(p []byte) (int, error) {
	c.Flush()
	c.once.Do(func() { close(c.hasFlushed) })
	return c.CorkedConn.Read(p)
}

// A handshake takes a look at the ClientHello, a read for it, one for the client's second
// flight, and no other, however many records they have.
func TestCallsOfAHandshake(t *testing.T) {
	for _, c := range []struct {
		version uint16
		writes  int64 // in TLS 1.2 the server also speaks last
	}{{tls.VersionTLS12, 2}, {tls.VersionTLS13, 1}} {
		for _, isCompact := range []bool{false, true} {
			ln := listen(t)
			conn := &tellingConn{CorkedConn: &nettest.CorkedConn{Conn: dial(t, ln)}, hasFlushed: make(chan struct{})}
			client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MaxVersion: c.version})
			shaken := make(chan error, 1)
			go func() {
				err := client.Handshake()
				conn.Flush()
				shaken <- err
			}()
			<-conn.hasFlushed
			source := &countingSource{pollSource: newPollSource()}
			served := &engine.TLSListener{Listener: ln, Config: serverTLS(t), Compact: isCompact}
			d := serveOver(t, source, served, newEcho(), engine.Options{})
			if err := <-shaken; err != nil {
				t.Fatal(err)
			}
			eventually(t, "the connection is idle", func() bool { return d.countOpen() == 1 && d.Stats().Active == 0 })
			want := calls{accepts: 1, peeks: 1, reads: 2, writes: c.writes, adds: 2} // the listener is added, too
			if got := source.calls(); got != want {
				t.Errorf("version %#x, compact %t: calls are %+v, want %+v", c.version, isCompact, got, want)
			}
			ask(t, client, "hello")
			_ = conn.Close() // Shutdown waits for that
		}
	}
}
