package server_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
	"github.com/sluicehttp/sluice/test/harness"
)

// An address without a host is all addresses, of both versions.
func TestListenAndServeOnAllAddresses(t *testing.T) {
	if ln, err := net.Listen("tcp6", "[::1]:0"); err != nil {
		t.Skip(err)
	} else {
		ln.Close()
	}
	_, port, err := net.SplitHostPort(harness.FreeAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	s := &sluice.Server{Handler: answering("x"), Logger: &harness.LogBook{}}
	served := make(chan error, 1)
	go func() { served <- s.ListenAndServe(":" + port) }()
	for _, host := range []string{"127.0.0.1", "::1"} {
		var c net.Conn
		harness.Eventually(t, "it listens", func() bool {
			c, err = net.Dial("tcp", net.JoinHostPort(host, port))
			return err == nil
		})
		if a := harness.NewPeer(t, c).Get("/"); a.Body != "x" {
			t.Errorf("%s: answered %q", host, a.Body)
		}
		c.Close()
	}
	if err := s.Shutdown(); err != nil {
		t.Error(err)
	}
	if err := harness.Receive(t, served); err != nil {
		t.Error(err)
	}
}

// TestListenAndServe: each way to listen answers, until Shutdown.
// long: a table of cases
func TestListenAndServe(t *testing.T) {
	certPEM, keyPEM, client := harness.CertificateFor(t, "localhost")
	certFile, keyFile := writeFile(t, "cert.pem", certPEM), writeFile(t, "key.pem", keyPEM)
	socket := filepath.Join(t.TempDir(), "socket")
	plain, secure, embedded := harness.FreeAddr(t), harness.FreeAddr(t), harness.FreeAddr(t)
	overTLS := func(addr string) (net.Conn, error) { return tls.Dial("tcp", addr, client) }
	tests := []struct {
		name  string
		serve func(*sluice.Server) error
		dial  func() (net.Conn, error)
	}{
		{"tcp", func(s *sluice.Server) error { return s.ListenAndServe(plain) }, func() (net.Conn, error) { return net.Dial("tcp", plain) }},
		{"tcp keep-alive", func(s *sluice.Server) error {
			s.TCPKeepalive, s.TCPKeepalivePeriod = true, time.Minute
			return s.ListenAndServe(plain)
		}, func() (net.Conn, error) { return net.Dial("tcp", plain) }},
		{"unix", func(s *sluice.Server) error { return s.ListenAndServeUNIX(socket, 0o600) }, func() (net.Conn, error) { return net.Dial("unix", socket) }},
		{"unix again", func(s *sluice.Server) error { return s.ListenAndServeUNIX(socket, 0o600) }, func() (net.Conn, error) { return net.Dial("unix", socket) }},
		{"tls", func(s *sluice.Server) error { return s.ListenAndServeTLS(secure, certFile, keyFile) }, func() (net.Conn, error) { return overTLS(secure) }},
		{"tls embedded", func(s *sluice.Server) error { return s.ListenAndServeTLSEmbed(embedded, certPEM, keyPEM) }, func() (net.Conn, error) { return overTLS(embedded) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			book := &harness.LogBook{}
			s := &sluice.Server{Handler: answering("x"), Logger: book}
			served := make(chan error, 1)
			go func() { served <- test.serve(s) }()
			var c net.Conn
			harness.Eventually(t, "it listens", func() (ok bool) {
				var err error
				c, err = test.dial()
				return err == nil
			})
			defer c.Close()
			if a := harness.NewPeer(t, c).Get("/"); a.Body != "x" {
				t.Errorf("answered %q", a.Body)
			}
			if c.RemoteAddr().Network() == "unix" {
				if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("socket: %v, %v", info, err)
				}
			}
			if err := errors.Join(s.Shutdown(), harness.Receive(t, served)); err != nil {
				t.Error(err)
			}
			if c, err := test.dial(); err == nil {
				c.Close()
				t.Error("somebody still listens")
			}
			if log := book.String(); log != "" { // it would tell of a listener for multipath TCP
				t.Errorf("logged %q", log)
			}
		})
	}
	// A socket file that a crashed process left is replaced.
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	ln.Close()
	s := &sluice.Server{Handler: answering("x"), Logger: &harness.LogBook{}}
	served := make(chan error, 1)
	go func() { served <- s.ListenAndServeUNIX(socket, 0o600) }()
	harness.Eventually(t, "it listens", func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			harness.NewPeer(t, c).Get("/")
			c.Close()
		}
		return err == nil
	})
	if err := errors.Join(s.Shutdown(), harness.Receive(t, served)); err != nil {
		t.Error(err)
	}
}

// A server that ends leaves the unix socket of another one that has replaced its own.
func TestReplacedUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	serve := func(answer string) func() {
		s := &sluice.Server{Handler: answering(answer), Logger: &harness.LogBook{}}
		served := make(chan error, 1)
		go func() { served <- s.ListenAndServeUNIX(socket, 0o600) }()
		harness.Eventually(t, answer+" listens", func() bool {
			c, err := net.Dial("unix", socket)
			if err != nil {
				return false
			}
			defer c.Close()
			return harness.NewPeer(t, c).Get("/").Body == answer
		})
		return func() {
			if err := errors.Join(s.Shutdown(), harness.Receive(t, served)); err != nil {
				t.Error(err)
			}
		}
	}
	endOld := serve("old")
	endNew := serve("new")
	endOld()
	if c, err := net.Dial("unix", socket); err != nil {
		t.Error(err)
	} else if got := harness.NewPeer(t, c).Get("/").Body; got != "new" {
		t.Errorf("%q answers", got)
	}
	endNew()
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the socket is left")
	}
}

func TestListenAndServeFails(t *testing.T) {
	file := writeFile(t, "file", []byte("precious"))
	handler := answering("x")
	for name, err := range map[string]error{
		"address":       sluice.ListenAndServe("not an address", handler),
		"TLS address":   sluice.ListenAndServeTLS("not an address", "", "", handler),
		"TLS embedded":  sluice.ListenAndServeTLSEmbed("not an address", nil, nil, handler),
		"no directory":  sluice.ListenAndServeUNIX(filepath.Join(t.TempDir(), "no", "socket"), 0o600, handler),
		"not a socket":  sluice.ListenAndServeUNIX(file, 0o600, handler),
		"no handler":    sluice.ListenAndServe("127.0.0.1:0", nil),
		"no handler 2":  sluice.ServeConn(nil, nil),
		"TLS, no certs": sluice.ServeTLS(failingListener{}, "", "", handler),
		"TLS, bad cert": sluice.ServeTLSEmbed(failingListener{}, []byte("x"), []byte("y"), handler),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "precious" {
		t.Errorf("the file that was no socket is now %q, %v", content, err)
	}
}

// TestServeTLSNeedsBothFiles: a certificate without a key is not passed over, nor
// a key without one.
func TestServeTLSNeedsBothFiles(t *testing.T) {
	for _, files := range [][2]string{{"missing", ""}, {"", "missing"}, {"missing", "missing"}} {
		s := &sluice.Server{Handler: answering("x")}
		if err := s.ServeTLS(failingListener{}, files[0], files[1]); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q: %v", files, err)
		}
	}
	for _, data := range [][2]string{{"x", ""}, {"", "x"}, {"x", "x"}} {
		certificate := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, nil }
		s := &sluice.Server{Handler: answering("x"), TLSConfig: &tls.Config{GetCertificate: certificate}}
		if err := s.ServeTLSEmbed(failingListener{io.EOF}, []byte(data[0]), []byte(data[1])); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("data %q: %v", data, err)
		}
	}
}

// TestServeFunctions serve without a Server.
func TestServeFunctions(t *testing.T) {
	ln := fasthttputil.NewInmemoryListener()
	served := make(chan error, 1)
	go func() { served <- sluice.Serve(ln, answering("x")) }()
	c, err := ln.Dial()
	if err != nil {
		t.Fatal(err)
	}
	p := harness.NewPeer(t, c)
	p.Send(harness.Closing("/"))
	if a := p.Answer("GET"); a.Body != "x" {
		t.Errorf("answered %q", a.Body)
	}
	c.Close()
	ln.Close()
	if err := harness.Receive(t, served); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// TestServeConn returns when the connection ends, with what went wrong.
func TestServeConn(t *testing.T) {
	serve := func(t *testing.T, s *sluice.Server, leftover string) (*harness.Peer, <-chan error) {
		client, server := net.Pipe()
		served := make(chan error, 1)
		s.Logger = &harness.LogBook{}
		go func() { served <- s.Control().ServeConn(server, []byte(leftover)) }()
		t.Cleanup(func() { client.Close() })
		return harness.NewPeer(t, client), served
	}
	t.Run("client closes", func(t *testing.T) {
		p, served := serve(t, &sluice.Server{Handler: answering("x")}, "")
		p.Get("/")
		p.Close()
		if err := harness.Receive(t, served); err != nil {
			t.Errorf("ServeConn: %v", err)
		}
	})
	t.Run("server closes", func(t *testing.T) {
		p, served := serve(t, &sluice.Server{Handler: answering("x")}, "")
		p.Send(harness.Closing("/"))
		p.Answer("GET")
		p.ExpectEnd()
		if err := harness.Receive(t, served); err != nil {
			t.Errorf("ServeConn: %v", err)
		}
	})
	t.Run("leftover", func(t *testing.T) {
		p, served := serve(t, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.Write(ctx.Path()) }}, harness.Get("/first")+"GET /sec")
		if a := p.Answer("GET"); a.Body != "/first" {
			t.Errorf("answered %q", a.Body)
		}
		p.Send("ond HTTP/1.1\r\nHost: h\r\n\r\n")
		if a := p.Answer("GET"); a.Body != "/second" {
			t.Errorf("answered %q", a.Body)
		}
		p.Close()
		if err := harness.Receive(t, served); err != nil {
			t.Errorf("ServeConn: %v", err)
		}
	})
	t.Run("shutdown", func(t *testing.T) {
		s := &sluice.Server{Handler: answering("x")}
		p, served := serve(t, s, "")
		p.Get("/")
		if err := s.Shutdown(); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		p.ExpectEnd()
		if err := harness.Receive(t, served); err != nil {
			t.Errorf("ServeConn: %v", err)
		}
	})
	t.Run("broken", func(t *testing.T) {
		failure := errors.New("cable was cut")
		s := &sluice.Server{Handler: answering("x"), Logger: &harness.LogBook{}}
		if err := s.ServeConn(brokenConn{failure}); !errors.Is(err, failure) {
			t.Errorf("ServeConn: %v", err)
		}
	})
}

// brokenConn fails on every use.
type brokenConn struct{ err error }

func (c brokenConn) Read([]byte) (int, error) { return 0, c.err }

func (c brokenConn) Write([]byte) (int, error) { return 0, c.err }

func (c brokenConn) Close() error { return c.err }

func (c brokenConn) LocalAddr() net.Addr { return nil }

func (c brokenConn) RemoteAddr() net.Addr { return nil }

func (c brokenConn) SetDeadline(time.Time) error { return c.err }

func (c brokenConn) SetReadDeadline(time.Time) error { return c.err }

func (c brokenConn) SetWriteDeadline(time.Time) error { return c.err }

// TestServeConnOverTCP is ServeConn on the path for sockets.
func TestServeConnOverTCP(t *testing.T) {
	ln, dial := harness.OverTCP().Listen(t)
	defer ln.Close()
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.Write(ctx.Path()) }, Logger: &harness.LogBook{}}
	served := make(chan error, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			served <- err
			return
		}
		served <- s.Control().ServeConn(c, []byte(harness.Get("/leftover")+"GE"))
	}()
	c, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := harness.NewPeer(t, c)
	p.Send("T /sent HTTP/1.1\r\nHost: h\r\n\r\n" + harness.Closing("/last"))
	for _, want := range []string{"/leftover", "/sent", "/last"} {
		if a := p.Answer("GET"); a.Body != want {
			t.Errorf("answered %q, want %q", a.Body, want)
		}
	}
	p.ExpectEnd()
	c.Close()
	if err := harness.Receive(t, served); err != nil {
		t.Errorf("ServeConn: %v", err)
	}
}

// TestConnWithoutAddresses: a hand-made connection may have none.
func TestConnWithoutAddresses(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	s := &sluice.Server{MaxConnsPerIP: 1, LogAllErrors: true, Logger: &harness.LogBook{}, Handler: func(ctx *sluice.RequestCtx) {
		io.WriteString(ctx, ctx.RemoteAddr().String()+" "+ctx.LocalIP().String())
		_ = ctx.String()
	}}
	served := make(chan error, 1)
	go func() { served <- s.ServeConn(namelessConn{server}) }()
	p := harness.NewPeer(t, client)
	if a := p.Get("/"); a.Body != "0.0.0.0:0 0.0.0.0" {
		t.Errorf("answered %q", a.Body)
	}
	p.Send("nonsense\r\n\r\n")
	if a := p.Answer("GET"); a.StatusCode != 400 || !strings.Contains(s.Logger.(*harness.LogBook).String(), "error when serving") {
		t.Errorf("answered %d, logged %q", a.StatusCode, s.Logger)
	}
	client.Close()
	harness.Receive(t, served)
}

type namelessConn struct{ net.Conn }

func (namelessConn) LocalAddr() net.Addr { return nil }

func (namelessConn) RemoteAddr() net.Addr { return nil }

// timedListener sets a deadline on what it accepts.
type timedListener struct {
	net.Listener
	wrap func(net.Conn) net.Conn
}

func (l timedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if err := c.SetReadDeadline(time.Now().Add(harness.Briefly)); err != nil {
		return nil, err
	}
	return l.wrap(c), nil
}

// TestDeadlinesOfListeners: a deadline that a listener has set on a connection
// stays in force where the server has no time-out: an idle connection is closed,
// a request that is not complete by then is answered.
func TestDeadlinesOfListeners(t *testing.T) {
	bare := func(c net.Conn) net.Conn { return c }
	wrapped := func(c net.Conn) net.Conn { return struct{ net.Conn }{c} }
	for name, wrap := range map[string]func(net.Conn) net.Conn{"socket": bare, "wrapped": wrapped} {
		for _, n := range []harness.Network{harness.OverTCP().By(sluice.EnginePerConn), harness.InMemory()} {
			listen := n.Listen
			n.Listen = func(t *testing.T) (net.Listener, func() (net.Conn, error)) {
				ln, dial := listen(t)
				return timedListener{ln, wrap}, dial
			}
			t.Run(n.Name+"/"+name, func(t *testing.T) {
				r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.Done() }})
				idle, used, partial := r.Dial(), r.Dial(), r.Dial()
				used.Send(harness.Get("/"))
				partial.Send("GET / HT")
				if a := partial.Answer("GET"); a.StatusCode != 408 {
					t.Errorf("%d", a.StatusCode)
				}
				idle.ExpectEnd()
				if statuses, _ := statusesOf(t, used.Rest()); len(statuses) > 1 {
					t.Errorf("%v", statuses)
				}
			})
		}
	}
}

// TestServeConnReturnsUnexpectedEOF: programs compare the error of a body that was cut off
// with ==.
func TestServeConnReturnsUnexpectedEOF(t *testing.T) {
	for _, body := range []string{"Content-Length: 5\r\n\r\n", "Content-Length: 5\r\n\r\nab", "Transfer-Encoding: chunked\r\n\r\n5\r\nab"} {
		client, server := net.Pipe()
		go func() {
			_, _ = io.WriteString(client, "POST / HTTP/1.1\r\nHost: h\r\n"+body)
			_ = client.Close()
		}()
		s := &sluice.Server{Handler: func(*sluice.RequestCtx) {}, Logger: &harness.LogBook{}}
		if err := s.ServeConn(server); err != io.ErrUnexpectedEOF {
			t.Errorf("%q: %v", body, err)
		}
	}
}
