package fasthttpadaptor_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// httputil.ReverseProxy reads the request's body and flushes on other goroutines,
// while the response is sent.
func TestReverseProxy(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, strings.Repeat("x", 100<<10))
			return
		}
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex()
		_ = rc.Flush()
		in := bufio.NewReader(r.Body)
		for {
			line, err := in.ReadString('\n')
			_, _ = io.WriteString(w, line)
			_ = rc.Flush()
			if err != nil {
				return
			}
		}
	}
	upstream := httptest.NewServer(http.HandlerFunc(echo))
	defer upstream.Close()
	to, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, proxy := range map[string]*httputil.ReverseProxy{"at once": httputil.NewSingleHostReverseProxy(to), "later": httputil.NewSingleHostReverseProxy(to)} {
		if name == "at once" {
			proxy.FlushInterval = -1
		} else {
			proxy.FlushInterval = 1 // 1 ns: a timer flushes
		}
		t.Run(name, func(t *testing.T) {
			onEachEngine(t, proxy, func(t *testing.T, addr string) {
				if strings.HasSuffix(t.Name(), "streams=false") {
					return
				}
				if got := ask(t, addr, "GET", ""); len(got.Body) != 100<<10 || got.IsBroken {
					t.Errorf("GET: %d bytes, broken: %v", len(got.Body), got.IsBroken)
				}
				body, feed := io.Pipe()
				defer feed.Close()
				go func() { _, _ = io.WriteString(feed, "line\n") }() // the proxy's transport waits for one
				resp, err := http.Post("http://"+addr, "text/plain", body)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				answers := bufio.NewReader(resp.Body)
				for i := range 20 {
					if i > 0 {
						_, _ = io.WriteString(feed, "line\n")
					}
					if line, err := answers.ReadString('\n'); err != nil || line != "line\n" {
						t.Fatalf("got %q, %v", line, err)
					}
				}
				_ = feed.Close()
				if rest, err := io.ReadAll(answers); err != nil || len(rest) > 0 {
					t.Errorf("then %q, %v", rest, err)
				}
			})
		})
	}
}
