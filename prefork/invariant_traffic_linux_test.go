package prefork

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/shared"
)

// A round is what a client sends at once, and the bodies of the responses.
type round struct {
	request string
	answers []string
	pieces  int           // in how many pieces it is sent
	pause   time.Duration // between them; 0: a millisecond
}

// A kind returns round number n of a client.
type kind func(n int) round

// plain sends every tenth request in two pieces.
func plain(n int) round {
	r := round{request: fmt.Sprintf("GET /echo?n=%d HTTP/1.1\r\nHost: x\r\n\r\n", n), answers: []string{fmt.Sprintf("%d:", n)}, pieces: 1}
	if n%10 == 9 {
		r.pieces = 2
	}
	return r
}

// pipelined sends five requests at once, sometimes with a pause inside of one.
func pipelined(n int) (all round) {
	for i := range 5 {
		one := plain(5*n + i)
		all.request += one.request
		all.answers = append(all.answers, one.answers...)
	}
	all.pieces = 1
	if n%10 == 9 {
		all.pieces = 3
	}
	return all
}

// upload sends bodies, some of them large, some in pieces.
func upload(n int) round {
	body := strings.Repeat(string(rune('a'+n%26)), n*37%3000)
	if n%20 == 19 {
		body = strings.Repeat("large", 8<<10)
	}
	r := plain(n)
	r.request = fmt.Sprintf("POST /echo?n=%d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", n, len(body), body)
	r.answers[0] += body
	return r
}

// trickle sends bodies slowly.
func trickle(n int) round {
	r := upload(n)
	r.pieces = 20
	return r
}

// download gets large bodies.
func download(n int) round {
	n %= 10
	return round{request: fmt.Sprintf("GET /large?n=%d HTTP/1.1\r\nHost: x\r\n\r\n", n), answers: []string{largeBody(n)}, pieces: 1}
}

// send sends r's request.
func (r *round) send(c net.Conn) error {
	c.SetDeadline(time.Now().Add(patience))
	for i, at := 0, 0; i < r.pieces; i++ {
		next := len(r.request) * (i + 1) / r.pieces
		if _, err := io.WriteString(c, r.request[at:next]); err != nil {
			return err
		}
		if at = next; i+1 < r.pieces {
			time.Sleep(max(r.pause, time.Millisecond)) // so that they arrive separately
		}
	}
	return nil
}

// receive reads r's responses. "Connection: close" is an error unless mayClose.
func (r *round) receive(from *bufio.Reader, mayClose bool) (closes bool, err error) {
	for i, want := range r.answers {
		resp, err := http.ReadResponse(from, nil)
		if err != nil {
			return false, fmt.Errorf("answer %d of %d: %w", i+1, len(r.answers), err)
		}
		got, err := io.ReadAll(resp.Body)
		if err == nil {
			err = isSound(resp, string(got), want)
		}
		if err == nil && resp.Close && !mayClose {
			err = errors.New("Connection: close")
		}
		if err != nil {
			return false, fmt.Errorf("answer %d of %d: %w", i+1, len(r.answers), err)
		}
		if resp.Close {
			return true, nil
		}
	}
	return false, nil
}

// call sends a round every interval until l stops. It uses one connection, which must
// not be closed, unless mayClose; then it may use several.
func (l *load) call(dial func() (net.Conn, error), k kind, interval time.Duration, mayClose bool) {
	defer l.done.Done()
	ticker := time.NewTicker(interval) // late ticks are not made up for
	defer ticker.Stop()
	for n := 0; !l.stop.Load(); l.renewed.Add(1) {
		c, err := dial()
		if err != nil {
			l.fail(err)
			return
		}
		from := bufio.NewReader(c)
		for closes := false; !closes && !l.stop.Load(); n++ {
			<-ticker.C
			r := k(n)
			err := r.send(c)
			if err == nil {
				closes, err = r.receive(from, mayClose)
			}
			if err != nil {
				l.fail(fmt.Errorf("%v: round %d, %d pieces, %.20q: %w", c.LocalAddr(), n, r.pieces, r.request, err))
				c.Close()
				return
			}
			l.answered.Add(int64(len(r.answers)))
		}
		c.Close()
	}
}

// callers starts clients with about 2,000 requests a second.
func (l *load) callers(dial func() (net.Conn, error), mayClose bool) {
	const ms = time.Millisecond
	for _, c := range []struct {
		kind     kind
		interval time.Duration
		count    int
	}{{plain, 4 * ms, 4}, {upload, 5 * ms, 2}, {trickle, 30 * ms, 1}, {download, 50 * ms, 1}, {pipelined, 10 * ms, 1}} {
		if mayClose && len(c.kind(0).answers) > 1 {
			continue // a client would have to send unanswered requests again; this one does not
		}
		for range c.count {
			l.done.Add(1)
			go l.call(dial, c.kind, c.interval, mayClose)
		}
	}
}

// end stops the clients and reports failures.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.stop.Store(true)
	l.done.Wait()
	for _, err := range l.failed {
		t.Error(err)
	}
	if l.answered.Load() == 0 {
		t.Error("there was no load")
	}
}

// dialer returns a function that connects to the fleet's first address.
func (f *fleet) dialer() func() (net.Conn, error) {
	addr := f.addr(0)
	network := "tcp"
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	return func() (net.Conn, error) { return net.DialTimeout(network, addr, patience) }
}

// idlers opens connections, sends a request on every other one, and leaves them idle.
func (f *fleet) idlers(n int) (all []*client) {
	f.t.Helper()
	dial := f.dialer()
	for i := range n {
		c, err := dial()
		if err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(func() { c.Close() })
		one := &client{f.t, c, bufio.NewReader(c)}
		if all = append(all, one); i%2 == 0 {
			c.SetDeadline(time.Now().Add(patience))
			one.get("/")
		}
	}
	return all
}

// stillAnswer sends requests on connections that were idle. Living workers must
// answer all of them.
func (f *fleet) stillAnswer(idle []*client) {
	f.t.Helper()
	living := f.living()
	for i, c := range idle {
		c.c.SetDeadline(time.Now().Add(patience))
		if body := c.get("/"); !living[strings.Fields(body)[0]] {
			f.t.Fatalf("connection %d is served by %q, workers that live: %v", i, body, living)
		}
	}
}

// ask sends a request and returns the response.
func (c *client) ask(path string) (string, error) {
	body, _, err := ask(c.c, bufio.NewReader(c.c), path)
	return body, err
}

// expect reads a response.
func (c *client) expect(want string) error {
	resp, err := http.ReadResponse(bufio.NewReader(c.c), nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return isSound(resp, string(body), want)
}

// living returns the living workers.
func (f *fleet) living() map[string]bool {
	pids := make(map[string]bool)
	for _, pid := range f.pids() {
		if isAlive(pid) {
			pids[itoa(pid)] = true
		}
	}
	return pids
}

// segment attaches the test to the fleet's shared memory.
func (f *fleet) segment() *shared.Segment {
	f.t.Helper()
	links, err := filepath.Glob(filepath.Join("/proc", itoa(f.cmd.Process.Pid), "fd", "*"))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err != nil || !strings.HasPrefix(to, "/memfd:") {
			continue
		}
		file, err := os.OpenFile(link, os.O_RDWR, 0)
		if err != nil {
			f.t.Fatal(err)
		}
		defer file.Close()
		if s, err := shared.Attach(file); err == nil {
			f.t.Cleanup(func() { s.Close() })
			return s
		}
	}
	f.t.Fatal("the master has no segment")
	return nil
}
