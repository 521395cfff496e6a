package http2

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// An echoConn is a net.Conn whose peer answers each request at once, without a
// goroutine and without an allocation.
type echoConn struct {
	net.Conn
	mu      sync.Mutex
	changed *sync.Cond
	parser  h2.Parser
	in      []byte
	body    []byte
	isEnded bool
}

func newEchoConn() *echoConn {
	c := &echoConn{body: []byte("Hello, World!")}
	c.changed = sync.NewCond(&c.mu)
	c.in = settings(nil)
	return c
}

func (c *echoConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for rest := p; ; {
		n, ev, err := c.parser.Next(rest)
		if err != nil {
			return 0, err
		}
		rest = rest[n:]
		switch {
		case ev.Kind == h2.EventNone:
			c.changed.Broadcast()
			return len(p), nil
		case ev.Kind == h2.EventData && ev.Has(h2.FrameStart):
			c.in = h2.AppendWindowUpdate(c.in, 0, ev.Length)
		case ev.Kind == h2.EventSetting && ev.Has(h2.EndSettings):
			c.in = h2.AppendSettingsAck(c.in)
		}
		if ev.Has(h2.EndStream) {
			start := len(c.in)
			c.in = append(h2.BeginHeaders(c.in), 0x88)
			c.in = h2.FinishHeaders(c.in, start, ev.Stream, false, h2.MinMaxFrameSize)
			c.in = append(h2.AppendDataHead(c.in, ev.Stream, len(c.body), true), c.body...)
		}
	}
}

func (c *echoConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.in) == 0 && !c.isEnded {
		c.changed.Wait()
	}
	if c.isEnded {
		return 0, io.EOF
	}
	n := copy(p, c.in)
	c.in = c.in[:copy(c.in, c.in[n:])]
	return n, nil
}

func (c *echoConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isEnded = true
	c.changed.Broadcast()
	return nil
}

func (c *echoConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *echoConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *echoConn) SetDeadline(time.Time) error      { return nil }
func (c *echoConn) SetReadDeadline(time.Time) error  { return nil }
func (c *echoConn) SetWriteDeadline(time.Time) error { return nil }

// A plainRequest is a Request that keeps nothing.
type plainRequest struct {
	stream Stream
	table  field.Table
	fields fieldlist.RequestFields
	size   int
}

func newPlainRequest(method string, content []byte) *plainRequest {
	r := &plainRequest{fields: fieldlist.RequestFields{
		Method: []byte(method), Scheme: []byte("http"), Authority: []byte("a.example"), Path: []byte("/hello"),
	}}
	r.stream.Request, r.stream.Content = r, content
	return r
}

func (r *plainRequest) AppendHead(dst []byte, e message.FieldEncoder) []byte {
	return e.AppendRequest(dst, r.fields)
}
func (r *plainRequest) AppendTrailer(dst []byte, _ message.FieldEncoder) []byte { return dst }
func (r *plainRequest) Fields() *field.Table                                    { r.table.Reset(); return &r.table }
func (r *plainRequest) HeadReceived(*fieldlist.Head, bool) (bool, error)        { return false, nil }
func (r *plainRequest) BodyReceived(p []byte) error                             { r.size += len(p); return nil }
func (r *plainRequest) TrailerReceived(*field.Table)                            {}
func (r *plainRequest) InterimReceived(*fieldlist.Head, *field.Table)           {}

func TestNoAllocations(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector allocates")
	}
	for _, test := range []struct {
		method  string
		content []byte
	}{{"GET", nil}, {"POST", make([]byte, 1024)}} {
		c := NewConn(newEchoConn(), &Config{}, nil)
		r := newPlainRequest(test.method, test.content)
		r.stream.ReadTimeout = time.Minute
		call := func() {
			if err := c.Do(&r.stream); err != nil {
				t.Fatal(err)
			}
		}
		for range 1000 {
			call()
		}
		if n := testing.AllocsPerRun(1000, call); n != 0 {
			t.Errorf("%s: %v allocations", test.method, n)
		}
		_ = c.Close()
	}
}

// benchmarkCallers shares b.N calls of do among goroutines, each with its own do.
func benchmarkCallers(b *testing.B, callers int, newDo func() func() error) {
	b.ReportAllocs()
	var all sync.WaitGroup
	for i := range callers {
		do := newDo()
		all.Go(func() {
			for range (b.N + i) / callers {
				if err := do(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkConn is what a request costs on a connection whose peer answers at once.
func BenchmarkConn(b *testing.B) {
	for _, callers := range []int{1, 32} {
		for _, size := range []int{0, 1024} {
			b.Run(fmt.Sprintf("callers %d, body %d", callers, size), func(b *testing.B) {
				c := NewConn(newEchoConn(), &Config{}, nil)
				defer c.Close()
				benchmarkCallers(b, callers, func() func() error {
					r := newPlainRequest("POST", make([]byte, size))
					return func() error { return c.Do(&r.stream) }
				})
			})
		}
	}
}

// BenchmarkNetHTTP is BenchmarkConn with the client of net/http.
func BenchmarkNetHTTP(b *testing.B) {
	for _, callers := range []int{1, 32} {
		for _, size := range []int{0, 1024} {
			b.Run(fmt.Sprintf("callers %d, body %d", callers, size), func(b *testing.B) {
				dial := func(context.Context, string, string) (net.Conn, error) { return newEchoConn(), nil }
				t := &http.Transport{DialContext: dial, DisableCompression: true, Protocols: new(http.Protocols)}
				t.Protocols.SetUnencryptedHTTP2(true)
				defer t.CloseIdleConnections()
				benchmarkCallers(b, callers, func() func() error {
					content := make([]byte, size)
					return func() error { return roundTrip(t, content) }
				})
			})
		}
	}
}

func roundTrip(t *http.Transport, content []byte) error {
	r, err := http.NewRequest("POST", "http://a.example/hello", bytes.NewReader(content))
	if err != nil {
		return err
	}
	resp, err := t.RoundTrip(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
