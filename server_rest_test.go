package sluice

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/sluicehttp/sluice/fasthttputil"
)

// TestLimitBodyDuringRead: LimitBody does not wait for a Read of another goroutine, whose client may
// wait for the response.
func TestLimitBodyDuringRead(t *testing.T) {
	var ctx RequestCtx
	ctx.requestStream.mu.Lock() // as Read does
	if err := ctx.LimitBody(10); err != nil {
		t.Error(err)
	}
}

// TestHTTP2BodyGoesOn: a request whose body paused for so long that its RequestCtx was
// given up is the same request.
func TestHTTP2BodyGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Engine: EnginePerConn, MaxBodyMemory: 1 << 10, MaxRequestBodySize: 9, ReadTimeout: 8 * time.Second, Handler: func(ctx *RequestCtx) {
			fmt.Fprintf(ctx, "%s %s %s %s %d %d %q %q", ctx.Method(), ctx.RequestURI(), ctx.Host(), ctx.Request.Header.Protocol(),
				ctx.StreamID(), ctx.ConnRequestNum(), ctx.Request.Header.Peek("X-Name"), ctx.PostBody())
			fmt.Fprintf(ctx, " %q %v", ctx.Request.Header.Peek("X-Last"), time.Since(ctx.Time()).Round(time.Second))
		}}
		ln := fasthttputil.NewInmemoryListener()
		served := make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		c := dialSlow(t, s, ln)

		c.begin(1)
		_ = c.WriteData(1, false, []byte("def"))
		time.Sleep(3 * time.Second) // once more
		_ = c.WriteData(1, true, []byte("ghi"))
		c.expect(1, `200 POST /1 host HTTP/2.0 1 1 "1" "abcdefghi" "" 6s`)
		c.begin(3)
		c.head(3, true, "x-last 3")
		c.expect(3, `200 POST /3 host HTTP/2.0 3 2 "3" "abc" "3" 3s`)
		c.begin(5)
		_ = c.WriteRSTStream(5, http2.ErrCodeCancel)
		synctest.Wait()
		c.begin(7)
		_ = c.WriteData(7, true, []byte("defghij"))
		c.expect(7, "413 the body is larger than the limit of 9 bytes")
		c.begin(9)
		c.expect(9, "408 request did not arrive in time")
		if n := s.gauges.bodyMemory.Load(); n != 0 {
			t.Errorf("%d bytes of bodies after the end", n)
		}
		c.conn.Close()
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// TestHTTP2BodyPauses: a body may pause as long after Expect, and with a callback, as without.
func TestHTTP2BodyPauses(t *testing.T) {
	for _, asks := range []bool{false, true} {
		for _, expect := range []string{"x-none 1", "expect 100-continue"} {
			synctest.Test(t, func(t *testing.T) {
				s := &Server{Engine: EnginePerConn, Handler: func(ctx *RequestCtx) { _, _ = ctx.Write(ctx.PostBody()) }}
				if asks {
					s.HeaderReceived = func(*RequestHeader) (config RequestConfig) { return config }
				}
				ln := fasthttputil.NewInmemoryListener()
				served := make(chan error, 1)
				go func() { served <- s.Serve(ln) }()
				c := dialSlow(t, s, ln)
				c.pause(1, expect, 9*time.Second)
				c.expect(1, "200 abcdef")
				c.pause(3, expect, 11*time.Second)
				c.expect(3, "408 request did not arrive in time")
				c.conn.Close()
				if err := s.Shutdown(); err != nil {
					t.Error(err)
				}
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// pause sends a request whose body pauses after three of six bytes.
func (c *slowClient) pause(stream uint32, field string, d time.Duration) {
	c.head(stream, false, ":method POST", ":scheme http", ":authority host", ":path /", field)
	_ = c.WriteData(stream, false, []byte("abc"))
	time.Sleep(d)
	_ = c.WriteData(stream, true, []byte("def"))
}

// A slowClient is a connection of HTTP/2 whose bodies pause.
type slowClient struct {
	*http2.Framer
	t       *testing.T
	server  *Server
	conn    io.Closer
	encoder *hpack.Encoder
	block   bytes.Buffer
}

func dialSlow(t *testing.T, s *Server, ln *fasthttputil.InmemoryListener) *slowClient {
	conn, err := ln.Dial()
	if err != nil {
		t.Fatal(err)
	}
	c := &slowClient{Framer: http2.NewFramer(conn, conn), t: t, server: s, conn: conn}
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.encoder = hpack.NewEncoder(&c.block)
	_, _ = io.WriteString(conn, http2.ClientPreface)
	_ = c.WriteSettings()
	_ = c.WriteSettingsAck()
	return c
}

func (c *slowClient) head(stream uint32, isLast bool, fields ...string) {
	c.block.Reset()
	for _, f := range fields {
		name, value, _ := strings.Cut(f, " ")
		_ = c.encoder.WriteField(hpack.HeaderField{Name: name, Value: value})
	}
	_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.block.Bytes(), EndHeaders: true, EndStream: isLast})
}

// begin sends a head and three bytes of the body, and pauses.
func (c *slowClient) begin(stream uint32) {
	c.t.Helper()
	c.head(stream, false, ":method POST", ":scheme http", ":authority host", fmt.Sprint(":path /", stream), fmt.Sprint("x-name ", stream))
	_ = c.WriteData(stream, false, []byte("abc"))
	time.Sleep(3 * time.Second)
	if n := c.server.gauges.bodyMemory.Load(); n != 3 {
		c.t.Errorf("stream %d: %d bytes of bodies", stream, n)
	}
}

// expect reads a response: its status and its content.
func (c *slowClient) expect(stream uint32, want string) {
	c.t.Helper()
	got := ""
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			c.t.Fatal(err)
		}
		if frame.Header().StreamID != stream {
			continue
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			got = frame.PseudoValue("status") + " "
		case *http2.DataFrame:
			got += string(frame.Data())
			if frame.StreamEnded() {
				if got != want {
					c.t.Errorf("stream %d: %s, want %s", stream, got, want)
				}
				synctest.Wait()
				return
			}
		}
	}
}
