// Package backplanetest tests implementations of backplane.Backplane.
package backplanetest

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice/backplane"
)

// Open returns n Backplanes that are connected with each other and with no other ones. The
// test calls Subscribe. What must be closed at the end, Open gives to t.Cleanup.
type Open func(t *testing.T, n int) []backplane.Backplane

// Test tests what the documentation of backplane.Backplane promises, in subtests. Their
// Receivers copy what they keep; run them with the race detector, too.
func Test(t *testing.T, open Open) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, open Open)
	}{
		{"Members", testMembers},
		{"Order", testOrder},
		{"Data", testData},
		{"Names", testNames},
		{"TooLarge", testTooLarge},
		{"Leave", testLeave},
		{"ManyRooms", testManyRooms},
		{"Blocked", testBlocked},
		{"Race", testRace},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open) })
	}
}

// connect opens n Backplanes with a recorder each.
func connect(t *testing.T, open Open, n int) ([]backplane.Backplane, []*recorder) {
	planes := open(t, n)
	recorders := make([]*recorder, n)
	for i, p := range planes {
		recorders[i] = newRecorder(t)
		if err := p.Subscribe(recorders[i]); err != nil {
			t.Fatal(err)
		}
	}
	return planes, recorders
}

func join(t *testing.T, p backplane.Backplane, rooms ...string) {
	t.Helper()
	for _, room := range rooms {
		if err := p.Join(room); err != nil {
			t.Fatal(err)
		}
	}
}

func publish(t *testing.T, p backplane.Backplane, room string, data string) {
	t.Helper()
	if err := p.Publish(room, []byte(data)); err != nil {
		t.Fatalf("room %.40q, %d bytes: %v", room, len(data), err)
	}
}

// testMembers: those that have joined a room get a message once, the publisher never.
func testMembers(t *testing.T, open Open) {
	planes, got := connect(t, open, 4)
	for _, p := range planes[:3] {
		join(t, p, "r")
	}
	join(t, planes[3], "other")
	reach(t, planes[0], "r", got[1:3]...)
	reach(t, planes[1], "r", got[0])
	reach(t, planes[3], "r", got[0])
	for i, p := range planes {
		publish(t, p, "r", fmt.Sprint("from ", i))
	}
	for i := range planes[:3] {
		for from := range planes {
			if from != i {
				got[i].await(event{room: "r", data: fmt.Sprint("from ", from)})
			}
		}
	}
	reach(t, planes[0], "other", got[3]) // what it should not have got would be here by now
	for i, r := range got {
		want := 3
		if i == 3 {
			want = 0
		}
		if all := r.count(func(e event) bool { return strings.HasPrefix(e.data, "from ") }); all != want {
			t.Errorf("process %d got %d messages, want %d", i, all, want)
		}
		r.refuse(event{room: "r", data: fmt.Sprint("from ", i)})
	}
}

// testOrder: what one process publishes to one room arrives in order, from several
// processes at the same time.
func testOrder(t *testing.T, open Open) {
	const messages = 500
	planes, got := connect(t, open, 3)
	join(t, planes[2], "r")
	reach(t, planes[0], "r", got[2])
	reach(t, planes[1], "r", got[2])
	var wait sync.WaitGroup
	for _, from := range []int{0, 1} {
		wait.Go(func() {
			for i := range messages {
				if err := planes[from].Publish("r", fmt.Appendf(nil, "%d-%d", from, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	for _, from := range []string{"0-", "1-"} {
		got[2].await(event{room: "r", data: from + strconv.Itoa(messages-1)})
		next := 0
		for _, e := range got[2].all() {
			if number, ok := strings.CutPrefix(e.data, from); ok {
				if number != strconv.Itoa(next) {
					t.Fatalf("got message %s of process %swant %d", number, from, next)
				}
				next++
			}
		}
	}
}

// testData: any bytes arrive as they are, and Publish does not retain them.
func testData(t *testing.T, open Open) {
	planes, got := connect(t, open, 2)
	join(t, planes[1], "r")
	reach(t, planes[0], "r", got[1])
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, data := range [][]byte{
		{}, nil, {0}, []byte("\r\n"), []byte("+OK\r\n$-1\r\nPING\r\n"), every, bytes.Repeat([]byte{255}, 70_000),
		bytes.Repeat(every, backplane.MaxData/256),
	} {
		want := event{room: "r", data: string(data)}
		count := got[1].count(func(e event) bool { return e == want })
		buffer := slices.Clone(data)
		publish(t, planes[0], "r", string(data))
		if err := planes[0].Publish("r", buffer); err != nil {
			t.Fatal(err)
		}
		for i := range buffer {
			buffer[i] ^= 1
		}
		got[1].wait(fmt.Sprintf("%d bytes, twice", len(data)), func() bool {
			return got[1].count(func(e event) bool { return e == want }) == count+2
		})
	}
}

// testNames: the name of a room may have any bytes; no two names are one room.
func testNames(t *testing.T, open Open) {
	names := []string{
		"", " ", ".", "..", "a", "A", "a ", " a", "a.", "a.b", "a.*", "*", ">", "a.>", "?", "[a]", "$SYS", "_INBOX.x", "\r\n",
		"a\r\nPUB b", "/", "%2F", "+", "-", "_", "é", "e\u0301", "日本", "\xff\xfe", strings.Repeat("x", backplane.MaxRoom-1),
		strings.Repeat("x", backplane.MaxRoom), strings.Repeat("\xff", backplane.MaxRoom), strings.Repeat("\x00", backplane.MaxRoom),
	}
	for i := range 256 {
		names = append(names, "b"+string([]byte{byte(i)}))
	}
	planes, got := connect(t, open, 2)
	join(t, planes[1], names...)
	reachAll(t, planes[0], names, got[1])
	for i, name := range names {
		publish(t, planes[0], name, fmt.Sprint("to ", i))
	}
	for i, name := range names {
		got[1].await(event{room: name, data: fmt.Sprint("to ", i)})
	}
	if n := got[1].count(func(e event) bool { return strings.HasPrefix(e.data, "to ") }); n != len(names) {
		t.Errorf("%d messages for %d rooms", n, len(names))
	}
}

// testTooLarge: what exceeds the bounds is refused, and does no harm.
func testTooLarge(t *testing.T, open Open) {
	planes, got := connect(t, open, 2)
	long, large := strings.Repeat("x", backplane.MaxRoom+1), make([]byte, backplane.MaxData+1)
	for what, err := range map[string]error{
		"Join of a long name":    planes[0].Join(long),
		"Publish to a long name": planes[0].Publish(long, nil),
		"Publish of large data":  planes[0].Publish("r", large),
	} {
		if !errors.Is(err, backplane.ErrTooLarge) {
			t.Errorf("%s: %v", what, err)
		}
	}
	longest := long[1:]
	join(t, planes[1], longest)
	reach(t, planes[0], longest, got[1])
	publish(t, planes[0], longest, string(large[1:]))
	got[1].await(event{room: longest, data: string(large[1:])})
}

// testLeave: some time after Leave nothing comes any more; a Join after it works.
func testLeave(t *testing.T, open Open) {
	planes, got := connect(t, open, 2)
	join(t, planes[1], "left", "joined")
	for round := range 3 {
		reachAll(t, planes[0], []string{"left", "joined"}, got[1])
		if err := planes[1].Leave("left"); err != nil {
			t.Fatal(err)
		}
		// Without order between rooms, three messages to the other room must suffice.
		pass := func(data string) (isLeft bool) {
			publish(t, planes[0], "left", data)
			for i := range 3 {
				also := fmt.Sprint(data, " ", i)
				publish(t, planes[0], "joined", also)
				got[1].await(event{room: "joined", data: also})
			}
			return !got[1].has(event{room: "left", data: data})
		}
		for try := 0; !pass(fmt.Sprint("round ", round, " try ", try)); try++ {
			if try > 1000 {
				t.Fatal("messages arrive after Leave")
			}
		}
		if !pass(fmt.Sprint("round ", round, " again")) {
			t.Error("Leave had an effect for some time only")
		}
		join(t, planes[1], "left")
	}
}

// testManyRooms: two processes share some rooms of many.
func testManyRooms(t *testing.T, open Open) {
	const rooms = 2000
	planes, got := connect(t, open, 3)
	var names, even []string
	for i := range rooms {
		names = append(names, fmt.Sprint("room ", i))
		if i%2 == 0 {
			even = append(even, names[i])
		}
	}
	join(t, planes[1], names...)
	join(t, planes[2], even...)
	reachAll(t, planes[0], names, got[1])
	reachAll(t, planes[0], even, got[2])
	for _, name := range names {
		publish(t, planes[0], name, "last")
	}
	for i, names := range [][]string{names, even} {
		r := got[1+i]
		r.wait("a message for each room", func() bool { return len(r.missing(names, "last")) == 0 })
		if n := r.count(func(e event) bool { return e.data == "last" }); n != len(names) {
			t.Errorf("%d messages for %d rooms", n, len(names))
		}
	}
}

// testBlocked: a Receiver that blocks, against what it should do, costs little memory, and
// does not delay the others. When it goes on, it is told of the gap.
func testBlocked(t *testing.T, open Open) {
	const size, messages, most = 64 << 10, 1024, 40 << 20
	planes, got := connect(t, open, 3)
	join(t, planes[1], "r")
	join(t, planes[2], "r")
	reach(t, planes[0], "r", got[1:]...)
	release := make(chan struct{})
	defer func() { close(release) }()
	got[1].block(release)
	before := heap()
	payload := strings.Repeat("x", size)
	for i := range messages {
		publish(t, planes[0], "r", strconv.Itoa(i)+payload)
		got[2].wait("message "+strconv.Itoa(i), func() bool { return got[2].takeLast(strconv.Itoa(i) + payload) })
	}
	for i := range 100 { // it may block in what it published, too
		join(t, planes[1], "more "+strconv.Itoa(i))
	}
	publish(t, planes[1], "r", "from the blocked one")
	got[2].await(event{room: "r", data: "from the blocked one"})
	if grown := heap() - before; grown > most {
		t.Errorf("%d MiB wait for a receiver that blocks", grown>>20)
	}
	got[1].block(nil)
	close(release)
	release = make(chan struct{}) // for the defer
	reach(t, planes[0], "r", got[1])
	got[1].wait("Gap", func() bool {
		return got[1].count(func(e event) bool { return e.isGap && (e.room == "r" || e.room == "") }) > 0
	})
	last := -1
	for _, e := range got[1].all() {
		if number, ok := strings.CutSuffix(e.data, payload); ok && e.room == "r" {
			if n, err := strconv.Atoi(number); err != nil || n <= last {
				t.Fatalf("message %s after %d", number, last)
			} else {
				last = n
			}
		}
	}
}

// heap returns the bytes in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// testRace: all methods at the same time.
func testRace(t *testing.T, open Open) {
	planes, got := connect(t, open, 2)
	join(t, planes[1], "r")
	var wait sync.WaitGroup
	for i := range 4 {
		for _, p := range planes {
			wait.Go(func() {
				room := fmt.Sprint("own ", i)
				for j := range 50 {
					err := errors.Join(p.Join(room), p.Publish(room, []byte("x")), p.Publish("r", []byte(room)), p.Leave(room))
					if err != nil {
						t.Errorf("round %d: %v", j, err)
					}
				}
			})
		}
	}
	wait.Wait()
	reach(t, planes[0], "r", got[1])
}

// Restart tests that messages flow again after stop, which ends what connects the
// processes, and start: the rooms are those that are joined then, and a gap is told.
func Restart(t *testing.T, open Open, stop, start func()) {
	planes, got := connect(t, open, 2)
	join(t, planes[1], "kept", "left")
	reachAll(t, planes[0], []string{"kept", "left"}, got[1])
	stop()
	join(t, planes[1], "new")
	if err := planes[1].Leave("left"); err != nil {
		t.Fatal(err)
	}
	publish(t, planes[0], "kept", "while it is stopped")
	if got[1].count(func(e event) bool { return e.isGap }) != 0 {
		t.Error("a gap is told while there is no connection")
	}
	start()
	got[1].await(event{isGap: true})
	reachAll(t, planes[0], []string{"kept", "new"}, got[1])
	publish(t, planes[0], "left", "after Leave")
	reachAll(t, planes[0], []string{"kept", "new"}, got[1])
	got[1].refuse(event{room: "left", data: "after Leave"})
}
