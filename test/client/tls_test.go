package client_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

func TestClientTLS(t *testing.T) {
	server, trusting := harness.TLSConfigs(t, "127.0.0.1")
	serverNamed, trustingNamed := harness.TLSConfigs(t, "name.test")
	named := trustingNamed.Clone()
	named.ServerName = "name.test"
	for name, test := range map[string]struct {
		server, client *tls.Config
		works          bool
	}{
		"trusted":               {server, trusting, true},
		"no configuration":      {server, nil, false},
		"other name":            {serverNamed, trustingNamed, false},
		"named":                 {serverNamed, named, true},
		"not verified":          {serverNamed, &tls.Config{InsecureSkipVerify: true}, true},
		"another's certificate": {server, trustingNamed, false},
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := tls.Listen("tcp", "127.0.0.1:0", test.server)
			if err != nil {
				t.Fatal(err)
			}
			p := harness.NewPeerOn(t, ln, answering(harness.OKAnswer))
			c := &sluice.Client{TLSConfig: test.client}
			for range 2 {
				_, body, err := c.Get(nil, "https://"+p.Addr()+"/")
				if (err == nil) != test.works || err == nil && string(body) != "ok" {
					t.Errorf("%v, %q", err, body)
				}
			}
			if test.works && (p.Accepted() != 1 || c.IdleConnsCount() != 1) || !test.works && (p.Accepted() != 2 || c.ConnsCount() != 0) {
				t.Errorf("%d accepted, %d open", p.Accepted(), c.ConnsCount())
			}
			if test.client != nil && test.client.ServerName == "127.0.0.1" {
				t.Error("the caller's configuration was changed")
			}
		})
	}
}

// A server of TLS 1.3 that refuses the client's certificate says so after the client's part of the
// handshake: the request is not sent again.
func TestCertificateIsRequired(t *testing.T) {
	for name, mode := range map[string]sluice.HTTP2Mode{"HTTP/1.1": sluice.HTTP2Off, "HTTP/2": sluice.HTTP2Auto} {
		server, trusting := harness.TLSConfigs(t, "127.0.0.1")
		server.ClientAuth, server.NextProtos = tls.RequireAnyClientCert, []string{"h2", "http/1.1"}
		ln, err := tls.Listen("tcp", "127.0.0.1:0", server)
		if err != nil {
			t.Fatal(err)
		}
		p := harness.NewPeerOn(t, ln, answering(harness.OKAnswer))
		c := &sluice.Client{TLSConfig: trusting, HTTP2: mode}
		_, _, err = c.Get(nil, "https://"+p.Addr()+"/")
		var alert *net.OpError
		if !errors.As(err, &alert) || alert.Op != "remote error" || p.Accepted() != 1 {
			t.Errorf("%s: %v after %d connections", name, err, p.Accepted())
		}
	}
}

// A PipelineClient does not open other connections either, whichever comes first: its write, or what
// the server says.
func TestPipelineCertificateIsRequired(t *testing.T) {
	server, trusting := harness.TLSConfigs(t, "127.0.0.1")
	server.ClientAuth = tls.RequireAnyClientCert
	ln, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	p := harness.NewPeerOn(t, ln, answering(harness.OKAnswer))
	c := &sluice.PipelineClient{Addr: p.Addr(), IsTLS: true, TLSConfig: trusting}
	for n := 1; n <= 20; n++ {
		req, resp := harness.NewCall("GET", "https://"+p.Addr()+"/")
		err = c.Do(req, resp)
		var alert *net.OpError
		if !errors.As(err, &alert) || alert.Op != "remote error" || p.Accepted() != n {
			t.Fatalf("request %d: %v after %d connections", n, err, p.Accepted())
		}
	}
}

// A server that ends the connection during the handshake has not been reached.
func TestClosedInHandshake(t *testing.T) {
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) { _, _ = c.Br.ReadByte() })
	for _, method := range []string{"GET", "POST"} {
		c := &sluice.Client{}
		var req sluice.Request
		req.Header.SetMethod(method)
		req.SetRequestURI("https://" + p.Addr() + "/")
		err := c.Do(&req, nil)
		var dialing *sluice.ErrDialWithUpstream
		if !errors.As(err, &dialing) || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) || errors.Is(err, sluice.ErrConnectionClosed) {
			t.Errorf("%s: %v", method, err)
		}
		if c.ConnsCount() != 0 {
			t.Errorf("%s: %d connections", method, c.ConnsCount())
		}
	}
}

// Sessions are resumed, by the default configuration and by one with a cache.
func TestClientTLSResumes(t *testing.T) {
	server, trusting := harness.TLSConfigs(t, "127.0.0.1")
	trusting.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	p := harness.NewPeerOn(t, ln, answering("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"))
	var resumed []bool
	c := &sluice.HostClient{Addr: p.Addr(), IsTLS: true, TLSConfig: trusting, Trace: &sluice.ClientTrace{
		TLSDone: func(state tls.ConnectionState, _ error) { resumed = append(resumed, state.DidResume) },
	}}
	for range 2 {
		if _, _, err := c.Get(nil, "https://"+p.Addr()+"/"); err != nil {
			t.Fatal(err)
		}
	}
	if len(resumed) != 2 || resumed[0] || !resumed[1] {
		t.Errorf("resumed: %v", resumed)
	}
}

// A body whose end is announced must come whole. One without a length ends with the connection, also
// without close_notify.
func TestConnectionEndsWithoutCloseNotify(t *testing.T) {
	server, trusting := harness.TLSConfigs(t, "127.0.0.1")
	for answer, want := range map[string]error{
		"\r\nhalf":                                                 nil,
		"Content-Length: 4\r\n\r\nhalf":                            nil,
		"Content-Length: 5\r\n\r\nhalf":                            io.ErrUnexpectedEOF,
		"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n":          io.ErrUnexpectedEOF,
		"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n":     io.ErrUnexpectedEOF,
		"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n\r\n": nil,
	} {
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
			secure := tls.Server(c.Conn, server)
			if _, err := secure.Read(make([]byte, 4096)); err == nil {
				_, _ = io.WriteString(secure, "HTTP/1.1 200 OK\r\n"+answer)
			}
			c.Close() // the connection underneath
		})
		for _, isStreamed := range []bool{false, true} {
			c := &sluice.Client{TLSConfig: trusting, StreamResponseBody: isStreamed}
			req, resp := harness.NewCall("POST", "https://"+p.Addr()+"/")
			err := c.Do(req, resp)
			if err == nil && resp.IsBodyStream() {
				_, err = io.ReadAll(resp.BodyStream())
			}
			if !errors.Is(err, want) {
				t.Errorf("%q, streamed %v: %v", answer, isStreamed, err)
			}
			c.CloseIdleConnections()
		}
	}
}
