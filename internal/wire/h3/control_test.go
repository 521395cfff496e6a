package h3

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// frame makes a frame of hexadecimal digits.
func frame(t testing.TB, ft FrameType, payload string) []byte {
	p := unhex(t, payload)
	return append(AppendFrameHeader(nil, ft, uint64(len(p))), p...)
}

// events parses a control stream that arrives in two pieces.
func events(side Side, wire []byte, cut int) (list []string, err *Error) {
	c := Control{Side: side}
	for _, in := range [][]byte{wire[:cut], wire[cut:]} {
		for len(in) > 0 {
			used, ev, isEvent, err := c.Next(in)
			if err != nil {
				return list, err
			}
			if isEvent {
				list = append(list, fmt.Sprintf("%x %v %d %q", uint64(ev.Type), ev.Settings, ev.ID, ev.Priority))
			}
			in = in[used:]
		}
	}
	return list, nil
}

func TestControlStream(t *testing.T) {
	settings := frame(t, FrameSettings, "")
	with := func(frames ...[]byte) []byte { return slices.Concat(append([][]byte{settings}, frames...)...) }
	for name, c := range map[string]struct {
		side Side
		wire []byte
		want any // *Error or the number of events
	}{
		"settings only":             {Server, settings, 1},
		"no settings":               {Server, frame(t, FrameGoAway, "00"), ErrMissingSettings},
		"unknown first":             {Server, frame(t, 0x21, ""), ErrMissingSettings},
		"two settings":              {Server, with(settings), ErrSettingsAgain},
		"data":                      {Server, with(frame(t, FrameData, "00")), ErrFrameOnControl},
		"headers":                   {Server, with(frame(t, FrameHeaders, "00")), ErrFrameOnControl},
		"push promise":              {Client, with(frame(t, FramePushPromise, "00")), ErrFrameOnControl},
		"reserved":                  {Server, with(frame(t, 0x6, "00")), ErrFrameReserved},
		"unknown and empty":         {Server, with(frame(t, 0x21, "")), 2},
		"unknown and long":          {Server, with(frame(t, 0x21, strings.Repeat("00", 3000))), 2},
		"goaway of a client":        {Server, with(frame(t, FrameGoAway, "03")), 2},
		"goaway of a server":        {Client, with(frame(t, FrameGoAway, "04")), 2},
		"goaway with no request":    {Client, with(frame(t, FrameGoAway, "03")), ErrGoAwayID},
		"goaway that falls":         {Client, with(frame(t, FrameGoAway, "08"), frame(t, FrameGoAway, "04")), 3},
		"goaway that rises":         {Client, with(frame(t, FrameGoAway, "04"), frame(t, FrameGoAway, "08")), ErrGoAwayID},
		"goaway without a number":   {Server, with(frame(t, FrameGoAway, "")), ErrFrameLength},
		"goaway with more":          {Server, with(frame(t, FrameGoAway, "0000")), ErrFrameLength},
		"goaway, half a number":     {Server, with(frame(t, FrameGoAway, "40")), ErrFrameLength},
		"cancel push":               {Server, with(frame(t, FrameCancelPush, "00")), ErrPushID},
		"cancel push, to a client":  {Client, with(frame(t, FrameCancelPush, "00")), ErrPushID},
		"max push":                  {Server, with(frame(t, FrameMaxPushID, "00"), frame(t, FrameMaxPushID, "05")), 3},
		"max push that falls":       {Server, with(frame(t, FrameMaxPushID, "05"), frame(t, FrameMaxPushID, "04")), ErrMaxPushID},
		"max push from a server":    {Client, with(frame(t, FrameMaxPushID, "00")), ErrFromServer},
		"priority":                  {Server, with(frame(t, FramePriorityUpdate, "08753d31")), 2},
		"priority of no request":    {Server, with(frame(t, FramePriorityUpdate, "03753d31")), ErrPriorityID},
		"priority without a number": {Server, with(frame(t, FramePriorityUpdate, "")), ErrFrameLength},
		"priority from a server":    {Client, with(frame(t, FramePriorityUpdate, "08")), ErrFromServer},
		"priority of a push":        {Server, with(frame(t, FramePriorityPush, "08")), ErrPushID},
		"too large":                 {Server, with(frame(t, FramePriorityUpdate, strings.Repeat("00", maxControlFrame+1))), ErrFrameTooLarge},
		"settings too large":        {Server, frame(t, FrameSettings, strings.Repeat("00", maxControlFrame+1)), ErrFrameTooLarge},
		"a setting twice":           {Server, frame(t, FrameSettings, "06100610"), ErrSettingRepeated},
		"an unknown one twice":      {Server, frame(t, FrameSettings, "21102110"), ErrSettingRepeated},
		"of HTTP/2":                 {Server, frame(t, FrameSettings, "0210"), ErrSettingReserved},
		"half a setting":            {Server, frame(t, FrameSettings, "06"), ErrFrameLength},
		"half a value":              {Server, frame(t, FrameSettings, "0640"), ErrFrameLength},
		"half a name":               {Server, frame(t, FrameSettings, "40"), ErrFrameLength},
		"connect 2":                 {Server, frame(t, FrameSettings, "0802"), ErrSettingValue},
		"too many": {Server, frame(t, FrameSettings, func() (s string) {
			for i := range maxSettings + 1 {
				s += fmt.Sprintf("%x00", 0x4100+i)
			}
			return s
		}()), ErrSettingsNumber},
	} {
		for cut := range len(c.wire) + 1 {
			list, err := events(c.side, c.wire, cut)
			if n, ok := c.want.(int); ok && (err != nil || len(list) != n) {
				t.Fatalf("%s, cut at %d: %v, %v", name, cut, list, err)
			}
			if want, ok := c.want.(*Error); ok && err != want {
				t.Fatalf("%s, cut at %d: %v, %v", name, cut, list, err)
			}
		}
	}
}

func TestEventsOfControlStream(t *testing.T) {
	s := Settings{TableCapacity: 4096, MaxSectionSize: 70000, BlockedStreams: 5, ExtendedConnect: true}
	wire := AppendGoAway(AppendSettings(nil, s), 1<<62-4)
	wire = append(wire, frame(t, FramePriorityUpdate, "08753d31")...)
	list, err := events(Server, wire, 0)
	want := []string{
		`4 {4096 70000 5 true} 0 ""`,
		`7 {0 0 0 false} 4611686018427387900 ""`,
		`f0700 {0 0 0 false} 8 "u=1"`,
	}
	if err != nil || strings.Join(list, "\n") != strings.Join(want, "\n") {
		t.Errorf("%v\n%s", err, strings.Join(list, "\n"))
	}
}

func TestDecoderStream(t *testing.T) {
	for wire, want := range map[string]*Error{
		"": nil, "40": nil, "7f8001": nil, "4041": nil, "7f00 7f7f 40": nil,
		"80": ErrDecoderStream, "00": ErrDecoderStream, "01": ErrDecoderStream, "4081": ErrDecoderStream, "7f8000": nil,
		"7f 8080808080808080808001": ErrDecoderStream,
	} {
		in := unhex(t, wire)
		for cut := range len(in) + 1 {
			var d DecoderStream
			err := d.Check(in[:cut])
			if err == nil {
				err = d.Check(in[cut:])
			}
			if err != want {
				t.Errorf("%s cut at %d: %v", wire, cut, err)
			}
		}
	}
}

// FuzzControl: however a control stream is cut, the result is the same, and memory is bounded.
func FuzzControl(f *testing.F) {
	f.Add(append(AppendSettings(nil, Settings{MaxSectionSize: 1}), AppendGoAway(nil, 4)...), uint8(0), uint16(3))
	f.Add(append(AppendSettings(nil, Settings{}), frame(f, FramePriorityUpdate, "08753d31")...), uint8(1), uint16(9))
	f.Fuzz(func(t *testing.T, wire []byte, side uint8, at uint16) {
		cut := int(at) % (len(wire) + 1)
		s := Side(side % 2)
		whole, err1 := events(s, wire, 0)
		pieces, err2 := events(s, wire, cut)
		if err1 != err2 || strings.Join(whole, "\n") != strings.Join(pieces, "\n") {
			t.Fatalf("%v %v\n%q\n%q", err1, err2, whole, pieces)
		}
		c := Control{Side: s}
		for len(wire) > 0 {
			used, _, _, err := c.Next(wire[:min(len(wire), 7)])
			if wire = wire[used:]; err != nil {
				break
			}
			if cap(c.payload) > 4*maxControlFrame {
				t.Fatalf("%d bytes are kept", cap(c.payload))
			}
		}
	})
}

// FuzzSettings: what is appended is read.
func FuzzSettings(f *testing.F) {
	f.Add(uint64(0), uint64(1<<20), uint64(3), true)
	f.Fuzz(func(t *testing.T, capacity, size, blocked uint64, connect bool) {
		s := Settings{capacity & MaxVarint, size & MaxVarint, blocked & MaxVarint, connect}
		wire := AppendSettings(nil, s)
		var r FrameReader
		used, _ := r.ReadHeader(wire)
		got, err := ReadSettings(wire[used:])
		if err != nil || got != s || r.Left != uint64(len(wire)-used) {
			t.Fatalf("%v, %v, want %v", got, err, s)
		}
		if !bytes.Equal(AppendSettings(nil, got), wire) {
			t.Fatal("another frame")
		}
	})
}
