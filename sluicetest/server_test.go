package sluicetest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
)

// A fakeT records how a test fails. It has the methods that this package uses.
type fakeT struct {
	testing.TB
	mu       sync.Mutex
	errors   []string
	cleanups []func()
}

func (f *fakeT) Helper()      {}
func (f *fakeT) Name() string { return "fake" }
func (f *fakeT) Log(...any)   {}
func (f *fakeT) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}
func (f *fakeT) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }
func (f *fakeT) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}

// finish ends the test, and returns how it has failed.
func (f *fakeT) finish() string {
	for len(f.cleanups) > 0 {
		last := len(f.cleanups) - 1
		c := f.cleanups[last]
		f.cleanups = f.cleanups[:last]
		c()
	}
	return strings.Join(f.errors, "\n")
}

// answer tells what the request was.
func answer(ctx *sluice.RequestCtx) {
	fmt.Fprintf(ctx, "%s %s %s %v", ctx.Method(), ctx.Path(), ctx.PostBody(), ctx.IsTLS())
}

// Each kind of server answers both kinds of clients, whatever the host, and ends with the test.
func TestServers(t *testing.T) {
	CheckLeaks(t)
	for _, c := range []struct {
		name, scheme string
		start        func(t testing.TB) *Server
	}{
		{"loopback", "http://127.0.0.1:", func(t testing.TB) *Server { return NewServer(t, answer) }},
		{"TLS", "https://127.0.0.1:", func(t testing.TB) *Server { return NewTLSServer(t, answer) }},
		{"memory", "http://sluice.test", func(t testing.TB) *Server {
			s := NewUnstartedServer(t, answer).InMemory()
			s.Start()
			return s
		}},
		{"TLS in memory", "https://sluice.test", func(t testing.TB) *Server {
			s := NewUnstartedServer(t, answer).InMemory()
			s.StartTLS()
			return s
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.start(t)
			if !strings.HasPrefix(s.URL, c.scheme) || (s.Certificate() != nil) != strings.HasPrefix(c.scheme, "https") {
				t.Errorf("%s, certificate %v", s.URL, s.Certificate() != nil)
			}
			scheme, _, _ := strings.Cut(s.URL, "://")
			want := fmt.Sprintf("GET /a  %v", scheme == "https")
			for _, url := range []string{s.URL, scheme + "://example.com"} {
				if status, body, err := s.Client().Get(nil, url+"/a"); status != 200 || string(body) != want || err != nil {
					t.Errorf("%s: %d %q, %v", url, status, body, err)
				}
				resp, err := s.HTTPClient().Get(url + "/a")
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if string(body) != want || err != nil || resp.ProtoMajor != map[string]int{"http": 1, "https": 2}[scheme] {
					t.Errorf("net/http, %s: %s %q, %v", url, resp.Proto, body, err)
				}
			}
			s.Close()
			s.Close()
			if _, _, err := s.Client().Get(nil, s.URL); err == nil {
				t.Error("it answers after its end")
			}
		})
	}
}

// The certificate is unknown to others.
func TestOthersDoNotTrust(t *testing.T) {
	s := NewTLSServer(t, answer)
	if _, _, err := sluice.Get(nil, s.URL); err == nil {
		t.Error("a client without the certificate trusts it")
	}
}

// Settings hold, and a bubble of synctest may contain a server in memory: an hour is nothing.
func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		CheckLeaks(t)
		s := NewUnstartedServer(t, func(ctx *sluice.RequestCtx) { time.Sleep(time.Hour); answer(ctx) }).InMemory()
		s.Config.Name = "mine"
		s.Start()
		resp, err := s.HTTPClient().Post(s.URL+"/b", "text/plain", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); string(body) != "POST /b body false" || err != nil || resp.Header.Get("Server") != "mine" {
			t.Errorf("%q, %v, %v", body, err, resp.Header)
		}
	})
}

// Each kind of leak makes the test fail, and the message says what it is.
func TestLeaksAreFound(t *testing.T) {
	for _, c := range []struct {
		name, want string
		leak       func(s *Server, end <-chan struct{})
	}{
		{"nothing", "", func(s *Server, _ <-chan struct{}) { s.Client().Get(nil, s.URL) }},
		{"a stream", "clients of http://sluice.test still use 1 connections", func(s *Server, end <-chan struct{}) {
			c := s.Client()
			c.StreamResponseBody = true
			req, resp := NewRequest("GET", s.URL+"/large", ""), new(sluice.Response)
			if err := c.Do(req, resp); err != nil {
				s.t.Errorf("%v", err)
			}
			go func() { <-end; resp.CloseBodyStream() }()
		}},
		{"a request", "because requests are in progress", func(s *Server, end <-chan struct{}) {
			conn, err := s.inMemory().Dial()
			if err != nil {
				s.t.Errorf("%v", err)
				return
			}
			fmt.Fprint(conn, "GET /stuck HTTP/1.1\r\nHost: x\r\n\r\n")
			synctest.Wait()
		}},
		{"a goroutine", "sluicetest.(*worker).forever", func(s *Server, end <-chan struct{}) {
			s.Client().Get(nil, s.URL+"/goroutine")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				f := &fakeT{TB: t}
				CheckLeaks(f)
				s := NewUnstartedServer(f, func(ctx *sluice.RequestCtx) {
					switch string(ctx.Path()) {
					case "/large":
						ctx.SetBody(make([]byte, 1<<20))
					case "/stuck":
						<-end
					case "/goroutine":
						go (&worker{end}).forever()
					}
				}).InMemory()
				s.Start()
				c.leak(s, end)
				got := f.finish()
				if c.want == "" && got != "" || !strings.Contains(got, c.want) {
					t.Errorf("%q, want %q", got, c.want)
				}
				close(end)
			})
		})
	}
}

// A worker is what a handler forgets.
type worker struct{ end <-chan struct{} }

func (w *worker) forever() { <-w.end }

// What does not happen is waited for as long as the comments say.
func TestEventually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if eventually(func() bool { return false }) || time.Since(begin) != patience {
			t.Errorf("after %v", time.Since(begin))
		}
	})
}

// A server that is closed before it has begun to serve leaves nothing.
func TestCloseAtOnce(t *testing.T) {
	CheckLeaks(t)
	for range 50 {
		NewServer(t, answer).Close()
	}
}

// A server that cannot serve makes the test fail.
func TestServeFails(t *testing.T) {
	f := &fakeT{TB: t}
	s := NewUnstartedServer(f, answer)
	s.Listener = badListener{}
	s.Start()
	if got := f.finish(); !strings.Contains(got, "nothing comes") {
		t.Errorf("%q", got)
	}
	NewUnstartedServer(f, answer).Close() // was not started
}

type badListener struct{}

func (badListener) Accept() (net.Conn, error) { return nil, errors.New("nothing comes") }
func (badListener) Close() error              { return nil }
func (badListener) Addr() net.Addr            { return &net.TCPAddr{} }
