package prefork

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/sse"
)

// restart replaces all workers. The old ones may still drain.
func (f *fleet) restart() {
	f.t.Helper()
	const isDone = "rolling restart is done" // logged when all new ones serve
	before := f.count(isDone)
	f.signal(syscall.SIGHUP)
	until(f.t, "the restart is done", func() bool { return f.count(isDone) > before })
}

// load runs clients until it is told to stop, and counts failures.
type load struct {
	stop              atomic.Bool
	done              sync.WaitGroup
	answered, renewed atomic.Int64

	mu     sync.Mutex
	failed []error
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, err)
}

// connectEach is a client with a connection for each request.
func (l *load) connectEach(f *fleet) {
	defer l.done.Done()
	for !l.stop.Load() {
		if _, err := f.get("/slow?ms=2"); err != nil {
			l.fail(err)
			return
		}
		l.answered.Add(1)
	}
}

// keepAlive is a client that keeps its connection as long as it may.
func (l *load) keepAlive(f *fleet) {
	defer l.done.Done()
	for !l.stop.Load() {
		c, err := net.Dial("tcp", f.addr(0))
		if err != nil {
			l.fail(err)
			return
		}
		r := bufio.NewReader(c)
		for closes := false; !closes && !l.stop.Load(); {
			if _, closes, err = ask(c, r, "/slow?ms=1"); err != nil {
				l.fail(err)
				break
			}
			l.answered.Add(1)
		}
		c.Close()
		l.renewed.Add(1)
	}
}

// In rolling restarts under load no connect and no request fails, on new connections
// and on busy old ones. Hooks and status report the restart.
func TestRollingRestart(t *testing.T) {
	restarts := 5
	if testing.Short() {
		restarts = 2
	}
	eachServing(t, func(t *testing.T, s setup) {
		s.Workers, s.Linger, s.Drain = 2, 300*time.Millisecond, 10*time.Second
		f := start(t, s, true)
		var l load
		for range 4 {
			l.done.Add(1)
			go l.connectEach(f)
			if s.OwnServe {
				continue // its connections cannot be told to close
			}
			l.done.Add(1)
			go l.keepAlive(f)
		}
		for range restarts {
			f.restart()
		}
		l.stop.Store(true)
		l.done.Wait()
		for _, err := range l.failed {
			t.Error(err)
		}
		until(t, "two workers were started for each restart", func() bool { return len(f.pids()) == 2+2*restarts })
		if n := len(f.printed("reload")); n != restarts {
			t.Errorf("OnReload was called %d times", n)
		}
		if n := len(f.printed("recover ")); n != 0 {
			t.Errorf("OnChildRecover was called %d times", n)
		}
		t.Logf("%d answers, %d connections of clients that keep them", l.answered.Load(), l.renewed.Load())
		f.signal(os.Interrupt)
		if status := f.wait(); status != 0 {
			t.Errorf("exit status %d", status)
		}
	})
}

// An idle connection is handed over to the successor, even in the middle of a header.
// A busy one follows after its response. None is told to close.
func TestHandOver(t *testing.T) {
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := filepath.Join(t.TempDir(), "gate")
			f := start(t, setup{Workers: 1, Engine: engine, Linger: patience, Drain: patience}, true)
			idle, busy, partial := f.dial(), f.dial(), f.dial()
			first := idle.get("/")
			if again := busy.get("/"); again != first {
				t.Fatalf("%q and %q", first, again)
			}
			busy.send("GET /gate?file=" + gate + " HTTP/1.1\r\nHost: x\r\n\r\n")
			partial.send("GET / HT")
			until(t, "all are accepted", func() bool { return connections(t, f.pids()) == 3 })
			f.signal(syscall.SIGHUP)
			until(t, "two are handed over", func() bool { return connections(t, f.pids()[1:]) == 2 })
			second := idle.get("/")
			if strings.Fields(second)[0] == strings.Fields(first)[0] || !strings.HasSuffix(second, " 0 2 true") {
				t.Errorf("%q, before the restart %q", second, first)
			}
			partial.send("TP/1.1\r\nHost: x\r\n\r\n")
			if got := partial.answer(); got != second {
				t.Errorf("the request that had begun: %q, want %q", got, second)
			}
			open(t, gate)
			busy.answer()
			until(t, "the old worker ends", func() bool { return !isAlive(f.pids()[0]) })
			for _, c := range []*client{idle, busy, partial} {
				if got := c.get("/"); got != second {
					t.Errorf("%q, want %q", got, second)
				}
			}
			until(t, "the worker reports three", func() bool { return f.count(`"HandedOver":3,"Cut":0}`) == 1 })
		})
	}
}

// A connection behind a proxy keeps its client's address over restarts. One whose header has not
// come completely moves, too, if the engine leaves that in the socket.
func TestHandOverOfProxied(t *testing.T) {
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const header = "PROXY TCP4 192.0.2.1 198.51.100.2 1234 443\r\n"
			f := start(t, setup{Workers: 1, Engine: engine, Proxied: true, Linger: patience, Drain: patience}, true)
			idle, health := f.dial(), f.dial()
			idle.send(header)
			health.send("PROXY UNKNOWN\r\n")
			var partial *client
			if engine == sluice.EngineEpoll {
				partial = f.dial()
				partial.send(header[:20])
			}
			for range 3 {
				for c, want := range map[*client]string{idle: "192.0.2.1:1234", health: health.c.LocalAddr().String()} {
					if got := c.get("/client"); got != want {
						t.Errorf("%q, want %q", got, want)
					}
				}
				f.restart()
			}
			if partial == nil {
				return
			}
			partial.send(header[20:])
			if got := partial.get("/client"); got != "192.0.2.1:1234" {
				t.Errorf("%q after the rest of the header", got)
			}
		})
	}
}

// A WebSocket and a stream of events behind a proxy keep their client's address over restarts:
// the first answer of the new worker has it, and MaxConnsPerIP counts them there.
func TestHandOverOfProxiedPush(t *testing.T) {
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, setup{Workers: 1, Engine: engine, Proxied: true, PerIP: 2, WebSocket: true, Streams: true, Linger: patience, Drain: patience}, true)
			from := func(ip string) *client {
				c := f.dial()
				c.send("PROXY TCP4 " + ip + " 198.51.100.2 1234 443\r\n")
				return c
			}
			socket := f.upgrade(from("192.0.2.1").c, "/websocket")
			stream := from("192.0.2.1")
			stream.send("GET /events/busy HTTP/1.1\r\nHost: x\r\n\r\n")
			resp, err := http.ReadResponse(stream.r, nil)
			if err != nil {
				t.Fatal(err)
			}
			events := sse.NewReader(resp.Body)
			var before string
			for n := range 3 {
				pid, address := socket.tell(t, "address")
				if address != "192.0.2.1:1234" || pid == before {
					t.Errorf("process %s, after %s: the client is %q", pid, before, address)
				}
				before = pid
				for ip, want := range map[string]int{"192.0.2.1": 429, "192.0.2.2": 200} {
					c := from(ip)
					c.send("GET /publish?topic=busy&data=" + itoa(n) + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
					if resp, err := http.ReadResponse(c.r, nil); err != nil || resp.StatusCode != want {
						t.Fatalf("another connection of %s: %v, %v, want %d", ip, resp, err, want)
					}
				}
				if e, err := events.Next(); err != nil || string(e.Data) != itoa(n) {
					t.Errorf("event %d: %q, %v", n, e.Data, err)
				}
				f.replace(1)
			}
			socket.Close()
			until(t, "the client may connect again", func() bool {
				c := from("192.0.2.1")
				defer c.c.Close()
				c.send("GET /client HTTP/1.1\r\nHost: x\r\n\r\n")
				resp, err := http.ReadResponse(c.r, nil)
				return err == nil && resp.StatusCode == 200
			})
		})
	}
}

// tell sends a message and returns the process that answers, and its answer.
func (c *socketClient) tell(t *testing.T, message string) (pid, answer string) {
	t.Helper()
	c.sent++
	_ = c.SetDeadline(time.Now().Add(patience))
	if err := c.write(message); err != nil {
		t.Fatal(err)
	}
	text, err := c.read()
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(text)
	return fields[0], fields[len(fields)-1]
}

// A client is a connection that must not be closed.
type client struct {
	t *testing.T
	c net.Conn
	r *bufio.Reader
}

func (f *fleet) dial() *client {
	f.t.Helper()
	c, err := net.Dial("tcp", f.addr(0))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(2 * patience))
	return &client{f.t, c, bufio.NewReader(c)}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.c, text); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) answer() string {
	c.t.Helper()
	body, closes, err := answer(c.r)
	if err != nil || closes {
		c.t.Fatalf("%q, closes %v, %v", body, closes, err)
	}
	return body
}

func (c *client) get(path string) string {
	c.t.Helper()
	c.send("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n")
	return c.answer()
}

// A worker that is being replaced accepts nothing any more while it still answers.
func TestDrainingWorkerDoesNotListen(t *testing.T) {
	eachServing(t, func(t *testing.T, s setup) {
		s.Workers, s.Drain, s.Linger = 1, 2*patience, 2*patience
		f := start(t, s, true)
		gate := filepath.Join(t.TempDir(), "gate")
		busy := f.dial()
		busy.send("GET /gate?file=" + gate + " HTTP/1.1\r\nHost: x\r\n\r\n")
		until(t, "it is accepted", func() bool { return connections(t, f.pids()) == 1 })
		f.restart()
		old := f.pids()[0]
		until(t, "the old worker does not listen", func() bool { return listeners(t, old) == 0 })
		if n := connections(t, []int{old}); n != 1 {
			t.Errorf("the old worker has %d connections", n)
		}
		open(t, gate)
		if _, _, err := answer(busy.r); err != nil {
			t.Error(err)
		}
	})
}

// An idle connection that cannot be handed over gets one more response, with
// "Connection: close".
func TestIdleLinger(t *testing.T) {
	f := start(t, setup{Workers: 1, TLS: true, Linger: patience, Drain: patience}, true)
	c, err := tls.Dial("tcp", f.addr(0), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	first, _, err := ask(c, r, "/")
	if err != nil {
		t.Fatal(err)
	}
	f.signal(syscall.SIGHUP)
	until(t, "the successor is ready", func() bool { return f.count("ready after") == 2 })
	until(t, "new connections are the successor's", func() bool {
		body, err := getTLS(f.addr(0))
		return err == nil && body != first && !strings.HasPrefix(body, strings.Fields(first)[0])
	})
	until(t, "an answer says that it is the last", func() bool {
		next, closes, err := ask(c, r, "/")
		if err != nil || next != first {
			t.Fatalf("%q, %v; want %q", next, err, first)
		}
		return closes
	})
	until(t, "the old worker ends", func() bool { return !isAlive(f.pids()[0]) })
}

// SIGUSR1 and Reopen reopen logs in every process.
func TestReopen(t *testing.T) {
	f := start(t, setup{Workers: 2, Admin: "127.0.0.1:0"}, true)
	f.signal(syscall.SIGUSR1)
	until(t, "all processes have reopened", func() bool { return len(f.printed("reopen ")) == 3 })
	if n := f.count(" false"); n < 1 {
		t.Error("the master has not")
	}
	request(t, "tcp", f.admin(), "GET", "/reopen", "")
	until(t, "all processes have reopened again", func() bool { return len(f.printed("reopen ")) == 6 })
}

// Scale changes the number of workers within its bounds.
func TestScale(t *testing.T) {
	f := start(t, setup{Workers: 1, Admin: "127.0.0.1:0", Linger: time.Millisecond}, true)
	for _, c := range []struct{ to, want int }{{3, 3}, {2, 2}, {0, 1}} {
		request(t, "tcp", f.admin(), "GET", "/scale?workers="+itoa(c.to), "")
		until(t, itoa(c.want)+" workers", func() bool {
			s := statusAt(t, "tcp", f.admin())
			return s.Ready && len(s.Workers) == c.want
		})
		if _, err := f.get("/"); err != nil {
			t.Error(err)
		}
	}
}

// Old workers with hanging handlers do not delay the restart of other slots: all
// successors serve while they drain, and their requests are answered.
func TestDrainsDelayNothing(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	f := start(t, setup{Workers: 2, Drain: 2 * patience, Linger: 2 * patience}, true)
	const requests = 8
	var busy [requests]*client
	for i := range busy {
		busy[i] = f.dial()
		busy[i].send("GET /gate?file=" + gate + " HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	until(t, "all are in hand", func() bool { return connections(t, f.pids()) == requests })
	f.restart()
	if n := connections(t, f.pids()[:2]); n != requests {
		t.Errorf("the old workers have %d of %d connections when all successors serve", n, requests)
	}
	open(t, gate)
	for _, c := range busy {
		c.answer()
		c.get("/") // from the successor
	}
	for _, pid := range f.pids()[:2] {
		until(t, "the old worker ends", func() bool { return !isAlive(pid) })
	}
}
