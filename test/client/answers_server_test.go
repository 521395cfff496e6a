package client_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// A rawServer accepts connections and reads requests from them; what it answers
// is for a function to say, byte by byte. It is for clients what peer is for
// servers.
type rawServer struct {
	t       *testing.T
	ln      net.Listener
	answer  func(c *rawConn, r rawRequest) (goOn bool)
	greet   func(c *rawConn) // for each connection, before it is read; may be nil
	running sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
	seen  []rawRequest
}

// A rawConn is a connection to a rawServer.
type rawConn struct {
	net.Conn
	n  int // the number of the connection, from 1
	br *bufio.Reader
}

// A rawRequest is what a rawServer has read of a request.
type rawRequest struct {
	conn int // its number
	head string
	body string // see lazyPath
	path string
}

// lazyPath begins the paths of requests whose bodies are left for answer to
// read.
const lazyPath = "/lazy"

// newRawServer starts a server, which ends with the test. answer is called for
// each request, and ends the connection if it returns false.
func newRawServer(t *testing.T, answer func(c *rawConn, r rawRequest) (goOn bool)) *rawServer {
	t.Helper()
	s := &rawServer{t: t, answer: answer}
	s.start()
	return s
}

func (s *rawServer) start() {
	s.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.serveOn(ln)
}

// serveOn serves the connections of ln.
func (s *rawServer) serveOn(ln net.Listener) {
	s.ln = ln
	s.t.Cleanup(s.stop)
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, nc)
			c := &rawConn{Conn: nc, n: len(s.conns), br: bufio.NewReader(nc)}
			s.mu.Unlock()
			s.running.Go(func() { s.serve(c) })
		}
	}()
}

// stop ends everything.
func (s *rawServer) stop() {
	s.ln.Close()
	s.mu.Lock()
	for _, c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// serve reads requests from c and answers them.
func (s *rawServer) serve(c *rawConn) {
	defer c.Close()
	if s.greet != nil {
		s.greet(c)
	}
	for {
		r, err := readRawRequest(c)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.seen = append(s.seen, r)
		s.mu.Unlock()
		if !s.answer(c, r) {
			return
		}
	}
}

func readRawRequest(c *rawConn) (r rawRequest, err error) {
	r.conn = c.n
	length := 0
	for {
		line, err := c.br.ReadString('\n')
		if err != nil {
			return r, err
		}
		if r.head += line; line == "\r\n" {
			break
		}
		if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "Content-Length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return r, err
			}
		}
	}
	_, rest, _ := strings.Cut(r.head, " ")
	r.path, _, _ = strings.Cut(rest, " ")
	if strings.HasPrefix(r.path, lazyPath) {
		return r, nil
	}
	body := make([]byte, length)
	_, err = io.ReadFull(c.br, body)
	r.body = string(body)
	return r, err
}

// send writes raw; the client may be gone.
func (c *rawConn) send(raw string) { _, _ = io.WriteString(c.Conn, raw) }

// reset ends the connection in disorder.
func (c *rawConn) reset() {
	_ = c.Conn.(*net.TCPConn).SetLinger(0)
	c.Conn.Close()
}

// drain reads until the client closes the connection.
func (c *rawConn) drain() { _, _ = io.Copy(io.Discard, c.br) }

// halfClose sends the end of the connection and goes on reading.
func (c *rawConn) halfClose() {
	_ = c.Conn.(*net.TCPConn).CloseWrite()
	c.drain()
}

// url is that of a path.
func (s *rawServer) url(path string) string { return "http://" + s.ln.Addr().String() + path }

// requests returns what was read so far.
func (s *rawServer) requests() []rawRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]rawRequest(nil), s.seen...)
}

// attempts returns how many requests there were for path.
func (s *rawServer) attempts(path string) (n int) {
	for _, r := range s.requests() {
		if r.path == path {
			n++
		}
	}
	return n
}

// fetched is what became of a request.
type fetched struct {
	status int
	body   string
	header map[string]string // the first of each name
	err    error
}

// do sends a request with client, within patience.
func do(client *sluice.Client, method, url, body string) (f fetched) {
	req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
	defer sluice.ReleaseRequest(req)
	defer sluice.ReleaseResponse(resp)
	req.Header.SetMethod(method)
	req.SetRequestURI(url)
	if body != "" {
		req.SetBodyString(body)
	}
	if f.err = client.DoTimeout(req, resp, harness.Patience); f.err != nil {
		return f
	}
	f.status, f.header = resp.StatusCode(), map[string]string{}
	if f.body, f.err = bodyOf(resp); f.err != nil {
		return f
	}
	for name, value := range resp.Header.All() {
		if _, ok := f.header[string(name)]; !ok {
			f.header[string(name)] = string(value)
		}
	}
	return f
}

// bodyOf returns a response's body, whether it is a stream or not.
func bodyOf(resp *sluice.Response) (string, error) {
	if !resp.IsBodyStream() {
		return string(resp.Body()), nil
	}
	raw, err := io.ReadAll(resp.BodyStream())
	return string(raw), errors.Join(err, resp.CloseBodyStream())
}
