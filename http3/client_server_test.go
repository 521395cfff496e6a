package http3

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// pattern is a body of n bytes that does not repeat itself soon.
func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i * 31 >> 3)
	}
	return p
}

// TestClientAndServer: large bodies in both directions at once, from memory and as streams, on
// one connection.
func TestClientAndServer(t *testing.T) {
	addr := serve(t, &sluice.Server{
		StreamRequestBody: true, MaxRequestBodySize: 64 << 20,
		Handler: func(ctx *sluice.RequestCtx) {
			sum := crc32.NewIEEE()
			n, err := io.Copy(sum, ctx.RequestBodyStream())
			if err != nil {
				ctx.Error(err.Error(), 400)
				return
			}
			ctx.Response.Header.Set("X-Sum", fmt.Sprint(n, " ", sum.Sum32()))
			ctx.SetBody(pattern(int(n)))
		},
	}, Config{})
	c := overHTTP3(t, addr)
	c.StreamResponseBody = true
	var group sync.WaitGroup
	for i, n := range []int{1, 1000, 70_000, 1 << 20, 8 << 20} {
		for _, isStream := range []bool{false, true} {
			group.Go(func() {
				body := pattern(n)
				var req sluice.Request
				var resp sluice.Response
				req.Header.SetMethod("POST")
				req.SetRequestURI("https://" + addr + "/" + strconv.Itoa(i))
				if isStream {
					req.SetBodyStream(bytes.NewReader(body), -1)
				} else {
					req.SetBody(body)
				}
				if err := c.DoTimeout(&req, &resp, time.Minute); err != nil {
					t.Errorf("%d bytes: %v", n, err)
					return
				}
				got, err := io.ReadAll(resp.BodyStream())
				if want := fmt.Sprint(n, " ", crc32.ChecksumIEEE(body)); err != nil || !bytes.Equal(got, body) || string(resp.Header.Peek("X-Sum")) != want {
					t.Errorf("%d bytes: %d came back, %s, want %s, %v", n, len(got), resp.Header.Peek("X-Sum"), want, err)
				}
				_ = resp.CloseBodyStream()
			})
		}
	}
	group.Wait()
	if c.ConnsCount() != 1 {
		t.Errorf("%d connections", c.ConnsCount())
	}
}

// TestClientServerShutdown: requests that are under way when a Server shuts down are answered, each
// once; later ones fail, because nothing serves.
func TestClientServerShutdown(t *testing.T) {
	var served atomic.Int64
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		served.Add(1)
		time.Sleep(time.Millisecond)
	}}
	addr := serve(t, s, Config{})
	c := overHTTP3(t, addr)
	c.MaxIdemponentCallAttempts = 1
	var answered atomic.Int64
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for {
				var req sluice.Request
				var resp sluice.Response
				req.Header.SetMethod("POST")
				req.SetRequestURI("https://" + addr + "/")
				if err := c.DoTimeout(&req, &resp, time.Second); err != nil {
					return
				}
				answered.Add(1)
			}
		})
	}
	nettest.Poll(20*time.Second, func() bool { return answered.Load() > 200 })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.ShutdownWithContext(ctx); err != nil {
		t.Error(err)
	}
	group.Wait()
	if served.Load() != answered.Load() {
		t.Errorf("%d requests were served, and %d answered", served.Load(), answered.Load())
	}
}

// BenchmarkClientGet: a GET of 13 bytes, one at a time and 100 at once, beside quic-go's client;
// the server is part of it.
func BenchmarkClientGet(b *testing.B) {
	addr := serve(b, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.SetBodyString("Hello, World!") }}, Config{})
	own := overHTTP3(b, addr)
	own.MaxConnWaitTimeout = 10 * time.Second
	other := newClient(b)
	for name, do := range map[string]func() error{
		"sluice": func() error {
			req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
			defer sluice.ReleaseRequest(req)
			defer sluice.ReleaseResponse(resp)
			req.SetRequestURI("https://" + addr + "/")
			return own.Do(req, resp)
		},
		"quic-go": func() error {
			resp, err := other.Get("https://" + addr + "/")
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			return err
		},
	} {
		for _, atOnce := range []int{1, 100} {
			b.Run(fmt.Sprint(name, "/", atOnce), func(b *testing.B) {
				b.ReportAllocs()
				var group sync.WaitGroup
				left := atomic.Int64{}
				left.Store(int64(b.N))
				for range atOnce {
					group.Go(func() {
						for left.Add(-1) >= 0 {
							if err := do(); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				group.Wait()
			})
		}
	}
}
