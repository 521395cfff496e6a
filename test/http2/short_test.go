package http2_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestHTTP2ShortConnections: what the server keeps of a connection is used for another one
// when it has ended, also in the middle of requests and before a handler returns. No answer
// is another connection's.
func TestHTTP2ShortConnections(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		const clients, rounds = 4, 12
		holds := make([]chan struct{}, clients)
		for i := range holds {
			holds[i] = make(chan struct{}, rounds)
		}
		r := harness.ServeHTTP2(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			var client int
			if _, err := fmt.Sscanf(string(ctx.Path()), "/hold/%d", &client); err == nil {
				<-holds[client]
			}
			ctx.SetBody(ctx.Path())
		}})
		var all sync.WaitGroup
		for client := range clients {
			all.Go(func() {
				for round := range rounds {
					f := r.Frames()
					hold := fmt.Sprintf("/hold/%d/%d", client, round) // not held if the one of another round was lost
					path := func(i int) string { return fmt.Sprintf("/%d/%d/%d", client, round, i) }
					for i := range 3 {
						f.Head(uint32(2*i+1), "GET", path(i), true, "x-client", path(9))
					}
					if round%4 == 3 {
						f.Head(7, "GET", hold, true)
					}
					for range round % 4 { // in any order; the rest is lost
						got := f.Describe()
						if !strings.HasPrefix(got, fmt.Sprintf("200 /%d/%d/", client, round)) && !strings.HasPrefix(got, "200 "+hold+" ") {
							t.Errorf("client %d, round %d: %s", client, round, got)
						}
					}
					f.Conn.Close()
					if round%4 == 3 {
						holds[client] <- struct{}{}
					}
				}
			})
		}
		all.Wait()
	})
}
