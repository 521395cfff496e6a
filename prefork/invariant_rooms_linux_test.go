package prefork

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/sse"
)

// hearUntil returns the messages of a round up to one. Those of earlier rounds may come late: a
// worker that has missed some gets them from the others.
func (m *roomMember) hearUntil(t *testing.T, round, last string) (all []string) {
	t.Helper()
	for {
		message, isOfRound := strings.CutPrefix(m.hear(t), round+" ")
		if isOfRound && message == last {
			return append(all, message)
		}
		if isOfRound {
			all = append(all, message)
		}
	}
}

// A worker is killed as soon as a member of it has got a message that another one has sent,
// again and again. The members of the others get the message once, or their processes are told
// of a gap, and its successor is. Members of the dead worker are told by the end of their
// connections, and are new ones when they come back.
func TestBroadcastThenKill(t *testing.T) {
	for name, history := range map[string]int{"without a history": 0, "with a history": 1000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const kills = 5
			f := start(t, setup{Workers: 3, Threshold: 2 * kills, Rooms: true, History: history}, true)
			lost := 0
			for n := range kills {
				lost += f.broadcastThenKill(fmt.Sprint("round ", n), time.Duration(n)*2*time.Millisecond, history > 0)
			}
			t.Logf("%d of %d were lost", lost, kills*4)
		})
	}
}

// broadcastThenKill returns how many members of the workers that live have not got the message.
func (f *fleet) broadcastThenKill(round string, pause time.Duration, hasHistory bool) (lost int) {
	t := f.t
	t.Helper()
	all := f.members(3, 2)
	gaps := f.count("gap ")
	say := func(m *roomMember, text string) {
		if err := m.write(round + " " + text); err != nil {
			t.Fatal(err)
		}
	}
	say(all[0], "last")
	all[0].hearUntil(t, round, "last")
	time.Sleep(pause) // before or after it was sent to the others
	pid, _ := strconv.Atoi(all[0].pid)
	nettest.Signal(t, pid, syscall.SIGKILL)
	until(t, "the others and the successor are told", func() bool { return f.count("gap ") >= gaps+3 })
	back := f.member()
	var staying []*roomMember
	for _, m := range all {
		if m.pid != all[0].pid {
			staying = append(staying, m)
		} else if err := m.toldToEnd(); err != nil {
			t.Error(err)
		}
	}
	say(staying[0], "later")
	for _, m := range append(staying, back) {
		heard := m.hearUntil(t, round, "later")
		end := "end " + m.LocalAddr().String()
		say(staying[0], end)
		heard = append(heard, m.hearUntil(t, round, end)...)
		heard = slices.DeleteFunc(heard, func(s string) bool { return strings.HasPrefix(s, "end ") })
		slices.Sort(heard)
		hasAll := slices.Equal(heard, []string{"last", "later"})
		if !hasAll && !slices.Equal(heard, []string{"later"}) {
			t.Errorf("a member got %q", heard)
		}
		switch {
		case m != back && !hasAll:
			lost++
		case m == back && hasAll && !hasHistory: // with one, its worker may get the message from another one only now
			t.Error("one that came back got a message from before")
		}
	}
	for _, m := range append(staying, back) {
		m.Close()
	}
	return lost
}

// toldToEnd returns nil if the connection ends.
func (m *roomMember) toldToEnd() error {
	_ = m.SetDeadline(time.Now().Add(patience))
	for {
		if _, err := m.read(); err != nil {
			if err, isTimeout := err.(net.Error); isTimeout && err.Timeout() {
				return err
			}
			return nil
		}
	}
}

// Members over TLS cannot move: each is told by a close with 1012, and comes back.
func TestRoomsOverTLS(t *testing.T) {
	t.Parallel()
	const workers = 2
	f := start(t, setup{Workers: workers, Rooms: true, History: 1000, TLS: true, Linger: 3 * time.Second, Drain: 8 * time.Second}, true)
	connect := func() (all []*roomMember) {
		for range 12 {
			conn, err := tls.Dial("tcp4", f.addr(0), &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, newMember(t, f.upgrade(conn, "/room")))
		}
		return all
	}
	all := connect()
	f.replace(workers)
	for i, m := range all {
		var head [4]byte // the code is in the last two bytes
		if _, err := io.ReadFull(m.in, head[:]); err != nil || head[0] != 0x88 || int(head[2])<<8|int(head[3]) != 1012 {
			t.Errorf("member %d: %x, %v", i, head, err)
		}
	}
	again := connect()
	if err := again[0].write("hello"); err != nil {
		t.Fatal(err)
	}
	for i, m := range again {
		if got := m.hear(t); got != "hello" {
			t.Errorf("member %d: %q", i, got)
		}
	}
}

// The history ends with the last process that has it. A client that comes back is told.
func TestHistoryOfDeadFleet(t *testing.T) {
	t.Parallel()
	f := start(t, setup{Workers: 2, Threshold: 10, Streams: true}, true)
	s, p := f.source("idle", false), f.publisher(false)
	s.receive(t, p, 3)
	p.publish(t, "idle", 2)
	for _, pid := range f.pids() {
		nettest.Freeze(t, pid) // none gets it from another one
	}
	for _, pid := range f.pids() {
		nettest.Signal(t, pid, syscall.SIGKILL)
	}
	until(t, "there are successors", func() bool { return f.count(": ready after ") == 4 })
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	defer s.end()
	if e, err := s.next(); err != nil || e.Name != sse.GapEvent {
		t.Errorf("%q %q, %v", e.Name, e.Data, err)
	}
}
