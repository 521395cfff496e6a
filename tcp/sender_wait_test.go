package tcp

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
)

// waitingSender returns a full Sender of 10 bytes.
func waitingSender(t *testing.T) (*Sender, *fakeConn) {
	t.Helper()
	s, conn, _ := open(t, &Server{Handler: echoHandler, MaxPending: 10})
	out := (*Conn)(s).Sender()
	if err := out.Send([]byte("0123456789")); err != nil {
		t.Fatal(err)
	}
	if err := out.TrySend([]byte("x")); err != ErrFull {
		t.Fatalf("TrySend returned %v, want ErrFull", err)
	}
	return out, conn
}

// offer lets a message wait.
func offer(t *testing.T, out *Sender, message string) *delivery {
	t.Helper()
	d, _ := out.offer([]byte(message), true)
	if d == nil {
		t.Fatalf("%q does not wait", message)
	}
	return d
}

// TestAcceptedIsNotAwaited: who makes room does not wait for those that it lets
// in. A SendContext that gives up at this moment would wait for the Sender, and
// the Sender for it.
func TestAcceptedIsNotAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, conn := waitingSender(t)
		d := offer(t, out, "later")
		text, isClosing := out.drain(nil)
		if string(text) != "0123456789" || isClosing {
			t.Errorf("drained %q, closing %v", text, isClosing)
		}
		if out.withdraw(d) {
			t.Error("what was accepted is withdrawn")
		}
		if err := <-d.accepted; err != nil {
			t.Errorf("accepted with %v", err)
		}
		if conn.prompts != 2 {
			t.Errorf("%d prompts, want one for each of two drains", conn.prompts)
		}
		if text, _ := out.drain(nil); string(text) != "later" {
			t.Errorf("drained %q", text)
		}
		if conn.prompts != 2 {
			t.Errorf("%d prompts, the last for nothing", conn.prompts)
		}
	})
}

// TestRefusedIsNotAwaited is TestAcceptedIsNotAwaited for the end.
func TestRefusedIsNotAwaited(t *testing.T) {
	for name, end := range map[string]func(*Sender){
		"end":   func(out *Sender) { out.end(nil) },
		"Close": func(out *Sender) { _ = out.Close() },
	} {
		synctest.Test(t, func(t *testing.T) {
			out, _ := waitingSender(t)
			one, two := offer(t, out, "one"), offer(t, out, "two")
			end(out)
			for _, d := range []*delivery{one, two} {
				if err := <-d.accepted; err != ErrClosed {
					t.Errorf("%s: a waiting message got %v, want ErrClosed", name, err)
				}
			}
			if err := out.TrySend([]byte("x")); err != ErrClosed {
				t.Errorf("%s: TrySend returned %v", name, err)
			}
			text, _ := out.drain(nil)
			if text, _ = out.drain(text); len(text) > len("0123456789") {
				t.Errorf("%s: what was refused is sent: %q", name, text)
			}
		})
	}
}

// TestWaitingInOrder: small messages do not overtake a large one. They are accepted
// when the large one gives up.
func TestWaitingInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, _ := waitingSender(t)
		if text, _ := out.drain(nil); string(text) != "0123456789" {
			t.Fatalf("drained %q", text)
		}
		if err := out.Send([]byte("first")); err != nil {
			t.Fatal(err)
		}
		large, small, exact := offer(t, out, "too large"), offer(t, out, "ab"), offer(t, out, "cde")
		after := offer(t, out, "f")
		if !out.withdraw(large) {
			t.Error("what waits cannot be withdrawn")
		}
		for _, d := range []*delivery{small, exact} {
			select {
			case err := <-d.accepted:
				if err != nil {
					t.Error(err)
				}
			default:
				t.Errorf("%q still waits", d.message)
			}
		}
		if !slices.Equal(out.waiting, []*delivery{after}) {
			t.Errorf("%d messages wait, want the last", len(out.waiting))
		}
		if text, _ := out.drain(nil); string(text) != "firstabcde" {
			t.Errorf("drained %q", text)
		}
		if text, _ := out.drain(nil); string(text) != "f" {
			t.Errorf("drained %q", text)
		}
	})
}

// TestSendContextGivesUp: before it waits, and during the wait.
func TestSendContextGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, _ := waitingSender(t)
		ctx, cancel := context.WithCancel(context.Background())
		given := make(chan error, 1)
		go func() { given <- out.SendContext(ctx, []byte("never")) }()
		synctest.Wait()
		cancel()
		if err := <-given; err != context.Canceled {
			t.Errorf("SendContext returned %v", err)
		}
		out.drain(nil)
		if err := out.SendContext(ctx, []byte("x")); err != context.Canceled {
			t.Errorf("SendContext of a context that has ended returned %v", err)
		}
		if text, _ := out.drain(nil); len(text) != 0 {
			t.Errorf("%q was sent", text)
		}
	})
}

// TestSenderDone: the channel is closed at the connection's end, even if it was
// requested later, and not by Close.
func TestSenderDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, isAsked := range []bool{true, false} {
			out, conn := waitingSender(t)
			if isAsked {
				out.Done()
			}
			if err := out.Close(); err != nil {
				t.Error(err)
			}
			if conn.prompts != 2 {
				t.Errorf("%d prompts, want one for the message and one for the end", conn.prompts)
			}
			if isAsked {
				select {
				case <-out.Done():
					t.Error("done before the connection has ended")
				default:
				}
			}
			if text, isClosing := out.drain(nil); !isClosing || len(text) != 10 {
				t.Errorf("drained %q, closing %v", text, isClosing)
			}
			out.end(nil)
			out.end(nil) // as Closed does after a callback that ended the connection
			<-out.Done()
			if err := out.Close(); err != ErrClosed {
				t.Errorf("Close after the end returned %v", err)
			}
		}
	})
}
