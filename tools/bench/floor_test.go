package main

import (
	"bytes"
	"net"
	"strings"
	"sync"

	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
)

// A floorServer parses nothing: it looks for the ends of heads, knows how long the bodies of
// requests are, and writes a constant. What a request costs with it is the harness, a
// goroutine for each connection, and the copies.
type floorServer struct {
	bodySize int
	answers  []byte    // floorDepth responses
	buffers  sync.Pool // *[]byte
}

const (
	floorKind   = "floor" // beside those of package peers
	floorDepth  = 16
	floorAnswer = "HTTP/1.1 200 OK\r\nServer: floor\r\nDate: Sun, 22 Nov 2026 08:00:00 GMT\r\n" +
		"Content-Type: " + peers.ContentType + "\r\nContent-Length: 13\r\n\r\n" + peers.Body
)

// newServer returns a server of a kind for requests with bodies of that size.
func newServer(kind string, bodySize int) (peers.Server, error) {
	if kind != floorKind {
		return peers.New(kind, peers.Options{BodySize: bodySize})
	}
	f := &floorServer{bodySize: bodySize, answers: []byte(strings.Repeat(floorAnswer, floorDepth))}
	f.buffers.New = func() any { b := make([]byte, 16<<10); return &b }
	return f, nil
}

func (f *floorServer) Serve(ln net.Listener) error {
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		go f.serve(c)
	}
}

// serve answers the requests of a connection. A Read of the harness has whole requests.
func (f *floorServer) serve(c net.Conn) {
	defer c.Close()
	buffer := f.buffers.Get().(*[]byte)
	defer f.buffers.Put(buffer)
	for {
		n, err := c.Read(*buffer)
		if err != nil {
			return
		}
		count := 0
		for in := (*buffer)[:n]; len(in) > 0; count++ {
			end := bytes.Index(in, []byte("\r\n\r\n"))
			in = in[end+4+f.bodySize:]
		}
		if _, err := c.Write(f.answers[:count*len(floorAnswer)]); err != nil {
			return
		}
	}
}
