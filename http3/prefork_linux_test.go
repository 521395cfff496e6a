package http3

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
)

var (
	fleetRestarts = flag.Int("fleet.restarts", 3, "how many restarts TestRestartsOfHTTP3 makes")
	fleetClients  = flag.Int("fleet.clients", 8, "how many clients TestRestartsOfHTTP3 has")
)

// In rolling restarts under load, with clients whose ports change, no request fails, and each
// connection stays with its worker.
func TestRestartsOfHTTP3(t *testing.T) {
	for _, role := range []string{"2", "2 upgrade"} {
		t.Run(role, func(t *testing.T) {
			f := startFleet(t, role)
			var stop atomic.Bool
			var answered, conns, repeated, rebound atomic.Int64
			generations := make([]atomic.Int64, *fleetClients) // of the workers that have answered last
			var clients sync.WaitGroup
			for i := range generations {
				c := f.newClient()
				clients.Go(func() {
					for n := 1; !stop.Load(); n++ {
						worker, err := c.get("/?ms=2")
						if err != nil {
							t.Errorf("request %d, connection %d: %v", n, c.conns, err)
							break
						}
						answered.Add(1)
						generation, _ := strconv.Atoi(strings.Fields(worker)[2])
						generations[i].Store(int64(generation))
						if n%10 == 0 {
							if err := c.socket.rebind(); err != nil {
								t.Error(err)
							}
							rebound.Add(1)
						}
					}
					conns.Add(int64(c.conns))
					repeated.Add(int64(c.repeated))
				})
			}
			for i := range *fleetRestarts {
				f.restart()
				f.until("new workers answer all clients", func() bool {
					for j := range generations {
						if generations[j].Load() < int64(i+2) {
							return t.Failed()
						}
					}
					return true
				})
			}
			stop.Store(true)
			clients.Wait()
			t.Logf("%d restarts: %d requests on %d connections; %d were repeated, as the server said; ports changed %d times",
				*fleetRestarts, answered.Load(), conns.Load(), repeated.Load(), rebound.Load())
			if repeated.Load() > conns.Load() {
				t.Errorf("%d requests repeated, %d connections", repeated.Load(), conns.Load())
			}
		})
	}
}

// If a worker is killed, its clients learn it with their next packet, and the others notice
// nothing.
func TestKilledWorkerOfHTTP3(t *testing.T) {
	for _, role := range []string{"1", "3"} {
		t.Run(role, func(t *testing.T) {
			f := startFleet(t, role)
			byWorker := map[string][]*fleetClient{}
			workers, _ := strconv.Atoi(role)
			for i := 0; len(byWorker) < workers || i < 4*workers; i++ {
				c := f.newClient()
				worker, err := c.get("/")
				if err != nil {
					t.Fatal(err)
				}
				byWorker[worker] = append(byWorker[worker], c)
			}
			var victim string
			for victim = range byWorker {
				break
			}
			pid, _ := strconv.Atoi(strings.Fields(victim)[0])
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			killed := time.Now()
			var all sync.WaitGroup
			for worker, clients := range byWorker {
				for _, c := range clients {
					all.Go(func() {
						_, err := c.get("/")
						reset := &quic.StatelessResetError{}
						switch isVictim := worker == victim; {
						case isVictim && !errors.As(err, &reset):
							t.Errorf("after %v, a client of the worker that was killed: %v", time.Since(killed), err)
						case isVictim:
							t.Logf("a client of the worker that was killed knows after %v", time.Since(killed).Round(time.Millisecond))
							c.conn = nil
							if _, err := c.get("/"); err != nil {
								t.Errorf("on a new connection: %v", err)
							}
						case err != nil:
							t.Errorf("a client of another worker: %v", err)
						}
					})
				}
			}
			all.Wait()
			f.until("the successor serves", func() bool {
				worker, err := f.newClient().get("/")
				return err == nil && strings.HasSuffix(worker, fmt.Sprintf(" %s 2", strings.Fields(victim)[1]))
			})
		})
	}
}
