package sluicetest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
)

// patience bounds waits for what should end at once.
const patience = 5 * time.Second

// memoryHost is the host of the URL of a server in memory.
const memoryHost = "sluice.test"

// A Server serves until the test ends. Make one with NewServer, NewTLSServer or
// NewUnstartedServer.
type Server struct {
	// URL is "http://" or "https://" and the server's address, without a slash at the end.
	URL string
	// Listener is what the server listens on. Another one may be set before Start.
	Listener net.Listener
	// Config is the server. It may be changed, or be another one, before Start. Without a
	// Logger, it gets the test's log.
	Config *sluice.Server

	t           testing.TB
	certificate *x509.Certificate
	served      chan error // nil: not started
	client      *sluice.Client
	httpClient  *http.Client
	open        atomic.Int64 // connections of the two clients
	log         *testLog
	end         sync.Once
}

// NewServer returns a server of h on a free port of 127.0.0.1. It is closed when the test
// ends.
func NewServer(t testing.TB, h sluice.RequestHandler) *Server {
	t.Helper()
	s := NewUnstartedServer(t, h)
	s.Start()
	return s
}

// NewTLSServer is NewServer with TLS, and a certificate that only the server's clients
// trust.
func NewTLSServer(t testing.TB, h sluice.RequestHandler) *Server {
	t.Helper()
	s := NewUnstartedServer(t, h)
	s.StartTLS()
	return s
}

// NewUnstartedServer returns a server of h that Start or StartTLS starts.
func NewUnstartedServer(t testing.TB, h sluice.RequestHandler) *Server {
	return &Server{Config: &sluice.Server{Handler: h}, t: t, log: &testLog{t: t}}
}

// InMemory makes a server that is not started listen in memory. Only its clients reach it, and
// a bubble of package testing/synctest may contain it, since it also selects EnginePerConn.
// It returns s.
func (s *Server) InMemory() *Server {
	s.Listener = fasthttputil.NewInmemoryListener()
	s.Config.Engine = sluice.EnginePerConn // the event engine waits for the kernel
	return s
}

// Start starts a server that NewUnstartedServer has returned.
func (s *Server) Start() {
	s.t.Helper()
	s.start("http", func() error { return s.Config.Serve(s.Listener) })
}

// StartTLS starts a server that NewUnstartedServer has returned, with TLS. If Config.TLSConfig
// has certificates, they are used, and clients trust the first one.
func (s *Server) StartTLS() {
	s.t.Helper()
	if s.Config.TLSConfig == nil {
		s.Config.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if len(s.Config.TLSConfig.Certificates) == 0 {
		cert, key, err := sluice.GenerateTestCertificate("127.0.0.1")
		if err != nil {
			s.t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			s.t.Fatal(err)
		}
		s.Config.TLSConfig.Certificates = []tls.Certificate{pair}
	}
	var err error
	if s.certificate, err = x509.ParseCertificate(s.Config.TLSConfig.Certificates[0].Certificate[0]); err != nil {
		s.t.Fatal(err)
	}
	s.start("https", func() error { return s.Config.ServeTLS(s.Listener, "", "") })
}

func (s *Server) start(scheme string, serve func() error) {
	s.t.Helper()
	if s.served != nil {
		s.t.Fatal("sluicetest: the server was started before")
	}
	if s.Listener == nil {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			s.t.Fatal(err)
		}
		s.Listener = ln
	}
	if s.Config.Logger == nil {
		s.Config.Logger = log.New(s.log, "", 0)
	}
	host := s.Listener.Addr().String()
	if s.inMemory() != nil {
		host = memoryHost
	}
	s.URL = scheme + "://" + host
	s.client = &sluice.Client{
		DialContext: func(ctx context.Context, _ string) (net.Conn, error) { return s.dial(ctx) },
		TLSConfig:   s.trust(),
	}
	s.httpClient = &http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx) },
		TLSClientConfig:   s.trust(),
		ForceAttemptHTTP2: !s.Config.HTTP2.Disable,
	}}
	s.served = make(chan error, 1)
	go func() { s.served <- serve() }()
	s.t.Cleanup(s.Close)
}

// inMemory returns the listener of a server in memory; nil otherwise.
func (s *Server) inMemory() *fasthttputil.InmemoryListener {
	ln, _ := s.Listener.(*fasthttputil.InmemoryListener)
	return ln
}

// Certificate returns the server's certificate; nil without TLS.
func (s *Server) Certificate() *x509.Certificate { return s.certificate }

// Client returns a client that connects with the server, whatever the host of a URL, and trusts
// its certificate. Its fields may be changed before it is used. It is nil before Start.
func (s *Server) Client() *sluice.Client { return s.client }

// HTTPClient is Client of package net/http. It does not follow proxies of the environment.
func (s *Server) HTTPClient() *http.Client { return s.httpClient }

// trust returns a client's configuration of TLS; nil without TLS.
func (s *Server) trust() *tls.Config {
	if s.certificate == nil {
		return nil
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.certificate)
	name := memoryHost
	switch c := s.certificate; {
	case len(c.DNSNames) > 0:
		name = c.DNSNames[0]
	case len(c.IPAddresses) > 0:
		name = c.IPAddresses[0].String()
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: name}
}

// dial opens a connection for a client, which is counted until it is closed.
func (s *Server) dial(ctx context.Context) (net.Conn, error) {
	var conn net.Conn
	var err error
	if ln := s.inMemory(); ln != nil {
		conn, err = ln.Dial()
	} else {
		conn, err = new(net.Dialer).DialContext(ctx, s.Listener.Addr().Network(), s.Listener.Addr().String())
	}
	if err != nil {
		return nil, err
	}
	s.open.Add(1)
	return &countedConn{Conn: conn, closed: sync.OnceFunc(func() { s.open.Add(-1) })}, nil
}

// A countedConn is a connection of a client.
type countedConn struct {
	net.Conn
	closed func()
}

// Close closes the connection.
func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// Close ends the server. The test fails if Serve returns an error, if connections of the
// server's clients are still in use, as after a streamed response that was not closed, or if
// requests are still in progress, five seconds later. Connections are closed then.
// A second call does nothing.
func (s *Server) Close() {
	if s.served == nil {
		return
	}
	s.end.Do(func() {
		s.t.Helper()
		defer s.log.close()
		closeIdle := func() {
			s.client.CloseIdleConnections()
			s.httpClient.CloseIdleConnections()
		}
		if !eventually(func() bool { closeIdle(); return s.open.Load() == 0 }) {
			s.t.Errorf("sluicetest: clients of %s still use %d connections: close the streams of responses", s.URL, s.open.Load())
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = s.Listener.Close() // Serve may not have begun
		if err := s.Config.ShutdownWithContext(ctx); err != nil {
			s.t.Errorf("sluicetest: %s does not end, because requests are in progress: %v\n%s", s.URL, err, stacks())
		}
		select {
		case err := <-s.served:
			if err != nil {
				s.t.Errorf("sluicetest: %s: %v", s.URL, err)
			}
			_ = s.Config.ShutdownWithContext(ctx) // if Serve began after the first Shutdown, its engine still runs
		case <-ctx.Done():
			s.t.Errorf("sluicetest: Serve of %s does not return", s.URL)
		}
	})
}

// eventually reports whether a condition holds within patience.
func eventually(isSo func() bool) bool {
	end := time.Now().Add(patience)
	for wait := time.Millisecond; ; wait *= 2 {
		switch left := time.Until(end); {
		case isSo():
			return true
		case left <= 0:
			return false
		default:
			time.Sleep(min(wait, left))
		}
	}
}

// A testLog writes lines to a test's log, until the test may have ended.
type testLog struct {
	mu     sync.Mutex
	t      testing.TB
	closed bool
}

// Write implements io.Writer.
func (l *testLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.t.Log(strings.TrimSuffix(string(line), "\n"))
	}
	return len(line), nil
}

func (l *testLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}
