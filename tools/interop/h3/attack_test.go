package h3

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// units is how often an attack is repeated, unless the server ends it.
var units = flag.Int("units", 3000, "repetitions of each attack")

// The limits of the victim, and what an attack may cost it.
const (
	maxStreams    = 250
	maxUniStreams = 8
	maxMemory     = 4 << 20 // beyond what it had
	maxCPU        = 15 * time.Microsecond
	measuredFrom  = 20_000 // units, from which on maxCPU is checked
	shortTimeout  = 500 * time.Millisecond
)

// isVictim is set in the process that is attacked.
const isVictim = "SLUICE_H3_VICTIM"

// A condition is how the victim is.
type condition struct {
	CPU           time.Duration
	Memory        int64 // anonymous, after a garbage collection
	Running, Peak int   // handlers
	Goroutines    int
}

// TestVictim is the process that TestAttacks attacks.
func TestVictim(t *testing.T) {
	if os.Getenv(isVictim) == "" {
		t.Skip("a part of TestAttacks")
	}
	g := newTarget(t, func(g *target) {
		g.s.ReadTimeout, g.s.WriteTimeout, g.s.StreamRequestBody = shortTimeout, shortTimeout, false
	})
	fmt.Println(g.addr)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		c := condition{
			CPU: time.Duration(u.Utime.Nano() + u.Stime.Nano()), Running: int(g.running.Load()), Peak: int(g.peak.Swap(0)), Goroutines: runtime.NumGoroutine(),
		}
		if lines.Text() == "settle" {
			runtime.GC()
			debug.FreeOSMemory()
			c.Memory = nettest.PrivateMemory(t, os.Getpid())
		}
		text, _ := json.Marshal(c) // cannot fail
		fmt.Println(string(text))
	}
}

// An assault is a connection that attacks.
type assault struct {
	*wire
	ctx   context.Context
	units int // to be sent
	sent  int
}

// isOver reports whether the connection is closed, or all is sent, and counts a unit.
func (a *assault) isOver() bool {
	if a.sent >= a.units || a.conn.Context().Err() != nil || a.ctx.Err() != nil {
		return true
	}
	a.sent++
	return false
}

// stream opens a stream when the server lets it; nil: the connection is closed, or there is no
// credit for the time of the attack.
func (a *assault) stream() *quic.Stream {
	s, err := a.conn.OpenStreamSync(a.ctx)
	if err != nil {
		return nil
	}
	return s
}

// An attack is something that a client may repeat.
type attack struct {
	name string
	run  func(a *assault)
	// want is the code with which the server ends the connection, if the attack goes on for
	// long; 0: it need not.
	want h3.Code
	// most is how many units get through; 0: any number.
	most int
	// weight divides the number of units; 0: 1.
	weight int
}

// A writer is a stream that units are sent on.
type writer interface {
	Write([]byte) (int, error)
	SetWriteDeadline(time.Time) error
}

// repeat returns what sends a unit on one stream again and again, after begin.
func repeat(begin []byte, unit []byte, open func(a *assault) writer) func(a *assault) {
	return func(a *assault) {
		s := open(a)
		if s == nil {
			return
		}
		end, _ := a.ctx.Deadline()
		_ = s.SetWriteDeadline(end)
		_, _ = s.Write(begin)
		const batch = 64
		many := slices.Repeat(unit, batch)
		for !a.isOver() {
			a.sent += batch - 1
			if _, err := s.Write(many); err != nil {
				return
			}
		}
	}
}

func onRequest(a *assault) writer {
	if s := a.stream(); s != nil {
		return s
	}
	return nil
}

func onControlStream(a *assault) writer { return a.uni(0x21) }

// long: a table
func attacks() []attack {
	get, post := request("GET", "/hello"), request("POST", "/echo")
	asleep := request("GET", "/sleep?ms=1000")
	large := frame(h3.FrameHeaders, section(":method", "GET", ":scheme", "https", ":authority", "localhost", ":path", "/hello"), slices.Repeat([]byte{0xdd}, 30_000)) // accept: */*
	crumbs := frame(h3.FrameHeaders, section(":method", "GET", ":scheme", "https", ":authority", "localhost", ":path", "/hello"), slices.Repeat([]byte{0xc5}, 30_000))
	control := func(unit []byte) func(a *assault) {
		return repeat(nil, unit, func(a *assault) writer { return a.control })
	}
	return []attack{
		{"rapid reset", func(a *assault) {
			for !a.isOver() {
				s := a.stream()
				if s == nil {
					return
				}
				_, _ = s.Write(get)
				s.CancelWrite(quic.StreamErrorCode(h3.RequestCancelled))
				s.CancelRead(quic.StreamErrorCode(h3.RequestCancelled))
			}
		}, h3.ExcessiveLoad, 0, 0},
		{"rapid reset of uploads that handlers read", func(a *assault) {
			for !a.isOver() {
				s := a.stream()
				if s == nil {
					return
				}
				_, _ = s.Write(join(post, data("a")))
				awaitSent(a)
				s.CancelWrite(quic.StreamErrorCode(h3.RequestCancelled))
				s.CancelRead(quic.StreamErrorCode(h3.RequestCancelled))
			}
		}, h3.ExcessiveLoad, 0, 0},
		{"STOP_SENDING of whole requests, while handlers sleep", func(a *assault) {
			for !a.isOver() {
				s := a.stream()
				if s == nil {
					a.sent--
					return
				}
				_, _ = s.Write(asleep)
				_ = s.Close()
				awaitSent(a)
				s.CancelRead(quic.StreamErrorCode(h3.RequestCancelled))
			}
		}, 0, 0, 0},
		{"unidirectional streams", func(a *assault) {
			for !a.isOver() {
				s, err := a.conn.OpenUniStreamSync(a.ctx)
				if err != nil {
					a.sent--
					return
				}
				_, _ = s.Write(varint(0x21))
				s.CancelWrite(0)
			}
		}, 0, maxUniStreams, 0},
		{"insertions into QPACK's table", func(a *assault) {
			s := a.uni(encoderStream)
			for !a.isOver() {
				if _, err := s.Write([]byte{0x41, 'a', 1, 'a'}); err != nil {
					return
				}
			}
		}, h3.EncoderStreamError, 0, 0},
		{"heads with large lists", heads(large), 0, 0, 10},
		{"heads with many cookies", heads(crumbs), 0, 0, 20},
		{"heads that are malformed", heads(request("GET", "/hello", "X-A", "1")), h3.ExcessiveLoad, 0, 0},
		{"unknown frames on a request", repeat(post, frame(0x21), onRequest), h3.ExcessiveLoad, 0, 0},
		{"empty DATA", repeat(post, data(""), onRequest), h3.ExcessiveLoad, 0, 0},
		{"DATA of a byte", repeat(post, data("a"), onRequest), h3.ExcessiveLoad, 0, 0},
		{"unknown frames on the control stream", control(frame(0x21)), h3.ExcessiveLoad, 0, 0},
		{"PRIORITY_UPDATE", control(frame(h3.FramePriorityUpdate, varint(4*200), []byte("u=1"))), h3.ExcessiveLoad, 0, 0},
		{"GOAWAY", control(frame(h3.FrameGoAway, varint(0))), h3.ExcessiveLoad, 0, 0},
		{"MAX_PUSH_ID", control(frame(h3.FrameMaxPushID, varint(0))), h3.ExcessiveLoad, 0, 0},
		{"a large unknown frame on the control stream", repeat(join(varint(0x21), varint(1<<40)), make([]byte, 256), func(a *assault) writer { return a.control }), h3.ExcessiveLoad, 0, 0},
		{"bytes on a stream of an unknown type", repeat(nil, make([]byte, 256), onControlStream), 0, 0, 0},
	}
}

// heads returns what sends requests one after the other, and reads no answers.
func heads(head []byte) func(a *assault) {
	return func(a *assault) {
		for !a.isOver() {
			s := a.stream()
			if s == nil {
				return
			}
			if _, err := s.Write(head); err != nil {
				return
			}
			_ = s.Close()
			_ = s.SetReadDeadline(time.Now().Add(patience))
			_, _ = s.Read(make([]byte, 512))
			s.CancelRead(quic.StreamErrorCode(h3.NoError))
		}
	}
}

// awaitSent lets the connection send what was written, before it is taken back.
func awaitSent(a *assault) {
	sent := a.conn.ConnectionStats().PacketsSent
	for range 200 {
		if a.conn.ConnectionStats().PacketsSent != sent || a.conn.Context().Err() != nil {
			return
		}
		runtime.Gosched()
	}
}

// TestAttacks: each attack stops, or costs the server little for each unit; other clients are
// served all the time.
func TestAttacks(t *testing.T) {
	victim := nettest.StartAgain(t, isVictim+"=1", "-test.run=^TestVictim$")
	addr := victim.Line()
	state := func(command string) (c condition) {
		if err := json.Unmarshal([]byte(victim.Ask(command)), &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	for range 3 { // what the first requests need is not of an attack
		read(dial(t, addr).ask(request("GET", "/large")))
	}
	for _, attack := range attacks() {
		t.Run(attack.name, func(t *testing.T) {
			before := state("settle")
			ctx, cancel := context.WithTimeout(t.Context(), time.Second+time.Duration(*units)*100*time.Microsecond)
			defer cancel()
			a := &assault{wire: dial(t, addr), ctx: ctx, units: *units / max(attack.weight, 1)}
			done := make(chan struct{})
			go func() {
				defer close(done)
				attack.run(a)
			}()
			w := dial(t, addr)
			for served, isDone := 0, false; !isDone || served < 3; served++ {
				if r := read(w.ask(request("GET", "/hello"))); r.status != 200 || r.err != nil {
					t.Fatalf("another client: status %d, %v", r.status, r.err)
				}
				select {
				case <-done:
					isDone = true
				case <-time.After(20 * time.Millisecond):
				}
			}
			var code h3.Code
			isClosed := false
			if attack.want != 0 {
				got, err := a.closed()
				code, isClosed = got, err == nil
				if code != attack.want {
					t.Errorf("%d units, the connection ends with %v, %v, want %v", a.sent, got, err, attack.want)
				}
			}
			if attack.most > 0 && a.sent > attack.most {
				t.Errorf("%d units got through, want at most %d", a.sent, attack.most)
			}
			after := state("now")
			_ = a.conn.CloseWithError(quic.ApplicationErrorCode(h3.NoError), "")
			_ = w.conn.CloseWithError(quic.ApplicationErrorCode(h3.NoError), "")
			var settled condition
			if !nettest.Poll(patience, func() bool {
				settled = state("settle")
				return settled.Running == 0 && settled.Memory-before.Memory <= maxMemory
			}) {
				t.Errorf("%d handlers run, %d KiB more than before", settled.Running, (settled.Memory-before.Memory)>>10)
			}
			if after.Peak > maxStreams+1 { // that of the other client
				t.Errorf("%d handlers at once", after.Peak)
			}
			cpu := (after.CPU - before.CPU) / time.Duration(max(a.sent, 1))
			if a.sent >= measuredFrom && !isClosed && cpu > maxCPU {
				t.Errorf("%v of CPU for a unit", cpu)
			}
			t.Logf("%d units, %v of CPU each, %d KiB, closed %v, at most %d handlers", a.sent, cpu, (settled.Memory-before.Memory)>>10, isClosed, after.Peak)
		})
	}
}

// TestSlowness: requests that do not go on end by themselves.
func TestSlowness(t *testing.T) {
	g := newTarget(t, func(g *target) {
		g.s.ReadTimeout, g.s.WriteTimeout, g.s.StreamRequestBody = shortTimeout, shortTimeout, false
	})
	const count = 20
	for name, begin := range map[string][]byte{
		"heads":          request("GET", "/hello")[:10],
		"bytes of heads": {0x40},
		"bodies":         join(request("POST", "/echo", "content-length", "10"), data("a")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := dial(t, g.addr)
			var streams []*quic.Stream
			for range count {
				streams = append(streams, w.open(begin))
			}
			for _, s := range streams {
				a := read(s)
				_, isReset := a.reset()
				_, isClosed := closedBy(a.err)
				if !isReset && !isClosed && a.status != 408 {
					t.Errorf("status %d, %v", a.status, a.err)
				}
			}
		})
	}
	t.Run("readers", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		w := dial(t, g.addr)
		s := w.ask(request("GET", "/endless"))
		awaitHead(t, s)
		select {
		case <-g.ended:
		case <-ctx.Done():
			t.Error("a response of which nothing is taken does not end")
		}
	})
}

// TestHandshakeFlood: clients that do not answer are forgotten, and others get through.
func TestHandshakeFlood(t *testing.T) {
	g := newTarget(t, nil)
	relay := newRelay(t, g.addr, relayOptions{isMute: true})
	count := min(*units/10, 5000)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second+time.Duration(count)*2*time.Millisecond)
	defer cancel()
	var dialing sync.WaitGroup
	var refused int
	socket := listenUDP(t)
	defer socket.Close()
	transport := &quic.Transport{Conn: socket}
	defer transport.Close()
	to, err := net.ResolveUDPAddr("udp4", relay.addr)
	if err != nil {
		t.Fatal(err)
	}
	for range count {
		dialing.Go(func() {
			if conn, err := transport.Dial(ctx, to, clientTLS(), nil); err == nil {
				_ = conn.CloseWithError(0, "")
				t.Error("a handshake without answers")
			}
		})
	}
	for range 5 {
		if a := read(dial(t, g.addr).ask(request("GET", "/hello"))); a.status != 200 {
			refused++
		}
	}
	dialing.Wait()
	if refused > 0 {
		t.Errorf("%d other clients were not served", refused)
	}
	if n := relay.forwarded.Load(); n < int64(count) {
		t.Errorf("%d packets have reached the server", n)
	}
	t.Logf("%+v", g.s.EngineStats().HTTP3)
}
