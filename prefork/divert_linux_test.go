package prefork

import (
	"bufio"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/shared"
)

// passing returns a worker that has passed connections on to a sibling, which has not
// answered. The clients are the other ends.
func passing(t *testing.T, n int) (w *worker, to *shared.Page, labels []label, clients []net.Conn) {
	t.Helper()
	w, conns, clients := openConns(t, n)
	b, pages := boardWith(t, sibling{state: shared.Ready})
	l := newFakeLink()
	l.post = func(_, _ int, parcel []byte, _ time.Duration) error {
		to, _, _ := parseParcel(parcel)
		labels = append(labels, to)
		return nil
	}
	w.link, w.board = l, b
	pages[0].Set(shared.Room, 1<<20)
	b.page.Set(shared.Accepted, 100)
	for _, c := range conns {
		fd, err := takeDescriptor(t, c)
		if err != nil {
			t.Fatal(err)
		}
		if !w.divert(fd) {
			t.Fatal("it is not passed on")
		}
		b.page.Add(shared.Done, 1) // as the server does
		closeSocket(fd)
	}
	return w, pages[0], labels, clients
}

// left returns how many connections are kept.
func (k *kept) left() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open
}

// isClosed reports whether no process has the other end of a connection.
func isClosed(t *testing.T, client net.Conn) bool {
	t.Helper()
	client.SetReadDeadline(time.Now().Add(patience))
	n, err := client.Read(make([]byte, 1))
	return n == 0 && err == io.EOF
}

// A connection that was passed on is kept until it is taken. One that is refused is served here.
func TestKeptUntilAnswered(t *testing.T) {
	w, _, labels, clients := passing(t, 2)
	s := &sluice.Server{HTTP2: sluice.HTTP2Config{Disable: true}, Handler: func(*sluice.RequestCtx) {}}
	defer s.Shutdown()
	w.prefork.server = s
	if n := w.kept.left(); n != 2 {
		t.Errorf("%d are kept", n)
	}
	for i, l := range labels {
		if !w.board.answer(l, i == 0) {
			t.Errorf("the answer to connection %d is not heard", i)
		}
	}
	until(t, "none is kept", func() bool { return w.kept.left() == 0 })
	if !isClosed(t, clients[0]) {
		t.Error("the one that was taken is open here, too")
	}
	clients[1].SetDeadline(time.Now().Add(patience))
	if _, closes, err := ask(clients[1], bufio.NewReader(clients[1]), "/"); closes || err != nil {
		t.Errorf("the one that was refused: closes %v, %v", closes, err)
	}
}

// While connections wait for an answer, those that were answered make room for others.
func TestPlacesOfKeptConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, to, labels, _ := passing(t, handOverBatch)
		_, conns, _ := openConns(t, 1)
		fd, err := takeDescriptor(t, conns[0])
		if err != nil {
			t.Fatal(err)
		}
		defer closeSocket(fd)
		w.board.page.Set(shared.Accepted, 1000)
		if w.divert(fd) || to.Get(shared.Inbound) != handOverBatch {
			t.Errorf("all places are in use: one more is passed on, or announced: %d", to.Get(shared.Inbound))
		}
		if !w.board.answer(labels[7], true) {
			t.Error("the answer is not heard")
		}
		time.Sleep(fullPause)
		synctest.Wait()
		if n := w.kept.left(); n != handOverBatch-1 || !w.divert(fd) || w.kept.left() != handOverBatch {
			t.Errorf("%d were kept, then %d", n, w.kept.left())
		}
		w.stopPassing(t.Context(), inboundPatience)
		if w.kept.left() != 0 || w.divert(fd) {
			t.Error("it does not stop")
		}
		time.Sleep(fullPause) // the goroutine that waits for answers ends
	})
}

// A connection without an answer is not kept for ever, although its receiver lives: another
// reader of the inbox may have taken it, and died.
func TestKeptConnectionIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, labels, clients := passing(t, 2)
		time.Sleep(keepLimit / 2)
		if !w.board.answer(labels[0], true) {
			t.Error("the answer is not heard")
		}
		time.Sleep(fullPause)
		synctest.Wait()
		if n := w.kept.left(); n != 1 {
			t.Errorf("%d are kept after one answer", n)
		}
		time.Sleep(keepLimit / 2)
		synctest.Wait()
		if n := w.kept.left(); n != 0 || !isClosed(t, clients[1]) {
			t.Errorf("%d are kept too long", n)
		}
	})
}

// A receiver that has died leaves the answer to the next reader of its inbox, for a while.
func TestReceiverOfKeptConnectionDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, to, labels, clients := passing(t, 2)
		to.Set(shared.ProcessState, uint64(shared.Stopped))
		time.Sleep(keepPatience / 2)
		if n := w.kept.left(); n != 2 {
			t.Errorf("%d are kept", n)
		}
		if !w.board.answer(labels[0], true) {
			t.Error("the answer is not heard")
		}
		time.Sleep(fullPause)
		synctest.Wait()
		if n := w.kept.left(); n != 1 {
			t.Errorf("%d are kept after one answer", n)
		}
		time.Sleep(keepPatience)
		synctest.Wait()
		for i, c := range clients {
			if w.kept.left() != 0 || !isClosed(t, c) {
				t.Errorf("connection %d is kept too long", i)
			}
		}
	})
}
