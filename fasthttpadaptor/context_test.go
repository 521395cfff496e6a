package fasthttpadaptor_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

func TestContextEndsWhenTheClientGoesAway(t *testing.T) {
	entered, ended := make(chan bool), make(chan error)
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		entered <- true
		<-ctx.Done()
		ended <- ctx.Err()
	})
	onEachEngine(t, h, func(t *testing.T, addr string) {
		c := dial(t, addr)
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		<-entered
		_ = c.Close()
		if err := <-ended; err != context.Canceled {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestContextEndsAtShutdown(t *testing.T) {
	entered := make(chan bool)
	s := &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- true
		select {
		case <-r.Context().Done():
		case <-time.After(patience):
			t.Error("the context does not end")
		}
		_, _ = io.WriteString(w, "ended")
	})}
	addr := serve(t, s)
	answer := make(chan outcome, 1)
	go func() { answer <- ask(t, addr, "GET", "") }()
	<-entered
	if err := s.Shutdown(); err != nil {
		t.Error(err)
	}
	if got := <-answer; got.Body != "ended" {
		t.Errorf("answer %+v", got)
	}
}

func TestTLSState(t *testing.T) {
	cert, key, err := sluice.GenerateTestCertificate("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.TLS != nil && r.TLS.HandshakeComplete && r.TLS.Version == tls.VersionTLS13)
	})}
	served := make(chan error, 1)
	go func() { served <- s.ServeTLSEmbed(ln, cert, key) }()
	defer func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
		<-served
	}()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: patience}).Get("https://" + ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "true" {
		t.Errorf("got %q, %v", body, err)
	}
}

// The context and the values that a handler retains do not change with the
// connection's next request.
func TestWhatIsKeptIsOver(t *testing.T) {
	type kept struct {
		w http.ResponseWriter
		r *http.Request
	}
	all := make(chan kept, 1)
	handler := fasthttpadaptor.NewFastHTTPHandlerFunc(func(w http.ResponseWriter, r *http.Request) { all <- kept{w, r} })
	addr := serve(t, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
		ctx.SetUserValue("id", string(ctx.Path()))
		handler(ctx)
	}})
	for range 2 {
		ask(t, addr, "POST", "a body")
		k := <-all
		ctx := k.r.Context()
		select {
		case <-ctx.Done():
		case <-time.After(patience):
			t.Fatal("the context does not end")
		}
		if ctx.Err() != context.Canceled || ctx.Value("id") != "/a/b/c" || ctx.Value("other") != nil {
			t.Errorf("context: %v, %v", ctx.Err(), ctx.Value("id"))
		}
		if n, err := k.r.Body.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("body: %d, %v", n, err)
		}
		if n, err := k.w.Write([]byte("x")); n != 0 || err == nil {
			t.Errorf("write: %d, %v", n, err)
		}
		if _, _, err := http.NewResponseController(k.w).Hijack(); err == nil {
			t.Error("hijacked")
		}
	}
}
