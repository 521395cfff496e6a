package sluicetest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log"
	"net"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
)

// NewRequest returns a request for a handler. target is a path with a query, or a URL; without
// a host it is that of example.com. The path is sent verbatim, with dot segments and
// percent-encodings. body may be empty.
func NewRequest(method, target, body string) *sluice.Request {
	req := new(sluice.Request)
	req.Header.SetMethod(method)
	req.SetRequestURI(target)
	req.URI().DisablePathNormalizing = true
	if len(req.Host()) == 0 {
		req.SetHost("example.com")
	}
	if body != "" {
		req.SetBodyString(body)
	}
	return req
}

// Record has h answer one request, on a connection in memory, and returns the response, with
// the body that was streamed. So it is what a client gets: with a Date and a Content-Length,
// without a body for HEAD, and 500 after a panic. It returns when h has returned. Without a
// response, or if req cannot be sent, the test ends. The client's address is 192.0.2.1:1234.
//
// h may take the connection over: the response then is that of the handshake, and the
// connection is closed.
func Record(t testing.TB, h sluice.RequestHandler, req *sluice.Request) *sluice.Response {
	t.Helper()
	var wire bytes.Buffer
	w := bufio.NewWriter(&wire)
	if err := errors.Join(req.Write(w), w.Flush()); err != nil {
		t.Fatalf("sluicetest: the request cannot be sent: %v", err)
	}
	logTo := &testLog{t: t}
	defer logTo.close()
	server := &sluice.Server{Handler: h, Logger: log.New(logTo, "", 0), Engine: sluice.EnginePerConn, MaxRequestBodySize: len(req.Body()) + 1}
	pipe := fasthttputil.NewPipeConns()
	served := make(chan error, 1)
	go func() { served <- server.ServeConn(recordedConn{pipe.Conn2()}) }()
	conn := pipe.Conn1()
	defer func() {
		conn.Close()
		<-served
	}()
	go func() { _, _ = conn.Write(wire.Bytes()) }() // a handler need not read all
	resp := &sluice.Response{SkipBody: req.Header.IsHead()}
	if err := resp.Read(bufio.NewReader(conn)); err != nil && err != io.EOF {
		t.Fatalf("sluicetest: no response: %v", err)
	} else if err != nil {
		t.Fatal("sluicetest: the connection ends without a response")
	}
	return resp
}

// A recordedConn is a server's connection for Record.
type recordedConn struct{ net.Conn }

// RemoteAddr returns an address for documentation (RFC 5737), as that of a request of httptest.
func (recordedConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1234}
}
