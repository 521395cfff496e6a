package h2

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
)

// check parses wire with every cut and compares the events.
func check(t *testing.T, side Side, maxFrame uint32, wire []byte, want ...string) {
	t.Helper()
	for cut := 1; cut <= len(wire); cut++ {
		if cut > 64 && cut < len(wire)-1 && cut%997 != 0 {
			continue
		}
		p := opened(side)
		p.MaxFrameSize, p.MaxContinuations = maxFrame, 1<<15
		rest := len(wire)
		first := func() int { // one cut, at each offset
			if rest == len(wire) {
				rest -= cut
				return cut
			}
			return rest
		}
		got, err := parse(t, p, wire, first)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("cut at %d:\n got %.300q, %v\nwant %.300q", cut, got, err, want)
		}
		if !p.BetweenFrames() {
			t.Fatal("the parser waits for more")
		}
	}
}

// A frame is appended after other bytes, which stay.
func TestAppend(t *testing.T) {
	ping := [8]byte([]byte("abcdefgh"))
	for _, c := range []struct {
		name   string
		side   Side
		append func(dst []byte) []byte
		want   []string
	}{
		{"settings ack", ServerSide, AppendSettingsAck, []string{"settings ack"}},
		{"ping", ServerSide, func(dst []byte) []byte { return AppendPing(dst, ping, false) }, []string{"ping abcdefgh"}},
		{"ping ack", ServerSide, func(dst []byte) []byte { return AppendPing(dst, ping, true) }, []string{"ping ack abcdefgh"}},
		{"goaway", ClientSide, func(dst []byte) []byte { return AppendGoAway(dst, MaxStream, CodeCancel, "") }, []string{"goaway 2147483647 CANCEL"}},
		{"goaway with text", ClientSide, func(dst []byte) []byte { return AppendGoAway(dst, 3, CodeNoError, "bye") }, []string{"goaway 3", `debug "bye"`}},
		{"long debug text is cut", ClientSide, func(dst []byte) []byte { return AppendGoAway(dst, 3, CodeNoError, strings.Repeat("x", 2000)) }, []string{"goaway 3", fmt.Sprintf("debug %q", strings.Repeat("x", 1024))}},
		{"reset", ServerSide, func(dst []byte) []byte { return AppendReset(dst, 5, CodeRefusedStream) }, []string{"reset 5 REFUSED_STREAM"}},
		{"window", ServerSide, func(dst []byte) []byte { return AppendWindowUpdate(dst, 5, 65536) }, []string{"window 5 =65536"}},
		{"priority", ServerSide, func(dst []byte) []byte {
			return AppendPriorityUpdate(dst, 5, fieldlist.Priority{Urgency: 7, IsIncremental: true})
		}, []string{`priority 5 "u=7, i"`}},
		{"default priority", ServerSide, func(dst []byte) []byte { return AppendPriorityUpdate(dst, 5, fieldlist.DefaultPriority()) }, []string{"priority 5"}},
		{"data", ServerSide, func(dst []byte) []byte { return append(AppendDataHead(dst, 7, 3, false), "abc"...) }, []string{`data 7 length 3 "abc" first`}},
		{"last data", ServerSide, func(dst []byte) []byte { return AppendDataHead(dst, 7, 0, true) }, []string{`data 7 first last`}},
		{"headers", ServerSide, func(dst []byte) []byte { return AppendHeaders(dst, 7, []byte("abc"), true, MinMaxFrameSize) }, []string{`headers 7 length 3 "abc" first block end last`}},
		{"empty headers", ServerSide, func(dst []byte) []byte { return AppendHeaders(dst, 7, nil, false, MinMaxFrameSize) }, []string{`headers 7 first block end`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wire := c.append([]byte("before"))
			if string(wire[:6]) != "before" {
				t.Fatalf("%q", wire)
			}
			check(t, c.side, 0, wire[6:], c.want...)
		})
	}
}

func TestAppendSettings(t *testing.T) {
	initial := DefaultSettings()
	check(t, ServerSide, 0, AppendSettings(nil, &initial, &initial), "setting first end")
	all := Settings{1, 2, 3, 20_000, 5, false, true, true}
	check(t, ServerSide, 0, AppendSettings(nil, &all, &initial),
		"setting 1 =1 length 48 first", "setting 2 =0", "setting 3 =2", "setting 4 =3", "setting 5 =20000", "setting 6 =5", "setting 8 =1", "setting 9 =1 end")
	some := initial
	some.InitialWindowSize = 1 << 16
	check(t, ServerSide, 0, AppendSettings(nil, &some, &initial), "setting 4 =65536 length 6 first end")
}

func TestLongBlocksBecomeContinuations(t *testing.T) {
	const size = 10
	for n := range 65 {
		block := []byte(strings.Repeat("0123456789abc", 5))[:n]
		// Without room and with room behind dst.
		for _, dst := range [][]byte{[]byte("before"), append(make([]byte, 0, 500), "before"...)} {
			wire := AppendHeaders(dst, 3, block, true, size)[6:]
			var want []string
			for i := 0; i == 0 || i < n; i += size {
				part := block[i:min(i+size, n)]
				l := line(Event{Kind: EventHeaders, Stream: 3, Length: uint32(len(part)), Payload: part, Marks: FrameStart})
				if i == 0 {
					l = line(Event{Kind: EventHeaders, Stream: 3, Length: uint32(len(part)), Payload: part, Marks: FrameStart | BlockStart})
				}
				if i+size >= n {
					l += " end last"
				}
				want = append(want, l)
			}
			check(t, ServerSide, 0, wire, want...)
		}
	}
}

func TestAppendingAllocatesNothing(t *testing.T) {
	dst := make([]byte, 0, 1000)
	initial, own := DefaultSettings(), Settings{1, 2, 3, 20_000, 5, false, true, true}
	block := make([]byte, 300)
	if n := testing.AllocsPerRun(100, func() {
		out := AppendSettings(dst, &own, &initial)
		out = AppendHeaders(out, 1, block, false, 100)
		out = AppendDataHead(out, 1, 100, true)
		out = AppendPriorityUpdate(out, 1, fieldlist.Priority{Urgency: 1, IsIncremental: true})
		out = AppendGoAway(out, 1, CodeNoError, "bye")
		if len(out) > cap(dst) {
			t.Fatal("too little room")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzAppend: parse(append(x)) == x, wherever the bytes are cut.
func FuzzAppend(f *testing.F) {
	f.Add(uint32(1), uint32(8), []byte("abc"), uint16(0), uint8(4), true)
	f.Add(uint32(1<<31-1), uint32(1<<31-1), []byte{}, uint16(1), uint8(5), false)
	f.Fuzz(func(t *testing.T, stream, value uint32, data []byte, size uint16, cut uint8, isLast bool) {
		stream = stream&maxWord | 1
		value &= maxWord
		if len(data) > MinMaxFrameSize || len(data)/(int(size)+1) > 1<<14 {
			t.Skip()
		}
		p := fieldlist.Priority{Urgency: uint8(value & 7), IsIncremental: isLast}
		code := Code(value % 14)
		ping := [8]byte(append(data[:min(8, len(data)):min(8, len(data))], make([]byte, 8)...))
		wire := AppendReset(nil, stream, code)
		want := []string{line(Event{Kind: EventReset, Stream: stream, Code: code})}
		add := func(b []byte, events ...Event) {
			wire = b
			for _, ev := range events {
				want = append(want, line(ev))
			}
		}
		add(AppendPing(wire, ping, false), Event{Kind: EventPing, Ping: ping})
		add(AppendWindowUpdate(wire, 0, value|1), Event{Kind: EventWindowUpdate, Value: value | 1})
		add(AppendDataHead(wire, stream, len(data), isLast))
		marks := FrameStart
		if isLast {
			marks |= EndStream
		}
		add(append(wire, data...), Event{Kind: EventData, Stream: stream, Length: uint32(len(data)), Payload: data[:len(data):len(data)], Marks: marks})
		add(AppendPriorityUpdate(wire, stream, p), Event{Kind: EventPriorityUpdate, Stream: stream, Payload: fieldlist.AppendPriority(nil, p)})
		add(AppendSettings(wire, &Settings{InitialWindowSize: value}, &Settings{InitialWindowSize: value ^ 1}),
			Event{Kind: EventSetting, Setting: SettingInitialWindowSize, Value: value, Length: settingSize, Marks: FrameStart | EndSettings})
		var blocks []byte
		parser := opened(ServerSide)
		parser.MaxContinuations = 1 << 15
		wire = AppendHeaders(wire, stream, data, isLast, uint32(size)+1)
		var d describer
		for rest := wire; len(rest) > 0; {
			part := rest[:min(int(cut)+1, len(rest))]
			n, ev, err := parser.Next(part)
			if err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
			if ev.Kind == EventHeaders {
				blocks = append(blocks, ev.Payload...)
				if ev.Has(EndHeaders) != (len(rest) == 0) || ev.Has(EndStream) != (len(rest) == 0 && isLast) {
					t.Fatalf("%s with %d bytes left", line(ev), len(rest))
				}
			} else if ev.Kind != EventNone {
				d.add(ev)
			}
		}
		d.flush()
		if !slices.Equal(d.lines, want) || string(blocks) != string(data) || !parser.BetweenFrames() {
			t.Fatalf("got %q and block %q\nwant %q and block %q", d.lines, blocks, want, data)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	dst := make([]byte, 0, 100)
	block := make([]byte, 10)
	b.ReportAllocs()
	for b.Loop() { // the answer to a typical GET
		out := append(BeginHeaders(dst), block...)
		out = FinishHeaders(out, 0, 1, false, MinMaxFrameSize)
		out = AppendDataHead(out, 1, 13, true)
		_ = out
	}
}
