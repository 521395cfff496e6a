package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/websocket"
)

var (
	fleetRequests = flag.Int64("fleet.requests", 5000, "how many requests TestFleet makes at least, through HAProxy to three machines that are replaced")
	fleetPause    = flag.Duration("fleet.pause", 5*time.Millisecond, "how long a client of it waits after an answer")
)

// fleetClients is how many clients make requests, one after the other.
const fleetClients = 8

// A fleetLoad counts what clients get from the address of HAProxy.
type fleetLoad struct {
	clients *machine
	url     string
	pause   time.Duration
	stop    chan struct{}
	running sync.WaitGroup

	requests, posts, streams atomic.Int64

	mu       sync.Mutex
	problems map[string][]string // by method
}

// load starts clients.
func (n *network) load(pause time.Duration) *fleetLoad {
	l := &fleetLoad{clients: n.clients, url: "http://10.41.0.10", pause: pause, stop: make(chan struct{}), problems: make(map[string][]string)}
	for i := range fleetClients {
		l.running.Go(func() { l.run(i) })
	}
	return l
}

// end ends the clients, and returns what has failed, by method.
func (l *fleetLoad) end() map[string][]string {
	close(l.stop)
	l.running.Wait()
	return l.problems
}

// run is a client that sends nothing twice. It keeps its connection, but now and then.
func (l *fleetLoad) run(number int) {
	client := &sluice.Client{DialContext: l.clients.dial, MaxIdemponentCallAttempts: 1, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	for i := 0; ; i++ {
		select {
		case <-l.stop:
			return
		case <-time.After(l.pause):
		}
		if i%100 == 99 {
			client.CloseIdleConnections()
		}
		l.request(client, number, i)
	}
}

// request makes a request, and checks the answer.
func (l *fleetLoad) request(client *sluice.Client, number, i int) {
	req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
	defer sluice.ReleaseRequest(req)
	defer sluice.ReleaseResponse(resp)
	want := []byte("Hello, World!")
	req.SetRequestURI(l.url + "/plaintext")
	switch {
	case i%50 == 0:
		l.streams.Add(1)
		req.SetRequestURI(l.url + "/stream?n=3&ms=20")
		want = []byte("line 1 of 3\nline 2 of 3\nline 3 of 3\n")
	case i%3 == 0:
		l.posts.Add(1)
		want = bytes.Repeat(fmt.Appendf(nil, "client %d, request %d;", number, i), 1+i%100)
		req.SetRequestURI(l.url + "/echo")
		req.Header.SetMethod(sluice.MethodPost)
		req.SetBody(want)
	}
	err := client.Do(req, resp)
	l.requests.Add(1)
	if err != nil || resp.StatusCode() != 200 || !bytes.Equal(resp.Body(), want) {
		l.mu.Lock()
		defer l.mu.Unlock()
		kind := string(req.Header.Method()) + " " + string(req.URI().Path())
		l.problems[kind] = append(l.problems[kind], fmt.Sprintf("%v, status %d, %.100q", err, resp.StatusCode(), resp.Body()))
	}
}

// TestFleet: while clients make requests through HAProxy, each machine is upgraded in place, or
// stopped and started again. No request fails. A machine that is killed costs no more than what
// it was answering.
func TestFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("starts machines, and waits for ten seconds")
	}
	t.Parallel()
	n := newHAProxy(t)
	n.checkStreams()
	l := n.load(*fleetPause)
	upgrades, stops := 0, 0
	for round := 0; round == 0 || l.requests.Load() < *fleetRequests && !t.Failed(); round++ {
		n.roll(round)
		upgrades, stops = upgrades+2, stops+1
	}
	for kind, problems := range l.end() {
		t.Errorf("%d of %s failed: %.1000q", len(problems), kind, problems)
	}
	n.checkStreams()
	t.Logf("%d requests, of these %d POST and %d streams, during %d upgrades and %d stops", l.requests.Load(), l.posts.Load(), l.streams.Load(), upgrades, stops)
	for _, m := range n.machines {
		f := n.figures(m)
		t.Logf("%s: HAProxy sent %s requests, connected again %s times, chose another machine %s times", m.addr, f["stot"], f["wretr"], f["wredis"])
		if len(f["stot"]) < 2 {
			t.Errorf("%s got %s requests", m.addr, f["stot"])
		}
	}
	n.checkDeath()
}

// TestFleetNginx: nginx, which does not ask whether a machine is ready, has no failed request
// either when two of three machines are stopped, one after the other, except a POST that meets
// a connection that a machine closes at that moment: nginx does not send it again. The third
// machine would have to wait until nginx sends requests to the first one again (fail_timeout).
func TestFleetNginx(t *testing.T) {
	if testing.Short() {
		t.Skip("starts machines")
	}
	t.Parallel()
	n := newNginx(t)
	n.checkStreams()
	l := n.load(0)
	for _, m := range n.machines[:2] {
		n.stop(m)
		n.start(m)
	}
	for kind, problems := range l.end() {
		if kind != "POST /echo" || len(problems) > fleetClients {
			t.Errorf("%d of %s failed: %.1000q", len(problems), kind, problems)
		}
	}
	n.checkStreams()
	t.Logf("%d requests during two stops, failed: %q", l.requests.Load(), l.problems)
}

// roll upgrades two machines, and stops and starts the third, which depends on the round.
func (n *network) roll(round int) {
	n.t.Helper()
	count := len(n.machines)
	var upgraded sync.WaitGroup
	for i := range count - 1 {
		n.upgrade(n.machines[(round+i)%count], &upgraded)
	}
	last := n.machines[(round+count-1)%count]
	n.stop(last)
	if status := n.figures(last)["status"]; status != "DOWN" {
		n.t.Errorf("HAProxy has not noticed the end of %s in --drain-wait: %s", last.addr, status)
	}
	last.install(binary)
	n.start(last)
	n.awaitHealth(last, "UP")
	upgraded.Wait()
}

// upgrade replaces the binary of m. It waits until all workers are new, and upgraded waits until
// they have proven themselves and the master is new, too.
func (n *network) upgrade(m *machine, upgraded *sync.WaitGroup) {
	n.t.Helper()
	m.install(binary)
	file, err := os.Create(filepath.Join(n.t.TempDir(), "ctl"))
	if err != nil {
		n.t.Fatal(err)
	}
	defer file.Close()
	cmd := m.command(binary, "ctl", "--admin", "127.0.0.1:9090", "upgrade")
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	text := func() string { text, _ := os.ReadFile(file.Name()); return string(text) }
	upgraded.Go(func() {
		if err := cmd.Wait(); err != nil || !strings.Contains(text(), "done: ") {
			n.t.Errorf("%s: %v: %s", m.addr, err, text())
		}
	})
	eventually(n.t, "upgrade of "+m.addr, func() bool { return strings.Contains(text(), "soaking: ") })
}

// checkStreams: a WebSocket and server-sent events go through HAProxy.
func (n *network) checkStreams() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 20*time.Second)
	defer cancel()
	ws, err := websocket.Dial(ctx, "ws://10.41.0.10/ws", &websocket.DialOptions{Dial: n.clients.dial})
	if err != nil {
		n.t.Fatal(err)
	}
	defer ws.Close(websocket.CodeNormal, "")
	if err := ws.Write(ctx, websocket.Text, []byte("hello")); err != nil {
		n.t.Fatal(err)
	}
	if m, err := ws.Read(ctx); err != nil || string(m.Data) != "hello" {
		n.t.Fatalf("%q, %v", m.Data, err)
	}
	c, err := n.clients.dial(ctx, "10.41.0.10:80")
	if err != nil {
		n.t.Fatal(err)
	}
	defer c.Close()
	n.awaitEvent(c)
}

// awaitEvent waits for the first event.
func (n *network) awaitEvent(c net.Conn) {
	n.t.Helper()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprint(c, "GET /events HTTP/1.1\r\nHost: sluice\r\n\r\n")
	var got []byte
	for buf := make([]byte, 4096); !bytes.Contains(got, []byte("event: tick\n")); {
		k, err := c.Read(buf)
		if got = append(got, buf[:k]...); err != nil {
			n.t.Fatalf("%q, %v", got, err)
		}
	}
}

// checkDeath: of a machine that is killed, only what must not be sent twice, and answers that
// had begun, are lost.
func (n *network) checkDeath() {
	n.t.Helper()
	l := n.load(0)
	victim := n.machines[0]
	reach := func(count int64) {
		n.t.Helper()
		goal := l.requests.Load() + count
		eventually(n.t, "answers", func() bool { return l.requests.Load() >= goal })
	}
	reach(500)
	n.kill(victim)
	reach(500)
	n.awaitHealth(victim, "DOWN")
	reach(500)
	lost := 0
	for kind, problems := range l.end() {
		if lost += len(problems); kind == "GET /plaintext" {
			n.t.Errorf("%d GETs failed: %.1000q", len(problems), problems)
		}
	}
	if lost > fleetClients {
		n.t.Errorf("%d requests failed: %.1000q", lost, l.problems)
	}
	n.t.Logf("killed: %d of %d requests failed: %q", lost, l.requests.Load(), l.problems)
}
