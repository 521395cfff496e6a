package h3

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	quichttp3 "github.com/quic-go/quic-go/http3"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/http3"
)

// requests is how many requests the network's tests make.
var requests = flag.Int("requests", 200, "requests over each bad network")

// relayOptions say what a network does to packets.
type relayOptions struct {
	loss    float64       // part of the packets that are lost
	reorder float64       // part of the packets that come later than those after them
	delay   time.Duration // of those
	rebind  time.Duration // how often the clients get another port, as from a NAT; 0: never
	mtu     int           // larger packets are lost; 0: any size
	corrupt float64       // part of the packets with a bit that is wrong
	isMute  bool          // the server's packets are lost
}

// A relay is a network between clients and a server.
type relay struct {
	relayOptions
	addr      string
	to        *net.UDPAddr
	inside    *net.UDPConn
	forwarded atomic.Int64 // to the server
	lost      atomic.Int64
	rebound   atomic.Int64

	mu   sync.Mutex
	outs map[string]*net.UDPConn // sockets towards the server, by the client's address
	done bool
}

func newRelay(t testing.TB, to string, o relayOptions) *relay {
	t.Helper()
	server, err := net.ResolveUDPAddr("udp4", to)
	if err != nil {
		t.Fatal(err)
	}
	inside := listenUDP(t).(*net.UDPConn)
	r := &relay{relayOptions: o, addr: inside.LocalAddr().String(), to: server, inside: inside, outs: make(map[string]*net.UDPConn)}
	go r.forward()
	if o.rebind > 0 {
		go r.rebindAll(t.Context())
	}
	t.Cleanup(r.close)
	return r
}

func (r *relay) close() {
	_ = r.inside.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = true
	for _, out := range r.outs {
		_ = out.Close()
	}
}

// rebindAll gives all clients another port now and then.
func (r *relay) rebindAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(r.rebind):
		}
		r.mu.Lock()
		for client, out := range r.outs {
			delete(r.outs, client)
			r.rebound.Add(1)
			time.AfterFunc(time.Second, func() { _ = out.Close() }) // the server still sends to the old port
		}
		r.mu.Unlock()
	}
}

// forward forwards the clients' packets.
func (r *relay) forward() {
	packet := make([]byte, 64<<10)
	for {
		n, from, err := r.inside.ReadFromUDP(packet)
		if err != nil {
			return
		}
		out := r.out(from)
		if out == nil {
			return
		}
		r.pass(packet[:n], func(p []byte) {
			r.forwarded.Add(1)
			_, _ = out.WriteToUDP(p, r.to)
		})
	}
}

// out returns the socket for a client, nil after the relay's end.
func (r *relay) out(client *net.UDPAddr) *net.UDPConn {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.outs[client.String()]
	if out != nil || r.done {
		return out
	}
	out, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil
	}
	r.outs[client.String()] = out
	go func() {
		packet := make([]byte, 64<<10)
		for {
			n, _, err := out.ReadFromUDP(packet)
			if err != nil {
				return
			}
			if !r.isMute {
				r.pass(packet[:n], func(p []byte) { _, _ = r.inside.WriteToUDP(p, client) })
			}
		}
	}()
	return out
}

// pass sends a packet, unless it is lost.
func (r *relay) pass(p []byte, send func(p []byte)) {
	switch {
	case rand.Float64() < r.loss, r.mtu > 0 && len(p) > r.mtu:
		r.lost.Add(1)
	case rand.Float64() < r.reorder:
		later := bytes.Clone(p)
		time.AfterFunc(r.delay, func() { send(later) })
	case rand.Float64() < r.corrupt:
		p[rand.IntN(len(p))] ^= 1 << rand.IntN(8)
		send(p)
	default:
		send(p)
	}
}

// TestBadNetworks: no request fails, and no answer is damaged, whatever the network does.
func TestBadNetworks(t *testing.T) {
	for name, o := range map[string]relayOptions{
		"loses 2 %":             {loss: 0.02},
		"reorders":              {reorder: 0.1, delay: 3 * time.Millisecond},
		"changes ports":         {rebind: 100 * time.Millisecond},
		"has an MTU of 1,280":   {mtu: 1280 - 28},
		"damages 1 % of a bit":  {corrupt: 0.01},
		"does all of this":      {loss: 0.02, reorder: 0.05, delay: 3 * time.Millisecond, rebind: 300 * time.Millisecond, mtu: 1280 - 28, corrupt: 0.005},
		"does nothing, at last": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := startTarget(t)
			r := newRelay(t, addr, o)
			again := exchangeAll(t, r.addr, *requests, o.rebind > 0)
			for round := 0; o.rebind > 0 && r.rebound.Load() == 0 && round < 100; round++ { // a quick machine was done before
				again += exchangeAll(t, r.addr, *requests, true)
			}
			if most := parallel * (1 + r.rebound.Load()/50); again > most {
				t.Errorf("%d requests had to be repeated, want at most %d", again, most)
			}
			t.Logf("%d packets to the server, %d lost, %d ports, %d requests repeated", r.forwarded.Load(), r.lost.Load(), r.rebound.Load(), again)
			if o.rebind > 0 && r.rebound.Load() == 0 {
				t.Error("no port was changed")
			}
			if (o.loss > 0 || o.mtu > 0) && r.lost.Load() == 0 {
				t.Error("nothing was lost")
			}
		})
	}
}

// parallel is how many requests exchangeAll makes at once.
const parallel = 8

// exchangeAll makes requests of several kinds with quic-go/http3's client. If mayRepeat, those
// are repeated, and counted, whose connection hears nothing any more: about once in 300 changes
// of the port, quic-go's server, ours and its own, does not find the new one.
func exchangeAll(t *testing.T, addr string, count int, mayRepeat bool) (repeated int64) {
	idle := 3 * patience
	if mayRepeat {
		idle = patience / 4
	}
	transport := &quichttp3.Transport{TLSClientConfig: clientTLS(), QUICConfig: &quic.Config{MaxIdleTimeout: idle, InitialPacketSize: 1200}}
	defer transport.Close()
	var next, failed, again atomic.Int64
	var running sync.WaitGroup
	for range parallel {
		running.Go(func() {
			for i := next.Add(1); i <= int64(count); i = next.Add(1) {
				err := exchange(t.Context(), transport, "https://"+addr, int(i))
				if mayRepeat && err != nil && strings.Contains(err.Error(), "no recent network activity") {
					again.Add(1)
					err = exchange(t.Context(), transport, "https://"+addr, int(i))
				}
				if err != nil {
					failed.Add(1)
					t.Errorf("request %d: %v", i, err)
				}
			}
		})
	}
	running.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d of %d requests have failed", n, count)
	}
	return again.Load()
}

// TestOwnClient: our client, on the worst of networks that keep the client's port.
func TestOwnClient(t *testing.T) {
	r := newRelay(t, startTarget(t), relayOptions{loss: 0.02, reorder: 0.05, delay: 3 * time.Millisecond, mtu: 1280 - 28, corrupt: 0.005})
	client := &sluice.HostClient{Addr: r.addr, IsTLS: true, TLSConfig: clientTLS(), Transport: &http3.Transport{Mode: http3.Only}}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	var running sync.WaitGroup
	for range parallel {
		running.Go(func() {
			for i := next.Add(1); i <= int64(*requests); i = next.Add(1) {
				if err := exchangeOwn(client, "https://localhost", int(i)); err != nil {
					t.Errorf("request %d: %v", i, err)
				}
			}
		})
	}
	running.Wait()
	if r.lost.Load() == 0 {
		t.Error("nothing was lost")
	}
}

// exchangeOwn is exchange for our client.
func exchangeOwn(client *sluice.HostClient, url string, i int) error {
	req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
	defer sluice.ReleaseRequest(req)
	defer sluice.ReleaseResponse(resp)
	method, path, body, want := kindOf(i)
	req.Header.SetMethod(method)
	req.SetRequestURI(url + path)
	req.SetBodyRaw(body)
	if err := client.DoTimeout(req, resp, 3*patience); err != nil {
		return err
	}
	if got := resp.Body(); resp.StatusCode() != 200 || !bytes.Equal(got, want) {
		return fmt.Errorf("status %d, %d bytes are not the %d that are wanted", resp.StatusCode(), len(got), len(want))
	}
	return nil
}

// kindOf returns the request number i, and the body of its answer: a small one, a large one, or
// that of an upload.
func kindOf(i int) (method, path string, body, want []byte) {
	switch {
	case i%20 == 0:
		return http.MethodGet, "/large", nil, large
	case i%4 == 0:
		body = large[:i*997%(64<<10)]
		return http.MethodPost, "/echo", body, []byte(sumOf(body))
	}
	return http.MethodGet, "/hello", nil, []byte(hello)
}

// exchange makes the request number i.
func exchange(ctx context.Context, transport http.RoundTripper, url string, i int) error {
	ctx, cancel := context.WithTimeout(ctx, 3*patience)
	defer cancel()
	method, path, body, want := kindOf(i)
	r, err := http.NewRequestWithContext(ctx, method, url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != 200 || resp.ProtoMajor != 3:
		return fmt.Errorf("%s of %s", resp.Status, resp.Proto)
	case !bytes.Equal(got, want):
		return fmt.Errorf("%d bytes are not the %d that are wanted", len(got), len(want))
	}
	return nil
}
