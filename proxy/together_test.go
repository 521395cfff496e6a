package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice"
)

// TestSentTogether: requests of many connections, which the engine sends together, get their own
// answers, while upstreams close connections and send bytes that were not requested.
func TestSentTogether(t *testing.T) {
	up := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path
		switch {
		case strings.HasSuffix(name, "7"):
			conn, rw, _ := w.(http.Hijacker).Hijack()
			fmt.Fprintf(rw, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(name), name)
			rw.Flush()
			if strings.HasSuffix(name, "77") {
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
			}
			conn.Close()
		default:
			io.WriteString(w, name)
		}
	})
	p := newProxy(t, Options{To: []string{up}})
	s := &sluice.Server{Handler: p.Handle, Engine: sluice.EngineEpoll, IOUring: sluice.IOUringOn, Logger: silent}
	addr := serveUntilEnd(t, s.Serve, s.Shutdown)
	var clients sync.WaitGroup
	for c := range 32 {
		conn := dialFront(t, addr)
		clients.Go(func() {
			r := bufio.NewReader(conn)
			for i := range 100 {
				name := fmt.Sprintf("/%d/%d", c, i)
				if _, err := io.WriteString(conn, "GET "+name+" HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
					t.Error(err)
					return
				}
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				if body, err := io.ReadAll(resp.Body); string(body) != name || err != nil || resp.StatusCode != http.StatusOK {
					t.Errorf("%s: %s, %q, %v", name, resp.Status, body, err)
					return
				}
			}
		})
	}
	clients.Wait()
}
