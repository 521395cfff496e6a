package fasthttpadaptor

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A body waits for the status 100, which net/http's servers send when they read it. The trace
// is told of both.
func TestTransportExpect(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refused" {
			w.WriteHeader(http.StatusExpectationFailed)
			return
		}
		_, _ = io.Copy(w, r.Body)
	}
	onSenders(t, handler, func(t *testing.T, s sender) {
		isOwn := false
		switch transport := s.client.Transport.(type) {
		case *http.Transport:
			transport.ExpectContinueTimeout = time.Hour
		case *Transport:
			isOwn = true
			transport.Client.ExpectContinueTimeout = time.Hour
		}
		for path, want := range map[string]string{"/": "200 payload", "/refused": "417 "} {
			for range 2 {
				body := &readBody{Reader: strings.NewReader("payload")}
				var mu sync.Mutex
				var told []string
				tell := func(what string) {
					mu.Lock()
					defer mu.Unlock()
					told = append(told, what)
				}
				body.begins = sync.OnceFunc(func() { tell("body") })
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
					Wait100Continue: func() { tell("wait") },
					Got100Continue:  func() { tell("got") },
				})
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, body)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Expect", "100-continue")
				resp, err := s.client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if all := resp.Status[:4] + string(got); all != want || err != nil {
					t.Errorf("%s: %q, %v", path, all, err)
				}
				if isOwn && body.isRead != (path == "/") { // net/http may send the rest of a refused one
					t.Errorf("%s: the body was read: %v", path, body.isRead)
				}
				mu.Lock()
				slices.Sort(told[:min(2, len(told))]) // on two goroutines
				if got := strings.Join(told, " "); path == "/" && got != "got wait body" || path != "/" && strings.Contains(got, "got") {
					t.Errorf("%s: told %q", path, got)
				}
				mu.Unlock()
			}
		}
	})
}

// readBody tells whether it was read from.
type readBody struct {
	io.Reader
	isRead bool
	begins func()
}

func (b *readBody) Read(p []byte) (int, error) {
	b.isRead = true
	b.begins()
	return b.Reader.Read(p)
}
func (b *readBody) Close() error { return nil }
