package websocket

import (
	"bufio"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

var (
	slowMembers = flag.Int("slow.members", 300, "members of TestMembersThatStop, of which a tenth stops reading")
	slowRate    = flag.Int("slow.rate", 100, "messages of 4 KiB a second")
	slowFor     = flag.Duration("slow.for", 400*time.Millisecond, "how long it measures, before and after they stop")
)

const slowMessage = 4 << 10

// TestMembersThatStop: members of a group that stop reading hold references, no copies, and the
// others get their messages. It logs how late: with the flags it is a measurement. The
// members are another process: this test, started again.
func TestMembersThatStop(t *testing.T) {
	if config := os.Getenv("SLUICE_TEST_SLOW_MEMBERS"); config != "" {
		if err := beMembers(config); err != nil {
			t.Fatal(err)
		}
		return
	}
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	if (&sluice.Server{}).EngineInfo(nil).Engine != sluice.EngineEpoll {
		t.Skip("there is no event engine")
	}
	for name, policy := range map[string]SlowPolicy{"drop new": SlowDropNew, "drop old": SlowDropOld, "close": SlowClose} {
		t.Run(name, func(t *testing.T) { testMembersThatStop(t, policy) })
	}
}

func testMembersThatStop(t *testing.T, policy SlowPolicy) {
	var g Group
	e := &Endpoint{OnOpen: g.Add, Slow: policy, MaxPending: 64 << 10, CloseWithin: time.Second, PingAfter: -1}
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { _ = e.Upgrade(ctx, nil) }}
	ln := listenSmall(t)
	go func() { _ = s.Serve(ln) }()
	members := nettest.StartAgain(t, fmt.Sprintf("SLUICE_TEST_SLOW_MEMBERS=%v %d", ln.Addr(), *slowMembers), "-test.run=^TestMembersThatStop$")
	defer func() {
		members.Stop()
		_ = s.Shutdown()
	}()
	members.Line() // all are there
	broadcast := func() {
		tick := time.NewTicker(time.Second / time.Duration(*slowRate))
		defer tick.Stop()
		for range int(slowFor.Seconds() * float64(*slowRate)) { // a slow machine takes longer for as many
			<-tick.C
			p := make([]byte, slowMessage)
			binary.BigEndian.PutUint64(p, uint64(time.Now().UnixNano()))
			g.Broadcast(Prepare(Binary, p), nil)
		}
	}
	slow := *slowMembers / 10
	settles := func(most int) { // those that read may be late
		eventually(t, fmt.Sprintf("no more than %d bytes wait", most), func() bool { return e.Stats().Pending <= int64(most) })
	}
	broadcast()
	settles(0)
	before, heap := members.Ask("all read"), nettest.HeapInUse()
	members.Ask("stop")
	broadcast()
	settles(slow * 64 << 10)
	after := members.Ask("the rest reads")
	stats := e.Stats()
	grown := nettest.HeapInUse() - heap
	t.Logf("%d members, %d messages/s of 4 KiB. All read: %s. %d do not: %s; the heap has grown by %d bytes for each of them, %d bytes wait, %d messages are dropped, %d connections open",
		*slowMembers, *slowRate, before, slow, after, grown/slow, stats.Pending, stats.Dropped, stats.Open)
	if stats.Dropped == 0 {
		t.Error("no message was dropped")
	}
	if grown > slow*(16<<10)+(4<<20) { // references, and what the engine has begun to send
		t.Errorf("the heap has grown by %d bytes", grown)
	}
}

// listenSmall listens; the system keeps little of what a slow client has not read.
func listenSmall(t *testing.T) net.Listener {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, 8<<10) })
	}}
	config.SetMultipathTCP(false)
	ln, err := config.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// beMembers is the process of the members. After a line of input it prints how late
// messages were that came since the last one; "stop" makes a tenth of them stop reading.
func beMembers(config string) error {
	addr, text, _ := strings.Cut(config, " ")
	count, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	var stopped atomic.Bool
	var mu sync.Mutex
	var late []time.Duration
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 8<<10) })
	}}
	for i := range count {
		c, err := dialer.Dial("tcp4", addr)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(c, hello); err != nil {
			return err
		}
		in := bufio.NewReaderSize(c, 8<<10)
		for line := ""; line != "\r\n"; {
			if line, err = in.ReadString('\n'); err != nil {
				return err
			}
		}
		go func() {
			frame := ws.AppendFrame(nil, ws.OpBinary, make([]byte, slowMessage))
			for !stopped.Load() || i%10 != 0 {
				if _, err := io.ReadFull(in, frame); err != nil {
					return
				}
				sent := int64(binary.BigEndian.Uint64(frame[len(frame)-slowMessage:]))
				mu.Lock()
				late = append(late, time.Duration(time.Now().UnixNano()-sent))
				mu.Unlock()
			}
		}()
	}
	fmt.Println("open")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		stopped.Store(stopped.Load() || lines.Text() == "stop")
		mu.Lock()
		slices.Sort(late)
		if n := len(late); n == 0 {
			fmt.Println("nothing")
		} else {
			fmt.Printf("%d messages, p50 %v, p99 %v\n", n, late[n/2].Round(10*time.Microsecond), late[n*99/100].Round(10*time.Microsecond))
		}
		late = late[:0]
		mu.Unlock()
	}
	return nil
}
