package prefork

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
)

// The servers start with as many processes as they say, answer, and end.
func TestServers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux")
	}
	for _, kind := range []string{peers.Epoll, peers.PerConn, peers.FastHTTP} {
		for _, o := range []Options{{}, {Prefork: true}, {Prefork: true, Sleep: 10 * time.Millisecond}} {
			o.Kind, o.Workers = kind, 2
			t.Run(fmt.Sprintf("%s, prefork %v, sleeps %v", kind, o.Prefork, o.Sleep), func(t *testing.T) {
				t.Parallel()
				s, err := Start(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if want := o.processes(); len(s.PIDs) != want || o.Prefork && want != 3 {
					t.Errorf("processes %v, want %d", s.PIDs, want)
				}
				begin := time.Now()
				response, err := http.Get("http://" + s.Addr + peers.Target)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(response.Body)
				if err != nil || string(body) != peers.Body || time.Since(begin) < o.Sleep {
					t.Errorf("body %q after %v, %v", body, time.Since(begin), err)
				}
				response.Body.Close()
				if err := s.Stop(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
}
