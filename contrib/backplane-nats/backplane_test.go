package natsbackplane

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/sluicehttp/sluice/backplane"
	"github.com/sluicehttp/sluice/backplane/backplanetest"
	"github.com/sluicehttp/sluice/internal/process/relay"
	"github.com/sluicehttp/sluice/internal/process/relay/relaytest"
)

// start starts a server in this process; port -1: any.
func start(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	o.Host, o.NoLog, o.NoSigs = "127.0.0.1", true, true
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server is not ready")
	}
	return s
}

func connect(t *testing.T, s *server.Server) *nats.Conn {
	t.Helper()
	c, err := nats.Connect(s.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func open(t *testing.T, s *server.Server, n int, o Options) (all []backplane.Backplane) {
	t.Helper()
	for range n {
		b, err := New(connect(t, s), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		all = append(all, b)
	}
	return all
}

func TestBackplane(t *testing.T) {
	s, groups := start(t, server.Options{Port: -1}), 0
	backplanetest.Test(t, func(t *testing.T, n int) []backplane.Backplane {
		groups++
		return open(t, s, n, Options{Prefix: fmt.Sprint("group.", groups), OnError: func(err error) { t.Error(err) }})
	})
}

// TestRestart: the server ends, and another one with its port is started.
func TestRestart(t *testing.T) {
	s, errs := start(t, server.Options{Port: -1}), make(chan error, 1)
	_, port, _ := strings.Cut(s.Addr().String(), ":")
	var o server.Options
	if _, err := fmt.Sscan(port, &o.Port); err != nil {
		t.Fatal(err)
	}
	backplanetest.Restart(t, func(t *testing.T, n int) []backplane.Backplane {
		return open(t, s, n, Options{OnError: func(err error) {
			select {
			case errs <- err:
			default:
			}
		}})
	}, func() { s.Shutdown(); s.WaitForShutdown(); t.Log(<-errs) }, func() { start(t, o) })
}

// TestHubs: WebSockets of two hubs are in one room.
func TestHubs(t *testing.T) {
	relaytest.Hubs(t, open(t, start(t, server.Options{Port: -1}), 2, Options{}))
}

func TestHistory(t *testing.T) {
	relaytest.History(t, open(t, start(t, server.Options{Port: -1}), 3, Options{OnError: func(err error) { t.Error(err) }}))
}

// TestClosed: a connection that the client has given up is reported.
func TestClosed(t *testing.T) {
	conn, errs := connect(t, start(t, server.Options{Port: -1})), make(chan error, 10)
	b, err := New(conn, Options{OnError: func(err error) { errs <- err }})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Subscribe(counter(nil)); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	for _, do := range []func() error{
		func() error { return nil },
		func() error { return b.Join("r") },
		func() error { return b.Publish("r", nil) },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if err := <-errs; !strings.Contains(err.Error(), nats.ErrConnectionClosed.Error()) {
			t.Error(err)
		}
	}
}

// TestInboxFull: when the client may have dropped messages, the hub is told of a gap.
func TestInboxFull(t *testing.T) {
	s := start(t, server.Options{Port: -1})
	for _, waiting := range []int{inboxSize - 1, inboxSize} {
		b := open(t, s, 1, Options{})[0].(*Backplane)
		for range waiting {
			b.link.inbox <- &nats.Msg{Subject: b.link.subjectOf("r"), Data: make([]byte, relay.Overhead)}
		}
		all := make(counter, waiting+1)
		if err := b.Subscribe(all); err != nil {
			t.Fatal(err)
		}
		gaps := 0
		for got := 0; got < waiting; {
			if <-all == "gap of " {
				gaps++
			} else {
				got++
			}
		}
		if isFull := waiting == inboxSize; (gaps == 1) != isFull {
			t.Errorf("%d gaps with %d messages", gaps, waiting)
		}
	}
}

// A counter is a Receiver.
type counter chan string

func (c counter) Received(room string, data []byte) { c <- room }
func (c counter) Gap(room string)                   { c <- "gap of " + room }

func TestNew(t *testing.T) {
	conn := connect(t, start(t, server.Options{Port: -1}))
	for _, prefix := range []string{".", "a.", ".a", "a..b", "*", ">", "a.*", "a b", "a\r\nb", "a\x00", strings.Repeat("x", maxPrefix+1)} {
		if _, err := New(conn, Options{Prefix: prefix}); err == nil {
			t.Errorf("prefix %q is accepted", prefix)
		}
	}
	small := connect(t, start(t, server.Options{Port: -1, MaxPayload: backplane.MaxData}))
	if _, err := New(small, Options{}); err == nil {
		t.Error("a small max_payload is accepted")
	}
}
