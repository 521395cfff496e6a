package h2

import (
	"math"
	"testing"
)

const second = 1_000_000_000

// chargeAll charges cost until the budget is used up, and returns how often that went well.
func chargeAll(b *Budget, now int64, cost Cost) (times int) {
	for b.Charge(now, cost) == nil {
		times++
	}
	return times
}

func TestBudgetBounds(t *testing.T) {
	for name, c := range map[string]struct {
		cost          Cost
		once, eachSec int
	}{
		"resets":   {CostReset, 400, 40},
		"settings": {CostSettings, 2000, 200},
		"pings":    {CostPing, 2000, 200},
		"large":    {budgetSize, 1, 0},
	} {
		var b Budget
		now := int64(12345 * second)
		if n := chargeAll(&b, now, c.cost); n != c.once || b.Tokens() != 0 {
			t.Errorf("%s: %d at once", name, n)
		}
		if n := chargeAll(&b, now+second, c.cost); n != c.eachSec {
			t.Errorf("%s: %d after a second", name, n)
		}
		if n := chargeAll(&b, now+1000*second, c.cost); n != c.once {
			t.Errorf("%s: %d after a long time", name, n)
		}
	}
}

// A slow refill is not lost by frequent calls.
func TestBudgetRefillsInSmallSteps(t *testing.T) {
	var b Budget
	chargeAll(&b, 0, Token)
	for now := int64(0); now < second; now += second / 10_000 {
		b.Charge(now, 0)
	}
	if b.Tokens() != 199 { // the 200th is due at the end of the second
		t.Error(b.Tokens())
	}
}

func TestBudgetEarns(t *testing.T) {
	for name, c := range map[string]struct {
		refund func(b *Budget)
		want   int
	}{
		"request":        {func(b *Budget) { b.Refund(RequestRefund) }, 1},
		"1 KiB":          {func(b *Budget) { b.RefundBody(1 << 10) }, 1},
		"pieces of 64 B": {func(b *Budget) { repeat(16, func() { b.RefundBody(64) }) }, 1},
		"pieces of 31 B": {func(b *Budget) { repeat(1000, func() { b.RefundBody(31) }) }, 0},
		"1 MiB":          {func(b *Budget) { b.RefundBody(1 << 20) }, 1024},
		"4 GiB":          {func(b *Budget) { b.RefundBody(math.MaxUint32) }, 2000},
		"many requests":  {func(b *Budget) { repeat(3000, func() { b.Refund(RequestRefund) }) }, 2000},
	} {
		var b Budget
		b.Charge(0, budgetSize)
		if c.refund(&b); b.Tokens() != c.want {
			t.Errorf("%s: %d tokens, want %d", name, b.Tokens(), c.want)
		}
	}
}

func repeat(n int, f func()) {
	for range n {
		f()
	}
}

func TestBudgetPadding(t *testing.T) {
	var b Budget
	n := 0
	for b.ChargeData(0, &Event{Length: 256, Padding: 256, Marks: EndStream}, false) == nil {
		n += 256
	}
	if n != 2000*costPaddingBytes {
		t.Errorf("%d bytes of padding", n)
	}
}

func TestBudgetOwes(t *testing.T) {
	var b Budget
	for i := range maxAcks {
		charge := b.ChargeSettings
		if i%2 == 0 {
			charge = b.ChargePing
		}
		if err := charge(0); err != nil || !b.HasAcks() {
			t.Fatal(err, b.HasAcks())
		}
	}
	if b.ChargeSettings(0) != ErrExcessiveLoad || b.ChargePing(0) != ErrExcessiveLoad {
		t.Errorf("more than %d acknowledgements wait", maxAcks)
	}
	if b.AcksSent(); b.HasAcks() || b.ChargeSettings(0) != nil || b.ChargePing(0) != nil {
		t.Error("has acknowledgements after AcksSent")
	}
	b.charged = budgetSize
	if b.ChargeSettings(0) != ErrExcessiveLoad || b.ChargePing(0) != ErrExcessiveLoad {
		t.Error("the budget is used up")
	}
}

// TestBudgetEchoes: what may answer DATA costs nothing, so often.
func TestBudgetEchoes(t *testing.T) {
	var b Budget
	for range 2 * maxEchoes {
		b.SentData()
	}
	const more = 1000
	for i := range maxEchoes/2 + more {
		if _ = b.ChargePing(0); i < maxEchoes/2 {
			_ = b.ChargeUpdate(0, 1)
		}
		b.AcksSent()
	}
	if want := Cost(more) * Token; b.charged != want {
		t.Errorf("%d, want %d", b.charged, want)
	}
	b = Budget{}
	b.SentData()
	if _ = b.ChargeSettings(0); b.charged != CostSettings {
		t.Error("SETTINGS are no answer to DATA")
	}
}

func TestBudgetOfFrames(t *testing.T) {
	for name, c := range map[string]struct {
		ev         Event
		isStreamed bool
		want       Cost
	}{
		"data":               {Event{Length: tinyData}, false, 0},
		"tiny":               {Event{Length: tinyData - 1}, false, CostTinyData},
		"tiny, streamed":     {Event{Length: 1}, true, 0},
		"tiny, last":         {Event{Length: 1, Marks: EndStream}, false, 0},
		"empty":              {Event{}, true, CostEmptyFrame},
		"empty, last":        {Event{Marks: EndStream}, false, 0},
		"padding only":       {Event{Length: 256, Padding: 256}, true, CostEmptyFrame + Token},
		"tiny, with padding": {Event{Length: 129, Padding: 128}, false, CostTinyData + Token/2},
	} {
		var b Budget
		if err := b.ChargeData(0, &c.ev, c.isStreamed); err != nil || b.charged != c.want {
			t.Errorf("%s: %d, %v, want %d", name, b.charged, err, c.want)
		}
	}
	var b Budget
	if _ = b.ChargeUpdate(0, smallUpdate); b.charged != 0 {
		t.Errorf("%d for an update", b.charged)
	}
	if _ = b.ChargeUpdate(0, smallUpdate-1); b.charged != CostSmallUpdate {
		t.Errorf("%d for a small update", b.charged)
	}
}

// Small frames of abandoned content cost nothing within the window that the peer had. What
// several streams give is bounded.
func TestBudgetAbandon(t *testing.T) {
	var b Budget
	b.Abandon(-5)
	b.Abandon(25)
	small := &Event{Length: 10}
	for i, want := range []Cost{0, 0, CostTinyData} {
		if err := b.ChargeData(0, small, false); err != nil || b.charged != want {
			t.Errorf("frame %d: %d charged, %v", i, b.charged, err)
		}
	}
	if err := b.ChargeData(0, &Event{}, false); err != nil || b.charged != CostTinyData+CostEmptyFrame {
		t.Errorf("an empty frame: %d charged, %v", b.charged, err)
	}
	for range 10 {
		b.Abandon(1<<31 - 1)
	}
	if b.late != maxLate {
		t.Errorf("%d bytes may come late", b.late)
	}
}

// After a hand-over the clock may be another one.
func TestBudgetOfAnotherClock(t *testing.T) {
	var b Budget
	b.Charge(5000*second, budgetSize)
	if b.Charge(0, Token) == nil {
		t.Error("refunded while the clock went back")
	}
	if n := chargeAll(&b, second, Token); n != 200 {
		t.Errorf("%d tokens a second later", n)
	}
}

func TestPackedBudget(t *testing.T) {
	var b Budget
	b.Charge(77*second, 1234)
	wire := b.AppendPacked([]byte("x"))
	if len(wire) != 1+packedBudget {
		t.Fatalf("%d bytes", len(wire)-1)
	}
	if got, rest, ok := CutBudget(append(wire, "more"...)[1:]); !ok || got != b || string(rest) != "more" {
		t.Errorf("%+v became %+v, %q", b, got, rest)
	}
	if _, _, ok := CutBudget(wire[2:]); ok {
		t.Error("too short")
	}
	if _, _, ok := CutBudget([]byte("\xff\xff\x00\x00\x00\x00")); ok {
		t.Error("more charged than there is")
	}
}

func TestBudgetAllocatesNothing(t *testing.T) {
	var b Budget
	if n := testing.AllocsPerRun(100, func() {
		b.Charge(0, CostPing)
		b.Refund(RequestRefund)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
