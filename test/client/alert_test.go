package client_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// deafPeer is the dialer of a client for a server that reads the head of one request,
// writes answer, and reads nothing more.
func deafPeer(t *testing.T, server *tls.Config, answer string) sluice.DialFunc {
	return func(string) (net.Conn, error) {
		near, far := net.Pipe() // which holds nothing: a write waits for its reader
		t.Cleanup(func() { _ = far.Close() })
		go func() {
			secure := tls.Server(far, server)
			for br := bufio.NewReader(secure); ; {
				if line, err := br.ReadString('\n'); err != nil || line == "\r\n" {
					break
				}
			}
			_, _ = io.WriteString(secure, answer)
		}()
		return near, nil
	}
}

// deafTLS returns the configurations for a deafPeer.
func deafTLS(t *testing.T) (server, client *tls.Config) {
	server, client = harness.TLSConfigs(t, "h")
	server.SessionTicketsDisabled = true // they would meet the request, and both writes wait
	now := time.Now()                    // of the certificate; time in the bubble is another one
	client.Time = func() time.Time { return now }
	return server, client
}

// TestEndsOverTLS: no call waits until its server takes the alert with which TLS ends.
func TestEndsOverTLS(t *testing.T) {
	const limit = 50 * time.Millisecond
	server, client := deafTLS(t)
	for _, tc := range []struct {
		name, answer string
		lasts        time.Duration
		do           func(c *sluice.HostClient) error
		want         error
	}{
		{"DoTimeout", "", limit, func(c *sluice.HostClient) error {
			req, resp := harness.NewCall("GET", "https://h/")
			return c.DoTimeout(req, resp, limit)
		}, sluice.ErrTimeout},
		{"ReadTimeout", "", limit, func(c *sluice.HostClient) error {
			c.ReadTimeout = limit
			return c.Do(harness.NewCall("GET", "https://h/"))
		}, sluice.ErrTimeout},
		{"a part of the response", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", limit, func(c *sluice.HostClient) error {
			c.ReadTimeout = limit
			return c.Do(harness.NewCall("GET", "https://h/"))
		}, sluice.ErrTimeout},
		{"a stream that is closed", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", 0, func(c *sluice.HostClient) error {
			c.StreamResponseBody = true
			req, resp := harness.NewCall("GET", "https://h/")
			err := c.Do(req, resp)
			if err == nil {
				err = resp.CloseBodyStream()
			}
			return err
		}, nil},
		{"PipelineClient", "", limit, func(c *sluice.HostClient) error {
			p := &sluice.PipelineClient{Addr: "h", IsTLS: true, TLSConfig: client, Dial: c.Dial, ReadTimeout: limit}
			return p.Do(harness.NewCall("POST", "https://h/"))
		}, sluice.ErrTimeout},
		{"idle", harness.OKAnswer, 100 * time.Millisecond, func(c *sluice.HostClient) error {
			err := c.Do(harness.NewCall("GET", "https://h/"))
			c.CloseIdleConnections() // which sends the alert, if it can
			return err
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &sluice.HostClient{Addr: "h", IsTLS: true, TLSConfig: client, Dial: deafPeer(t, server, tc.answer), MaxIdemponentCallAttempts: 1}
				began := time.Now()
				err := tc.do(c)
				if d := time.Since(began); err != tc.want || d != tc.lasts {
					t.Errorf("%v after %v, want %v after %v", err, d, tc.want, tc.lasts)
				}
				checkPool(t, c, 0, 0)
			})
		})
	}
}

// TestAlertOfIdleConnections: TLS ends as it should if the server reads.
func TestAlertOfIdleConnections(t *testing.T) {
	server, client := harness.TLSConfigs(t, "127.0.0.1")
	ln, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	answers, ends := make(chan string, 1), make(chan error, 1)
	p := harness.NewPeerOn(t, ln, func(c *harness.PeerConn) {
		c.Request()
		c.Send(<-answers)
		_, err := c.Br.ReadByte()
		ends <- err
	})
	for _, answer := range []string{harness.OKAnswer, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"} {
		answers <- answer
		c := &sluice.HostClient{Addr: p.Addr(), IsTLS: true, TLSConfig: client}
		if err := c.Do(harness.NewCall("GET", "https://"+p.Addr()+"/")); err != nil {
			t.Fatal(err)
		}
		c.CloseIdleConnections()
		if err := <-ends; err != io.EOF { // without an alert, it is io.ErrUnexpectedEOF
			t.Errorf("the connection ends with %v", err)
		}
	}
}

// TestHandshakeOfDialersConnection: a dialer may leave the handshake of its TLS connection to
// the client, whose limits then hold for it.
func TestHandshakeOfDialersConnection(t *testing.T) {
	for _, mode := range []sluice.HTTP2Mode{sluice.HTTP2Off, sluice.HTTP2Auto} {
		for _, limit := range []time.Duration{0, 50 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe() // nothing reads from it
				defer far.Close()
				c := &sluice.HostClient{
					Addr: "h", IsTLS: true, HTTP2: mode, WriteTimeout: limit, MaxIdemponentCallAttempts: 1,
					Dial: func(string) (net.Conn, error) { return tls.Client(near, &tls.Config{ServerName: "h"}), nil },
				}
				began, want := time.Now(), limit
				if limit == 0 {
					want = 30 * time.Second
				}
				err := c.Do(harness.NewCall("GET", "https://h/"))
				if d := time.Since(began); !errors.Is(err, sluice.ErrTLSHandshakeTimeout) || d != want {
					t.Errorf("HTTP/2 %v, limit %v: %v after %v", mode, limit, err, d)
				}
				checkPool(t, c, 0, 0)
			})
		}
	}
}
