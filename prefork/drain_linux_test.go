package prefork

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/process/supervise"
	"github.com/sluicehttp/sluice/shared"
)

// openConns returns connections that this process has accepted, a worker that listens for
// them, and the clients.
func openConns(t *testing.T, n int) (w *worker, conns, clients []net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	for range n {
		client, err := net.Dial("tcp4", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conns, clients = append(conns, conn), append(clients, client)
	}
	return &worker{prefork: &Prefork{Logger: newTestLogger(t)}, addrs: []net.Addr{ln.Addr()}}, conns, clients
}

// Connections that no server owns are waited for and counted: those that ended, and
// those that were open at the deadline.
func TestOtherConnectionsAreCounted(t *testing.T) {
	for _, ends := range []bool{true, false} {
		w, conns, _ := openConns(t, 3)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan supervise.DrainStats)
		go func() {
			stats := supervise.DrainStats{Finished: 10} // from the server
			w.finishOthers(ctx, &stats)
			done <- stats
		}()
		until(t, "it waits", func() bool {
			stacks := make([]byte, 1<<20)
			return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "prefork.poll(")
		})
		want := supervise.DrainStats{Finished: 10, Cut: 3}
		if ends {
			want = supervise.DrainStats{Finished: 13}
			for _, conn := range conns {
				conn.Close()
			}
		} else {
			cancel()
		}
		if stats := <-done; stats != want {
			t.Errorf("they end: %v: %+v, want %+v", ends, stats, want)
		}
	}
	w, _, _ := openConns(t, 1)
	stats := supervise.DrainStats{Cut: 1}
	if w.finishOthers(t.Context(), &stats); stats != (supervise.DrainStats{Cut: 1}) {
		t.Errorf("after the time was over: %+v", stats)
	}
}

// A worker ends when serving one of its own listeners ends, unless it closed the
// listener itself. For listeners of other slots this is only logged.
func TestServingEnds(t *testing.T) {
	listener := func() net.Listener {
		ln, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		return ln
	}
	isClosed := func(ln net.Listener) bool { return ln.Close() != nil }
	bad := errors.New("bad")
	own, second, adopted, released := listener(), listener(), listener(), listener()
	log := &lines{}
	w := &worker{
		prefork: &Prefork{Logger: log}, link: &supervise.Worker{}, own: []net.Listener{own, second},
		adopted: map[int][]net.Listener{3: {adopted}}, released: map[net.Listener]bool{released: true},
	}
	if isOver, err := w.served(result{released, bad}); isOver || err != nil || w.released[released] {
		t.Errorf("one that was closed: %v, %v", isOver, err)
	}
	w.prefork.logger().Flush()
	if len(log.all) > 0 {
		t.Errorf("log: %q", log.all)
	}
	if isOver, err := w.served(result{adopted, bad}); isOver || err != nil {
		t.Errorf("another slot's: %v, %v", isOver, err)
	}
	w.prefork.logger().Flush()
	if len(log.all) != 1 || !strings.Contains(log.all[0], "another slot is not served any more: bad") {
		t.Errorf("log: %q", log.all)
	}
	if isOver, err := w.served(result{second, bad}); !isOver || err != bad {
		t.Errorf("its own: %v, %v", isOver, err)
	}
	if !isClosed(own) || !isClosed(adopted) || len(w.adopted) > 0 || len(w.released) != 3 {
		t.Errorf("it still listens: %v, %v", w.adopted, w.released)
	}
	w.stopAccepting() // which closes nothing twice
	for _, ln := range []net.Listener{own, second, adopted} {
		if isOver, err := w.served(result{ln, bad}); isOver || err != nil {
			t.Errorf("one that it has closed: %v, %v", isOver, err)
		}
	}
	w.prefork.logger().Flush()
	if len(log.all) != 1 {
		t.Errorf("log: %q", log.all)
	}
}

// logLine is a Logger that sends lines to a channel.
type logLine chan string

func (l logLine) Printf(format string, args ...any) { l <- fmt.Sprintf(format, args...) }

// An error of the user's Drain is only logged.
func TestErrorsOfDrain(t *testing.T) {
	log := make(logLine, 2)
	failure := errors.New("busy")
	w := &worker{link: &supervise.Worker{}, prefork: &Prefork{Logger: log}}
	for _, err := range []error{nil, failure} {
		w.prefork.Drain = func(context.Context) error { return err }
		w.finishOthers(t.Context(), &supervise.DrainStats{})
	}
	if line := <-log; !strings.Contains(line, "Drain: busy") {
		t.Errorf("logged %q", line)
	}
}

func TestParcel(t *testing.T) {
	for _, p := range []sluice.Parcel{{}, {Leftover: []byte("GET / HT")}, {State: []byte("state")}, {State: []byte("s"), Leftover: []byte("rest")}, {State: []byte("s"), TLS: []byte("keys"), Leftover: []byte("rest")}, {Proxy: []byte("from")}, {State: []byte("s"), TLS: []byte("keys"), Proxy: []byte("from"), Leftover: []byte("rest")}} {
		for _, l := range []label{{}, {announcedTo: 1234}, {1234, 1 << 22, 1<<32 - 1, 31}} {
			checkParcel(t, l, p)
		}
	}
}

func checkParcel(t *testing.T, l label, p sluice.Parcel) {
	t.Helper()
	parcel := appendParcel(nil, l, p)
	to, got, ok := parseParcel(parcel)
	if !ok || to != l || string(got.State) != string(p.State) || string(got.TLS) != string(p.TLS) || string(got.Proxy) != string(p.Proxy) || string(got.Leftover) != string(p.Leftover) {
		t.Errorf("%q became %q of %v, %t", p, got, to, ok)
	}
	for size := range len(parcel) - len(p.Leftover) {
		if _, _, ok := parseParcel(parcel[:size]); ok {
			t.Errorf("%q of %v: %d bytes are enough", p, l, size)
		}
	}
	for room := range parcel {
		small := make([]byte, room)
		if appendParcel(small[:0], l, p); bytes.Contains(small, []byte("keys")) {
			t.Errorf("%q of %v: a copy of the keys is left in %d bytes", p, l, room)
		}
	}
}

// Connections that cannot be adopted are closed, and this is logged.
func TestBadConnsOfOthers(t *testing.T) {
	log := make(logLine, 2)
	b, _ := boardWith(t)
	w := &worker{link: &supervise.Worker{}, prefork: &Prefork{Logger: log, server: &sluice.Server{}}, board: b}
	for parcel, want := range map[string]string{"abc": "damaged parcel", "\x00\x00\x00\x80\x05\x00\x00\x00four": "damaged parcel", "\x00\x00\x00\x00rest": "is lost: "} {
		file, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		w.adoptConn(fd, []byte(parcel))
		if line := <-log; !strings.Contains(line, want) {
			t.Errorf("%q: logged %q", parcel, line)
		}
		if err := unix.Close(fd); err != unix.EBADF {
			t.Errorf("%q: the connection is open", parcel)
			unix.Close(fd)
		}
	}
	if len(log) > 0 {
		t.Errorf("logged %q, too", <-log)
	}
}

// A connection that another worker has sent is served, from what that one has read of it.
func TestConnsOfOthers(t *testing.T) {
	_, conns, clients := openConns(t, 1)
	fd, err := takeDescriptor(t, conns[0])
	if err != nil {
		t.Fatal(err)
	}
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.SetBody(ctx.Path()) }}
	defer s.Shutdown()
	b, _ := boardWith(t)
	b.page.Set(shared.Inbound, 5)
	w := &worker{link: newFakeLink(), prefork: &Prefork{Logger: newTestLogger(t), server: s}, board: b}
	w.adoptConn(fd, appendParcel(nil, label{announcedTo: b.page.PID()}, sluice.Parcel{Leftover: []byte("GET /here HTTP/1.1\r\nHo")}))
	clients[0].SetDeadline(time.Now().Add(patience))
	io.WriteString(clients[0], "st: x\r\n\r\n")
	if body, closes, err := answer(bufio.NewReader(clients[0])); body != "/here" || closes || err != nil {
		t.Errorf("%q, closes %v, %v", body, closes, err)
	}
	if n := b.page.Get(shared.Inbound); n != 4 {
		t.Errorf("%d are on their way", n)
	}
}

// takeDescriptor duplicates the descriptor of a connection, which it closes.
func takeDescriptor(t *testing.T, c net.Conn) (fd int, err error) {
	t.Helper()
	f, err := c.(*net.TCPConn).File()
	if err != nil {
		return -1, err
	}
	defer f.Close()
	c.Close()
	if fd, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0); err == nil {
		err = unix.SetNonblock(fd, true)
	}
	return fd, err
}

// Only connections with a descriptor can be sent.
func TestWhatCannotBePosted(t *testing.T) {
	memory, other := net.Pipe()
	other.Close()
	_, conns, _ := openConns(t, 1)
	conns[0].Close()
	l := newFakeLink()
	l.post = func(int, int, []byte, time.Duration) error { return nil }
	w := &worker{link: l}
	for _, c := range []net.Conn{memory, conns[0], brokenConn{memory}} {
		if w.postTo(1, c, label{}, sluice.Parcel{}, 0) {
			t.Errorf("%T was sent", c)
		}
	}
}

// A brokenConn has no descriptor, although it seems so.
type brokenConn struct{ net.Conn }

func (brokenConn) SyscallConn() (syscall.RawConn, error) { return nil, errors.ErrUnsupported }

// A worker without inboxes to post to does not try.
func TestNobodyToHandOverTo(t *testing.T) {
	_, conns, _ := openConns(t, 1)
	s := &sluice.Server{Handler: func(*sluice.RequestCtx) {}}
	defer s.Shutdown()
	if err := s.Control().AdoptConn(conns[0], sluice.Parcel{}); err != nil {
		t.Fatal(err)
	}
	w := &worker{link: &supervise.Worker{}, prefork: &Prefork{Logger: make(logLine, 100), server: s}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if n := w.handOver(ctx); n != 0 || ctx.Err() != nil {
		t.Errorf("%d were handed over, %v", n, ctx.Err())
	}
}
