package http3

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice"
)

// With our own client, restarts lose no request of any method: what the old worker rejects is
// sent again.
func TestRestartsWithTransport(t *testing.T) {
	f := startFleet(t, "2")
	client := &sluice.Client{TLSConfig: clientTLS.Clone(), Transport: &Transport{Mode: Only}}
	defer client.CloseIdleConnections()
	var stop atomic.Bool
	var answered, newest atomic.Int64
	var clients sync.WaitGroup
	for i := range *fleetClients {
		clients.Go(func() {
			for n := 1; !stop.Load(); n++ {
				req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
				req.SetRequestURI("https://" + f.addr + "/?ms=2")
				if i%2 == 0 {
					req.Header.SetMethod("POST")
					req.SetBodyString("content")
				}
				err := client.DoTimeout(req, resp, patience)
				if err != nil || resp.StatusCode() != 200 {
					t.Errorf("request %d, %s: %d, %v", n, req.Header.Method(), resp.StatusCode(), err)
				} else {
					generation, _ := strconv.Atoi(strings.Fields(string(resp.Body()))[2])
					newest.Store(int64(generation))
					answered.Add(1)
				}
				sluice.ReleaseRequest(req)
				sluice.ReleaseResponse(resp)
				if err != nil {
					break
				}
			}
		})
	}
	for i := range *fleetRestarts {
		f.restart()
		f.until("a new worker answers", func() bool { return newest.Load() >= int64(i+2) || t.Failed() })
	}
	stop.Store(true)
	clients.Wait()
	t.Logf("%d restarts, %d requests", *fleetRestarts, answered.Load())
}
