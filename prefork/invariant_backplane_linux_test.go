package prefork

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/backplane"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/websocket"
	"github.com/sluicehttp/sluice/websocket/room"
)

var backplaneRestarts = flag.Int("backplane.restarts", 3, "how often TestBackplaneRestarts replaces the workers")

// withRooms serves /room: who opens it gets the process's id, and what the members of its
// room send, in all processes. Each process also checks what the others publish in turn.
func withRooms(p *Prefork, s *sluice.Server, history int, next sluice.RequestHandler) sluice.RequestHandler {
	hub, err := room.New(room.Options{Backplane: p.Backplane("rooms"), History: history, OnGap: func(name string) {
		fmt.Printf("gap %d %q\n", os.Getpid(), name)
	}})
	if err != nil {
		panic(err)
	}
	e := &websocket.Endpoint{
		Name: "member",
		OnOpen: func(c *websocket.Conn) error {
			if err := hub.Join(c, "room"); err != nil {
				return err
			}
			return c.Write(context.Background(), websocket.Text, fmt.Append(nil, os.Getpid()))
		},
		OnMessage: func(c *websocket.Conn, m websocket.Message) error {
			hub.Broadcast("room", websocket.Prepare(m.Kind, m.Data))
			return nil
		},
		OnMoved: func(c *websocket.Conn, rooms []string) error { return hub.Join(c, rooms[0]) },
	}
	if err := e.Register(s); err != nil {
		panic(err)
	}
	q := &sequence{plane: p.Backplane("sequence"), last: map[uint64]uint64{}}
	if err := q.plane.Subscribe(q); err != nil {
		panic(err)
	}
	_ = q.plane.Join("all")
	serve := p.ServeFunc
	p.ServeFunc = func(ln net.Listener) error {
		q.begin()
		return serve(ln)
	}
	return func(ctx *sluice.RequestCtx) {
		switch string(ctx.Path()) {
		case "/room":
			_ = e.Upgrade(ctx, nil)
		case "/flood": // publishes 50 MiB
			for range 100 {
				hub.Broadcast("room", websocket.Prepare(websocket.Binary, make([]byte, 500<<10)))
			}
			fmt.Fprint(ctx, os.Getpid())
		case "/sequence":
			fmt.Fprint(ctx, q.received.Load())
		default:
			next(ctx)
		}
	}
}

// A sequence publishes numbers and checks those of the other processes: none is missing
// that was published after this process began to serve, and none comes twice.
type sequence struct {
	plane    backplane.Backplane
	once     sync.Once
	received atomic.Int64

	mu    sync.Mutex
	began int64
	last  map[uint64]uint64 // by process
}

func (q *sequence) begin() {
	q.once.Do(func() {
		q.mu.Lock()
		q.began = time.Now().UnixNano()
		q.mu.Unlock()
		go func() {
			before := uint64(0) // when the last number was published
			for n := uint64(1); ; n++ {
				data := binary.LittleEndian.AppendUint64(nil, uint64(os.Getpid()))
				data = binary.LittleEndian.AppendUint64(data, n)
				data = binary.LittleEndian.AppendUint64(data, before)
				before = uint64(time.Now().UnixNano())
				_ = q.plane.Publish("all", data)
				time.Sleep(time.Duration(n%4) * 300 * time.Microsecond)
			}
		}()
	})
}

// Received implements backplane.Receiver.
func (q *sequence) Received(_ string, data []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	from, n, before := binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[8:]), binary.LittleEndian.Uint64(data[16:])
	switch last, isKnown := q.last[from]; {
	case isKnown && n != last+1:
		fmt.Printf("wrong: process %d got %d of %d after %d\n", os.Getpid(), n, from, last)
	case !isKnown && q.began > 0 && int64(before) > q.began:
		fmt.Printf("wrong: process %d got %d of %d first\n", os.Getpid(), n, from)
	}
	q.last[from] = n
	q.received.Add(1)
}

// Gap implements backplane.Receiver.
func (q *sequence) Gap(string) {}

// A roomMember is a client of withRooms.
type roomMember struct {
	*socketClient
	pid string
}

func (f *fleet) member() *roomMember {
	f.t.Helper()
	return newMember(f.t, f.socketClientOf("/room"))
}

// newMember waits until c is a member. Messages may come before the worker's answer.
func newMember(t *testing.T, c *socketClient) *roomMember {
	t.Helper()
	m := &roomMember{socketClient: c}
	for {
		m.pid = m.hear(t)
		if _, err := strconv.Atoi(m.pid); err == nil {
			return m
		}
	}
}

// members makes n members in each of the workers.
func (f *fleet) members(workers, n int) (all []*roomMember) {
	f.t.Helper()
	of := map[string]int{}
	for range 1000 {
		m := f.member()
		if of[m.pid] == n {
			m.Close()
			continue
		}
		of[m.pid]++
		if all = append(all, m); len(all) == workers*n {
			return all
		}
	}
	f.t.Fatalf("members of workers: %v", of)
	return nil
}

// hear returns the next message.
func (m *roomMember) hear(t *testing.T) string {
	t.Helper()
	_ = m.SetDeadline(time.Now().Add(patience))
	message, err := m.read()
	if err != nil {
		t.Fatal(err)
	}
	return message
}

// A message of a member reaches the members of its room in all workers once.
func TestBackplaneRooms(t *testing.T) {
	t.Parallel()
	f := start(t, setup{Workers: 3, Rooms: true}, true)
	all := f.members(3, 2)
	for round := range 20 {
		from := all[round%len(all)]
		if err := from.write(fmt.Sprint("message ", round)); err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			if got := m.hear(t); got != fmt.Sprint("message ", round) {
				t.Fatalf("round %d: %q", round, got)
			}
		}
	}
}

// A conversation is members that send numbers to a room.
type conversation struct {
	load
	members []*roomMember
	moving  bool // they move between processes
}

// converse makes members send numbers. All check that they get them in order, without one
// missing and none twice. Those of members that move come in any order, because there is
// none between processes.
func converse(all []*roomMember, moving bool) *conversation {
	c := &conversation{members: all, moving: moving}
	for i, m := range all {
		c.done.Add(2)
		go func() {
			defer c.done.Done()
			if err := c.check(m); err != nil {
				c.fail(fmt.Errorf("member %d: %w", i, err))
			}
		}()
		go func() {
			defer c.done.Done()
			n := 1
			for ; !c.stop.Load(); n++ {
				if err := m.write(fmt.Sprint(i, " ", n)); err != nil {
					c.fail(err)
					return
				}
				time.Sleep(time.Millisecond)
			}
			_ = m.write(fmt.Sprint(i, " ", -n)) // the last one
		}()
	}
	return c
}

func (c *conversation) check(m *roomMember) error {
	type sender struct {
		last int          // its greatest number
		left map[int]bool // the smaller ones that are missing
		over bool
	}
	senders := make([]sender, len(c.members))
	for over := 0; over < len(senders); {
		_ = m.SetDeadline(time.Now().Add(patience))
		text, err := m.read()
		if err != nil {
			return err
		}
		var from, n int
		if _, err := fmt.Sscan(text, &from, &n); err != nil {
			return err
		}
		s := &senders[from]
		s.over = s.over || n < 0
		n = max(n, -n)
		switch {
		case n == s.last+1:
			s.last = n
		case !c.moving || n <= s.last && !s.left[n]:
			return fmt.Errorf("%d of member %d after %d", n, from, s.last)
		case n < s.last:
			delete(s.left, n)
		default:
			if s.left == nil {
				s.left = map[int]bool{}
			}
			for s.last++; s.last < n; s.last++ {
				s.left[s.last] = true
			}
		}
		if s.over && len(s.left) == 0 {
			s.over = false
			over++
		}
		c.answered.Add(1)
	}
	return nil
}

// While workers are replaced, what the others publish reaches all of them once: members in
// workers that stay, and processes from when they begin to serve.
func TestBackplaneRestarts(t *testing.T) {
	f := start(t, setup{Workers: 3, Rooms: true, Linger: patience, Drain: patience}, true)
	for i := range *backplaneRestarts {
		all := f.members(3, 2)
		leaving, _ := strconv.Atoi(all[0].pid)
		var staying []*roomMember
		for _, m := range all {
			if m.pid == all[0].pid {
				m.Close()
				continue
			}
			staying = append(staying, m)
		}
		c := converse(staying, false)
		until(t, "members talk", func() bool { return c.answered.Load() > 200 })
		nettest.Signal(t, leaving, syscall.SIGTERM)
		until(t, "the worker is replaced", func() bool { return !isAlive(leaving) })
		goal := c.answered.Load() + 200
		until(t, "members talk", func() bool { return c.answered.Load() > goal || t.Failed() })
		c.end(t)
		for _, m := range staying {
			m.Close()
		}
		f.replace(3)
		if wrong := f.said("wrong: "); len(wrong) > 0 {
			t.Fatalf("restart %d: %q", i, wrong)
		}
	}
	if n, err := f.get("/sequence"); err != nil || n == "0" {
		t.Errorf("a process has received %s numbers, %v", n, err)
	}
	if gaps := f.printed("gap "); len(gaps) > 0 {
		t.Errorf("%q", gaps)
	}
	f.signal(syscall.SIGTERM)
	f.wait()
	if gaps := f.printed("gap "); len(gaps) > 0 {
		t.Errorf("at the end: %q", gaps)
	}
}

// Members that move to another process while all talk miss no message and get none twice.
func TestBackplaneMoves(t *testing.T) {
	f := start(t, setup{Workers: 3, Rooms: true, History: 10_000, Linger: patience, Drain: patience}, true)
	got := int64(0)
	for range *backplaneRestarts {
		all := f.members(3, 4)
		leaving, _ := strconv.Atoi(all[0].pid)
		c := converse(all, true)
		until(t, "members talk", func() bool { return c.answered.Load() > 200 })
		nettest.Signal(t, leaving, syscall.SIGTERM)
		until(t, "the worker is replaced", func() bool { return !isAlive(leaving) })
		goal := c.answered.Load() + 1000
		until(t, "members talk", func() bool { return c.answered.Load() > goal || t.Failed() })
		c.end(t)
		got += c.answered.Load()
		for _, m := range all {
			m.Close()
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%d times 4 of 12 members have moved; %d messages have come", *backplaneRestarts, got)
}

// When a worker is killed, the others lose nothing of each other, and they and its successor
// are told of a gap.
func TestBackplaneKill(t *testing.T) {
	f := start(t, setup{Workers: 3, Threshold: 10, Rooms: true}, true)
	all := f.members(3, 2)
	var staying []*roomMember
	for _, m := range all {
		if m.pid != all[0].pid {
			staying = append(staying, m)
		}
	}
	c := converse(staying, false)
	until(t, "members talk", func() bool { return c.answered.Load() > 200 })
	before := f.living()
	pid, _ := strconv.Atoi(all[0].pid)
	nettest.Signal(t, pid, syscall.SIGKILL)
	until(t, "there is a successor", func() bool {
		for pid := range f.living() {
			if !before[pid] {
				return f.count(fmt.Sprintf("gap %s \"\"", pid)) > 0
			}
		}
		return false
	})
	for pid := range before {
		if pid != all[0].pid {
			until(t, "the others are told", func() bool { return f.count(fmt.Sprintf("gap %s \"\"", pid)) > 0 })
		}
	}
	goal := c.answered.Load() + 200
	until(t, "members talk", func() bool { return c.answered.Load() > goal || t.Failed() })
	c.end(t)
	if wrong := f.said("wrong: "); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
}

// What waits for a worker that takes nothing is bounded. When it goes on, it is told of a
// gap.
func TestBackplaneStopped(t *testing.T) {
	f := start(t, setup{Workers: 2, Rooms: true, Hang: time.Hour}, true)
	all := f.members(2, 1)
	stopped, _ := strconv.Atoi(all[1].pid)
	from := f.dial()
	for { // until it is a connection to the other worker
		if pid, _, _ := strings.Cut(from.get("/"), " "); pid == all[0].pid {
			break
		}
		from = f.dial()
	}
	all[0].Close() // it would have to read all
	before := residentKiB(t, all[0].pid)
	nettest.Signal(t, stopped, syscall.SIGSTOP)
	for range 4 {
		from.get("/flood")
	}
	if grown := residentKiB(t, all[0].pid) - before; grown > 32<<10 {
		t.Errorf("the memory of the worker has grown by %d KiB", grown)
	}
	nettest.Signal(t, stopped, syscall.SIGCONT)
	until(t, "the stopped worker is told of a gap", func() bool { return f.count(fmt.Sprintf("gap %d \"room\"", stopped)) > 0 })
}

// residentKiB returns how much memory a process uses.
func residentKiB(t *testing.T, pid string) int {
	t.Helper()
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib
}

// A worker that cannot be connected does not serve.
func TestBackplaneOfBareWorker(t *testing.T) {
	t.Parallel()
	f := start(t, setup{Workers: 1, Rooms: true, BareProducer: true}, false)
	if status := f.wait(); status != 1 || f.count(ErrNoBackplane.Error()) == 0 {
		t.Errorf("status %d", status)
	}
}
