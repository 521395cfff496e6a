package netconn

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// lineProtocol answers each byte of input with a byte.
type lineProtocol struct{ closeAfter bool }

func (*lineProtocol) Capabilities() engine.Capabilities { return 0 }
func (*lineProtocol) Feed(in []byte) (int, engine.Next) { return 1, engine.Run }
func (p *lineProtocol) Run(out []byte) ([]byte, engine.Next) {
	if p.closeAfter {
		return append(out, 'x'), engine.Close
	}
	return append(out, 'x'), engine.Read
}
func (*lineProtocol) Pause() bool                                  { return true }
func (*lineProtocol) HalfClosed(out []byte) []byte                 { return out }
func (*lineProtocol) TimedOut(out []byte) ([]byte, engine.Next)    { return out, engine.Close }
func (*lineProtocol) Detached(net.Conn)                            {}
func (*lineProtocol) Closed(error)                                 {}
func (*lineProtocol) Admit(net.Conn) (bool, []byte)                { return true, nil }
func (*lineProtocol) Release(net.Conn)                             {}
func (*lineProtocol) AcceptError(error)                            {}
func (p *lineProtocol) Open(engine.Conn) (engine.Protocol, []byte) { return p, nil }

// serve starts an engine on ln, and ends it with the test.
func serve(tb testing.TB, ln net.Listener, a engine.Acceptor) engine.Engine {
	return serveWith(tb, ln, a, engine.Options{})
}

func serveWith(tb testing.TB, ln net.Listener, a engine.Acceptor, options engine.Options) engine.Engine {
	e := New(options)
	served := make(chan error, 1)
	go func() { served <- e.Serve(ln, a) }()
	tb.Cleanup(func() {
		if err := e.Shutdown(context.Background()); err != nil {
			tb.Error(err)
		}
		if err := <-served; err != nil {
			tb.Error(err)
		}
		_ = ln.Close()
	})
	return e
}

func exchange(tb testing.TB, c net.Conn, buffer []byte) {
	if _, err := c.Write(buffer); err != nil {
		tb.Fatal(err)
	}
	if _, err := io.ReadFull(c, buffer); err != nil {
		tb.Fatal(err)
	}
}

func benchmarkRoundTrip(b *testing.B, ln net.Listener, dial func() (net.Conn, error), batch int) {
	serve(b, ln, &lineProtocol{})
	c, err := dial()
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	buffer := make([]byte, batch)
	exchange(b, c, buffer)
	b.ReportAllocs()
	for b.Loop() {
		exchange(b, c, buffer)
	}
}

func listenTCP(tb testing.TB) (net.Listener, func() (net.Conn, error)) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return ln, func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }
}

func BenchmarkRoundTripTCP(b *testing.B) {
	ln, dial := listenTCP(b)
	benchmarkRoundTrip(b, ln, dial, 1)
}

// BenchmarkPipelinedTCP answers 16 requests per operation.
func BenchmarkPipelinedTCP(b *testing.B) {
	ln, dial := listenTCP(b)
	benchmarkRoundTrip(b, ln, dial, 16)
}

// BenchmarkRoundTripWrapped is of connections that are wrapped.
func BenchmarkRoundTripWrapped(b *testing.B) {
	ln, dial := listenTCP(b)
	benchmarkRoundTrip(b, wrappingListener{ln}, dial, 1)
}

// wrappingListener hides what its connections are.
type wrappingListener struct{ net.Listener }

func (l wrappingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return struct{ net.Conn }{c}, err
}

func BenchmarkRoundTripPipe(b *testing.B) {
	ln := nettest.NewListener()
	benchmarkRoundTrip(b, ln, ln.Dial, 1)
}

// BenchmarkConnectionPerRequestTCP connects for each request.
func BenchmarkConnectionPerRequestTCP(b *testing.B) {
	ln, dial := listenTCP(b)
	serve(b, ln, &lineProtocol{closeAfter: true})
	buffer := make([]byte, 1)
	b.ReportAllocs()
	for b.Loop() {
		c, err := dial()
		if err != nil {
			b.Fatal(err)
		}
		exchange(b, c, buffer)
		_ = c.Close()
	}
}

// BenchmarkConnectionPerRequestMemory measures what a connection costs the
// engine: its peer and its listener cost next to nothing.
func BenchmarkConnectionPerRequestMemory(b *testing.B) {
	ln := newFakeListener()
	serve(b, ln, &lineProtocol{closeAfter: true})
	b.ReportAllocs()
	for b.Loop() {
		ln.connect()
	}
}
