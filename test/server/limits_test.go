package server_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/test/harness"
)

// bodySize answers with the size of the body.
func bodySize(ctx *sluice.RequestCtx) { fmt.Fprintf(ctx, "%d", len(ctx.PostBody())) }

func TestMaxRequestBodySize(t *testing.T) {
	chunked := func(n int) string {
		return harness.Request("POST / HTTP/1.1", "Transfer-Encoding: chunked") + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", n, strings.Repeat("x", n))
	}
	sized := func(n int) string { return harness.Post("/", strings.Repeat("x", n)) }
	tests := []struct {
		name, request string
		statuses      []int
	}{
		{"sized at the limit", sized(1000), []int{200, 200}},
		{"sized over it", sized(1001), []int{413}},
		{"chunked at the limit", chunked(1000), []int{200, 200}},
		{"chunked over it", chunked(1001), []int{413}},
		{"announced only", harness.Request("POST / HTTP/1.1", "Content-Length: 1001"), []int{413}},
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{MaxRequestBodySize: 1000, Handler: bodySize})
		for _, test := range tests {
			if statuses, _ := statusesOf(t, r.Exchange(test.request+harness.Closing("/"))); !slices.Equal(statuses, test.statuses) {
				t.Errorf("%s: answered %v, want %v", test.name, statuses, test.statuses)
			}
		}
	})
}

// TestDefaultMaxRequestBodySize also tells that a client that goes on sending
// gets to read the answer.
func TestDefaultMaxRequestBodySize(t *testing.T) {
	for _, limit := range []int{0, -1} {
		r := harness.Serve(t, harness.OverTCP(), &sluice.Server{MaxRequestBodySize: limit, Handler: bodySize})
		_, bodies := statusesOf(t, r.Exchange(harness.Post("/", strings.Repeat("x", sluice.DefaultMaxRequestBodySize))+harness.Closing("/")))
		if !slices.Equal(bodies, []string{fmt.Sprint(sluice.DefaultMaxRequestBodySize), "0"}) {
			t.Errorf("at the limit: %q", bodies)
		}
		statuses, _ := statusesOf(t, r.Exchange(harness.Post("/", strings.Repeat("x", sluice.DefaultMaxRequestBodySize+1))))
		if !slices.Equal(statuses, []int{413}) {
			t.Errorf("over the limit: %v", statuses)
		}
	}
}

func TestReadBufferSizeBoundsHeads(t *testing.T) {
	fitting := harness.Request("GET /"+strings.Repeat("a", 100)+" HTTP/1.1", "B: "+strings.Repeat("b", 100), "Connection: close")
	tests := []struct {
		name, request string
		status        int
	}{
		{"fits", fitting, 200},
		{"long target", harness.Closing("/" + strings.Repeat("a", 1000)), 414},
		{"long field", harness.Request("GET / HTTP/1.1", "B: "+strings.Repeat("b", 1000)), 431},
		{"many fields", harness.Request("GET / HTTP/1.1", slices.Repeat([]string{"B: b"}, 200)...), 431},
		{"body does not count", harness.Request("POST / HTTP/1.1", "Connection: close", "Content-Length: 5000") + strings.Repeat("x", 5000), 200},
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{ReadBufferSize: 512, Handler: answering("x")})
		for _, test := range tests {
			if statuses, _ := statusesOf(t, r.Exchange(test.request)); !slices.Equal(statuses, []int{test.status}) {
				t.Errorf("%s: answered %v, want %d", test.name, statuses, test.status)
			}
		}
	})
	// A large buffer raises the limits.
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{ReadBufferSize: 200 << 10, Handler: answering("x")})
	if statuses, _ := statusesOf(t, r.Exchange(harness.Closing("/"+strings.Repeat("a", 150<<10)))); !slices.Equal(statuses, []int{200}) {
		t.Errorf("a large target is answered %v", statuses)
	}
}

func TestHeaderReceivedChangesLimits(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{MaxRequestBodySize: 10, Handler: bodySize, HeaderReceived: func(h *sluice.RequestHeader) sluice.RequestConfig {
			switch string(h.RequestURI()) {
			case "/more":
				return sluice.RequestConfig{MaxRequestBodySize: 20}
			case "/less":
				return sluice.RequestConfig{MaxRequestBodySize: 5}
			}
			return sluice.RequestConfig{}
		}})
		body := func(n int) string { return strings.Repeat("x", n) }
		tests := []struct {
			request  string
			statuses []int
		}{
			{harness.Post("/", body(10)), []int{200, 200}},
			{harness.Post("/", body(11)), []int{413}},
			{harness.Post("/more", body(20)), []int{200, 200}},
			{harness.Post("/more", body(20)) + harness.Post("/", body(11)), []int{200, 413}},
			{harness.Post("/more", body(21)), []int{413}},
			{harness.Post("/less", body(5)), []int{200, 200}},
			{harness.Post("/less", body(6)), []int{413}},
			{harness.Request("POST /less HTTP/1.1", "Transfer-Encoding: chunked") + "6\r\n123456\r\n0\r\n\r\n", []int{413}},
			{harness.Get("/more"), []int{200, 200}},
		}
		for _, test := range tests {
			if statuses, _ := statusesOf(t, r.Exchange(test.request+harness.Closing("/"))); !slices.Equal(statuses, test.statuses) {
				t.Errorf("%q: answered %v, want %v", test.request, statuses, test.statuses)
			}
		}
	})
}

// TestMaxBodyMemory: the budget is shared by all connections, is refused with
// 503 when it is used up, and is given back.
func TestMaxBodyMemory(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		inHandler, leave := make(chan struct{}), make(chan struct{})
		r := harness.Serve(t, n, &sluice.Server{MaxBodyMemory: 1500, Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/hold" {
				inHandler <- struct{}{}
				<-leave
			}
			bodySize(ctx)
		}})
		holder := r.Dial()
		holder.Send(harness.Post("/hold", strings.Repeat("x", 1000)))
		harness.Receive(t, inHandler)
		closing := harness.Post("/", strings.Repeat("x", 500), "Connection: close")
		if statuses, _ := statusesOf(t, r.Exchange(closing)); !slices.Equal(statuses, []int{200}) {
			t.Errorf("within the budget: %v", statuses)
		}
		if statuses, _ := statusesOf(t, r.Exchange(harness.Post("/", strings.Repeat("x", 501)))); !slices.Equal(statuses, []int{503}) {
			t.Errorf("over the budget: %v", statuses)
		}
		leave <- struct{}{}
		if a := holder.Answer("POST"); a.Body != "1000" {
			t.Errorf("the holder got %q", a.Body)
		}
		if statuses, _ := statusesOf(t, r.Exchange(harness.Post("/", strings.Repeat("x", 1500), "Connection: close"))); !slices.Equal(statuses, []int{200}) {
			t.Errorf("after it was given back: %v", statuses)
		}
	})
}

func TestConcurrencyLimit(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Concurrency: 2, Handler: answering("x")})
		first, second := r.Dial(), r.Dial()
		first.Get("/")
		second.Get("/")
		if got := r.Server.GetCurrentConcurrency(); got != 2 {
			t.Errorf("concurrency is %d", got)
		}
		refused := r.Dial()
		a := refused.Answer("GET")
		if refused.ExpectEnd(); a.StatusCode != 503 || !a.Close || len(a.Header["Server"]) > 0 {
			t.Errorf("refused with %d, close=%v, %v", a.StatusCode, a.Close, a.Header)
		}
		if got := r.Server.GetRejectedConnectionsCount(); got != 1 {
			t.Errorf("%d were rejected", got)
		}
		if !strings.Contains(r.Log.String(), "Concurrency") {
			t.Errorf("logged %q", r.Log)
		}
		first.Close()
		harness.Eventually(t, "one connection left", func() bool { return r.Server.GetOpenConnectionsCount() == 1 })
		if a := r.Dial().Get("/"); a.StatusCode != 200 {
			t.Errorf("after one was closed: %d", a.StatusCode)
		}
	})
}

func TestMaxConnsPerIP(t *testing.T) {
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{MaxConnsPerIP: 2, Handler: answering("x")})
	first, second := r.Dial(), r.Dial()
	first.Get("/")
	second.Get("/")
	refused := r.Dial()
	a := refused.Answer("GET")
	if refused.ExpectEnd(); a.StatusCode != 429 || !a.Close || len(a.Header["Server"]) > 0 {
		t.Errorf("refused with %d, %v", a.StatusCode, a.Header)
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	if c, err := dialer.Dial("tcp", r.Ln.Addr().String()); err != nil {
		t.Logf("no second loopback address: %v", err)
	} else {
		defer c.Close()
		if a := harness.NewPeer(t, c).Get("/"); a.StatusCode != 200 {
			t.Errorf("another address is answered %d", a.StatusCode)
		}
		c.Close()
	}
	second.Close()
	harness.Eventually(t, "one connection left", func() bool { return r.Server.GetOpenConnectionsCount() == 1 })
	if a := r.Dial().Get("/"); a.StatusCode != 200 {
		t.Errorf("after one was closed: %d", a.StatusCode)
	}
	if n := r.Server.GetRejectedConnectionsCount(); n != 0 {
		t.Errorf("%d are counted as rejected because of Concurrency", n)
	}
}

// TestLimitOfManyAtOnce: of connections that come at once, as many as allowed are served.
func TestLimitOfManyAtOnce(t *testing.T) {
	for _, n := range []harness.Network{harness.OverTCP(), harness.OverTCP().By(sluice.EnginePerConn)} {
		r := harness.Serve(t, n, &sluice.Server{MaxConnsPerIP: 3, Handler: answering("x")})
		var peers []*harness.Peer
		answers := make(chan int, 10)
		for range cap(answers) {
			p := r.Dial()
			peers = append(peers, p)
			go func() {
				status := 0
				if answer, err := http.ReadResponse(p.R, nil); err == nil {
					status = answer.StatusCode
				}
				answers <- status
			}()
		}
		for i := range cap(answers) {
			want := 429
			if i >= 7 {
				want = 200
			}
			if i == 7 { // the others were refused before they asked for anything
				for _, p := range peers {
					_, _ = io.WriteString(p.Conn, harness.Get("/"))
				}
			}
			if got := harness.Receive(t, answers); got != want {
				t.Errorf("%s: answer %d is %d, want %d", n.Name, i, got, want)
			}
		}
	}
}

// TestUnixSocketsHaveNoAddress: a proxy in front has as many connections as it wants.
func TestUnixSocketsHaveNoAddress(t *testing.T) {
	for _, e := range []sluice.Engine{sluice.EngineAuto, sluice.EnginePerConn} {
		r := harness.Serve(t, overUnix().By(e), &sluice.Server{MaxConnsPerIP: 1, Handler: answering("x")})
		for range 3 {
			if a := r.Dial().Get("/"); a.StatusCode != 200 {
				t.Errorf("%s: answered %d", e, a.StatusCode)
			}
		}
	}
}

// farListener gives each connection the next address of a client.
type farListener struct {
	net.Listener
	next atomic.Int32
	ips  []string
}

type farConn struct {
	net.Conn
	from net.Addr
}

func (c farConn) RemoteAddr() net.Addr { return c.from }

func (l *farListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	ip := l.ips[int(l.next.Add(1)-1)%len(l.ips)]
	return farConn{c, &net.TCPAddr{IP: net.ParseIP(ip), Port: 4000}}, nil
}

// TestMaxConnsPerNetwork: the addresses of an IPv6 network are one client.
func TestMaxConnsPerNetwork(t *testing.T) {
	for _, c := range []struct {
		prefix int
		ips    []string
		want   int // status of the second connection
	}{
		{0, []string{"2001:db8::1", "2001:db8::2"}, 429},
		{0, []string{"2001:db8::1", "2001:db8:0:1::1"}, 200},
		{48, []string{"2001:db8::1", "2001:db8:0:1::1"}, 429},
		{128, []string{"2001:db8::1", "2001:db8::2"}, 200},
		{0, []string{"192.0.2.1", "::ffff:192.0.2.1"}, 429},
		{0, []string{"192.0.2.1", "192.0.2.2"}, 200},
	} {
		n := harness.OverTCP()
		listen := n.Listen
		n.Listen = func(t *testing.T) (net.Listener, func() (net.Conn, error)) {
			ln, connect := listen(t)
			return &farListener{Listener: ln, ips: c.ips}, connect
		}
		r := harness.Serve(t, n, &sluice.Server{MaxConnsPerIP: 1, IPv6ClientPrefix: c.prefix, Handler: answering("x")})
		r.Dial().Get("/")
		second := r.Dial()
		if c.want == 200 {
			second.Send(harness.Get("/"))
		}
		if got := second.Answer("GET").StatusCode; got != c.want {
			t.Errorf("/%d, %q: %d, want %d", c.prefix, c.ips, got, c.want)
		}
		r.Stop()
	}
}

// TestRefusedServeConn: who serves a connection is told that it was refused.
func TestRefusedServeConn(t *testing.T) {
	inHandler, leave := make(chan struct{}), make(chan struct{})
	handler := func(*sluice.RequestCtx) { inHandler <- struct{}{}; <-leave }
	for want, s := range map[error]*sluice.Server{
		sluice.ErrConcurrencyLimit: {Concurrency: 1, Handler: handler, Logger: &harness.LogBook{}},
		sluice.ErrPerIPConnLimit:   {MaxConnsPerIP: 1, Handler: handler, Logger: &harness.LogBook{}},
	} {
		client, server := net.Pipe()
		served := make(chan error, 1)
		from := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4000}
		go func() { served <- s.ServeConn(farConn{server, from}) }()
		p := harness.NewPeer(t, client)
		p.Send(harness.Closing("/"))
		harness.Receive(t, inHandler)
		other, otherServer := net.Pipe()
		refused := make(chan error, 1)
		go func() { refused <- s.ServeConn(farConn{otherServer, from}) }()
		text := harness.NewPeer(t, other).Rest()
		if err := harness.Receive(t, refused); !errors.Is(err, want) || !strings.HasPrefix(text, "HTTP/1.1 ") {
			t.Errorf("refused with %v, %q, want %v", err, text, want)
		}
		leave <- struct{}{}
		p.Rest()
		if err := harness.Receive(t, served); err != nil {
			t.Errorf("served with %v", err)
		}
	}
}

// TestRefusalPause: accepting rests after a refused connection.
func TestRefusalPause(t *testing.T) {
	const pause = 30 * time.Millisecond
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{Concurrency: 1, SleepWhenConcurrencyLimitsExceeded: pause, Handler: answering("x")})
	r.Dial().Get("/")
	began := time.Now()
	if a := r.Dial().Answer("GET"); a.StatusCode != 503 {
		t.Errorf("answered %d", a.StatusCode)
	}
	if time.Since(began) < pause {
		t.Errorf("refused after %v", time.Since(began))
	}
}

func TestExpectations(t *testing.T) {
	const (
		go100 = "HTTP/1.1 100 Continue\r\n\r\n"
		body  = "hello"
	)
	expecting := func(path string) string {
		return harness.Request("POST "+path+" HTTP/1.1", "Expect: 100-Continue", "Content-Length: 5")
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		for _, isStreaming := range []bool{false, true} {
			s := &sluice.Server{StreamRequestBody: isStreaming, Handler: bodySize}
			p := harness.Serve(t, n, s).Dial()
			p.Send(expecting("/"))
			p.Expect(go100)
			p.Send(body)
			if a := p.Answer("POST"); a.Body != "5" {
				t.Errorf("answered %q", a.Body)
			}
			// A body that arrives with its head needs no invitation.
			p.Send(expecting("/") + body)
			if a := p.Answer("POST"); a.StatusCode != 200 || a.Body != "5" {
				t.Errorf("body at once: %d %q", a.StatusCode, a.Body)
			}
			p.Send(harness.Request("POST / HTTP/1.1", "Expect: 100-continue", "Content-Length: 0"))
			if a := p.Answer("POST"); a.StatusCode != 200 || a.Body != "0" {
				t.Errorf("empty body: %d %q", a.StatusCode, a.Body)
			}
			p.Send(harness.Request("GET / HTTP/1.1", "Expect: 100-continue"))
			if a := p.Answer("GET"); a.StatusCode != 200 {
				t.Errorf("no body: %d", a.StatusCode)
			}
			p.Send("POST / HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
			p.Send(body)
			if a := p.Answer("POST"); a.StatusCode != 200 || a.Body != "5" {
				t.Errorf("HTTP/1.0: %d %q", a.StatusCode, a.Body)
			}
		}
	})
}

func TestRefusedExpectations(t *testing.T) {
	expecting := harness.Request("POST / HTTP/1.1", "Expect: 100-continue", "Content-Length: 30", "X-Size: 30")
	smuggled := "GET /handled HTTP/1.1\r\nHost: h\r\n\r\n"
	tests := []struct {
		name, want string
		change     func(*sluice.Server)
	}{
		{"ContinueHandler", "417 ", func(s *sluice.Server) {
			s.ContinueHandler = func(h *sluice.RequestHeader) bool { return string(h.Peek("X-Size")) != "30" }
		}},
		{"ExpectHandler", "401 ", func(s *sluice.Server) {
			s.ContinueHandler = func(*sluice.RequestHeader) bool { return true }
			s.ExpectHandler = func(ctx *sluice.RequestCtx) int {
				ctx.Response.Header.Set("WWW-Authenticate", "Basic")
				ctx.SetBodyString("who are you?")
				return sluice.StatusUnauthorized
			}
		}},
		{"limit", "413 ", func(s *sluice.Server) { s.MaxRequestBodySize = 29 }},
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		for _, test := range tests {
			for _, isStreaming := range []bool{false, true} {
				if isStreaming && test.name == "limit" {
					continue // does not bound streams
				}
				s := &sluice.Server{StreamRequestBody: isStreaming, Handler: answering("handled")}
				test.change(s)
				p := harness.Serve(t, n, s).Dial()
				p.Send(expecting)
				got := harness.WithoutDates(p.Rest())
				if !strings.HasPrefix(got, "HTTP/1.1 "+test.want) || !strings.Contains(got, "\r\nConnection: close\r\n") || strings.Contains(got, "handled") {
					t.Errorf("%s: %q", test.name, got)
				}
				if test.name == "ExpectHandler" && (!strings.HasSuffix(got, "who are you?") || !strings.Contains(got, "Www-Authenticate: Basic\r\n")) {
					t.Errorf("%s lost its answer: %q", test.name, got)
				}
				// The body that comes all the same is no request.
				if got := harness.Serve(t, n, copyOf(s)).Exchange(expecting + smuggled[:30] + smuggled); strings.Contains(got, "handled") {
					t.Errorf("%s: the body was served: %q", test.name, got)
				}
			}
		}
	})
}

// copyOf makes a server with the same callbacks.
func copyOf(s *sluice.Server) *sluice.Server {
	return &sluice.Server{Handler: s.Handler, StreamRequestBody: s.StreamRequestBody, MaxRequestBodySize: s.MaxRequestBodySize,
		ContinueHandler: s.ContinueHandler, ExpectHandler: s.ExpectHandler}
}

// TestContinueAfterHeaderReceived: both callbacks see the same request, in this
// order.
func TestContinueAfterHeaderReceived(t *testing.T) {
	var calls []string
	p := harness.Serve(t, harness.OverTCP(), &sluice.Server{
		HeaderReceived: func(h *sluice.RequestHeader) sluice.RequestConfig {
			calls = append(calls, "header "+string(h.RequestURI()))
			return sluice.RequestConfig{MaxRequestBodySize: 3}
		},
		ExpectHandler: func(ctx *sluice.RequestCtx) int {
			calls = append(calls, "expect "+string(ctx.Path()))
			return sluice.StatusContinue
		},
		Handler: func(ctx *sluice.RequestCtx) {
			calls = append(calls, "handler")
			bodySize(ctx)
		},
	}).Dial()
	p.Send(harness.Request("POST /a HTTP/1.1", "Expect: 100-continue", "Content-Length: 3"))
	p.Expect("HTTP/1.1 100 Continue\r\n\r\n")
	p.Send("abc")
	if a := p.Answer("POST"); a.Body != "3" {
		t.Errorf("answered %q", a.Body)
	}
	p.Send(harness.Request("POST /b HTTP/1.1", "Expect: 100-continue", "Content-Length: 4"))
	if a := p.Answer("POST"); a.StatusCode != 413 {
		t.Errorf("over HeaderReceived's limit: %d", a.StatusCode)
	}
	p.ExpectEnd()
	if want := []string{"header /a", "expect /a", "handler", "header /b"}; !slices.Equal(calls, want) {
		t.Errorf("called %q, want %q", calls, want)
	}
}

// TestMemoryFollowsWhatArrived: announcing a body costs the server nothing.
func TestMemoryFollowsWhatArrived(t *testing.T) {
	const conns, limit = 100, 2 << 20
	var begun atomic.Int64
	s := &sluice.Server{Handler: bodySize, HeaderReceived: func(*sluice.RequestHeader) sluice.RequestConfig {
		begun.Add(1)
		return sluice.RequestConfig{}
	}}
	r := harness.Serve(t, harness.OverTCP(), s)
	r.Dial().Get("/")
	peers := make([]*harness.Peer, conns)
	for i := range peers {
		peers[i] = r.Dial()
	}
	harness.Eventually(t, "all are accepted", func() bool { return r.Server.GetOpenConnectionsCount() == conns+1 })
	before := nettest.HeapInUse()
	for _, p := range peers {
		p.Send(harness.Request("POST / HTTP/1.1", "Content-Length: 4194304") + "x")
	}
	harness.Eventually(t, "all heads were read", func() bool { return begun.Load() == conns+1 })
	if grown := nettest.HeapInUse() - before; grown > limit {
		t.Errorf("%d announced bodies of 4 MiB take %d KiB", conns, grown>>10)
	}
	runtime.KeepAlive(peers)
}

// TestLargeBodyMemoryIsNotKept: one huge upload on a connection that stays
// open does not hold its memory.
func TestLargeBodyMemoryIsNotKept(t *testing.T) {
	const size, pieces, kept = 8 << 20, 32, 2 << 20
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{MaxRequestBodySize: size, Handler: bodySize})
	p := r.Dial()
	p.Get("/")
	before := nettest.HeapInUse()
	p.Send(harness.Post("/", "") + harness.Request("POST / HTTP/1.1", fmt.Sprint("Content-Length: ", size)))
	piece := strings.Repeat("x", size/pieces)
	for range pieces { // a busy machine may take long for all of them
		_ = p.SetDeadline(time.Now().Add(harness.Patience))
		p.Send(piece)
	}
	_ = p.SetDeadline(time.Now().Add(harness.Patience))
	p.Answer("POST")
	if a := p.Answer("POST"); a.Body != fmt.Sprint(size) {
		t.Fatalf("answered %q", a.Body)
	}
	// The server may still hold it when the answer is there.
	harness.Eventually(t, "no more than 2 MiB are kept", func() bool { return nettest.HeapInUse()-before <= kept })
}

// TestCallbackPanics: a panic of a callback is answered 500, as one of the
// handler is.
func TestCallbackPanics(t *testing.T) {
	for name, s := range map[string]*sluice.Server{
		"HeaderReceived":  {HeaderReceived: func(*sluice.RequestHeader) sluice.RequestConfig { panic("test") }},
		"ContinueHandler": {ContinueHandler: func(*sluice.RequestHeader) bool { panic("test") }},
		"ExpectHandler":   {ExpectHandler: func(*sluice.RequestCtx) int { panic("test") }},
	} {
		s.Handler = func(*sluice.RequestCtx) { t.Errorf("%s: the handler ran", name) }
		s.Logger = log.New(io.Discard, "", 0)
		p := harness.Serve(t, harness.OverTCP(), s).Dial()
		p.Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n")
		if a := p.Answer("POST"); a.StatusCode != 500 {
			t.Errorf("%s: %d, want 500", name, a.StatusCode)
		}
		p.ExpectEnd()
	}
}

// TestUnreadExpectation: of a streamed body, the handler decides. One that does
// not read it does not invite it either, and what comes all the same is no
// request.
func TestUnreadExpectation(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{StreamRequestBody: true, Handler: answering("refused")})
		body := harness.Request("GET /smuggled HTTP/1.1")
		expecting := harness.Request("POST / HTTP/1.1", "Expect: 100-continue", fmt.Sprintf("Content-Length: %d", len(body)))
		p := r.Dial()
		p.Send(expecting)
		if a := p.Answer("POST"); a.StatusCode != 200 || a.Body != "refused" {
			t.Errorf("answered %d %q", a.StatusCode, a.Body)
		}
		_, _ = io.WriteString(p.Conn, body) // the connection may be closed already
		if rest := p.Rest(); rest != "" {
			t.Errorf("behind the answer there is %q", rest)
		}
	})
}
