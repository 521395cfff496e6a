package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// echoing answers each request with what it was.
func echoing(c *harness.PeerConn) {
	for r := c.Request(); r != nil; r = c.Request() {
		text := fmt.Sprintf("%s %s [%s] %s", r.Header.Method(), r.Header.RequestURI(), r.Header.ContentType(), r.Body())
		if string(r.Header.RequestURI()) == "/303" {
			c.Send("HTTP/1.1 303 See Other\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n")
			continue
		}
		c.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(text)))
		if !r.Header.IsHead() {
			c.Send(text)
		}
	}
}

// TestWhatClientsSend: the verbs send what they say, with each kind of client.
func TestWhatClientsSend(t *testing.T) {
	p := harness.NewClientPeer(t, echoing)
	args := new(sluice.Args)
	args.Set("a", "b c")
	ctx := context.Background()
	for name, c := range map[string]interface {
		Get(dst []byte, url string) (int, []byte, error)
		GetTimeout(dst []byte, url string, timeout time.Duration) (int, []byte, error)
		GetDeadline(dst []byte, url string, deadline time.Time) (int, []byte, error)
		Post(dst []byte, url string, postArgs *sluice.Args) (int, []byte, error)
	}{"Client": new(sluice.Client), "HostClient": p.Host()} {
		for want, send := range map[string]func() (int, []byte, error){
			"GET /g [] ": func() (int, []byte, error) { return c.Get([]byte("old"), p.URL("/g")) },
			"GET /t [] ": func() (int, []byte, error) { return c.GetTimeout([]byte("old"), p.URL("/t"), time.Minute) },
			"GET /d [] ": func() (int, []byte, error) { return c.GetDeadline(nil, p.URL("/d"), time.Now().Add(time.Minute)) },
			"POST /p [application/x-www-form-urlencoded] a=b+c": func() (int, []byte, error) { return c.Post(nil, p.URL("/p"), args) },
			"POST /n [application/x-www-form-urlencoded] ":      func() (int, []byte, error) { return c.Post(nil, p.URL("/n"), nil) },
			"GET /there [] ": func() (int, []byte, error) { return c.Post(nil, p.URL("/303"), args) },
		} {
			if status, got, err := send(); status != 200 || string(got) != want || err != nil {
				t.Errorf("%s: %d %q, %v, want %q", name, status, got, err, want)
			}
		}
		sent := len(p.Requests())
		for _, deadline := range []time.Time{{}, time.Now().Add(-time.Hour), time.Now()} {
			if status, got, err := c.GetDeadline([]byte("kept"), p.URL("/late"), deadline); status != 0 || string(got) != "kept" || err != sluice.ErrTimeout {
				t.Errorf("%s: %d %q, %v", name, status, got, err)
			}
		}
		if len(p.Requests()) != sent {
			t.Errorf("%s: requests were sent after their deadline: %q", name, p.Requests()[sent:])
		}
	}
	ended, cancel := context.WithCancelCause(ctx)
	cancel(harness.ErrWire)
	if _, _, err := new(sluice.Client).GetContext(ended, nil, p.URL("/")); !errors.Is(err, harness.ErrWire) {
		t.Error(err)
	}
}

// TestClientsKeepTheCallersSettings: of the request and the response.
func TestClientsKeepTheCallersSettings(t *testing.T) {
	p := harness.NewClientPeer(t, echoing)
	for name, c := range map[string]interface {
		Do(req *sluice.Request, resp *sluice.Response) error
		DoRedirects(req *sluice.Request, resp *sluice.Response, maxRedirectsCount int) error
	}{"Client": new(sluice.Client), "HostClient": p.Host(), "short-lived": &sluice.HostClient{Addr: p.Addr(), MaxConnDuration: 1}} {
		for _, method := range []string{sluice.MethodGet, sluice.MethodHead, sluice.MethodPost} {
			for _, skips := range []bool{false, true} {
				for _, streams := range []bool{false, true} {
					req, resp := harness.NewCall(method, p.URL("/x"))
					resp.SkipBody, resp.StreamBody = skips, streams
					if err := c.Do(req, resp); err != nil {
						t.Fatal(name, err)
					}
					want := ""
					if method != sluice.MethodHead && !skips {
						want = method + " /x [] "
					}
					if got := string(resp.Body()); got != want || resp.SkipBody != skips || resp.StreamBody != streams || req.ConnectionClose() {
						t.Errorf("%s, %s, skip %v, stream %v: %q; %v, %v, close %v", name, method, skips, streams, got, resp.SkipBody, resp.StreamBody, req.ConnectionClose())
					}
					if resp.RemoteAddr() == nil || resp.RemoteAddr().String() != p.Addr() || resp.LocalAddr() == nil {
						t.Errorf("%s: addresses %v, %v", name, resp.LocalAddr(), resp.RemoteAddr())
					}
				}
			}
		}
		req, resp := harness.NewCall(sluice.MethodPost, p.URL("/303"))
		req.PostArgs().Set("secret", "1")
		if err := c.DoRedirects(req, resp, 1); err != nil || string(resp.Body()) != "GET /there [] " || req.PostArgs().Len() != 0 {
			t.Errorf("%s: %q, %v, %s", name, resp.Body(), err, req.PostArgs())
		}
	}
}
