package upgrade

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A heardEngine keeps what it is asked for.
type heardEngine struct {
	engine.Engine
	targets []engine.Target
}

func (e *heardEngine) Prompt(t engine.Target) { e.targets = append(e.targets, t) }

func (e *heardEngine) Cast(targets []engine.Target, _ []byte, missed func(i int)) {
	e.targets = append(e.targets, targets...)
	missed(0)
}

// TestPlace: a Memo keeps the bits of its Protocol, and names the Host. The rest is the
// engine's.
func TestPlace(t *testing.T) {
	const marks, shift = 5, 3
	e := &heardEngine{}
	p := &Place{Engine: e, Registered: true, Number: MaxHosts - 1, Marks: marks, Shift: shift}
	for _, served := range []uint64{0, 7, 1<<MemoBits - 1, 1 << MemoBits} {
		m := p.Memo(1, served, 3)
		got, isOwn := p.Served(m)
		if got != served&(1<<MemoBits-1) || !isOwn || m.Served&(1<<shift-1) != marks || m.Served>>(shift+MemoBits) != MaxHosts-1 || m.ID != 1 || m.Opened != 3 {
			t.Errorf("%d: %+v", served, m)
		}
		m.Served ^= 1 << (shift + MemoBits)
		if _, isOwn := p.Served(m); isOwn {
			t.Errorf("%d: that of another Host is its own", served)
		}
	}
	first, second := engine.Target{Generation: 1}, engine.Target{Generation: 2}
	missed := -1
	p.Prompt(first)
	p.Cast([]engine.Target{second}, nil, func(i int) { missed = i })
	if !slices.Equal(e.targets, []engine.Target{first, second}) || missed != 0 || !p.IsRegistered() {
		t.Errorf("%v, missed %d", e.targets, missed)
	}
}

// A holder is a context, or a control, that has one value.
type holder struct {
	context.Context
	value any
}

func (h holder) Value(key any) any {
	if key == any(Key{}) {
		return h.value
	}
	return nil
}

type refusing struct{ Taker }

func (refusing) TakeOver(Takeover) error { return errors.ErrUnsupported }

// TestKey: TakeOver and Register find what they need under the Key.
func TestKey(t *testing.T) {
	if err := TakeOver(holder{t.Context(), refusing{}}, Takeover{}); err != errors.ErrUnsupported {
		t.Error(err)
	}
	var h Hosts
	family := &testFamily{name: "talk"}
	if err := Register(holder{value: &h}, family); err != nil || h.Named("talk") != family {
		t.Errorf("%v, %v", err, h.Named("talk"))
	}
}
