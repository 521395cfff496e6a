package fasthttpadaptor_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

// A halfConn is a connection whose output can end alone.
type halfConn interface {
	net.Conn
	CloseWrite() error
}

// switching is a handler of an upgrade. At /question the client ends its output first, and
// then gets an answer. At /greeting the handler ends its output first.
func switching(heard chan<- string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ended := r.Context().Done()
		if r.URL.Path == "/late" {
			ended = nil
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			heard <- err.Error()
			return
		}
		defer c.Close()
		half := c.(halfConn)
		fmt.Fprintf(half, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		if r.URL.Path == "/greeting" {
			_, _ = io.WriteString(half, "greeting")
			_ = half.CloseWrite()
			text, err := io.ReadAll(rw)
			heard <- fmt.Sprint(string(text), err)
			return
		}
		text, err := io.ReadAll(rw)
		select { // a context that ends does so soon
		case <-ended:
			err = context.Canceled
		case <-time.After(20 * time.Millisecond):
		}
		if r.URL.Path == "/late" {
			err = r.Context().Err()
		}
		fmt.Fprint(half, "answer to ", string(text), err)
		_ = half.CloseWrite()
		heard <- ""
	}
}

// converse upgrades a connection, ends one direction, and returns what it has received.
func converse(t *testing.T, conn halfConn, path string) string {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", path)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Error(resp, err)
		return ""
	}
	if path == "/greeting" {
		text, err := io.ReadAll(in)
		_, _ = io.WriteString(conn, "reply")
		_ = conn.CloseWrite()
		return fmt.Sprint(string(text), err)
	}
	_, _ = io.WriteString(conn, "question")
	_ = conn.CloseWrite()
	text, err := io.ReadAll(in)
	return fmt.Sprint(string(text), err)
}

// TestHalfClose: after Hijack, the end of one direction ends neither the other one nor the
// request's context, with a proxy of net/http between the two, too.
func TestHalfClose(t *testing.T) {
	certificates := httptest.NewTLSServer(nil)
	defer certificates.Close()
	config := &tls.Config{Certificates: certificates.TLS.Certificates}
	for _, e := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		for _, isTLS := range []bool{false, true} {
			listen := func(h http.Handler) (addr, scheme string) {
				if !isTLS {
					return serve(t, &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandler(h), Engine: e}), "http"
				}
				return serveTLS(t, &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandler(h), Engine: e, TLSConfig: config}), "https"
			}
			for _, path := range []string{"/question", "/late", "/greeting"} {
				for _, proxiedBy := range []string{"none", "sluice", "net/http"} {
					t.Run(fmt.Sprintf("%v%s/TLS %v/proxied by %s", e, path, isTLS, proxiedBy), func(t *testing.T) {
						heard := make(chan string, 1)
						addr, scheme := listen(switching(heard))
						if proxiedBy != "none" {
							proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: scheme, Host: addr})
							proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
							proxy.ErrorLog = log.New(io.Discard, "", 0)
							if proxiedBy == "sluice" {
								addr, _ = listen(proxy)
							} else {
								addr = serveNetHTTP(t, proxy, isTLS)
							}
						}
						plain := dial(t, addr)
						conn := plain.(halfConn)
						if isTLS {
							conn = tls.Client(plain, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
						}
						want, wantHeard := "answer to question<nil><nil>", ""
						if path == "/greeting" {
							want, wantHeard = "greeting<nil>", "reply<nil>"
						}
						if got := converse(t, conn, path); got != want {
							t.Errorf("the client got %q, want %q", got, want)
						}
						if got := <-heard; got != wantHeard {
							t.Errorf("the handler got %q, want %q", got, wantHeard)
						}
					})
				}
			}
		}
	}
}

// TestHalfCloseOverHTTP2: a proxy of net/http that serves an extended CONNECT (RFC 8441) passes on
// the end of each direction alone, to and from a handler that speaks HTTP/1.1.
func TestHalfCloseOverHTTP2(t *testing.T) {
	for _, e := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		for _, path := range []string{"/question", "/late", "/greeting"} {
			t.Run(fmt.Sprint(e, path), func(t *testing.T) {
				heard := make(chan string, 1)
				backend := serve(t, &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandler(switching(heard)), Engine: e})
				proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: backend})
				proxy.ErrorLog = log.New(io.Discard, "", 0)
				addr := serve(t, &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandler(proxy), Engine: e})
				var req sluice.Request
				var resp sluice.Response
				req.SetRequestURI("http://" + addr + path)
				c := &sluice.Client{HTTP2: sluice.HTTP2Only}
				conn, err := c.ConnectProtocol(t.Context(), "websocket", &req, &resp)
				if err != nil || conn == nil {
					t.Fatal(conn, err, resp.StatusCode())
				}
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(patience))
				want, wantHeard := "answer to question<nil>", ""
				if path == "/greeting" {
					want, wantHeard = "greeting", "reply<nil>"
				}
				say := func(text string) {
					_, _ = io.WriteString(conn, text)
					_ = conn.(halfConn).CloseWrite()
				}
				if path != "/greeting" {
					say("question")
				}
				if got, err := io.ReadAll(conn); string(got) != want || err != nil {
					t.Errorf("the client got %q, %v; want %q", got, err, want)
				}
				if path == "/greeting" {
					say("reply")
				}
				if got := <-heard; got != wantHeard {
					t.Errorf("the handler got %q, want %q", got, wantHeard)
				}
			})
		}
	}
}

// serveNetHTTP is serve with a Server of net/http.
func serveNetHTTP(t *testing.T, h http.Handler, isTLS bool) string {
	s := httptest.NewUnstartedServer(h)
	t.Cleanup(s.Close)
	if isTLS {
		s.StartTLS()
	} else {
		s.Start()
	}
	return s.Listener.Addr().String()
}

// serveTLS is serve with TLS.
func serveTLS(t *testing.T, s *sluice.Server) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Logger = log.New(io.Discard, "", 0)
	go func() { _ = s.ServeTLS(ln, "", "") }()
	t.Cleanup(func() { _ = s.Shutdown() })
	return ln.Addr().String()
}
