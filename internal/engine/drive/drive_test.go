package drive

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A host is a Host whose output goes to a buffer, as far as there is room.
type host struct {
	State
	isMuch  bool // EndRun says so
	room    int  // of output; < 0: writing fails
	written []byte
	then    []engine.Next // what Flush was told
	input   []byte        // for ReadInRun
	during  []byte        // input that arrives during the next Flush
	began   int
	follow  int // how many of them were successors
}

func newHost(p engine.Protocol) *host {
	h := &host{room: 1 << 30}
	h.ServedBy(h)
	h.In = make([]byte, 8)
	h.Begin(p)
	return h
}

func (*host) BeginRun()                                     {}
func (h *host) EndRun(next engine.Next) (engine.Next, bool) { return next, h.isMuch }
func (h *host) Began(isSuccessor bool) {
	h.began++
	if isSuccessor {
		h.follow++
	}
}
func (h *host) ReadInRun(p []byte) (n int, err error) {
	if n = copy(p, h.input); n == 0 {
		err = io.EOF
	}
	h.input = h.input[n:]
	return n, err
}

func (h *host) Flush(then engine.Next) Written {
	h.then = append(h.then, then)
	if h.room < 0 {
		h.Fail(io.ErrClosedPipe)
		return WroteNot
	}
	n := min(len(h.Out), h.room)
	h.written, h.Out, h.room = append(h.written, h.Out[:n]...), h.Out[n:], h.room-n
	if during := h.during; len(during) > 0 {
		h.during = nil
		h.FeedBlocked(during)
	}
	if len(h.Out) > 0 {
		return WroteSome
	}
	return WroteAll
}

// A letters interprets each letter of its input: s switches, r runs, c closes, x
// aborts, others are ignored. Run appends its rank.
type letters struct {
	rank  byte
	can   engine.Capabilities
	stops bool // a further request is there at once
	fed   []byte
}

var _ engine.Switcher = (*letters)(nil)

func (p *letters) Capabilities() engine.Capabilities { return p.can }
func (p *letters) Feed(in []byte) (int, engine.Next) {
	p.fed = append(p.fed, in[0])
	switch in[0] {
	case 's':
		return 1, engine.Switch
	case 'r':
		return 1, engine.Run
	case 'c':
		return 1, engine.Close
	case 'x':
		return 1, engine.Abort
	case '0': // against the contract
		return 0, engine.Read
	}
	return 1, engine.Read
}
func (p *letters) Successor() engine.Protocol { return &letters{rank: p.rank + 1, can: p.can} }
func (p *letters) Run(out []byte) ([]byte, engine.Next) {
	if p.stops {
		p.stops = false
		return append(out, '+'), engine.Run
	}
	return append(out, 'a'+p.rank), engine.Read
}
func (p *letters) Prompted(out []byte) ([]byte, engine.Next) { return append(out, '!'), engine.Run }
func (*letters) Pause() bool                                 { return true }
func (*letters) HalfClosed(out []byte) []byte                { return append(out, '.') }
func (*letters) TimedOut(out []byte) ([]byte, engine.Next)   { return append(out, '?'), engine.Read }
func (*letters) Detached(net.Conn)                           {}
func (*letters) Closed(error)                                {}

func TestDrive(t *testing.T) {
	const duplex = engine.IsDuplex | engine.CanPrompt
	for _, test := range []struct {
		name, in    string
		host        host
		protocol    letters
		next        engine.Next
		out, unread string
		after       engine.Next
	}{
		{name: "requests", in: "rrr", host: host{room: 9}, out: "aaa"},
		{name: "two at once", in: "r-r", host: host{room: 9}, protocol: letters{stops: true}, out: "+aa"},
		{name: "close", in: "rcr", host: host{room: 9}, next: engine.Close, out: "a", unread: "r"},
		{name: "abort", in: "rxr", host: host{room: 9}, next: engine.Abort, unread: "r"},
		{name: "no progress", in: "r0r", host: host{room: 9}, out: "a"},
		{name: "switch", in: "rssrsr", host: host{room: 9}, out: "acd"},
		{name: "switch and close", in: "ssc-", host: host{room: 9}, next: engine.Close, unread: "-"},
		{name: "no room", in: "rr", host: host{room: 1}, out: "a"},
		{name: "no room to switch", in: "rsr", out: "", unread: "r", after: engine.Switch},
		{name: "no room for much", in: "rr", host: host{isMuch: true}, unread: "r"},
		{name: "failed", in: "rr", host: host{room: -1}, next: engine.Abort},
		{name: "failed for much", in: "rr", host: host{room: -1, isMuch: true}, next: engine.Abort, unread: "r"},
		{name: "fed meanwhile", in: "r-", host: host{room: 9, during: []byte("-r-")}, protocol: letters{can: duplex}, out: "aa"},
		{name: "fed meanwhile, much", in: "r-r", host: host{room: 9, isMuch: true, during: []byte("r")}, protocol: letters{can: duplex}, out: "aaa"},
		{name: "ends meanwhile", in: "r", host: host{room: 9, during: []byte("r-c-")}, protocol: letters{can: duplex}, next: engine.Close, out: "a"},
		{name: "aborts meanwhile", in: "r", host: host{room: 9, during: []byte("x")}, protocol: letters{can: duplex}, next: engine.Abort, out: "a"},
		{name: "switches meanwhile", in: "r", host: host{room: 9, during: []byte("s")}, protocol: letters{can: duplex}, out: "a"},
	} {
		h := newHost(&test.protocol)
		h.room, h.isMuch, h.during = test.host.room, test.host.isMuch, test.host.during
		next := h.Drive([]byte(test.in))
		if next != test.next || string(h.written) != test.out || string(h.Unread) != test.unread || h.After != test.after {
			t.Errorf("%s: %v, %q, unread %q, after %v; want %v, %q, %q, %v", test.name,
				next, h.written, h.Unread, h.After, test.next, test.out, test.unread, test.after)
		}
		if failed := test.host.room < 0; failed != (h.Err != nil) {
			t.Errorf("%s: Err is %v", test.name, h.Err)
		}
	}
}

// TestResume: what the lack of room has stopped continues, and what a duplex protocol
// was fed meanwhile.
func TestResume(t *testing.T) {
	for _, test := range []struct {
		name, during string
		want         string
		next         engine.Next
	}{
		{"nothing", "", "ab", engine.Read},
		{"a request", "r", "aab", engine.Read},
		{"the end", "c", "a", engine.Close},
	} {
		h := newHost(&letters{can: engine.IsDuplex})
		h.room = 0
		if next := h.Drive([]byte("r")); next != engine.Read || len(h.Out) != 1 {
			t.Fatalf("%s: %v, %q waits", test.name, next, h.Out)
		}
		if used, next := h.FeedBlocked([]byte(test.during)); used != len(test.during) || next != engine.Read {
			t.Fatalf("%s: used %d, %v", test.name, used, next)
		}
		if next := h.Resume(); next != engine.Read || len(h.written) != 0 {
			t.Fatalf("%s: %v without room", test.name, next)
		}
		h.room = 9
		next := h.Resume()
		if next == engine.Read {
			next = h.Drive([]byte("sr"))
		}
		if next != test.next || string(h.written) != test.want || h.After != engine.Read {
			t.Errorf("%s: %v, %q; want %v, %q", test.name, next, h.written, test.next, test.want)
		}
	}
}

// A valve is a Stopper and a HalfCloser: its input ends its output.
type valve struct {
	letters
	isShut bool
}

func (v *valve) Stops() bool { return v.isShut }
func (v *valve) PeerEnded(out []byte) ([]byte, engine.Next) {
	v.isShut = true
	return append(out, '='), engine.EndOutput
}

// TestHalfClose: the Host learns of the end of the output, and the connection stays open.
func TestHalfClose(t *testing.T) {
	const both = engine.CanStop | engine.CanHalfClose
	for _, room := range []int{0, 9} {
		h := newHost(&valve{letters: letters{can: both | engine.IsDuplex}})
		h.room = room
		if h.Stops() {
			t.Error("it stops at once")
		}
		if next := h.PeerEnded(); next != engine.Read || !h.Stops() || h.then[0] != engine.EndOutput {
			t.Errorf("%v, stops %v, then %v", next, h.Stops(), h.then)
		}
		if room == 0 && !h.TakesInput() {
			t.Error("it takes no input while its last output waits")
		}
		h.room = 9
		if next := h.Resume(); next != engine.Read || string(h.written) != "=" || h.After != engine.Read {
			t.Errorf("%v, %q, after %v", next, h.written, h.After)
		}
		if room == 0 && h.then[1] != engine.EndOutput {
			t.Errorf("after the wait: %v", h.then)
		}
	}
	h := newHost(&letters{}) // has none of it
	if next := h.PeerEnded(); next != engine.Close || string(h.written) != "." || h.Stops() {
		t.Errorf("%v, %q", next, h.written)
	}
}

// TestThen: a Host that writes learns what follows.
func TestThen(t *testing.T) {
	for _, test := range []struct {
		in, during string
		isMuch     bool
		want       []engine.Next
	}{
		{"r", "", false, []engine.Next{engine.Read}},
		{"rc", "", false, []engine.Next{engine.Close}},
		{"rs", "", false, []engine.Next{engine.Switch}},
		{"rrc", "", true, []engine.Next{engine.Read, engine.Read, engine.Close}},
		{"r", "c", false, []engine.Next{engine.Read, engine.Close}}, // which is known when there is room again
	} {
		h := newHost(&letters{can: engine.IsDuplex})
		h.isMuch = test.isMuch
		if test.during != "" {
			h.room = 0
			h.Drive([]byte(test.in))
			h.FeedBlocked([]byte(test.during))
			h.room = 9
			h.Resume()
		} else {
			h.Drive([]byte(test.in))
		}
		if !slices.Equal(h.then, test.want) {
			t.Errorf("%s, then %q: told %v, want %v", test.in, test.during, h.then, test.want)
		}
	}
}

// TestCalls: the calls that are no input.
func TestCalls(t *testing.T) {
	h := newHost(&letters{can: engine.CanPrompt})
	if next := h.Prompted(); next != engine.Read {
		t.Error(next)
	}
	if next := h.TimedOut(); next != engine.Read {
		t.Error(next)
	}
	if next := h.HalfClosed(); next != engine.Close {
		t.Error(next)
	}
	if string(h.written) != "!a?." {
		t.Errorf("wrote %q", h.written)
	}
}

// TestManySwitches: a peer that has a connection switch any number of times in one read
// needs no stack for it.
func TestManySwitches(t *testing.T) {
	const many = 100_000
	defer debug.SetMaxStack(debug.SetMaxStack(64 << 10)) // exceeding it ends the process
	done := make(chan struct{})
	go func() {
		defer close(done)
		h := newHost(&letters{})
		if next := h.Drive(append(bytes.Repeat([]byte("s"), many), 'c')); next != engine.Close || h.began != many+1 || h.follow != many {
			t.Errorf("%v after %d protocols, %d of them successors", next, h.began, h.follow)
		}
	}()
	<-done
}

// TestReadInRun: Read and Fill take what is unread first.
func TestReadInRun(t *testing.T) {
	h := newHost(&letters{})
	h.Unread, h.input = []byte("abc"), []byte("defghijkl")
	if err := h.Fill(); err != nil || string(h.Buffered()) != "abcdefgh" {
		t.Fatalf("%v, %q", err, h.Buffered())
	}
	if err := h.Fill(); !errors.Is(err, io.ErrShortBuffer) {
		t.Fatal(err)
	}
	h.Discard(6)
	p := make([]byte, 9)
	for _, want := range []string{"gh", "ijkl"} {
		if n, err := h.Read(p); err != nil || string(p[:n]) != want {
			t.Errorf("%q, %v; want %q", p[:n], err, want)
		}
	}
	if err := h.Fill(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// A guest is a Protocol with every capability that State asks for.
type guest struct {
	letters
	room      []byte
	isBetween bool // requests: what Pause returns
	pauses    int
	canRewind bool
	rewound   []byte
	state     []byte // what Pack appends; nil: it refuses
}

var (
	_ engine.Starter  = (*guest)(nil)
	_ engine.Receiver = (*guest)(nil)
	_ engine.Rewinder = (*guest)(nil)
	_ engine.Packer   = (*guest)(nil)
)

func (*guest) Start() engine.Next { return engine.Detach }
func (*guest) Stops() bool        { return false }
func (p *guest) Room() []byte     { return p.room }
func (p *guest) Pause() bool      { p.pauses++; return p.isBetween }
func (p *guest) CanRewind() bool  { return p.canRewind }
func (p *guest) Rewind() []byte   { return p.rewound }
func (p *guest) Pack(dst []byte) ([]byte, bool) {
	return append(dst, p.state...), p.state != nil
}

// TestBeginStarts: the answer of a Starter is the next step.
func TestBeginStarts(t *testing.T) {
	for _, test := range []struct {
		can  engine.Capabilities
		want engine.Next
	}{
		{0, engine.Read},
		{engine.CanStart, engine.Detach},
	} {
		h := newHost(&letters{})
		if next := h.Begin(&guest{letters: letters{can: test.can}}); next != test.want || h.began != 2 || !h.IsFed {
			t.Errorf("%b: %v, fed: %v, began %d times; want %v", test.can, next, h.IsFed, h.began, test.want)
		}
	}
}

// TestRoom: a protocol within a request says where its input goes. Others are not asked.
func TestRoom(t *testing.T) {
	for _, test := range []struct {
		name             string
		can              engine.Capabilities
		room             string
		isFed, isPartial bool
		isAsleep         bool
		want             string
	}{
		{name: "fed", can: engine.CanReceive, room: "room", isFed: true, want: "room"},
		{name: "partial", can: engine.CanReceive, room: "room", isPartial: true, want: "room"},
		{name: "between requests", can: engine.CanReceive, room: "room", want: "in"},
		{name: "asleep", can: engine.CanReceive, room: "room", isFed: true, isPartial: true, isAsleep: true, want: "in"},
		{name: "no room", can: engine.CanReceive, isFed: true, want: "in"},
		{name: "no Receiver", can: engine.CanPack, room: "room", isFed: true, isPartial: true, want: "in"},
	} {
		h := newHost(&guest{letters: letters{can: test.can}, room: []byte(test.room)})
		h.In, h.IsFed, h.IsPartial = []byte("in"), test.isFed, test.isPartial
		if test.isAsleep {
			h.Protocol = nil
		}
		if got := h.Room(); string(got) != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// TestPause: the protocol is asked once after it was fed; the answer stays until then.
func TestPause(t *testing.T) {
	p := &guest{}
	h := newHost(p)
	for i, test := range []struct {
		feed      string
		isBetween bool
		want      bool
		pauses    int
	}{
		{"", true, false, 1}, // Begin counts as input
		{"", false, false, 1},
		{"-", false, true, 2},
		{"", true, true, 2},
		{"-", true, false, 3},
	} {
		if test.feed != "" {
			h.Drive([]byte(test.feed))
		}
		p.isBetween = test.isBetween
		if got := h.Pause(); got != test.want || h.IsPartial != got || h.IsFed || p.pauses != test.pauses {
			t.Errorf("%d: %v after %d calls, partial: %v, fed: %v; want %v after %d", i, got, p.pauses, h.IsPartial, h.IsFed, test.want, test.pauses)
		}
	}
}

// TestPauseAfterCalls: what may change the protocol's state counts as input.
func TestPauseAfterCalls(t *testing.T) {
	for name, call := range map[string]func(*host){
		"Drive":       func(h *host) { h.Drive([]byte("-")) },
		"Prompted":    func(h *host) { h.Prompted() },
		"TimedOut":    func(h *host) { h.TimedOut() },
		"FeedBlocked": func(h *host) { h.FeedBlocked([]byte("-")) },
		"Stops":       func(h *host) { h.Stops() },
	} {
		p := &guest{letters: letters{can: engine.CanPrompt | engine.IsDuplex | engine.CanStop}, isBetween: true}
		h := newHost(p)
		h.Pause()
		p.isBetween = false
		if call(h); !h.Pause() || p.pauses != 2 {
			t.Errorf("%s: partial: %v after %d calls", name, h.IsPartial, p.pauses)
		}
	}
}

func TestCanRewind(t *testing.T) {
	for _, test := range []struct {
		can       engine.Capabilities
		canRewind bool
		want      bool
	}{
		{0, true, false},
		{engine.CanPack, true, false},
		{engine.CanRewind, false, false},
		{engine.CanRewind, true, true},
	} {
		h := newHost(&guest{letters: letters{can: test.can}, canRewind: test.canRewind})
		if got := h.CanRewind(); got != test.want {
			t.Errorf("%b, %v: %v", test.can, test.canRewind, got)
		}
	}
}

// TestPack: a protocol without a state leaves; a Packer may refuse.
func TestPack(t *testing.T) {
	for _, test := range []struct {
		can   engine.Capabilities
		state []byte
		want  string
		ok    bool
	}{
		{0, []byte("state"), "", true},
		{engine.CanPack, []byte("state"), "state", true},
		{engine.CanPack, nil, "", false},
	} {
		h := newHost(&guest{letters: letters{can: test.can}, state: test.state})
		if got, ok := h.Pack(); string(got) != test.want || ok != test.ok {
			t.Errorf("%b, %q: %q, %v; want %q, %v", test.can, test.state, got, ok, test.want, test.ok)
		}
	}
}

// TestParcel: what the protocol returns precedes what it was not fed.
func TestParcel(t *testing.T) {
	for _, test := range []struct {
		isPartial bool
		unread    string
		want      string
	}{
		{false, "", ""},
		{false, "unread", "unread"},
		{true, "", "rewound"},
		{true, "unread", "rewoundunread"},
	} {
		h := newHost(&guest{letters: letters{can: engine.CanRewind}, rewound: []byte("rewound")})
		h.IsPartial, h.Unread = test.isPartial, []byte(test.unread)
		got := h.Parcel([]byte("state"))
		if string(got.State) != "state" || string(got.Leftover) != test.want {
			t.Errorf("partial: %v, unread %q: %q, %q; want %q", test.isPartial, test.unread, got.State, got.Leftover, test.want)
		}
		if test.unread != "" {
			h.Unread[0] = 'X'
			if string(got.Leftover) != test.want {
				t.Errorf("partial: %v: the parcel shares the connection's memory", test.isPartial)
			}
		}
	}
}

// TestPromptedIsAskedFor: a protocol without the capability is not called.
func TestPromptedIsAskedFor(t *testing.T) {
	h := newHost(&letters{})
	h.IsFed = false
	if next := h.Prompted(); next != engine.Read || h.IsFed || len(h.written) > 0 {
		t.Errorf("%v, fed: %v, wrote %q", next, h.IsFed, h.written)
	}
}

// TestMuchOutputOfCalls: much output is written before the requests run that the call has
// completed, and they wait if there is no room.
func TestMuchOutputOfCalls(t *testing.T) {
	for _, test := range []struct {
		room    int
		next    engine.Next
		written string
		after   engine.Next
	}{
		{9, engine.Read, "!a", engine.Read},
		{0, engine.Read, "", engine.Run},
		{-1, engine.Abort, "", engine.Read},
	} {
		h := newHost(&letters{can: engine.CanPrompt})
		h.isMuch, h.room = true, test.room
		if next := h.Prompted(); next != test.next || string(h.written) != test.written || h.After != test.after {
			t.Errorf("room %d: %v, %q, after %v; want %v, %q, %v", test.room, next, h.written, h.After, test.next, test.written, test.after)
		}
	}
}

// TestFeedBlockedEnds: an abort is returned at once, and input that makes no
// progress is not fed again.
func TestFeedBlockedEnds(t *testing.T) {
	for _, test := range []struct {
		in   string
		used int
		next engine.Next
		fed  string
	}{
		{"-x-", 2, engine.Abort, "-x"},
		{"-0-", 1, engine.Read, "-0"},
		{"-c-", 2, engine.Read, "-c"},
	} {
		p := &letters{can: engine.IsDuplex}
		h := newHost(p)
		if used, next := h.FeedBlocked([]byte(test.in)); used != test.used || next != test.next || string(p.fed) != test.fed {
			t.Errorf("%s: used %d, %v, fed %q; want %d, %v, %q", test.in, used, next, p.fed, test.used, test.next, test.fed)
		}
	}
}
