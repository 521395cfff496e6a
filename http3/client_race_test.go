package http3

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// never is a head start after which no test waits for TCP.
const never = time.Hour

// A racers is a server over TCP that names a port of UDP, and a client of the mode Auto.
type racers struct {
	t         *testing.T
	transport *Transport
	client    *sluice.HostClient
	overTCP   atomic.Int32 // requests
	altSvc    atomic.Value // string
	age       string       // of responses over TCP

	mu     sync.Mutex
	events []string // "udp" and "tcp": dialed
}

// newRacers starts a server over TCP. port is that of HTTP/3.
func newRacers(t *testing.T, port net.Addr) *racers {
	r := &racers{t: t, transport: &Transport{headStart: never}}
	r.announce(`h3=":` + strconv.Itoa(port.(*net.UDPAddr).Port) + `"; ma=3600`)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r.overTCP.Add(1)
		w.Header().Set("Age", r.age)
		if value := r.altSvc.Load().(string); value != "" {
			w.Header().Set("Alt-Svc", value)
		}
		_, _ = io.WriteString(w, "tcp")
	}))
	t.Cleanup(server.Close)
	r.client = &sluice.HostClient{
		Addr: server.Listener.Addr().String(), IsTLS: true, Transport: r.transport,
		TLSConfig: &tls.Config{InsecureSkipVerify: true},
		Trace: &sluice.ClientTrace{DialStart: func(network, _ string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, network[:3])
		}},
	}
	t.Cleanup(r.client.CloseIdleConnections)
	return r
}

func (r *racers) announce(value string) { r.altSvc.Store(value) }

// dials returns what was dialed since the last call.
func (r *racers) dials() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := strings.Join(r.events, " ")
	r.events = nil
	return all
}

// expect sends a request, and says which protocol and status the response must have.
func (r *racers) expect(what, protocol string, status int) {
	r.t.Helper()
	resp := call(r.t, r.client, "GET", "/", nil)
	if got := string(resp.Header.Protocol()); got != protocol || resp.StatusCode() != status {
		r.t.Errorf("%s: %s, %d, want %s, %d", what, got, resp.StatusCode(), protocol, status)
	}
}

// learn makes the client know of HTTP/3, and forget its connection over TCP.
func (r *racers) learn() {
	r.t.Helper()
	r.expect("the first request", "HTTP/1.1", 200)
	r.client.CloseIdleConnections()
	r.dials()
}

// isKnown reports whether the server is to be asked over HTTP/3 now.
func (r *racers) isKnown() bool { return r.transport.origins.port(r.client.Addr, "") != "" }

// answer answers a stream with the response.
func answer(response []byte) func(s *quic.Stream) {
	return func(s *quic.Stream) {
		_, _ = io.Copy(io.Discard, s)
		_, _ = s.Write(response)
		_ = s.Close()
	}
}

// TestOldAltSvc: a cache's response that is older than ma announces nothing.
func TestOldAltSvc(t *testing.T) {
	r := newRacers(t, &net.UDPAddr{Port: 443})
	r.age = "3601"
	if r.learn(); r.isKnown() {
		t.Error("an alternative that has expired is known")
	}
}

// TestRaceQUICFirst: a known server is asked over QUIC alone while that has its head start.
func TestRaceQUICFirst(t *testing.T) {
	socket := listenUDP(t)
	serveRaw(t, socket, answer(smallResponse))
	r := newRacers(t, socket.LocalAddr())
	r.learn()
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() { r.expect("known", "HTTP/3.0", 200) })
	}
	group.Wait()
	if got := r.dials(); got != "udp" || r.client.ConnsCount() != 1 {
		t.Errorf("dialed %s, %d connections", got, r.client.ConnsCount())
	}
}

// TestRaceClear: clear ends HTTP/3, also on an open connection.
func TestRaceClear(t *testing.T) {
	socket := listenUDP(t)
	serveRaw(t, socket, answer(concat(headers(":status: 200", "alt-svc: clear", "content-length: 5"), data("hello"))))
	r := newRacers(t, socket.LocalAddr())
	r.learn()
	r.expect("known", "HTTP/3.0", 200)
	r.announce("")
	r.expect("cleared", "HTTP/1.1", 200)
	r.expect("still cleared", "HTTP/1.1", 200)
}

// TestRaceMisdirected: after 421, the request and later ones go over TCP.
func TestRaceMisdirected(t *testing.T) {
	socket := listenUDP(t)
	serveRaw(t, socket, answer(headers(":status: 421")))
	r := newRacers(t, socket.LocalAddr())
	r.learn()
	r.expect("misdirected", "HTTP/1.1", 200) // which names HTTP/3 again
	if r.isKnown() {
		t.Error("the server is still known")
	}
}

// TestRaceBlackhole: packets of UDP are swallowed. TCP is dialed after the head start; later
// requests do not wait at all, and when QUIC has failed, the server is broken.
func TestRaceBlackhole(t *testing.T) {
	r := newRacers(t, listenUDP(t).LocalAddr())
	r.learn()
	r.transport.headStart, r.transport.patience = time.Millisecond, 500*time.Millisecond
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() { r.expect("swallowed", "HTTP/1.1", 200) })
	}
	group.Wait()
	if got := r.dials(); !strings.HasPrefix(got, "udp") || strings.Count(got, "udp") != 1 {
		t.Errorf("dialed %s", got)
	}
	r.transport.headStart = never // a request that waits for QUIC would wait for ever
	r.expect("while QUIC is being tried", "HTTP/1.1", 200)
	if !nettest.Poll(10*time.Second, func() bool { return !r.isKnown() }) {
		t.Error("the server is not broken")
	}
	r.expect("broken", "HTTP/1.1", 200)
	if got := r.dials(); strings.Contains(got, "udp") {
		t.Errorf("dialed %s although it is broken", got)
	}
}

// refuseQUIC returns an address at which every handshake fails at once.
func refuseQUIC(t *testing.T) net.Addr {
	socket := listenUDP(t)
	transport := &quic.Transport{Conn: socket}
	ln, err := transport.Listen(serverTLS(t, "another protocol"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ln.Close()
		_ = transport.Close()
	})
	return socket.LocalAddr()
}

// TestRaceQUICFails: TCP is dialed at once when QUIC has failed.
func TestRaceQUICFails(t *testing.T) {
	r := newRacers(t, refuseQUIC(t))
	r.learn()
	r.expect("refused", "HTTP/1.1", 200)
	if got := r.dials(); got != "udp tcp" || r.isKnown() {
		t.Errorf("dialed %s, known: %v", got, r.isKnown())
	}
}

// relay passes datagrams of one client on to target after a delay, until isMute. It returns its
// address.
func relay(t *testing.T, target net.Addr, delay time.Duration, isMute *atomic.Bool) net.Addr {
	inner, outer := listenUDP(t), listenUDP(t)
	var client atomic.Pointer[net.UDPAddr]
	pump := func(from, to *net.UDPConn, receiver func(source *net.UDPAddr) *net.UDPAddr) {
		p := make([]byte, 2048)
		for {
			n, source, err := from.ReadFromUDP(p)
			if err != nil {
				return
			}
			if addr := receiver(source); addr != nil && !isMute.Load() {
				out := bytes.Clone(p[:n])
				time.AfterFunc(delay, func() { _, _ = to.WriteToUDP(out, addr) })
			}
		}
	}
	go pump(outer, inner, func(source *net.UDPAddr) *net.UDPAddr {
		client.Store(source)
		return target.(*net.UDPAddr)
	})
	go pump(inner, outer, func(*net.UDPAddr) *net.UDPAddr { return client.Load() })
	return outer.LocalAddr()
}

// TestRaceSilence: a connection whose packets are swallowed ends, and its server is broken.
func TestRaceSilence(t *testing.T) {
	socket := listenUDP(t)
	serveRaw(t, socket, answer(smallResponse))
	var isMute atomic.Bool
	r := newRacers(t, relay(t, socket.LocalAddr(), 0, &isMute))
	r.transport.silence = 300 * time.Millisecond
	r.learn()
	r.expect("before", "HTTP/3.0", 200)
	isMute.Store(true)
	var req sluice.Request
	req.Header.SetMethod("POST")
	req.SetRequestURI("https://" + r.client.Addr + "/")
	var own *Error
	if err := r.client.DoTimeout(&req, &sluice.Response{}, 20*time.Second); !errors.Is(err, sluice.ErrConnectionClosed) || !errors.As(err, &own) {
		t.Errorf("swallowed: %v", err)
	}
	if !nettest.Poll(10*time.Second, func() bool { return !r.isKnown() }) {
		t.Error("the server is not broken")
	}
	r.expect("after", "HTTP/1.1", 200)
}

// TestRaceTCPFirst: QUIC that comes after TCP is kept, and TCP's connection, too.
func TestRaceTCPFirst(t *testing.T) {
	socket := listenUDP(t)
	r := newRacers(t, socket.LocalAddr())
	r.learn()
	r.transport.headStart = time.Millisecond
	r.expect("before QUIC is served", "HTTP/1.1", 200)
	serveRaw(t, socket, answer(smallResponse)) // the packets have waited in the socket
	if !nettest.Poll(10*time.Second, func() bool { return r.client.IdleConnsCount() == 2 }) {
		t.Fatalf("%d idle connections", r.client.IdleConnsCount())
	}
	r.expect("after QUIC is served", "HTTP/3.0", 200)
}

// TestRaceBothFail: the error is that of TCP, and QUIC is tried again, whichever fails first.
func TestRaceBothFail(t *testing.T) {
	addr, err := nettest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ := net.SplitHostPort(addr)
	for _, tc := range []struct {
		name      string
		quic      net.Addr
		headStart time.Duration
	}{
		{"TCP first", listenUDP(t).LocalAddr(), time.Millisecond},
		{"QUIC first", refuseQUIC(t), never},
	} {
		transport := &Transport{headStart: tc.headStart, patience: 300 * time.Millisecond}
		transport.origins.learn(addr, host, lines(`h3=":`+strconv.Itoa(tc.quic.(*net.UDPAddr).Port)+`"`), nil)
		c := &sluice.HostClient{Addr: addr, IsTLS: true, Transport: transport, TLSConfig: &tls.Config{InsecureSkipVerify: true}}
		var req sluice.Request
		req.SetRequestURI("https://" + addr + "/")
		var dial *sluice.ErrDialWithUpstream
		if err := c.Do(&req, &sluice.Response{}); !errors.As(err, &dial) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%s: %v", tc.name, err)
		}
		if transport.origins.port(addr, "") == "" {
			t.Errorf("%s: the server is broken, although it may be the network", tc.name)
		}
	}
}

// TestRaceElsewhere: what is not asked over HTTP/3 in the mode Auto.
func TestRaceElsewhere(t *testing.T) {
	socket := listenUDP(t)
	serveRaw(t, socket, answer(smallResponse))
	r := newRacers(t, socket.LocalAddr())
	r.learn()
	c := &sluice.HostClient{
		Addr: r.client.Addr, IsTLS: true, Transport: r.transport, TLSConfig: r.client.TLSConfig,
		Dial: func(addr string) (net.Conn, error) { return net.Dial("tcp", addr) },
	}
	t.Cleanup(c.CloseIdleConnections)
	if resp := call(t, c, "GET", "/", nil); string(resp.Header.Protocol()) != "HTTP/1.1" {
		t.Errorf("with a dialer: %s", resp.Header.Protocol())
	}
	plain := &sluice.HostClient{Addr: r.client.Addr, Transport: &Transport{Mode: Only}}
	var req sluice.Request
	req.SetRequestURI("http://" + r.client.Addr + "/")
	if err := plain.Do(&req, &sluice.Response{}); err != ErrNotHTTP3 {
		t.Errorf("without TLS: %v", err)
	}
}

// TestRacePrefer: servers that have said nothing are asked over HTTP/3, also by a HostClient with
// a dialer, and over TCP if that fails.
func TestRacePrefer(t *testing.T) {
	r := newRacers(t, &net.UDPAddr{Port: 1})
	r.announce("")
	r.transport.Mode = Prefer
	at, err := net.ResolveUDPAddr("udp4", r.client.Addr)
	if err != nil {
		t.Fatal(err)
	}
	socket, err := net.ListenUDP("udp4", at)
	if err != nil {
		t.Skip(err) // another program has the port
	}
	t.Cleanup(func() { _ = socket.Close() })
	serveRaw(t, socket, answer(smallResponse))
	r.expect("preferred", "HTTP/3.0", 200)
	c := &sluice.HostClient{
		Addr: r.client.Addr, IsTLS: true, Transport: r.transport, TLSConfig: r.client.TLSConfig,
		Dial: func(addr string) (net.Conn, error) { return net.Dial("tcp", addr) },
	}
	t.Cleanup(c.CloseIdleConnections)
	if resp := call(t, c, "GET", "/", nil); string(resp.Header.Protocol()) != "HTTP/3.0" {
		t.Errorf("with a dialer: %s", resp.Header.Protocol())
	}
	r = newRacers(t, &net.UDPAddr{Port: 1})
	r.announce("")
	r.transport.Mode, r.transport.headStart, r.transport.patience = Prefer, time.Millisecond, 300*time.Millisecond
	r.expect("without HTTP/3", "HTTP/1.1", 200)
}

// TestRetries: what is sent again on another connection or stream.
func TestRetries(t *testing.T) {
	for _, tc := range []struct {
		name, method string
		code         quic.StreamErrorCode
		want         []string // what the server gets
	}{
		{"rejected", "POST", 0x10b, []string{"POST", "POST"}},
		{"cancelled", "POST", 0x10c, []string{"POST"}},
		{"cancelled, idempotent", "PUT", 0x10c, []string{"PUT", "PUT"}},
	} {
		var mu sync.Mutex
		var got []string
		socket := listenUDP(t)
		serveRaw(t, socket, func(s *quic.Stream) {
			_, _ = io.Copy(io.Discard, s)
			mu.Lock()
			got = append(got, tc.method)
			isFirst := len(got) == 1
			mu.Unlock()
			if isFirst {
				s.CancelWrite(tc.code)
				return
			}
			_, _ = s.Write(smallResponse)
			_ = s.Close()
		})
		c := overHTTP3(t, socket.LocalAddr().String())
		var req sluice.Request
		var resp sluice.Response
		req.Header.SetMethod(tc.method)
		req.SetRequestURI("https://" + c.Addr + "/")
		err := c.DoTimeout(&req, &resp, 20*time.Second)
		var own *Error
		if len(tc.want) == 1 && (!errors.As(err, &own) || own.Code != uint64(tc.code) || !own.IsRemote) || len(tc.want) > 1 && err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		mu.Lock()
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: the server got %v", tc.name, got)
		}
		mu.Unlock()
	}
}

// TestModes: the texts of modes.
func TestModes(t *testing.T) {
	if Auto.String() != "auto" || Prefer.String() != "prefer" || Only.String() != "only" || Mode(7).String() != "Mode(7)" {
		t.Error(Auto, Prefer, Only, Mode(7))
	}
}

// TestClientFarCredit: the limit of a server that is far away is not taken for a lower one, because
// its credit takes a round trip.
func TestClientFarCredit(t *testing.T) {
	socket := listenUDP(t)
	transport := &quic.Transport{Conn: socket}
	ln, err := transport.Listen(serverTLS(t, protocolHTTP3), &quic.Config{MaxIncomingStreams: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ln.Close()
		_ = transport.Close()
	})
	arrived, held := make(chan struct{}), make(chan struct{})
	var count atomic.Int32
	serve := func(conn *quic.Conn) {
		for {
			s, err := conn.AcceptStream(t.Context())
			if err != nil {
				return
			}
			go func() {
				if count.Add(1) == 1 {
					close(arrived)
					<-held
				}
				answer(smallResponse)(s)
			}()
		}
	}
	go func() {
		for {
			conn, err := ln.Accept(t.Context())
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	var isMute atomic.Bool
	c := overHTTP3(t, relay(t, socket.LocalAddr(), 60*time.Millisecond, &isMute).String())
	var group sync.WaitGroup
	group.Go(func() { call(t, c, "GET", "/", nil) })
	<-arrived
	for range 3 { // the second needs the credit of the first
		call(t, c, "GET", "/", nil)
	}
	if n := c.ConnsCount(); n != 1 {
		t.Errorf("%d connections", n)
	}
	close(held)
	group.Wait()
}
