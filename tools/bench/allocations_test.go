package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluicehttp/sluice"
)

// TestAllocations: no call allocates more than it does in fasthttp. -v prints
// the table.
func TestAllocations(t *testing.T) {
	if testing.Short() {
		t.Skip("the pools of both libraries have to be filled")
	}
	for _, row := range []struct {
		name         string
		theirs, ours func() func()
	}{
		{"ServeConn, one request", theirServeConn, ourServeConn},
		{"Client.Do", theirDo("http://host/path"), ourDo("http://host/path")},
		{"Client.Do with user information", theirDo("http://user:secret@host/path"), ourDo("http://user:secret@host/path")},
		{"Response: SetBodyStream of known size, Write", theirStream(4096), ourStream(4096)},
		{"Response: Write to a writer smaller than the head", theirWrite(16), ourWrite(16)},
		{"Response: Write", theirWrite(4096), ourWrite(4096)},
		{"Request: Read and Write", theirRequest, ourRequest},
	} {
		theirs, ours := testing.AllocsPerRun(300, row.theirs()), testing.AllocsPerRun(300, row.ours())
		t.Logf("%-50s fasthttp %3.0f  sluice %3.0f", row.name, theirs, ours)
		if ours > theirs {
			t.Errorf("%s: %v allocations, fasthttp makes %v", row.name, ours, theirs)
		}
	}
}

// canned is a connection whose peer says the same in answer to every Write,
// and, as long as there was none, at once.
type canned struct {
	net.Conn
	says string
	left string
}

func (c *canned) Read(p []byte) (int, error) {
	if c.left == "" {
		return 0, io.EOF
	}
	n := copy(p, c.left)
	c.left = c.left[n:]
	return n, nil
}

func (c *canned) Write(p []byte) (int, error) {
	c.left = c.says
	return len(p), nil
}

func (*canned) Close() error                     { return nil }
func (*canned) SetDeadline(time.Time) error      { return nil }
func (*canned) SetReadDeadline(time.Time) error  { return nil }
func (*canned) SetWriteDeadline(time.Time) error { return nil }
func (c *canned) LocalAddr() net.Addr            { return c }
func (c *canned) RemoteAddr() net.Addr           { return c }
func (*canned) Network() string                  { return "memory" }
func (*canned) String() string                   { return "memory" }

const (
	cannedRequest  = "GET /path?a=b HTTP/1.1\r\nHost: host\r\nUser-Agent: test\r\nConnection: close\r\n\r\n"
	cannedResponse = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
)

func theirServeConn() func() {
	server := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("hello") }}
	conn := &canned{}
	return func() {
		conn.left = cannedRequest
		must(server.ServeConn(conn))
	}
}

func ourServeConn() func() {
	server := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.SetBodyString("hello") }}
	conn := &canned{}
	return func() {
		conn.left = cannedRequest
		must(server.ServeConn(conn))
	}
}

func theirDo(url string) func() func() {
	return func() func() {
		client := &fasthttp.Client{Dial: func(string) (net.Conn, error) { return &canned{says: cannedResponse}, nil }}
		req, resp := new(fasthttp.Request), new(fasthttp.Response)
		return func() {
			req.SetRequestURI(url)
			must(client.Do(req, resp))
		}
	}
}

func ourDo(url string) func() func() {
	return func() func() {
		client := &sluice.Client{Dial: func(string) (net.Conn, error) { return &canned{says: cannedResponse}, nil }}
		req, resp := new(sluice.Request), new(sluice.Response)
		return func() {
			req.SetRequestURI(url)
			must(client.Do(req, resp))
		}
	}
}

func theirStream(size int) func() func() {
	return func() func() {
		resp, body, w := new(fasthttp.Response), strings.NewReader(strings.Repeat("x", size)), bufio.NewWriter(io.Discard)
		return func() {
			body.Seek(0, io.SeekStart)
			resp.SetBodyStream(body, size)
			must(resp.Write(w))
		}
	}
}

func ourStream(size int) func() func() {
	return func() func() {
		resp, body, w := new(sluice.Response), strings.NewReader(strings.Repeat("x", size)), bufio.NewWriter(io.Discard)
		return func() {
			body.Seek(0, io.SeekStart)
			resp.SetBodyStream(body, size)
			must(resp.Write(w))
		}
	}
}

func theirWrite(size int) func() func() {
	return func() func() {
		resp, w := new(fasthttp.Response), bufio.NewWriterSize(io.Discard, size)
		resp.SetBodyString("hello")
		return func() { must(resp.Write(w)) }
	}
}

func ourWrite(size int) func() func() {
	return func() func() {
		resp, w := new(sluice.Response), bufio.NewWriterSize(io.Discard, size)
		resp.SetBodyString("hello")
		return func() { must(resp.Write(w)) }
	}
}

func theirRequest() func() {
	req, text, w := new(fasthttp.Request), bytes.NewReader([]byte(cannedRequest)), bufio.NewWriter(io.Discard)
	r := bufio.NewReader(text)
	return func() {
		text.Seek(0, io.SeekStart)
		r.Reset(text)
		must(req.Read(r))
		must(req.Write(w))
	}
}

func ourRequest() func() {
	req, text, w := new(sluice.Request), bytes.NewReader([]byte(cannedRequest)), bufio.NewWriter(io.Discard)
	r := bufio.NewReader(text)
	return func() {
		text.Seek(0, io.SeekStart)
		r.Reset(text)
		must(req.Read(r))
		must(req.Write(w))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
