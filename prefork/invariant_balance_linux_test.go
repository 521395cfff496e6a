package prefork

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice"
)

// Connections spread evenly over the workers, whether they arrive at once or one
// after the other (I18).
func TestBalance(t *testing.T) {
	const connections, workers, slack = 64, 4, 4
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		for how, connect := range map[string]func(*fleet, int) []*client{"at once": connectAtOnce, "one by one": connectOneByOne} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				f := start(t, setup{Workers: workers, Engine: engine}, true)
				served := make(map[string]int)
				for _, c := range connect(f, connections) {
					body := c.get("/")
					served[strings.Fields(body)[0]]++
				}
				fewest, most := connections, 0
				for _, n := range served {
					fewest, most = min(fewest, n), max(most, n)
				}
				if len(served) != workers || most-fewest > slack {
					t.Errorf("connections of the workers: %v", served)
				}
				t.Log(served)
			})
		}
	}
}

// connectAtOnce opens connections from many goroutines.
func connectAtOnce(f *fleet, n int) []*client {
	all := make([]*client, n)
	dial := f.dialer()
	var done sync.WaitGroup
	for i := range all {
		done.Add(1)
		go func() {
			defer done.Done()
			if c, err := dial(); err == nil {
				all[i] = &client{f.t, c, bufio.NewReader(c)}
			}
		}()
	}
	done.Wait()
	for _, c := range all {
		if c == nil {
			f.t.Fatal("a connection was refused")
		}
		f.t.Cleanup(func() { c.c.Close() })
	}
	return all
}

// connectOneByOne waits for a response on each connection before it opens the next.
func connectOneByOne(f *fleet, n int) (all []*client) {
	for range n {
		c := f.dial()
		c.get("/")
		all = append(all, c)
	}
	return all
}

// Every worker resumes TLS sessions, also after the keys were rotated, and also
// workers that were started later (I19).
func TestTicketsAreRotated(t *testing.T) {
	f := start(t, setup{Workers: 4, TLS: true}, true)
	keys, err := f.segment().TicketKeys(ticketKeys)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{InsecureSkipVerify: true, ServerName: "localhost", ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	addr := f.addr(0)
	connect := func() (isResumed bool) {
		c, err := tls.Dial("tcp", addr, config)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, _, err := ask(c, bufio.NewReader(c), "/"); err != nil { // the ticket arrives with the response
			t.Fatal(err)
		}
		return c.ConnectionState().DidResume
	}
	const connections = 100
	resumed := 0
	for i := range connections {
		switch {
		case i == connections/2:
			f.replace(4)
		case i%10 == 5:
			if err := keys.Rotate(); err != nil {
				t.Fatal(err)
			}
		}
		if connect() {
			resumed++
		}
	}
	if resumed < connections*95/100 {
		t.Errorf("%d of %d sessions were resumed", resumed, connections)
	}
	// A ticket whose key was removed is useless.
	for range 3 {
		if err := keys.Rotate(); err != nil {
			t.Fatal(err)
		}
	}
	if connect() {
		t.Error("a session was resumed by a key that is forgotten")
	}
	t.Logf("%d of %d were resumed", resumed, connections)
}

// eachWorker spreads clients over all workers, has each send the same number of
// requests, and calls take for each response.
func (f *fleet) eachWorker(clients, requests int, path func(n int) string, take func(body string) error) (workers map[string]int) {
	f.t.Helper()
	var done sync.WaitGroup
	var mu sync.Mutex
	failed := make(chan error, clients)
	workers = make(map[string]int)
	for i := range clients {
		c := f.dial()
		workers[strings.Fields(c.get("/"))[0]]++
		done.Add(1)
		go func() {
			defer done.Done()
			for n := range requests {
				body, _, err := ask(c.c, c.r, path(i*requests+n))
				mu.Lock()
				if err == nil {
					err = take(body)
				}
				mu.Unlock()
				if err != nil {
					failed <- fmt.Errorf("%v: %w", c.c.LocalAddr(), err)
					return
				}
			}
		}()
	}
	done.Wait()
	close(failed)
	for err := range failed {
		f.t.Error(err)
	}
	return workers
}
