package client_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/invariants"
)

// killableServer is a server whose connections can be broken off.
type killableServer struct {
	server *sluice.Server
	served chan error
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	net.Listener
}

func startKillable(t *testing.T, addr string) *killableServer {
	ln, err := net.Listen("tcp", addr)
	for end := time.Now().Add(pipelineBound); err != nil && time.Now().Before(end); ln, err = net.Listen("tcp", addr) {
		time.Sleep(time.Millisecond) // the port may still be in use
	}
	if err != nil {
		t.Fatal(err)
	}
	k := &killableServer{Listener: ln, conns: map[net.Conn]struct{}{}, served: make(chan error, 1)}
	k.server = &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.Write(ctx.Path()) }, Logger: &recordingLogger{}}
	go func() { k.served <- k.server.Serve(k) }()
	return k
}

// Accept implements net.Listener.
func (k *killableServer) Accept() (net.Conn, error) {
	c, err := k.Listener.Accept()
	if err == nil {
		k.mu.Lock()
		k.conns[c] = struct{}{}
		k.mu.Unlock()
		c = struct{ net.Conn }{c}
	}
	return c, err
}

// kill breaks everything off.
func (k *killableServer) kill(t *testing.T) {
	_ = k.Listener.Close()
	k.mu.Lock()
	for c := range k.conns {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
	k.mu.Unlock()
	if err := k.server.Shutdown(); err != nil {
		t.Error(err)
	}
	<-k.served
}

func TestPipelineSurvivesRestarts(t *testing.T) {
	noNewGoroutines(t)
	server := startKillable(t, "127.0.0.1:0")
	addr := server.Addr().String()
	c := &sluice.PipelineClient{Addr: addr, MaxConns: 2}
	t.Cleanup(c.CloseIdleConnections)
	var isDown, stop atomic.Bool
	var answers, refused, kills atomic.Int64
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			req, resp := new(sluice.Request), new(sluice.Response)
			for n := 0; !stop.Load(); n++ {
				path := fmt.Sprintf("/%d/%d", i, n)
				req.SetRequestURI("http://" + addr + path)
				wasDown, killsBefore := isDown.Load(), kills.Load()
				switch err := c.Do(req, resp); {
				case err == nil && string(resp.Body()) == path:
					answers.Add(1)
				case err == nil:
					t.Errorf("%s got the answer %q", path, resp.Body())
					return
				case wasDown || kills.Load() != killsBefore:
					refused.Add(1)
				default:
					t.Errorf("%s: %v", path, err)
					return
				}
			}
		})
	}
	for range 4 {
		before := answers.Load()
		waitUntil(t, "requests are answered", func() bool { return answers.Load() > before+500 || t.Failed() })
		isDown.Store(true)
		kills.Add(1)
		server.kill(t)
		before = refused.Load()
		waitUntil(t, "requests fail", func() bool { return refused.Load() > before || t.Failed() })
		server = startKillable(t, addr)
		// Those that have begun before may fail.
		before = answers.Load()
		waitUntil(t, "requests are answered again", func() bool { return answers.Load() > before+64 || t.Failed() })
		isDown.Store(false)
	}
	stop.Store(true)
	group.Wait()
	server.kill(t)
	waitUntil(t, "the lanes are empty", func() bool { return c.PendingRequests() == 0 })
	t.Logf("%d answers, %d failures while the server was down", answers.Load(), refused.Load())
}

func TestPipelineTLS(t *testing.T) {
	noNewGoroutines(t)
	certificate, key, err := sluice.GenerateTestCertificate("localhost")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.Write(ctx.Path()) }}
	served := make(chan error, 1)
	go func() { served <- s.Serve(tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{pair}})) }()
	defer func() {
		_ = s.Shutdown()
		<-served
	}()
	c := &sluice.PipelineClient{Addr: ln.Addr().String(), IsTLS: true, TLSConfig: &tls.Config{InsecureSkipVerify: true}, MaxConns: 2}
	t.Cleanup(c.CloseIdleConnections)
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			req, resp := new(sluice.Request), new(sluice.Response)
			for n := range 20 {
				path := fmt.Sprintf("/%d/%d", i, n)
				req.SetRequestURI("https://localhost" + path)
				if err := c.DoTimeout(req, resp, pipelineBound); err != nil || string(resp.Body()) != path {
					t.Errorf("%s: %v, %q", path, err, resp.Body())
				}
			}
		})
	}
	group.Wait()
	strict := &sluice.PipelineClient{Addr: ln.Addr().String(), IsTLS: true}
	req := new(sluice.Request)
	req.SetRequestURI("https://localhost/")
	if err := strict.Do(req, nil); !errors.As(err, new(*tls.CertificateVerificationError)) {
		t.Errorf("error %v", err)
	}
}

func TestPipelineDoesNotAllocate(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector allocates")
	}
	c := &sluice.PipelineClient{Addr: "x:80", Dial: dialEcho}
	t.Cleanup(c.CloseIdleConnections)
	req, resp := new(sluice.Request), new(sluice.Response)
	req.SetRequestURI("http://x/")
	for name, do := range map[string]func() error{
		"Do":        func() error { return c.Do(req, resp) },
		"DoTimeout": func() error { return c.DoTimeout(req, resp, time.Minute) },
	} {
		allocs := testing.AllocsPerRun(2000, func() {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		})
		if allocs >= 1 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}
