package tcp_test

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice/tcp"
)

// TestBroadcast: messages of one goroutine arrive in order, however they are sent, and
// nothing is cut.
func TestBroadcast(t *testing.T) {
	conns, messages := 300, 50
	if testing.Short() {
		conns = 60
	}
	eachFixture(t, func(t *testing.T, f fixture) {
		opened := make(chan *tcp.Sender, conns)
		s := f.start(t, senderServer(opened))
		var clients []*client
		var senders []*tcp.Sender
		for range conns {
			clients = append(clients, s.connect(t))
			senders = append(senders, <-opened)
		}
		var all sync.WaitGroup
		all.Go(func() {
			for i := range messages {
				if i%10 == 7 { // a message that waits is not overtaken
					for _, out := range senders[:20] {
						if err := out.TrySend([]byte("some\n")); err != nil {
							t.Error(err)
						}
					}
				}
				if n := tcp.Broadcast(senders, fmt.Appendf(nil, "%d %s\n", i, strings.Repeat("x", i))); n != conns {
					t.Errorf("message %d went to %d", i, n)
				}
			}
		})
		for i, c := range clients {
			want := ""
			for m := range messages {
				if m%10 == 7 && i < 20 {
					want += "some\n"
				}
				want += fmt.Sprintf("%d %s\n", m, strings.Repeat("x", m))
			}
			c.expect(t, want)
		}
		all.Wait()
		clients[0].ask(t, "hi\n", "2:hi\n") // handlers go on
		clients[1].Close()
		<-senders[1].Done()
		if n := tcp.Broadcast(senders[:3], []byte("bye\n")); n != 2 {
			t.Errorf("after an end a message went to %d", n)
		}
		clients[0].expect(t, "bye\n")
		clients[2].expect(t, "bye\n")
	})
}

// TestBroadcastToSlow: at most MaxPending bytes wait for a client that does not read.
func TestBroadcastToSlow(t *testing.T) {
	eachEngine(t, func(t *testing.T, f fixture) {
		opened := make(chan *tcp.Sender, 2)
		s := f.start(t, senderServer(opened))
		s.connect(t) // does not read
		slowSender := <-opened
		quick := s.connect(t)
		quickSender := <-opened
		message := []byte(strings.Repeat("x", 32<<10))
		reached := 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			buffer := make([]byte, len(message))
			for range 1000 {
				if _, err := io.ReadFull(quick, buffer); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		for range 1000 {
			for tcp.Broadcast([]*tcp.Sender{quickSender}, message) == 0 {
				runtime.Gosched()
			}
			reached += tcp.Broadcast([]*tcp.Sender{slowSender}, message)
		}
		<-done
		if reached == 1000 || reached == 0 {
			t.Errorf("%d messages were accepted for a client that does not read", reached)
		}
	})
}

func TestBroadcastAllocations(t *testing.T) {
	f := fixture{tcp.EngineEpoll, networks(t)[0]}
	const conns = 300
	opened := make(chan *tcp.Sender, conns)
	s := f.start(t, senderServer(opened))
	var clients []*client
	var senders []*tcp.Sender
	for range conns {
		clients = append(clients, s.connect(t))
		senders = append(senders, <-opened)
	}
	message := []byte("hello\n")
	send := func() {
		if n := tcp.Broadcast(senders, message); n != conns {
			t.Errorf("the message went to %d", n)
		}
		for _, c := range clients {
			c.expect(t, "hello\n")
		}
	}
	send()
	reading := testing.AllocsPerRun(20, func() {
		for i, c := range clients {
			if err := senders[i].TrySend(message); err != nil {
				t.Error(err)
			}
			c.expect(t, "hello\n")
		}
	})
	if got := testing.AllocsPerRun(20, send); got > reading+conns/10 {
		t.Errorf("%v allocations, with %v for the test itself", got, reading)
	}
}
