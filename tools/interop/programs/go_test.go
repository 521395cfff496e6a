package programs

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestNetHTTP: the client of net/http, also while the server is replaced.
func TestNetHTTP(t *testing.T) {
	t.Parallel()
	onTargets(t, func(t *testing.T, g *target) {
		u := &user{t: t, target: g, url: g.url(), client: newClient(t), shows: showsTrailers | showsHints | showsLength}
		u.check()
		u.load()
	})
}

// newClient returns a client that speaks only HTTP/2.
func newClient(t *testing.T) *http.Client {
	protocols := &http.Protocols{}
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// What passes a proxy.
type shown uint8

const (
	showsTrailers shown = 1 << iota
	showsHints          // and takes them
	takesHints          // does not fail because of a response with status 103
	showsLength         // of the response to HEAD
)

// A user makes the checks with net/http, of a target or of a proxy before it.
type user struct {
	t      *testing.T
	target *target
	url    string
	client *http.Client
	shows  shown
}

// ask makes a request, and returns the response and its body.
func (u *user) ask(ctx context.Context, method, path string, body []byte) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, u.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	resp, err := u.client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return resp, string(got), err
}

// check makes the checks.
func (u *user) check() {
	ctx, large := u.t.Context(), make([]byte, largeSize)
	for _, c := range []struct {
		method, path string
		body         []byte
		status       int
		want         string // the beginning of the body
		size         int    // of the body; 0: any
	}{
		{"GET", "/hello", nil, 200, "hello", 5},
		{"POST", "/echo", large[:1024], 200, "1024 efb5af2e", 0},
		{"POST", "/echo", large, 200, fmt.Sprint(largeSize, " "), 0},
		{"HEAD", "/hello", nil, 200, "", 0},
		{"GET", "/204", nil, 204, "", 0},
		{"GET", "/304", nil, 304, "", 0},
		{"GET", "/large", nil, 200, "xxx", largeSize},
		{"GET", "/stream", nil, 200, "line 0\nline 1\n", 70},
	} {
		resp, body, err := u.ask(ctx, c.method, c.path, c.body)
		if err != nil || resp.StatusCode != c.status || !strings.HasPrefix(body, c.want) || c.size > 0 && len(body) != c.size {
			u.t.Errorf("%s %s: %v, %d bytes: %.100s, %v", c.method, c.path, resp, len(body), body, err)
			continue
		}
		if protocol := resp.Header.Get("X-Protocol"); protocol != "HTTP/2.0" {
			u.t.Errorf("%s %s: the server got %s", c.method, c.path, protocol)
		}
		if c.method == "HEAD" && u.shows&showsLength != 0 && resp.ContentLength != 5 {
			u.t.Errorf("HEAD: length %d", resp.ContentLength)
		}
	}
	resp, body, err := u.ask(ctx, "GET", "/trailers", nil)
	if err != nil || body != "with trailers" || u.shows&showsTrailers != 0 && resp.Trailer.Get("X-Sum") != "42" {
		u.t.Errorf("trailers: %v, %s, %v", resp, body, err)
	}
	u.checkHints()
	u.checkReset()
	u.inParallel(100, func(int) {
		if _, body, err := u.ask(ctx, "GET", "/stream", nil); err != nil || !strings.HasSuffix(body, "line 9\n") {
			u.t.Errorf("parallel: %s, %v", body, err)
		}
	})
}

// checkHints makes a request that is answered with an interim response first.
func (u *user) checkHints() {
	if u.shows&(showsHints|takesHints) == 0 {
		return
	}
	hints := 0
	traced := httptrace.WithClientTrace(u.t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
		hints += code / 103
		return nil
	}})
	_, body, err := u.ask(traced, "GET", "/hints", nil)
	if err != nil || body != "hinted" || u.shows&showsHints != 0 && hints != 1 {
		u.t.Errorf("%d hints: %s, %v", hints, body, err)
	}
}

// checkReset gives a request up.
func (u *user) checkReset() {
	resp, err := u.client.Get(u.url + "/slow")
	if err != nil {
		u.t.Errorf("/slow: %v", err)
		return
	}
	resp.Body.Close()
	u.target.expectCanceled(1)
}

func (u *user) inParallel(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// load makes requests while the server is replaced. None fails that was processed.
func (u *user) load() {
	restarted := make(chan struct{})
	go func() { defer close(restarted); u.target.restart(loadCount / 4) }()
	var next, again atomic.Int64
	u.inParallel(20, func(int) {
		for n := next.Add(1); n <= loadCount; n = next.Add(1) {
			_, body, err := u.ask(u.t.Context(), "GET", fmt.Sprint("/id?n=", n), nil)
			switch {
			case err == nil && body == "id":
			case u.target.wasServed(fmt.Sprint(n)):
				u.t.Errorf("request %d was served and lost: %.100s, %v", n, body, err)
			default:
				again.Add(1)
			}
		}
	})
	<-restarted
	u.t.Logf("%d of %d requests failed when the server was replaced, and were not processed", again.Load(), loadCount)
}
