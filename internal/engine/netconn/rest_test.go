package netconn

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// A readCounter counts the calls of Read.
type readCounter struct {
	net.Conn
	reads atomic.Int32
}

func (c *readCounter) Read(p []byte) (int, error) {
	c.reads.Add(1)
	return c.Conn.Read(p)
}

// serveResting serves one end of a pipe as if it were a socket, whose goroutine may rest. It
// returns the other end.
func serveResting(t *testing.T, a engine.Acceptor) (client net.Conn, served *readCounter) {
	d := New(engine.Options{}).(*driver)
	client, served = d.serveResting(a)
	t.Cleanup(func() {
		_ = client.Close()
		if err := d.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return client, served
}

func (d *driver) serveResting(a engine.Acceptor) (client net.Conn, served *readCounter) {
	client, server := net.Pipe()
	served = &readCounter{Conn: server}
	c := d.newConn(served, a, &engine.Hooks{})
	c.kind, c.isOurs = kindSocket, true
	c.register()
	go c.run()
	return client, served
}

// answerOf sends a byte and gets the answer.
func answerOf(t *testing.T, client net.Conn) (answer byte) {
	t.Helper()
	one := []byte{'?'}
	if _, err := client.Write(one); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Read(one); err != nil {
		t.Fatal(err)
	}
	return one[0]
}

// TestRestIsQuiet: a connection that rests is not woken before its peer sends something, or
// its time is over.
func TestRestIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, served := serveResting(t, &lineProtocol{})
		for range 3 {
			answerOf(t, client)
			time.Sleep(time.Minute)
			before := served.reads.Load()
			time.Sleep(time.Hour)
			if woken := served.reads.Load() - before; woken > 0 {
				t.Errorf("it was woken %d times within an hour", woken)
			}
		}
	})
}

// A napper is a Protocol that sleeps, and answers with the number of its requests. It is its
// own Acceptor.
type napper struct {
	lineProtocol
	log   *naps
	conn  engine.Conn
	count uint64
}

// naps counts what happens to the nappers of a connection.
type naps struct {
	slept, woken atomic.Int32
	stays        atomic.Bool // the nappers do not want to sleep
	ended        []error
	prompter     engine.Prompter
}

func (n *napper) Capabilities() engine.Capabilities { return engine.CanSleep | engine.CanPrompt }

func (n *napper) Open(c engine.Conn) (engine.Protocol, []byte) {
	n.log.prompter = c.Prompter()
	return &napper{log: n.log, conn: c}, nil
}

func (n *napper) Run(out []byte) ([]byte, engine.Next) {
	n.count++
	n.conn.SetReadDeadline(clock.Nanos(), time.Hour)
	return append(out, byte('0'+n.count)), engine.Read
}

func (n *napper) Sleep() (engine.Memo, bool) {
	if n.log.stays.Load() {
		return engine.Memo{}, false
	}
	n.log.slept.Add(1)
	return engine.Memo{ID: n.count, Served: 7, Opened: 9}, true
}

func (n *napper) Wake(c engine.Conn, m engine.Memo) engine.Protocol {
	n.log.woken.Add(1)
	if m.Served != 7 || m.Opened != 9 {
		panic("another memo")
	}
	return &napper{log: n.log, conn: c, count: m.ID}
}

func (n *napper) Prompted(out []byte) ([]byte, engine.Next) {
	return append(out, 'p'), engine.Read
}

func (n *napper) TimedOut(out []byte) ([]byte, engine.Next) {
	return append(out, 't'), engine.Read
}

func (n *napper) Closed(err error) { n.log.ended = append(n.log.ended, err) }

// doze lets time pass.
func doze(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestRestSleeps: the protocol of a connection that rests sleeps, until there is input, a
// prompt, or its deadline passes.
func TestRestSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &naps{}
		client, _ := serveResting(t, &napper{log: log})
		rests := func(times int32) {
			t.Helper()
			doze(time.Minute)
			if log.slept.Load() != times || log.woken.Load() != times-1 {
				t.Errorf("slept %d times and woke %d times, want %d and %d", log.slept.Load(), log.woken.Load(), times, times-1)
			}
		}
		expect := func(want, got byte) {
			t.Helper()
			if got != want {
				t.Fatalf("got %c, want %c", got, want)
			}
		}
		read := func() byte {
			one := make([]byte, 1)
			_, _ = client.Read(one)
			return one[0]
		}
		expect('1', answerOf(t, client))
		expect('2', answerOf(t, client))
		rests(1)
		expect('3', answerOf(t, client))
		rests(2)
		log.prompter.Prompt()
		expect('p', read())
		rests(3)
		doze(time.Hour)
		expect('t', read())
		rests(4)
		log.stays.Store(true)
		expect('4', answerOf(t, client))
		doze(time.Minute)
		log.stays.Store(false)
		expect('5', answerOf(t, client))
		synctest.Wait()
		if log.slept.Load() != 4 || log.woken.Load() != 4 {
			t.Errorf("slept %d times and woke %d times although it did not want to", log.slept.Load(), log.woken.Load())
		}
		doze(time.Minute)
		_ = client.Close()
		synctest.Wait()
		if len(log.ended) != 1 || log.ended[0] != nil {
			t.Errorf("ended with %v", log.ended)
		}
	})
}

// TestRestEnds: a protocol that sleeps is woken when its connection ends.
func TestRestEnds(t *testing.T) {
	for name, end := range map[string]func(d *driver, stop context.Context){
		"Shutdown":                      func(d *driver, _ context.Context) { _ = d.Shutdown(context.Background()) },
		"a Shutdown that is in a hurry": func(d *driver, stop context.Context) { _ = d.Shutdown(stop) },
		"DetachIdle": func(d *driver, _ context.Context) {
			d.DetachIdle(1, func(c net.Conn, _ engine.Parcel) { _ = c.Close() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stop, cancel := context.WithCancel(t.Context())
				cancel()
				log, d := &naps{}, New(engine.Options{}).(*driver)
				client, _ := d.serveResting(&napper{log: log})
				answerOf(t, client)
				doze(time.Minute)
				end(d, stop)
				synctest.Wait()
				if log.slept.Load() != 1 || log.woken.Load() != 1 || len(log.ended) != 1 {
					t.Errorf("slept %d times, woke %d times, and ended with %v", log.slept.Load(), log.woken.Load(), log.ended)
				}
				_ = client.Close()
				_ = d.Shutdown(context.Background())
			})
		})
	}
}
