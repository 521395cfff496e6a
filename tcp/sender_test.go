package tcp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice/tcp"
)

// senderServer returns a Server whose Senders arrive in the channel.
func senderServer(opened chan<- *tcp.Sender) *tcp.Server {
	return &tcp.Server{
		Handler: lines,
		OnOpen: func(c *tcp.Conn) error {
			opened <- c.Sender()
			return nil
		},
	}
}

// TestSendConcurrently: several goroutines send while handlers reply. No message may
// be lost or cut, or overtake an earlier one of its sender.
func TestSendConcurrently(t *testing.T) {
	const senders, messages = 8, 300
	eachFixture(t, func(t *testing.T, f fixture) {
		opened := make(chan *tcp.Sender, 1)
		server := senderServer(opened)
		server.MaxPending = 100
		s := f.start(t, server)
		c := s.connect(t)
		out := <-opened
		var all sync.WaitGroup
		for sender := range senders {
			all.Go(func() {
				for i := range messages {
					text := fmt.Sprintf("%d %d %s\n", sender, i, strings.Repeat("x", i%60))
					if err := out.Send([]byte(text)); err != nil {
						t.Errorf("Send: %v", err)
						return
					}
				}
			})
		}
		all.Go(func() {
			for i := range messages {
				text := fmt.Sprintf("%d %d \n", senders, i)
				if _, err := c.Write([]byte(text)); err != nil {
					t.Errorf("Write: %v", err)
					return
				}
			}
		})
		expectInOrder(t, c, senders+1, messages)
		all.Wait()
	})
}

// expectInOrder reads the messages "sender number filling" of several senders, each
// numbered from 0.
func expectInOrder(t *testing.T, c *client, senders, messages int) {
	t.Helper()
	next := make([]int, senders)
	var text []byte
	buffer := make([]byte, 1000)
	for got := 0; got < senders*messages; {
		n, err := c.Read(buffer)
		if err != nil {
			t.Fatalf("after %d messages: %v", got, err)
		}
		text = append(text, buffer[:n]...)
		for {
			line, rest, isWhole := bytes.Cut(text, []byte("\n"))
			if !isWhole {
				break
			}
			if _, reply, isReply := strings.Cut(string(line), ":"); isReply {
				line = []byte(reply)
			}
			text = rest
			got++
			fields := strings.Fields(string(line) + " .")
			sender, _ := strconv.Atoi(fields[0])
			if fields[1] != strconv.Itoa(next[sender]) {
				t.Fatalf("sender %d: got %q, want number %d", sender, line, next[sender])
			}
			next[sender]++
		}
	}
}

// fill sends until the Sender of a peer that does not read is full.
func fill(t *testing.T, out *tcp.Sender, message []byte) (accepted int) {
	t.Helper()
	eventually(t, "ErrFull", func() bool {
		for {
			switch err := out.TrySend(message); err {
			case nil:
				accepted++
			case tcp.ErrFull:
				// The system's buffers may accept more in a moment.
				return accepted > 0 && !roomComes(out, message, &accepted)
			default:
				t.Fatalf("TrySend: %v", err)
			}
		}
	})
	return accepted
}

// roomComes gives the engine time to send what is pending.
func roomComes(out *tcp.Sender, message []byte, accepted *int) bool {
	for range 50 {
		switch err := out.TrySend(message); err {
		case nil:
			*accepted++
			return true
		case tcp.ErrFull:
		default:
			return false
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2e6)
		err := out.SendContext(ctx, message)
		cancel()
		if err == nil {
			*accepted++
			return true
		}
	}
	return false
}

// TestBackPressure: a peer that does not read for a while delays its senders.
func TestBackPressure(t *testing.T) {
	eachFixture(t, func(t *testing.T, f fixture) {
		opened := make(chan *tcp.Sender, 1)
		s := f.start(t, senderServer(opened))
		c := s.connect(t)
		out := <-opened
		message := bytes.Repeat([]byte("m"), 32<<10)
		accepted := fill(t, out, message)
		ctx, cancel := context.WithCancel(context.Background())
		waits := make(chan error, 2)
		go func() { waits <- out.SendContext(ctx, bytes.Repeat([]byte("g"), 70<<10)) }()
		cancel()
		if err := <-waits; err != context.Canceled {
			t.Fatalf("SendContext returned %v", err)
		}
		large := bytes.Repeat([]byte("L"), 300<<10) // larger than MaxPending
		go func() { waits <- out.Send(large) }()
		want := strings.Repeat(string(message), accepted) + string(large) + "end"
		go func() {
			if err := <-waits; err == nil {
				err = out.Send([]byte("end"))
				waits <- err
			}
		}()
		c.expect(t, want)
		if err := <-waits; err != nil {
			t.Error(err)
		}
		c.ask(t, "still\n", "5:still\n")
	})
}

// TestSendToTheGone: the peer disconnects while calls of Send wait.
func TestSendToTheGone(t *testing.T) {
	eachFixture(t, func(t *testing.T, f fixture) {
		opened := make(chan *tcp.Sender, 1)
		s := f.start(t, senderServer(opened))
		c := s.connect(t)
		out := <-opened
		done := out.Done()
		message := bytes.Repeat([]byte("m"), 32<<10)
		fill(t, out, message)
		waits := make(chan error, 3)
		for range cap(waits) {
			go func() {
				for {
					if err := out.Send(message); err != nil {
						waits <- err
						return
					}
				}
			}()
		}
		_ = c.Close()
		for range cap(waits) {
			if err := <-waits; err != tcp.ErrClosed {
				t.Errorf("Send to a closed connection returned %v", err)
			}
		}
		<-done
		<-out.Done()
		for _, err := range []error{out.Send(nil), out.TrySend(message), out.Close()} {
			if err != tcp.ErrClosed {
				t.Errorf("after the end: %v", err)
			}
		}
	})
}

func TestSenderClose(t *testing.T) {
	eachFixture(t, func(t *testing.T, f fixture) {
		opened, ended := make(chan *tcp.Sender, 1), make(ends, 1)
		server := senderServer(opened)
		server.OnClose = ended.onClose
		s := f.start(t, server)
		c := s.connect(t)
		out := <-opened
		if got, want := out.RemoteAddr().String(), c.LocalAddr().String(); f.network.name != "pipe" && got != want {
			t.Errorf("RemoteAddr is %v, want %v", got, want)
		}
		c.ask(t, "a\n", "1:a\n")
		if err := errors.Join(out.Send([]byte("good")), out.Send([]byte("bye")), out.Close()); err != nil {
			t.Fatal(err)
		}
		c.expectEnd(t, "goodbye")
		ended.expect(t, nil)
	})
}

// TestSendInCallbacks: TrySend works in callbacks, where Send could block.
func TestSendInCallbacks(t *testing.T) {
	eachFixture(t, func(t *testing.T, f fixture) {
		ended := make(chan error, 1)
		s := f.start(t, &tcp.Server{
			OnOpen: func(c *tcp.Conn) error {
				_, _ = c.WriteString("hello ")
				return c.Sender().TrySend([]byte("sent "))
			},
			Handler: func(c *tcp.Conn, in []byte) (int, error) {
				out := c.Sender()
				if out != c.Sender() {
					t.Error("Sender is another one each time")
				}
				_, _ = c.WriteString("reply ")
				return len(in), out.TrySend([]byte("after"))
			},
			OnClose: func(c *tcp.Conn, _ error) { ended <- c.Sender().TrySend([]byte("x")) },
		})
		c := s.connect(t)
		c.expect(t, "hello sent ")
		c.ask(t, "x", "reply after")
		_ = c.Close()
		if err := <-ended; err != tcp.ErrClosed {
			t.Errorf("TrySend in OnClose: %v", err)
		}
	})
}

// TestSendsBeforeTheEnd: accepted messages are written even if a callback ends the
// connection.
func TestSendsBeforeTheEnd(t *testing.T) {
	eachFixture(t, func(t *testing.T, f fixture) {
		s := f.start(t, &tcp.Server{Handler: func(c *tcp.Conn, in []byte) (int, error) {
			_, _ = c.WriteString("reply ")
			if err := c.Sender().TrySend([]byte("sent")); err != nil {
				return 0, err
			}
			return len(in), errors.New("made up")
		}})
		c := s.connect(t)
		c.send(t, "x")
		c.expectEnd(t, "reply sent")
	})
}
