package client_test

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/test/harness"
)

// memoryClient returns a client of a server in memory.
func memoryClient(tb testing.TB, h sluice.RequestHandler) *sluice.HostClient {
	ln := fasthttputil.NewInmemoryListener()
	s := &sluice.Server{Handler: h, Logger: harness.QuietLogger{}}
	go s.Serve(ln)
	tb.Cleanup(func() { ln.Close() })
	return &sluice.HostClient{Addr: "x:80", Dial: func(string) (net.Conn, error) { return ln.Dial() }}
}

// fakeServer answers each Read.
type fakeServer struct{}

func (*fakeServer) Read(p []byte) (int, error) {
	return copy(p, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"), nil
}

func (*fakeServer) Write(p []byte) (int, error) { return len(p), nil }

func (*fakeServer) Close() error { return nil }

func (*fakeServer) LocalAddr() net.Addr { return nil }

func (*fakeServer) RemoteAddr() net.Addr { return nil }

func (*fakeServer) SetDeadline(time.Time) error { return nil }

func (*fakeServer) SetReadDeadline(time.Time) error { return nil }

func (*fakeServer) SetWriteDeadline(time.Time) error { return nil }

func fakeClient() *sluice.HostClient {
	return &sluice.HostClient{Addr: "x:80", Dial: func(string) (net.Conn, error) { return &fakeServer{}, nil }}
}

// A request allocates nothing, in any of its usual forms.
func TestClientAllocations(t *testing.T) {
	w := bufio.NewWriter(io.Discard)
	for name, test := range map[string]struct {
		set  func(c *sluice.HostClient)
		call func(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) error
	}{
		"Do":                         {nil, (*sluice.HostClient).Do},
		"DoTimeout":                  {nil, doHour},
		"time-outs":                  {func(c *sluice.HostClient) { c.ReadTimeout, c.WriteTimeout = time.Hour, time.Hour }, (*sluice.HostClient).Do},
		"LIFO":                       {func(c *sluice.HostClient) { c.ConnPoolStrategy = sluice.LIFO }, (*sluice.HostClient).Do},
		"a trace with nothing in it": {func(c *sluice.HostClient) { c.Trace = &sluice.ClientTrace{} }, (*sluice.HostClient).Do},
		"POST": {nil, func(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) error {
			req.Header.SetMethod(sluice.MethodPost)
			req.SetBodyString("body")
			return c.Do(req, resp)
		}},
		"user information": {nil, func(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) error {
			req.SetRequestURI("http://us%40er:p%3Ass@x/path")
			return c.Do(req, resp)
		}},
		"user information and Host": {nil, func(c *sluice.HostClient, req *sluice.Request, resp *sluice.Response) error {
			req.Header.SetHost("x")
			req.SetRequestURI("http://user:pass@x/path")
			w.Reset(io.Discard)
			return req.Write(w)
		}},
		"no response": {nil, func(c *sluice.HostClient, req *sluice.Request, _ *sluice.Response) error { return c.Do(req, nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			c := fakeClient()
			if test.set != nil {
				test.set(c)
			}
			req, resp := harness.NewCall("GET", "http://x/path")
			n := testing.AllocsPerRun(200, func() {
				if err := test.call(c, req, resp); err != nil {
					t.Fatal(err)
				}
			})
			if n >= 1 && !invariants.Enabled {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

// The same through Client, over memory.
func TestClientAllocationsInMemory(t *testing.T) {
	ln := fasthttputil.NewInmemoryListener()
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.WriteString("hello") }, Logger: harness.QuietLogger{}}
	go s.Serve(ln)
	defer ln.Close()
	c := &sluice.Client{Dial: func(string) (net.Conn, error) { return ln.Dial() }}
	req, resp := harness.NewCall("GET", "http://x/path")
	n := testing.AllocsPerRun(500, func() {
		if err := c.Do(req, resp); err != nil {
			t.Fatal(err)
		}
	})
	if n >= 1 && !invariants.Enabled {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkClientMemory(b *testing.B) {
	c := memoryClient(b, func(ctx *sluice.RequestCtx) { ctx.WriteString("hello") })
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
		req.SetRequestURI("http://x/path")
		for pb.Next() {
			if err := c.Do(req, resp); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkClientDoFastServer(b *testing.B) {
	c := fakeClient()
	req, resp := harness.NewCall("GET", "http://x/path")
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Do(req, resp); err != nil {
			b.Fatal(err)
		}
	}
}
