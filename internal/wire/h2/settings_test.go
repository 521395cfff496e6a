package h2

import (
	"bytes"
	"testing"
)

// Every setting comes back from its frame.
func TestSettingsApply(t *testing.T) {
	want := Settings{1, 2, 3, 20_000, 5, false, true, true}
	got := DefaultSettings()
	p := opened(ServerSide)
	for rest := AppendSettings(nil, &want, &got); len(rest) > 0; {
		n, ev, err := p.Next(rest)
		if err != nil {
			t.Fatal(err)
		}
		if err := got.Apply(ev.Setting, ev.Value); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// RFC 9113 section 6.5.2: unknown settings are ignored, as is the 0 of an empty frame.
func TestUnknownSettingsAreIgnored(t *testing.T) {
	s := DefaultSettings()
	for _, id := range []SettingID{0, 7, 10, 0xffff} {
		if err := s.Apply(id, 77); err != nil || s != DefaultSettings() {
			t.Errorf("%d: %v, %+v", id, err, s)
		}
	}
}

// RFC 8441 section 3: extended CONNECT is not withdrawn.
func TestConnectProtocolStays(t *testing.T) {
	s := DefaultSettings()
	for i, c := range []struct {
		value uint32
		want  *Error
	}{{0, nil}, {1, nil}, {1, nil}, {0, ErrSetting}} {
		if err := s.Apply(SettingEnableConnectProtocol, c.value); err != c.want {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// RFC 9113 section 6.5.3: settings are in force when they were acknowledged.
// The window of a stream follows a frame, not each of its values.
func TestPeerSettings(t *testing.T) {
	p, e := NewPeerSettings(), &Encoder{}
	e.Reset(nil)
	window := SendWindow(p.InitialWindowSize - 10)
	receive := func(marks Marks, id SettingID, value uint32) {
		t.Helper()
		ev := Event{Kind: EventSetting, Marks: marks, Setting: id, Value: value}
		if isLast, err := p.Receive(&ev, e, false); err != nil || isLast != ev.Has(EndSettings) {
			t.Fatal(isLast, err)
		}
	}
	receive(FrameStart, SettingInitialWindowSize, 0)
	receive(0, SettingHeaderTableSize, 100)
	receive(EndSettings, SettingInitialWindowSize, 100)
	if !p.WindowChanged() || !p.Shift(&window) || window != 90 {
		t.Errorf("changed %v, window %d", p.WindowChanged(), window)
	}
	receive(FrameStart|EndSettings, SettingInitialWindowSize, 100)
	if p.WindowChanged() || p.HeaderTableSize != 100 {
		t.Errorf("%+v", p)
	}
	window = maxWindow
	if receive(FrameStart|EndSettings, SettingInitialWindowSize, 101); p.Shift(&window) {
		t.Error("a window beyond the maximum")
	}
	receive(FrameStart|EndSettings, SettingEnableConnectProtocol, 1)
	ev := Event{Kind: EventSetting, Marks: FrameStart | EndSettings, Setting: SettingEnableConnectProtocol}
	if isLast, err := p.Receive(&ev, e, false); isLast || err == nil {
		t.Errorf("extended CONNECT is withdrawn: %v, %v", isLast, err)
	}
	receive(FrameStart|EndSettings, SettingNoRFC7540Priorities, 0)
	ev = Event{Kind: EventSetting, Marks: FrameStart | EndSettings, Setting: SettingNoRFC7540Priorities, Value: 1}
	if _, err := p.Receive(&ev, e, false); err != ErrSetting {
		t.Errorf("priorities chosen late: %v", err)
	}
	if isLast, err := p.Receive(&ev, e, true); err != nil || !isLast || !p.NoRFC7540Priorities {
		t.Errorf("priorities chosen in the first frame: %v, %v", isLast, err)
	}
}

func TestOwnSettings(t *testing.T) {
	o := NewOwnSettings()
	if o.InForce != DefaultSettings() || o.Waits() || o.Ack() != ErrUnexpectedAck {
		t.Fatalf("at first: %+v", o)
	}
	first, second := DefaultSettings(), DefaultSettings()
	first.InitialWindowSize, second.MaxFrameSize = 1<<20, 1<<20
	out, ok := o.Send(nil, first)
	if check(t, ClientSide, 0, out, "setting 4 =1048576 length 6 first end"); !ok || !o.Waits() || o.InForce != DefaultSettings() {
		t.Fatalf("sent: %+v", o)
	}
	if out, ok := o.Send([]byte("x"), second); ok || string(out) != "x" {
		t.Fatalf("two frames at once: %q", out)
	}
	if err := o.Ack(); err != nil || o.InForce != first || o.Waits() {
		t.Fatalf("acknowledged: %+v, %v", o, err)
	}
	out, ok = o.Send(nil, second)
	if check(t, ClientSide, 0, out, "setting 4 =65535 length 12 first", "setting 5 =1048576 end"); !ok || o.Ack() != nil || o.InForce != second {
		t.Fatalf("again: %+v", o)
	}
}

// FuzzPackedSettings: what is unpacked is packed to the same bytes; anything else is
// refused.
func FuzzPackedSettings(f *testing.F) {
	s := DefaultSettings()
	f.Add(s.AppendPacked(nil))
	s.EnablePush, s.NoRFC7540Priorities, s.MaxConcurrentStreams, s.MaxFrameSize = false, true, 250, MaxMaxFrameSize
	f.Add(s.AppendPacked([]byte(nil)))
	f.Fuzz(func(t *testing.T, packed []byte) {
		s, rest, ok := CutSettings(packed)
		if !ok {
			return
		}
		if got := append(s.AppendPacked(nil), rest...); !bytes.Equal(got, packed) {
			t.Fatalf("%x became %x", packed, got)
		}
	})
}

func TestPackedSettings(t *testing.T) {
	s := DefaultSettings()
	s.EnableConnectProtocol, s.InitialWindowSize, s.MaxHeaderListSize = true, 1<<31-1, 7
	if got, rest, ok := CutSettings(append(s.AppendPacked(nil), "more"...)); !ok || got != s || string(rest) != "more" {
		t.Errorf("%+v became %+v, %q, %t", s, got, rest, ok)
	}
}
