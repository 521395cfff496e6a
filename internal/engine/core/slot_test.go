//go:build linux && (amd64 || arm64)

package core

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/sluicehttp/sluice/internal/engine/sock"
)

func TestSlotIsACacheLine(t *testing.T) {
	if size := unsafe.Sizeof(slot{}); size != 64 {
		t.Errorf("a slot has %d bytes, want 64", size)
	}
}

const testGen = 7

func slotWith(state uint64) *slot {
	s := &slot{}
	s.word.Store(testGen<<generationShift | state)
	return s
}

func TestDeliver(t *testing.T) {
	for _, test := range []struct {
		name    string
		state   uint64
		gen     uint32
		flags   uint64
		claimed bool
		woken   uint64
		after   uint64
	}{
		{"input claims", stateIdle | flagAdded, testGen, flagInput, true, 0, stateBusy | flagAdded},
		{"the end claims and stays", stateIdle, testGen, flagInput | flagGone, true, 0, stateBusy | flagGone},
		{"reasonFlags claim and stay", stateIdle, testGen, flagTake, true, 0, stateBusy | flagTake},
		{"a prompt alone is known", stateIdle, testGen, flagPrompt, true, 0, stateBusy | flagPrompt | flagPromptOnly},
		{"with input it is not alone", stateIdle, testGen, flagPrompt | flagInput, true, 0, stateBusy | flagPrompt},
		{"a writer has input unread", stateIdle | flagPartial | flagBlocked, testGen, flagPrompt, true, 0, stateBusy | flagPartial | flagBlocked | flagPrompt},
		{"partial stays", stateIdle | flagPartial, testGen, flagInput, true, 0, stateBusy | flagPartial},
		{"room is nothing to a reader", stateIdle, testGen, flagOutput, false, 0, stateIdle},
		{"input and room claim", stateIdle, testGen, flagInput | flagOutput, true, 0, stateBusy},
		{"room claims a writer", stateIdle | flagPartial | flagBlocked, testGen, flagOutput, true, 0, stateBusy | flagPartial | flagBlocked},
		{"input is nothing to a writer", stateIdle | flagPartial | flagBlocked, testGen, flagInput, false, 0, stateIdle | flagPartial | flagBlocked},
		{"input claims a duplex writer", stateIdle | flagPartial | flagBlocked | flagDuplex, testGen, flagInput, true, 0, stateBusy | flagPartial | flagBlocked | flagDuplex},
		{"the end claims a writer", stateIdle | flagPartial | flagBlocked, testGen, flagInput | flagGone, true, 0, stateBusy | flagPartial | flagBlocked | flagGone},
		{"another generation", stateIdle, testGen + 1, flagInput, false, 0, stateIdle},
		{"closed", stateClosed, testGen, flagInput, false, 0, stateClosed},
		{"busy notes", stateBusy, testGen, flagInput, false, 0, stateBusy | flagInput},
		{"busy notes reasonFlags", stateBusy, testGen, flagKill, false, 0, stateBusy | flagKill},
		{"a reader wakes", stateBusy | flagReadWait, testGen, flagInput, false, flagReadWait, stateBusy | flagInput},
		{"a reader sleeps on", stateBusy | flagReadWait, testGen, flagOutput, false, 0, stateBusy | flagReadWait | flagOutput},
		{"a writer wakes", stateBusy | flagWriteWait, testGen, flagOutput, false, flagWriteWait, stateBusy | flagOutput},
		{"both wake when killed", stateBusy | flagReadWait | flagWriteWait, testGen, flagKill, false, flagReadWait | flagWriteWait, stateBusy | flagKill},
		{"the end is news", stateBusy | flagWatch, testGen, flagInput | flagGone, false, flagWatch, stateBusy | flagWatch | flagInput | flagGone},
		{"the end is news once", stateBusy | flagWatch | flagGone, testGen, flagGone, false, 0, stateBusy | flagWatch | flagGone},
		{"nothing new", stateBusy | flagInput, testGen, flagInput, false, 0, stateBusy | flagInput},
	} {
		s := slotWith(test.state)
		claimed, woken := s.deliver(test.gen, test.flags)
		after := s.word.Load() &^ (testGen << generationShift)
		if claimed != test.claimed || woken != test.woken || after != test.after {
			t.Errorf("%s: claimed %v, woken %b, word %b; want %v, %b, %b",
				test.name, claimed, woken, after, test.claimed, test.woken, test.after)
		}
		s = slotWith(test.state)
		isUsual := test.claimed && test.flags&^flagOutput == flagInput && test.state&flagBlocked == 0
		want := test.state
		if isUsual {
			want = test.after
		}
		if claimed := s.deliverInput(test.gen, test.flags); claimed != isUsual || s.word.Load()&^(testGen<<generationShift) != want {
			t.Errorf("%s, as input: claimed %v, word %b", test.name, claimed, s.word.Load())
		}
	}
}

func TestClaim(t *testing.T) {
	for _, test := range []struct {
		name                 string
		state, flags, unless uint64
		claimed              bool
		after                uint64
	}{
		{"idle", stateIdle | flagAdded, flagTake, flagPartial | flagTLS, true, stateBusy | flagAdded | flagTake},
		{"TLS stays", stateIdle | flagTLS, flagTake, flagPartial | flagTLS, false, stateIdle | flagTLS},
		{"TLS is evicted", stateIdle | flagTLS, flagEvict, flagPartial, true, stateBusy | flagTLS | flagEvict},
		{"partial stays", stateIdle | flagPartial, flagEvict, flagPartial, false, stateIdle | flagPartial},
		{"partial expires", stateIdle | flagPartial, flagExpired, 0, true, stateBusy | flagPartial | flagExpired},
		{"busy", stateBusy, flagTake, 0, false, stateBusy},
		{"closed", stateClosed, flagTake, 0, false, stateClosed},
	} {
		s := slotWith(test.state)
		claimed := s.claim(test.flags, test.unless)
		if after := s.word.Load() &^ (testGen << generationShift); claimed != test.claimed || after != test.after {
			t.Errorf("%s: %v, word %b; want %v, %b", test.name, claimed, after, test.claimed, test.after)
		}
	}
}

func TestRelease(t *testing.T) {
	for _, test := range []struct {
		name   string
		state  uint64
		parked uint64
		ok     bool
		after  uint64
	}{
		{"idle", stateBusy | flagAdded, 0, true, stateIdle | flagAdded},
		{"idle from partial", stateBusy | flagPartial | flagBlocked, 0, true, stateIdle},
		{"partial", stateBusy, flagPartial, true, stateIdle | flagPartial},
		{"room does not matter", stateBusy | flagOutput, 0, true, stateIdle},
		{"input does", stateBusy | flagInput, 0, false, stateBusy | flagInput},
		{"a prompt does", stateBusy | flagPrompt, flagPartial, false, stateBusy | flagPrompt},
		{"the end was read", stateBusy | flagGone, 0, true, stateIdle | flagGone},
		{"blocked: room matters", stateBusy | flagOutput, flagPartial | flagBlocked, false, stateBusy | flagOutput},
		{"blocked: input does not", stateBusy | flagInput, flagPartial | flagBlocked, true, stateIdle | flagPartial | flagBlocked},
		{"duplex: room matters", stateBusy | flagOutput, flagPartial | flagBlocked | flagDuplex, false, stateBusy | flagOutput},
		{"duplex: input does", stateBusy | flagInput, flagPartial | flagBlocked | flagDuplex, false, stateBusy | flagInput},
		{"duplex: a prompt waits", stateBusy | flagPrompt, flagPartial | flagBlocked | flagDuplex, true, stateIdle | flagPartial | flagBlocked | flagDuplex | flagPrompt},
		{"no longer duplex", stateBusy | flagPartial | flagBlocked | flagDuplex, 0, true, stateIdle},
		{"blocked: a prompt waits", stateBusy | flagPrompt, flagPartial | flagBlocked, true, stateIdle | flagPartial | flagBlocked | flagPrompt},
		{"killed", stateBusy | flagKill, 0, false, stateBusy | flagKill},
	} {
		s := slotWith(test.state)
		ok := s.release(test.parked)
		if after := s.word.Load() &^ (testGen << generationShift); ok != test.ok || after != test.after {
			t.Errorf("%s: %v, word %b; want %v, %b", test.name, ok, after, test.ok, test.after)
		}
	}
}

// Whatever is delivered while a connection goes back and forth is seen by its
// owner, or claims it: nothing is lost, and nobody has it twice.
func TestNothingDeliveredIsLost(t *testing.T) {
	const events = 20_000
	s := slotWith(stateIdle)
	var delivered, seen, owners atomic.Int64
	work := make(chan struct{}, 1)
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for range work {
				if owners.Add(1) != 1 {
					t.Error("two owners")
				}
				for {
					s.take(flagInput)
					seen.Store(delivered.Load())
					if owners.Add(-1); s.release(0) {
						break
					}
					owners.Add(1)
				}
			}
		})
	}
	for range events {
		delivered.Add(1)
		if claimed, _ := s.deliver(testGen, flagInput); claimed {
			work <- struct{}{}
		}
	}
	for s.word.Load()&stateMask != stateIdle {
		time.Sleep(time.Millisecond)
	}
	close(work)
	workers.Wait()
	if seen.Load() != events {
		t.Errorf("saw %d of %d events", seen.Load(), events)
	}
}

func TestHoldDelaysClose(t *testing.T) {
	s := slotWith(stateBusy)
	if s.hold(testGen+1) || !s.hold(testGen) {
		t.Fatal("hold looks at the wrong generation")
	}
	closed := make(chan struct{})
	go func() {
		s.close()
		close(closed)
	}()
	select {
	case <-closed:
		t.Error("closed while held")
	case <-time.After(10 * time.Millisecond):
	}
	s.drop()
	<-closed
	if s.hold(testGen) {
		t.Error("held a closed connection")
	}
}

func TestSlotKeepsAddress(t *testing.T) {
	for _, text := range []string{"127.0.0.1:80", "203.0.113.9:65535", "[::1]:8080", "[2001:db8::1]:1"} {
		want := netip.MustParseAddrPort(text)
		s := slot{ip: want.Addr().As16(), port: want.Port()}
		if got := s.remote(); got != want {
			t.Errorf("%v came back as %v", want, got)
		}
		s.setRemote(&sock.Address{})
		if got := s.remote(); got.IsValid() {
			t.Errorf("no address came back as %v", got)
		}
	}
}
