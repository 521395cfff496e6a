package prefork

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/sse"
)

var (
	compactRestarts = flag.Int("compact.restarts", 2, "how often TestRestartsOfCompactTLS replaces the workers")
	compactIdle     = flag.Int("compact.idle", 100, "how many connections are idle meanwhile")
	compactBusy     = flag.Int("compact.busy", 20, "how many are used meanwhile")
)

// A movingTLS is TLS clients of every protocol, none of whose connections may be closed.
type movingTLS struct {
	*fleet
	load   *load
	config *tls.Config
	dials  atomic.Int64 // of those that speak HTTP/2
}

func (f *fleet) movingTLS(l *load) *movingTLS {
	return &movingTLS{fleet: f, load: l, config: &tls.Config{InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(64)}}
}

func (m *movingTLS) dialTLS() net.Conn {
	c, err := tls.Dial("tcp", m.addr(0), m.config)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { c.Close() })
	return c
}

// http1 returns what asks on one connection of HTTP/1.1.
func (m *movingTLS) http1() func() error {
	c := m.dialTLS()
	in := bufio.NewReader(c)
	return func() error {
		c.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return err
		}
		_, closes, err := answer(in)
		if err == nil && closes {
			err = errors.New("the connection closes")
		}
		return err
	}
}

// http2 returns what asks on one connection of HTTP/2: others would be counted.
func (m *movingTLS) http2() func() error {
	protocols := &http.Protocols{}
	protocols.SetHTTP2(true)
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		m.dials.Add(1)
		config := m.config.Clone()
		config.NextProtos = []string{"h2"}
		return (&tls.Dialer{Config: config}).DialContext(ctx, network, addr)
	}
	transport := &http.Transport{Protocols: protocols, DialTLSContext: dial, MaxConnsPerHost: 1}
	m.t.Cleanup(transport.CloseIdleConnections)
	client := http.Client{Transport: transport, Timeout: patience}
	return func() error {
		resp, err := client.Get("https://" + m.addr(0) + "/")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.ProtoMajor != 2 || resp.StatusCode != http.StatusOK {
			return errors.New(resp.Proto + " " + resp.Status)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
}

// webSocket returns what sends a message and awaits its answer.
func (m *movingTLS) webSocket() func() error {
	c := m.upgrade(m.dialTLS(), "/websocket")
	return func() error {
		_, err := c.say("message")
		return err
	}
}

// clients returns n clients of the protocols in turn. Each has asked once.
func (m *movingTLS) clients(n int) (all []func() error) {
	kinds := []func() func() error{m.http1, m.http2, m.webSocket}
	for i := range n {
		ask := kinds[i%len(kinds)]()
		if err := ask(); err != nil {
			m.t.Fatalf("client %d: %v", i, err)
		}
		all = append(all, ask)
	}
	return all
}

// streams begins n streams of events, each on a connection of its own. The result waits until
// they have got what was published up to the end of the load.
func (m *movingTLS) streams(n int) (end func()) {
	var reading sync.WaitGroup
	publish := func(data string) error {
		resp, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: m.config, DisableKeepAlives: true}}).Get("https://" + m.addr(0) + "/publish?topic=busy&data=" + data)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	for range n {
		resp, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: m.config}}).Get("https://" + m.addr(0) + "/events/busy")
		if err != nil {
			m.t.Fatal(err)
		}
		m.t.Cleanup(func() { resp.Body.Close() })
		if resp.StatusCode != http.StatusOK {
			m.t.Fatal(resp.Status)
		}
		reading.Go(func() {
			if err := readStream(sse.NewReader(resp.Body)); err != nil {
				m.load.fail(err)
			}
		})
	}
	published := 0
	m.load.done.Go(func() {
		for ; !m.load.stop.Load(); published++ {
			if err := publish(strconv.Itoa(published)); err != nil {
				m.load.fail(err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	return func() {
		if err := publish("end" + strconv.Itoa(published)); err != nil {
			m.t.Error(err)
		}
		reading.Wait()
	}
}

// Compact TLS connections survive rolling restarts, idle or busy, whatever they speak: none is
// closed, and nothing is lost.
func TestRestartsOfCompactTLS(t *testing.T) {
	if engine := new(sluice.Server).EngineInfo(nil).Engine; engine != sluice.EngineEpoll {
		t.Skipf("%v has no compact connections", engine)
	}
	f := start(t, setup{Workers: 2, TLS: true, CompactTLS: "-", HTTP2: true, WebSocket: true, Streams: true, Linger: patience, Drain: patience}, true)
	var l load
	m := f.movingTLS(&l)
	idle := m.clients(*compactIdle)
	busy := m.clients(*compactBusy)
	dials := m.dials.Load()
	endStreams := m.streams(4)
	for i, ask := range busy {
		l.done.Go(func() {
			for !l.stop.Load() {
				if err := ask(); err != nil {
					l.fail(err)
					return
				}
				l.answered.Add(1)
				time.Sleep(rand.N(time.Duration(1+i%4) * 5 * time.Millisecond))
			}
		})
	}
	for range *compactRestarts {
		goal := l.answered.Load() + 100
		until(t, "requests are answered", func() bool { return l.answered.Load() >= goal || t.Failed() })
		f.replace(2)
	}
	l.end(t)
	endStreams()
	for i, ask := range idle {
		if err := ask(); err != nil {
			t.Errorf("idle client %d: %v", i, err)
		}
	}
	if n := m.dials.Load(); n != dials {
		t.Errorf("%d connections of HTTP/2 were made again", n-dials)
	}
	t.Logf("%d restarts, %d idle connections, %d requests of %d others", *compactRestarts, len(idle), l.answered.Load(), len(busy))
}

// A successor without CompactTLS is offered no TLS connection. Those that are there end with
// the goodbye of their protocol.
func TestSuccessorWithoutCompactTLS(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	f := start(t, setup{Workers: 1, TLS: true, CompactTLS: plain, HTTP2: true, Linger: time.Second, Drain: 4 * time.Second}, true)
	m := f.movingTLS(&load{})
	ask := m.http1()
	for range 2 {
		if err := ask(); err != nil {
			t.Fatal(err)
		}
	}
	c := m.dialTLS()
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.replace(1)
	c.SetReadDeadline(time.Now().Add(patience))
	if n, err := c.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		t.Errorf("an idle connection ends with %d bytes, %v", n, err)
	}
	if f.count("is lost") > 0 {
		t.Error("a connection was lost")
	}
	if err := m.http1()(); err != nil {
		t.Error(err)
	}
}
