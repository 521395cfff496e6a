package http3

import (
	"bytes"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/prefork"
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
			var answered, conns, hellos, repeated, rebound atomic.Int64
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
					hellos.Add(c.hellos.Load())
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
			t.Logf("%d restarts: %d requests on %d connections; %d were repeated, as the server said; %d handshakes were; ports changed %d times",
				*fleetRestarts, answered.Load(), conns.Load(), repeated.Load(), hellos.Load()-conns.Load(), rebound.Load())
			if hellos.Load() < conns.Load() {
				t.Errorf("%d ClientHellos, %d connections", hellos.Load(), conns.Load())
			}
			if repeated.Load() > conns.Load() {
				t.Errorf("%d requests repeated, %d connections", repeated.Load(), conns.Load())
			}
		})
	}
}

// A worker that is replaced does not end while a client is slow with its handshake, and serves it.
func TestSlowHandshakeOfHTTP3(t *testing.T) {
	f := startFleet(t, "1")
	c := f.newClient()
	arrived, goOn := make(chan struct{}), make(chan struct{})
	c.socket.arrives = func() {
		close(arrived)
		select {
		case <-goOn:
		case <-t.Context().Done():
		}
	}
	ended := make(chan error, 1)
	go func() {
		_, err := c.get("/")
		ended <- err
	}()
	<-arrived
	f.restart()
	f.until("the worker has stopped accepting", func() bool { return len(f.said("drained ")) > 0 })
	pid, _ := strconv.Atoi(strings.Fields(f.said("drained ")[0])[1])
	if nettest.Poll(300*time.Millisecond, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }) {
		t.Error("the worker has ended")
	}
	close(goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// If a worker is killed or hangs, its clients learn it with their next packet, and the others
// notice nothing.
func TestDeadWorkerOfHTTP3(t *testing.T) {
	for _, c := range []struct {
		role   string
		signal syscall.Signal
	}{{"1", syscall.SIGKILL}, {"3", syscall.SIGKILL}, {"2 hang", syscall.SIGSTOP}} {
		t.Run(c.role, func(t *testing.T) {
			f := startFleet(t, c.role)
			byWorker := map[string][]*fleetClient{}
			workers, _ := strconv.Atoi(c.role[:1])
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
			nettest.Signal(t, pid, c.signal)
			// A stopped process would outlive its master.
			t.Cleanup(func() { nettest.Signal(t, pid, syscall.SIGKILL) })
			f.until("all threads have stopped", func() bool {
				stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
				return err != nil || bytes.Contains(stat, []byte(") T ")) || bytes.Contains(stat, []byte(") Z "))
			})
			begin := time.Now()
			var all sync.WaitGroup
			for worker, clients := range byWorker {
				for _, c := range clients {
					all.Go(func() {
						_, err := c.get("/")
						reset := &quic.StatelessResetError{}
						switch isVictim := worker == victim; {
						case isVictim && !errors.As(err, &reset):
							t.Errorf("after %v, a client of the dead worker: %v", time.Since(begin), err)
						case isVictim:
							t.Logf("a client of the dead worker knows after %v", time.Since(begin).Round(time.Millisecond))
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

// A client continues its session of TLS with any worker, also if it has to prove its address.
func TestSessionsOfHTTP3(t *testing.T) {
	f := startFleet(t, "3 retry")
	c := f.newClient()
	c.tls.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	c.tls.ServerName = "localhost"
	workers := map[string]bool{}
	for n := 0; len(workers) < 3; n++ {
		worker, err := c.get("/")
		if err != nil {
			t.Fatal(err)
		}
		if c.resumed != (n > 0) {
			t.Errorf("connection %d, to %q: it continues a session: %v", n, worker, c.resumed)
		}
		workers[worker] = true
		c.conn.CloseWithError(0, "")
		c.conn = nil
	}
}

// When a fleet ends, its workers finish their requests.
func TestStopOfHTTP3(t *testing.T) {
	f := startFleet(t, "2")
	var clients sync.WaitGroup
	for range 4 {
		c := f.newClient()
		if _, err := c.get("/"); err != nil {
			t.Fatal(err)
		}
		clients.Go(func() {
			if _, err := c.get("/slow?ms=300"); err != nil || c.conns != 1 {
				t.Errorf("connection %d: %v", c.conns, err)
			}
		})
	}
	f.until("all requests have begun", func() bool { return len(f.said("slow")) == 4 })
	f.cmd.Process.Signal(syscall.SIGTERM)
	clients.Wait()
	if err := f.cmd.Wait(); err != nil {
		t.Errorf("the master: %v", err)
	}
}

// What keeps a worker from HTTP/3 ends its Serve functions, or is logged.
func TestWorkerErrors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	literal := &prefork.Prefork{ServeTLSFunc: func(net.Listener, string, string) error { return nil }}
	Prefork(literal, Config{})
	for range 2 { // also for a second listener
		if err := literal.ServeTLSFunc(ln, "", ""); err != errNeedsServer {
			t.Errorf("without a server: %v", err)
		}
	}
	p := prefork.New(&sluice.Server{Handler: echo})
	Prefork(p, Config{})
	if err := p.ServeTLSFunc(ln, "/none", "/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the file of a certificate: %v", err)
	}
	start := func(s *sluice.Server, files ...*os.File) *prefork.Prefork {
		p := prefork.New(s)
		hasStarted := false
		p.OnWorkerStart = func(prefork.WorkerInfo) error { hasStarted = true; return nil }
		Prefork(p, Config{})
		if err := p.OnWorkerStart(prefork.WorkerInfo{Packets: files, PacketSecret: make([]byte, 32)}); err != nil || !hasStarted {
			t.Fatalf("OnWorkerStart was called: %v; %v", hasStarted, err)
		}
		return p
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if err := start(&sluice.Server{Handler: echo}, null).ServeFunc(ln); err == nil {
		t.Error("a file that is no socket: no error")
	}
	if err := null.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the file is open: %v", err)
	}
	socket, err := join(t, "127.0.0.1:0").File()
	if err != nil {
		t.Fatal(err)
	}
	if err := start(&sluice.Server{Handler: echo}, socket).ServeFunc(ln); err != errNoCertificate {
		t.Errorf("without a certificate: %v", err)
	}
	var lines strings.Builder
	s := &sluice.Server{Handler: echo, Logger: log.New(&lines, "", 0), TLSConfig: newCertificate(t)}
	ln.Close()
	start(s).ServeTLSFunc(ln, "", "")
	if !strings.Contains(lines.String(), "worker 0.0: no HTTP/3") {
		t.Errorf("without sockets: %q", &lines)
	}
}

// countedIDs counts the ids that a socket issues.
type countedIDs struct {
	quic.ConnectionIDGenerator
	issued atomic.Int64
}

func (g *countedIDs) GenerateConnectionID() (quic.ConnectionID, error) {
	g.issued.Add(1)
	return g.ConnectionIDGenerator.GenerateConnectionID()
}

// Several sockets of one process share the connections, which stay where they are when clients
// move.
func TestSockets(t *testing.T) {
	s := &sluice.Server{Handler: echo, TLSConfig: newCertificate(t)}
	ln, sockets, err := listenBoth("127.0.0.1:0", 4)
	if err != nil {
		t.Fatal(err)
	}
	var ids [4]countedIDs
	for i := range ids {
		ids[i].ConnectionIDGenerator = sockets[i].ids
		sockets[i].ids = &ids[i]
	}
	ended := make(chan error, 1)
	go func() { ended <- (&Server{Server: s}).serveTLS(ln, sockets, "", "") }()
	f := &fleet{t: t, addr: ln.Addr().String()}
	var all sync.WaitGroup
	for range 64 {
		c := f.newClient()
		all.Go(func() {
			for range 4 {
				if _, err := c.get("/"); err != nil || c.conns != 1 {
					t.Errorf("connection %d: %v", c.conns, err)
					return
				}
				if err := c.socket.rebind(); err != nil {
					t.Error(err)
				}
			}
			c.conn.CloseWithError(0, "")
		})
	}
	all.Wait()
	for i := range ids {
		if ids[i].issued.Load() == 0 {
			t.Errorf("socket %d has no connection", i)
		}
	}
	if err := s.Shutdown(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A port that another process has is not shared with it, and there is a largest number of
// sockets.
func TestSocketsErrors(t *testing.T) {
	group, err := openSockets("127.0.0.1:0", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(group)
	for addr, n := range map[string]int{group[0].conn.LocalAddr().String(): 2, join(t, "127.0.0.1:0").LocalAddr().String(): 2} {
		if others, err := openSockets(addr, n); err == nil {
			closeAll(others)
			t.Errorf("%d sockets for %s", n, addr)
		}
	}
	free := join(t, "127.0.0.1:0")
	addr := free.LocalAddr().String()
	free.Close()
	if others, err := openSockets(addr, maxSockets+1); err == nil {
		closeAll(others)
		t.Errorf("%d sockets", maxSockets+1)
	}
	all, err := openSockets(addr, 2) // everything was closed
	if err != nil {
		t.Fatal(err)
	}
	closeAll(all)
}
