package server_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

func TestTLS(t *testing.T) {
	harness.OnEachSecureNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
			state := ctx.TLSConnectionState()
			if !ctx.IsTLS() || state == nil || !state.HandshakeComplete {
				t.Errorf("TLS state is %v", state)
			}
			fmt.Fprintf(ctx, "%s %d", ctx.URI().Scheme(), len(ctx.PostBody()))
		}})
		p := r.Dial()
		for range 3 {
			if a := p.Get("/"); a.Body != "https 0" {
				t.Errorf("answered %q", a.Body)
			}
			p.Send(harness.Post("/", strings.Repeat("x", 100<<10)))
			if a := p.Answer("POST"); a.Body != "https 102400" {
				t.Errorf("answered %q", a.Body)
			}
		}
		_, bodies := statusesOf(t, r.Exchange(strings.Repeat(harness.Post("/", "x"), 100)+harness.Closing("/")))
		if len(bodies) != 101 {
			t.Errorf("%d answers to pipelined requests", len(bodies))
		}
		// The refusal of somebody who goes on sending arrives.
		statuses, _ := statusesOf(t, r.Exchange(harness.Request("GET / HTTP/1.1", "A: "+strings.Repeat("a", 1<<20))))
		if !slices.Equal(statuses, []int{431}) {
			t.Errorf("refused with %v", statuses)
		}
	})
}

// TestTLSHijackAndDone: what hijackers and watchers get is decrypted.
func TestTLSHijackAndDone(t *testing.T) {
	harness.OnEachSecureNetwork(t, func(t *testing.T, n harness.Network) {
		inHandler, gone := make(chan struct{}), make(chan struct{}, 1)
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/done" {
				done := ctx.Done()
				inHandler <- struct{}{}
				harness.Receive(t, done)
				gone <- struct{}{}
				return
			}
			ctx.HijackSetNoResponse(true)
			ctx.Hijack(harness.Echo)
		}})
		p := r.Dial()
		p.Send(harness.Get("/") + "early")
		p.Expect("<early>")
		p.Send("late")
		p.Expect("<late>")
		p.Send(".")
		p.ExpectEnd()
		p = r.Dial()
		p.Send(harness.Get("/done"))
		harness.Receive(t, inHandler)
		p.Close()
		harness.Receive(t, gone)
	})
}

// TestTLSLargeResponses: bodies, streams and files of megabytes arrive, to a client that reads
// slowly too, and within a TimeoutHandler.
func TestTLSLargeResponses(t *testing.T) {
	s := newSource(t, 3_000_000)
	content := string(s.content)
	answers := map[string]sluice.RequestHandler{
		"/body":   func(ctx *sluice.RequestCtx) { ctx.SetBodyString(content) },
		"/stream": func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(strings.NewReader(content), -1) },
		"/sized":  func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(strings.NewReader(content), len(content)) },
		"/writer": func(ctx *sluice.RequestCtx) {
			ctx.SetBodyStreamWriter(func(w *bufio.Writer) { _, _ = w.WriteString(content) })
		},
		"/file": func(ctx *sluice.RequestCtx) { ctx.SendFile(s.path) },
	}
	handler := func(ctx *sluice.RequestCtx) { answers[string(ctx.Path())](ctx) }
	for name, h := range map[string]sluice.RequestHandler{"plain": handler, "timed": sluice.TimeoutHandler(handler, harness.Patience, "late")} {
		t.Run(name, func(t *testing.T) {
			harness.OnEachSecureNetwork(t, func(t *testing.T, n harness.Network) {
				p := harness.Serve(t, n, &sluice.Server{Handler: h}).Dial()
				for path := range answers {
					if a := p.Get(path); a.Body != content {
						t.Errorf("%s: %d bytes", path, len(a.Body))
					}
				}
			})
		})
	}
}

// TestTLSTimeouts: a TimeoutHandler answers for a handler that is late, and the next request is
// served.
func TestTLSTimeouts(t *testing.T) {
	harness.OnEachSecureNetwork(t, func(t *testing.T, n harness.Network) {
		late := make(chan struct{})
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			within := harness.Patience
			if string(ctx.Path()) == "/late" {
				within = harness.Briefly
			}
			sluice.TimeoutHandler(func(ctx *sluice.RequestCtx) {
				if string(ctx.Path()) == "/late" {
					<-late
				}
				ctx.SetBodyString("in time")
			}, within, "too slow")(ctx)
		}})
		p := r.Dial()
		if a := p.Get("/late"); a.StatusCode != sluice.StatusRequestTimeout || a.Body != "too slow" {
			t.Errorf("%d %q", a.StatusCode, a.Body)
		}
		if a := r.Dial().Get("/"); a.Body != "in time" {
			t.Errorf("then %q", a.Body)
		}
		close(late)
	})
}

// TestPlainTextToTLS: a client that speaks no TLS gets no HTTP, and does no
// harm.
func TestPlainTextToTLS(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM, client := harness.CertificateFor(t, "localhost")
	s := &sluice.Server{Handler: answering("x"), Logger: &harness.LogBook{}}
	served := make(chan error, 1)
	go func() { served <- s.ServeTLSEmbed(ln, certPEM, keyPEM) }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p := harness.NewPeer(t, c)
	p.Send(harness.Get("/"))
	if got := p.Rest(); strings.Contains(got, "200 OK") {
		t.Errorf("%q", got)
	}
	p.Close()
	secure, err := tls.Dial("tcp", ln.Addr().String(), client)
	if err != nil {
		t.Fatal(err)
	}
	defer secure.Close()
	if a := harness.NewPeer(t, secure).Get("/"); a.Body != "x" {
		t.Errorf("answered %q", a.Body)
	}
	if err := s.Shutdown(); err != nil {
		t.Error(err)
	}
	if err := harness.Receive(t, served); err != nil {
		t.Error(err)
	}
}

// TestNextProto: ALPN chooses who serves a connection; that may speak first.
func TestNextProto(t *testing.T) {
	for _, under := range harness.UnderTLS() {
		handler := func(c net.Conn) error {
			defer c.Close()
			if _, err := io.WriteString(c, "welcome "); err != nil {
				return err
			}
			name := make([]byte, 3)
			if _, err := io.ReadFull(c, name); err != nil {
				return err
			}
			_, err := c.Write(name)
			return errors.Join(err, errors.New("handler has something to say"))
		}
		log := &harness.LogBook{}
		s := &sluice.Server{Handler: answering("http"), Logger: log}
		s.NextProto("greet", handler)
		s.NextProto("mad", func(net.Conn) error { panic("protocol went mad") })
		r := harness.Serve(t, harness.OverTLS(t, under, "greet"), s)
		p := r.Dial()
		p.Expect("welcome ")
		p.Send("bob")
		p.Expect("bob")
		p.ExpectEnd()
		harness.Eventually(t, "the error is logged", func() bool { return strings.Contains(log.String(), "something to say") })
		harness.Eventually(t, "the connection is counted out", func() bool { return s.GetOpenConnectionsCount() == 0 })
		r.Stop()

		r = harness.Serve(t, harness.OverTLS(t, under, "mad"), s)
		p = r.Dial()
		if got := p.Rest(); got != "" {
			t.Errorf("%q", got)
		}
		harness.Eventually(t, "the panic is logged", func() bool { return strings.Contains(log.String(), "protocol went mad") })
		r.Stop()

		r = harness.Serve(t, harness.OverTLS(t, under), s)
		if a := r.Dial().Get("/"); a.Body != "http" {
			t.Errorf("without ALPN: %q", a.Body)
		}
		r.Stop()
	}
}

func writeFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestServeTLSVariants: certificates from files, from memory and from TLSConfig.
func TestServeTLSVariants(t *testing.T) {
	certPEM, keyPEM, client := harness.CertificateFor(t, "localhost")
	certFile, keyFile := writeFile(t, "cert.pem", certPEM), writeFile(t, "key.pem", keyPEM)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	variants := map[string]func(*sluice.Server, net.Listener) error{
		"files":    func(s *sluice.Server, ln net.Listener) error { return s.ServeTLS(ln, certFile, keyFile) },
		"embedded": func(s *sluice.Server, ln net.Listener) error { return s.ServeTLSEmbed(ln, certPEM, keyPEM) },
		"config": func(s *sluice.Server, ln net.Listener) error {
			s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}}
			return s.ServeTLS(ln, "", "")
		},
		"callback": func(s *sluice.Server, ln net.Listener) error {
			s.TLSConfig = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }}
			return s.ServeTLSEmbed(ln, nil, nil)
		},
		"appended": func(s *sluice.Server, ln net.Listener) error {
			if err := s.AppendCert(certFile, keyFile); err != nil {
				return err
			}
			return s.ServeTLS(ln, "", "")
		},
		"appended embedded": func(s *sluice.Server, ln net.Listener) error {
			if err := s.AppendCertEmbed(certPEM, keyPEM); err != nil {
				return err
			}
			return s.ServeTLS(ln, "", "")
		},
	}
	for name, serve := range variants {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := &sluice.Server{Handler: answering("x"), Logger: &harness.LogBook{}}
			served := make(chan error, 1)
			go func() { served <- serve(s, ln) }()
			config := client.Clone()
			config.NextProtos = []string{"http/1.1"}
			c, err := tls.Dial("tcp", ln.Addr().String(), config)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if got := c.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
				t.Errorf("negotiated %q", got)
			}
			if a := harness.NewPeer(t, c).Get("/"); a.Body != "x" {
				t.Errorf("answered %q", a.Body)
			}
			if err := errors.Join(s.Shutdown(), harness.Receive(t, served)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCertificatesByName: of several certificates, the client's server name
// chooses.
func TestCertificatesByName(t *testing.T) {
	s := &sluice.Server{Handler: answering("x"), Logger: &harness.LogBook{}}
	var clients []*tls.Config
	for _, host := range []string{"one.test", "two.test"} {
		certPEM, keyPEM, client := harness.CertificateFor(t, host)
		if err := s.AppendCertEmbed(certPEM, keyPEM); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, client)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.ServeTLS(ln, "", "") }()
	for _, client := range clients {
		c, err := tls.Dial("tcp", ln.Addr().String(), client)
		if err != nil {
			t.Errorf("%s: %v", client.ServerName, err)
			continue
		}
		harness.NewPeer(t, c).Get("/")
		c.Close()
	}
	if err := errors.Join(s.Shutdown(), harness.Receive(t, served)); err != nil {
		t.Error(err)
	}
}

func TestBadCertificates(t *testing.T) {
	certPEM, keyPEM, _ := harness.CertificateFor(t, "localhost")
	_, otherKey, _ := harness.CertificateFor(t, "localhost")
	certFile := writeFile(t, "cert.pem", certPEM)
	s := &sluice.Server{Handler: answering("x")}
	for name, err := range map[string]error{
		"missing file":  s.AppendCert(certFile, filepath.Join(t.TempDir(), "none")),
		"no pem":        s.AppendCertEmbed([]byte("x"), keyPEM),
		"another's key": s.AppendCertEmbed(certPEM, otherKey),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "sluice: ") || strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%s: %v", name, err)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for name, err := range map[string]error{
		"none":          s.ServeTLS(ln, "", ""),
		"none embedded": s.ServeTLSEmbed(ln, nil, nil),
		"cert only":     s.ServeTLS(ln, certFile, ""),
		"bad":           s.ServeTLSEmbed(ln, certPEM, otherKey),
		"listen":        s.ListenAndServeTLS("127.0.0.1:0", "", ""),
		"listen bad":    s.ListenAndServeTLSEmbed("127.0.0.1:0", certPEM, otherKey),
	} {
		if err == nil {
			t.Errorf("%s: served", name)
		}
	}
}

// TestTLSRefusals: over a limit there is no handshake, and no plain text.
func TestTLSRefusals(t *testing.T) {
	for _, under := range harness.UnderTLS() {
		r := harness.Serve(t, harness.OverTLS(t, under), &sluice.Server{Concurrency: 1, Handler: answering("x")})
		r.Dial().Get("/")
		refused := r.Dial()
		if _, err := refused.Write([]byte("x")); err == nil {
			t.Error("the handshake succeeded over the limit")
		}
	}
}

// TestTLSHandshakeTimeout: ReadTimeout bounds the handshake, too.
func TestTLSHandshakeTimeout(t *testing.T) {
	certPEM, keyPEM, _ := harness.CertificateFor(t, "localhost")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sluice.Server{Handler: answering("x"), ReadTimeout: harness.Briefly, Logger: &harness.LogBook{}}
	served := make(chan error, 1)
	go func() { served <- s.ServeTLSEmbed(ln, certPEM, keyPEM) }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	harness.NewPeer(t, c).Rest()
	if time.Since(began) < harness.Briefly/2 {
		t.Error("closed before the time-out")
	}
	if err := errors.Join(s.Shutdown(), harness.Receive(t, served)); err != nil {
		t.Error(err)
	}
}

// TestEngineInfoOfCompactTLS: it is said whether connections become compact, and why not.
func TestEngineInfoOfCompactTLS(t *testing.T) {
	harness.OnEpoll(t)
	ln, _ := harness.OverTCP().Listen(t)
	defer ln.Close()
	other := func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, nil }
	for _, test := range []struct {
		engine sluice.Engine
		isSet  bool
		config *tls.Config
		want   string
	}{
		{sluice.EngineEpoll, true, nil, "epoll (as set; compact TLS)"},
		{sluice.EngineAuto, true, &tls.Config{}, "epoll (auto: linux, TCP listener; compact TLS)"},
		{sluice.EngineEpoll, false, nil, "epoll (as set)"},
		{sluice.EnginePerConn, false, nil, "perconn (as set)"},
		{sluice.EnginePerConn, true, nil, "perconn (as set; no compact TLS: engine perconn serves)"},
		{sluice.EngineEpoll, true, &tls.Config{MaxVersion: tls.VersionTLS12}, "epoll (as set; no compact TLS: TLSConfig allows no TLS 1.3)"},
		{sluice.EngineEpoll, true, &tls.Config{MaxVersion: tls.VersionTLS12, GetConfigForClient: other}, "epoll (as set; compact TLS)"},
	} {
		s := &sluice.Server{Engine: test.engine, IOUring: sluice.IOUringOff, CompactTLS: test.isSet, TLSConfig: test.config}
		info := s.EngineInfo(ln)
		if info.String() != test.want || info.CompactTLS != strings.Contains(test.want, "; compact TLS)") {
			t.Errorf("%+v: %v\nwant %s", info, info, test.want)
		}
	}
}

// TestEngineStatsOfCompactTLS: connections that are compact are counted, and those of them
// that have cooled down; those of crypto/tls are not.
func TestEngineStatsOfCompactTLS(t *testing.T) {
	harness.OnEpoll(t)
	server, client := harness.TLSConfigs(t, "localhost")
	client.ServerName = "localhost"
	ln, dial := harness.OverTCP().Listen(t)
	s := &sluice.Server{TLSConfig: server, CompactTLS: true, Handler: func(ctx *sluice.RequestCtx) {
		fmt.Fprint(ctx, ctx.EngineStats().ColdTLS)
	}}
	harness.ServeUntilEnd(t, s, ln)
	counts := func(conns, compact, cold int) {
		t.Helper()
		harness.Eventually(t, fmt.Sprintf("%d connections, %d compact, %d cold", conns, compact, cold), func() bool {
			stats := s.EngineStats()
			return stats.Connections == conns && stats.CompactTLS == compact && stats.ColdTLS == cold
		})
	}
	var all []*harness.Peer
	for _, version := range []uint16{tls.VersionTLS13, tls.VersionTLS12, tls.VersionTLS13} {
		config := client.Clone()
		config.MaxVersion = version
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		p := harness.NewPeer(t, tls.Client(c, config))
		p.Get("/")
		all = append(all, p)
	}
	counts(3, 2, 2)
	if a := all[0].Get("/"); a.Body != "1" {
		t.Errorf("while one of two is used, %s are cold", a.Body)
	}
	counts(3, 2, 2)
	all[0].Close()
	counts(2, 1, 1)
	all[1].Close()
	all[2].Close()
	counts(0, 0, 0)
}
