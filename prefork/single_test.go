package prefork

import (
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/shared"
)

// A server without workers has the numbers of its requests, and says what it does.
// long: the life of one server, in order
func TestSingle(t *testing.T) {
	enter, leave := make(chan bool), make(chan bool)
	server := &sluice.Server{Logger: quiet(), Handler: func(ctx *sluice.RequestCtx) {
		switch string(ctx.Path()) {
		case "/missing":
			ctx.NotFound()
		case "/timeout":
			ctx.TimeoutError("late")
		case "/wait":
			enter <- true
			<-leave
		}
	}}
	single := NewSingle(server)
	if s := single.Status(); len(s.Workers) != 1 || s.Workers[0].Phase != "spawned" || s.Ready || s.Stopping || s.Wanted != 1 {
		t.Fatalf("before serving: %+v", s)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	client := &http.Client{Transport: &http.Transport{}}
	get := func(path string) {
		resp, err := client.Get("http://" + ln.Addr().String() + path)
		if err != nil {
			t.Error(err)
			return
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	for range 10 {
		get("/")
	}
	get("/missing")
	get("/timeout")
	s := single.Status()
	w := s.Workers[0]
	if w.PID != os.Getpid() || w.Phase != "ready" || w.Generation != 1 || time.Since(w.Started) > time.Hour || w.Goroutines == 0 || w.Lag != 0 || s.Master.PID != 0 {
		t.Errorf("%+v", w)
	}
	if !s.Ready || s.Stopping || len(s.Slots) != 1 || s.Slots[0].Adopter != -1 {
		t.Errorf("%+v", s)
	}
	if l := s.Total; l != w.Load || l.Accepted != 1 || l.Done != 0 || l.Active != 1 || l.Requests != 12 || l.Responses != [5]uint64{1: 10, 3: 2} || l.BytesRead == 0 || l.BytesWritten == 0 {
		t.Errorf("%+v", l)
	}
	if s.TimedOut != 1 || s.Refused != 0 || s.Latency.P50 <= 0 || s.Latency.P999 < s.Latency.P50 {
		t.Errorf("%+v", s)
	}
	if n := s.Latencies.Count(); n != 12 {
		t.Errorf("%d latencies", n)
	}
	if text := s.String(); !strings.Contains(text, "1 wanted, 1 ready") {
		t.Error(text)
	}

	at, stop, err := single.ServeAdmin("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	probe := func(path string, want int) {
		t.Helper()
		if resp, err := client.Get("http://" + at.String() + path); err != nil || resp.StatusCode != want {
			t.Errorf("%s: %v, %v", path, resp, err)
		}
	}
	for _, path := range []string{"/", "/healthz", "/readyz", "/startupz"} {
		probe(path, 200)
	}
	single.Stopping()
	probe("/readyz", 503)
	probe("/startupz", 200)
	if s := single.Status(); s.Workers[0].Phase != "ready" || !s.Stopping {
		t.Errorf("announced: %+v", s)
	}
	if _, _, err := single.ServeAdmin(at.String(), nil); err == nil {
		t.Error("two on one address")
	}
	go get("/wait")
	<-enter
	ended := make(chan error, 1)
	go func() { ended <- server.Shutdown() }()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if s := single.Status(); s.Workers[0].Phase != "draining" || !s.Stopping || s.Ready || s.Total.InFlight != 1 {
		t.Errorf("during the end: %+v", s)
	}
	probe("/readyz", 503)
	probe("/healthz", 200)
	stop()
	leave <- true
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if s := single.Status(); s.Total.Active != 0 || s.Total.InFlight != 0 || s.Total.Requests != 13 {
		t.Errorf("after the end: %+v", s.Total)
	}
}

// A cannedConn is a connection whose peer has sent everything.
type cannedConn struct {
	net.Conn // nil: what is not below is not called
	in       strings.Reader
}

func (c *cannedConn) Read(p []byte) (int, error)  { return c.in.Read(p) }
func (c *cannedConn) Write(p []byte) (int, error) { return len(p), nil }
func (c *cannedConn) Close() error                { return nil }
func (c *cannedConn) LocalAddr() net.Addr         { return nil }
func (c *cannedConn) RemoteAddr() net.Addr        { return nil }

// Counting requests and measuring how long they take costs no allocation.
func TestSingleDoesNotAllocate(t *testing.T) {
	server := &sluice.Server{Logger: quiet(), Handler: func(ctx *sluice.RequestCtx) { ctx.SetBodyString("x") }}
	single := NewSingle(server)
	c := &cannedConn{}
	serve := func() {
		c.in.Reset(strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 50))
		if err := server.ServeConn(c); err != nil {
			t.Fatal(err)
		}
	}
	serve()
	if n := testing.AllocsPerRun(100, serve); n >= 50 && !invariants.Enabled { // some are the connection's
		t.Errorf("%v allocations for 50 requests", n)
	}
	if n := single.Status().Latencies.Count(); n != 50*102 {
		t.Errorf("%d latencies, want 5100", n)
	}
}

// A segment without room for what is counted by name is no reason not to serve.
func TestMeterWithoutRoom(t *testing.T) {
	full := shared.Must(shared.New(shared.Options{Size: 64 << 10, Processes: 10, Local: true}))
	m := newMeter(full, new(slowList))
	if m.Latency != nil || m.Accepted == nil {
		t.Errorf("%+v", m)
	}
	if latencyOf(full).Count() != 0 || latencyStatus(latencyOf(full)) != (LatencyStatus{}) {
		t.Error("there are latencies")
	}
}
