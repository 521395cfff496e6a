package h2

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"
)

// frame makes a frame from its parts; the payload's length need not fit its type.
func frame(kind frameType, flags uint8, stream uint32, payload string) string {
	return string(appendHead(nil, len(payload), kind, flags, stream)) + payload
}

// settings is an empty SETTINGS frame, with which every connection begins.
var settings = frame(frameSettings, 0, 0, "")

// opened returns a Parser on side that has read what a connection begins with.
func opened(side Side) *Parser {
	p := &Parser{Side: side}
	p.Resume()
	return p
}

// A describer makes a line of each Event. Pieces of one frame become one line, so that
// the result does not depend on the cuts.
type describer struct {
	lines []string
	piece Event
	data  []byte
}

func (d *describer) add(ev Event) {
	isPiece := ev.Kind == EventHeaders || ev.Kind == EventData || ev.Kind == EventDebug
	if ev.Kind != d.piece.Kind || ev.Has(FrameStart) || !isPiece {
		d.flush()
	}
	if !isPiece {
		d.lines = append(d.lines, line(ev))
		return
	}
	d.data = append(d.data, ev.Payload...)
	if d.piece.Kind == EventNone {
		d.piece = ev
	} else {
		d.piece.Marks |= ev.Marks
		d.piece.Err = ev.Err
	}
}

func (d *describer) flush() {
	if d.piece.Kind != EventNone {
		d.piece.Payload = d.data
		d.lines = append(d.lines, line(d.piece))
	}
	d.piece, d.data = Event{}, nil
}

func line(ev Event) string {
	var b strings.Builder
	names := [...]string{
		"none", "headers", "data", "setting", "settings ack", "ping", "ping ack", "window", "reset", "goaway", "debug", "priority", "ignored", "stream error",
	}
	b.WriteString(names[ev.Kind])
	add := func(isSet bool, format string, arg any) {
		if isSet {
			fmt.Fprintf(&b, format, arg)
		}
	}
	add(ev.Stream != 0, " %d", ev.Stream)
	add(ev.Setting != 0, " %d", ev.Setting)
	add(ev.Value != 0 || ev.Setting != 0, " =%d", ev.Value)
	add(ev.Code != 0, " %v", ev.Code)
	add(ev.Ping != [8]byte{}, " %s", ev.Ping[:])
	add(ev.Length != 0, " length %d", ev.Length)
	add(ev.Padding != 0, " padding %d", ev.Padding)
	add(len(ev.Payload) > 0, " %q", ev.Payload)
	add(ev.Has(FrameStart), "%s", " first")
	add(ev.Has(BlockStart), "%s", " block")
	add(ev.Has(EndHeaders), "%s", " end")
	add(ev.Has(EndSettings), "%s", " end")
	add(ev.Has(EndStream), "%s", " last")
	add(ev.Err != nil, " (%v)", ev.Err)
	return b.String()
}

// parse reads in in pieces of the sizes that cut returns, and checks what is true of
// all inputs.
func parse(t *testing.T, p *Parser, in []byte, cut func() int) (events []string, err *Error) {
	t.Helper()
	var d describer
	for len(in) > 0 && err == nil {
		part := in[:min(cut(), len(in))]
		for err == nil {
			var n int
			var ev Event
			n, ev, err = p.Next(part)
			if n > len(part) || ev.Kind == EventNone && err == nil && n != len(part) {
				t.Fatalf("used %d of %d with event %d", n, len(part), ev.Kind)
			}
			if len(part) == 0 && ev.Kind != EventNone {
				t.Fatalf("event without input: %s", line(ev))
			}
			in, part = in[n:], part[n:]
			if ev.Kind == EventNone {
				break
			}
			d.add(ev)
		}
	}
	d.flush()
	if err != nil {
		if _, _, again := p.Next([]byte("x")); again != err {
			t.Fatalf("after %v the next call returns %v", err, again)
		}
	}
	return d.lines, err
}

func whole(in string) func() int { return func() int { return max(1, len(in)) } }

// every returns a constant size of pieces.
func every(n int) func() int { return func() int { return n } }

type frameCase struct {
	name string // with the section of RFC 9113, if no other is named
	side Side
	in   string
	want string // events, a line each
	err  *Error
}

func run(t *testing.T, cases []frameCase, make func(Side) *Parser) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for size := 1; size <= max(len(c.in), 1); size++ {
				if size > 40 && size < len(c.in)-1 {
					continue // cuts at other places than those of frames
				}
				got, err := parse(t, make(c.side), []byte(c.in), every(size))
				if strings.Join(got, "\n") != c.want || err != c.err {
					t.Fatalf("in pieces of %d:\n got %q, %v\nwant %q, %v", size, strings.Join(got, "\n"), err, c.want, c.err)
				}
			}
		})
	}
}

func TestConnectionBegins(t *testing.T) {
	run(t, []frameCase{
		{"3.4 preface and empty SETTINGS", ServerSide, Preface + settings, "setting first end", nil},
		{"3.4 a server's preface is SETTINGS", ClientSide, settings, "setting first end", nil},
		{"3.4 wrong preface", ServerSide, "GET / HTTP/1.1\r\n", "", ErrPreface},
		{"3.4 wrong end of the preface", ServerSide, Preface[:23] + "\r", "", ErrPreface},
		{"3.4 the preface alone", ServerSide, Preface, "", nil},
		{"3.4 first frame is PING", ServerSide, Preface + frame(framePing, 0, 0, "01234567"), "", ErrFirstFrame},
		{"3.4 first frame is an acknowledgement", ServerSide, Preface + frame(frameSettings, flagAck, 0, ""), "", ErrFirstFrame},
		{"3.4 first frame of an HTTP/1.1 server", ClientSide, "HTTP/1.1 400 Bad Request\r\n\r\n", "", ErrFirstFrame},
	}, func(side Side) *Parser { return &Parser{Side: side} })
}

func TestFrames(t *testing.T) {
	long := strings.Repeat("x", MinMaxFrameSize)
	run(t, []frameCase{
		{"4.1 reserved bit of the stream is ignored", ServerSide, frame(frameData, 0, 1<<31|1, "a"), `data 1 length 1 "a" first`, nil},
		{"4.1 unknown flags are ignored", ServerSide, frame(framePing, 0xfe, 0, "abcdefgh"), "ping abcdefgh", nil},
		{"4.1 unknown types are skipped", ServerSide, frame(0xa, 0xff, 7, "abc") + frame(framePing, 0, 0, "abcdefgh"), "ignored 7 length 3\nping abcdefgh", nil},
		{"4.1 unknown types may be empty", ServerSide, frame(0xff, 0, 0, ""), "ignored", nil},
		{"4.2 largest frame", ServerSide, frame(frameData, 0, 1, long), `data 1 length 16384 "` + long + `" first`, nil},
		{"4.2 too large", ServerSide, frame(frameData, 0, 1, long+"x"), "", ErrFrameTooLarge},
		{"4.2 too large, unknown type", ServerSide, frame(0xff, 0, 1, long+"x"), "", ErrFrameTooLarge},

		{"6.1 DATA", ServerSide, frame(frameData, 0, 3, "ab") + frame(frameData, flagEndStream, 3, "c"), "data 3 length 2 \"ab\" first\ndata 3 length 1 \"c\" first last", nil},
		{"6.1 empty DATA", ServerSide, frame(frameData, flagEndStream, 3, ""), `data 3 first last`, nil},
		{"6.1 padded DATA", ServerSide, frame(frameData, flagPadded|flagEndStream, 3, "\x02ab\x00\x00") + settings, "data 3 length 5 padding 3 \"ab\" first last\nsetting first end", nil},
		{"6.1 padding only", ServerSide, frame(frameData, flagPadded, 3, "\x02\x00\x00"), `data 3 length 3 padding 3 first`, nil},
		{"6.1 padding of 0", ServerSide, frame(frameData, flagPadded, 3, "\x00"), `data 3 length 1 padding 1 first`, nil},
		{"6.1 too much padding", ServerSide, frame(frameData, flagPadded, 3, "\x03ab"), "", ErrPadding},
		{"6.1 as much padding as payload", ServerSide, frame(frameData, flagPadded, 3, "\x01"), "", ErrPadding},
		{"6.1 no length of padding", ServerSide, frame(frameData, flagPadded, 3, ""), "", ErrFrameLength},
		{"6.1 DATA on stream 0", ServerSide, frame(frameData, 0, 0, "a"), "", ErrStreamMissing},
		{"5.1.1 DATA on an even stream", ClientSide, frame(frameData, 0, 2, "a"), "", ErrStreamEven},

		{"6.3 PRIORITY", ServerSide, frame(framePriority, 0, 2, "\x00\x00\x00\x01\x10"), "ignored 2 length 5", nil},
		{"6.3 PRIORITY on stream 0", ServerSide, frame(framePriority, 0, 0, "\x00\x00\x00\x01\x10"), "", ErrStreamMissing},
		{"6.3 length", ServerSide, frame(framePriority, 0, 1, "1234") + settings, "stream error 1 (" + ErrPriorityLength.Error() + ")\nsetting first end", nil},
		{"6.3 length 0", ServerSide, frame(framePriority, 0, 1, "") + settings, "stream error 1 (" + ErrPriorityLength.Error() + ")\nsetting first end", nil},
		{"RFC 7540 5.3.1 PRIORITY on itself", ServerSide, frame(framePriority, 0, 1, "\x80\x00\x00\x01\x10"), "stream error 1 (" + ErrSelfDependency.Error() + ")", nil},

		{"6.4 RST_STREAM", ServerSide, frame(frameReset, 0, 1, "\x00\x00\x00\x08"), "reset 1 CANCEL", nil},
		{"6.4 stream 0", ServerSide, frame(frameReset, 0, 0, "\x00\x00\x00\x08"), "", ErrStreamMissing},
		{"6.4 even stream", ServerSide, frame(frameReset, 0, 2, "\x00\x00\x00\x08"), "", ErrStreamEven},
		{"6.4 length", ServerSide, frame(frameReset, 0, 1, "\x00\x00\x08"), "", ErrFrameLength},
		{"7 unknown code", ServerSide, frame(frameReset, 0, 1, "\x00\x00\x00\x0e"), "reset 1 unknown code", nil},

		{"6.6 PUSH_PROMISE to a server", ServerSide, frame(framePushPromise, flagEndHeaders, 1, "\x00\x00\x00\x02"), "", ErrPush},
		{"6.6 PUSH_PROMISE to a client", ClientSide, frame(framePushPromise, flagEndHeaders, 1, "\x00\x00\x00\x02"), "", ErrPush},

		{"6.7 PING", ServerSide, frame(framePing, 0, 0, "abcdefgh"), "ping abcdefgh", nil},
		{"6.7 PING ack", ServerSide, frame(framePing, flagAck, 0, "abcdefgh"), "ping ack abcdefgh", nil},
		{"6.7 on a stream", ServerSide, frame(framePing, 0, 1, "abcdefgh"), "", ErrStreamForbidden},
		{"6.7 too short", ServerSide, frame(framePing, 0, 0, "abcdefg"), "", ErrFrameLength},
		{"6.7 too long", ServerSide, frame(framePing, 0, 0, "abcdefghi"), "", ErrFrameLength},

		{"6.8 GOAWAY", ClientSide, frame(frameGoAway, 0, 0, "\x80\x00\x00\x05\x00\x00\x00\x0b"), "goaway 5 ENHANCE_YOUR_CALM", nil},
		{"6.8 with debug data", ClientSide, frame(frameGoAway, 0, 0, "\x00\x00\x00\x05\x00\x00\x00\x00bye") + settings, "goaway 5\ndebug \"bye\"\nsetting first end", nil},
		{"6.8 on a stream", ServerSide, frame(frameGoAway, 0, 1, "\x00\x00\x00\x05\x00\x00\x00\x00"), "", ErrStreamForbidden},
		{"6.8 too short", ServerSide, frame(frameGoAway, 0, 0, "\x00\x00\x00\x05\x00\x00\x00"), "", ErrFrameLength},

		{"6.9 WINDOW_UPDATE", ServerSide, frame(frameWindowUpdate, 0, 0, "\xff\xff\xff\xff") + frame(frameWindowUpdate, 0, 1, "\x00\x00\x00\x01"), "window =2147483647\nwindow 1 =1", nil},
		{"6.9 of 0", ServerSide, frame(frameWindowUpdate, 0, 0, "\x80\x00\x00\x00"), "", ErrIncrement},
		{"6.9 of 0 on a stream", ServerSide, frame(frameWindowUpdate, 0, 1, "\x80\x00\x00\x00") + settings, "stream error 1 (" + ErrStreamIncrement.Error() + ")\nsetting first end", nil},
		{"6.9 even stream", ServerSide, frame(frameWindowUpdate, 0, 2, "\x00\x00\x00\x01"), "", ErrStreamEven},
		{"6.9 length", ServerSide, frame(frameWindowUpdate, 0, 1, "\x00\x00\x00\x01\x00"), "", ErrFrameLength},

		{"RFC 9218 7.1 PRIORITY_UPDATE", ServerSide, frame(framePriorityUpdate, 0, 0, "\x80\x00\x00\x05u=1, i"), `priority 5 "u=1, i"`, nil},
		{"RFC 9218 7.1 empty", ServerSide, frame(framePriorityUpdate, 0, 0, "\x00\x00\x00\x05") + settings, "priority 5\nsetting first end", nil},
		{"RFC 9218 7.1 longest", ServerSide, frame(framePriorityUpdate, 0, 0, "\x00\x00\x00\x050123456789abcdef"), `priority 5 "0123456789abcdef"`, nil},
		{"RFC 9218 7.1 longer", ServerSide, frame(framePriorityUpdate, 0, 0, "\x00\x00\x00\x050123456789abcdef0") + settings, "ignored length 21\nsetting first end", nil},
		{"RFC 9218 7.1 on a stream", ServerSide, frame(framePriorityUpdate, 0, 1, "\x00\x00\x00\x05i"), "", ErrStreamForbidden},
		{"RFC 9218 7.1 for stream 0", ServerSide, frame(framePriorityUpdate, 0, 0, "\x00\x00\x00\x00i"), "", ErrPriorityUpdate},
		{"RFC 9218 7.1 for an even stream", ServerSide, frame(framePriorityUpdate, 0, 0, "\x00\x00\x00\x02i"), "", ErrPriorityUpdate},
		{"RFC 9218 7.1 too short", ServerSide, frame(framePriorityUpdate, 0, 0, "\x00\x00\x00"), "", ErrFrameLength},
		{"RFC 9218 7.1 from a server", ClientSide, frame(framePriorityUpdate, 0, 0, "\x00\x00\x00\x05i"), "", ErrPriorityUpdate},
	}, opened)
}

func TestSettingsFrames(t *testing.T) {
	one := func(id uint16, value uint32) string {
		return frame(frameSettings, 0, 0, string([]byte{byte(id >> 8), byte(id), byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}))
	}
	run(t, []frameCase{
		{"6.5 two values", ServerSide, frame(frameSettings, 0, 0, "\x00\x04\x00\x01\x00\x00\x00\x03\x00\x00\x00\x64") + settings,
			"setting 4 =65536 length 12 first\nsetting 3 =100 end\nsetting first end", nil},
		{"6.5 ack", ServerSide, frame(frameSettings, flagAck, 0, "") + settings, "settings ack\nsetting first end", nil},
		{"6.5 ack with values", ServerSide, frame(frameSettings, flagAck, 0, "\x00\x04\x00\x01\x00\x00"), "", ErrFrameLength},
		{"6.5 on a stream", ServerSide, frame(frameSettings, 0, 1, ""), "", ErrStreamForbidden},
		{"6.5 not a multiple of six", ServerSide, frame(frameSettings, 0, 0, "\x00\x04\x00\x01\x00\x00\x00"), "", ErrFrameLength},
		{"6.5.2 unknown", ServerSide, one(0xff, 1), "setting 255 =1 length 6 first end", nil},
		{"6.5.2 push from a client", ServerSide, one(2, 1), "setting 2 =1 length 6 first end", nil},
		{"6.5.2 no push from a server", ClientSide, one(2, 0), "setting 2 =0 length 6 first end", nil},
		{"6.5.2 push from a server", ClientSide, one(2, 1), "", ErrSetting},
		{"6.5.2 push 2", ServerSide, one(2, 2), "", ErrSetting},
		{"6.5.2 largest window", ServerSide, one(4, 1<<31-1), "setting 4 =2147483647 length 6 first end", nil},
		{"6.5.2 too large a window", ServerSide, one(4, 1<<31), "", ErrInitialWindow},
		{"6.5.2 smallest frames", ServerSide, one(5, 1<<14), "setting 5 =16384 length 6 first end", nil},
		{"6.5.2 largest frames", ServerSide, one(5, 1<<24-1), "setting 5 =16777215 length 6 first end", nil},
		{"6.5.2 too small frames", ServerSide, one(5, 1<<14-1), "", ErrSetting},
		{"6.5.2 too large frames", ServerSide, one(5, 1<<24), "", ErrSetting},
		{"RFC 8441 3", ClientSide, one(8, 1), "setting 8 =1 length 6 first end", nil},
		{"RFC 8441 3 value 2", ClientSide, one(8, 2), "", ErrSetting},
		{"RFC 9218 2.1", ServerSide, one(9, 1), "setting 9 =1 length 6 first end", nil},
		{"RFC 9218 2.1 value 2", ServerSide, one(9, 2), "", ErrSetting},
	}, opened)
}

func TestFieldBlocks(t *testing.T) {
	const priority = "\x00\x00\x00\x03\x10"
	run(t, []frameCase{
		{"6.2 HEADERS", ServerSide, frame(frameHeaders, flagEndHeaders, 1, "abc") + settings, "headers 1 length 3 \"abc\" first block end\nsetting first end", nil},
		{"6.2 END_STREAM", ServerSide, frame(frameHeaders, flagEndHeaders|flagEndStream, 1, "abc"), `headers 1 length 3 "abc" first block end last`, nil},
		{"6.2 empty", ServerSide, frame(frameHeaders, flagEndHeaders, 1, ""), `headers 1 first block end`, nil},
		{"6.2 padding and priority", ServerSide, frame(frameHeaders, flagEndHeaders|flagPadded|flagPriority, 1, "\x01"+priority+"abc\x00"), `headers 1 length 10 padding 2 "abc" first block end`, nil},
		{"6.2 priority", ServerSide, frame(frameHeaders, flagEndHeaders|flagPriority, 1, priority), `headers 1 length 5 first block end`, nil},
		{"6.2 too short for priority", ServerSide, frame(frameHeaders, flagEndHeaders|flagPriority, 1, priority[:4]), "", ErrFrameLength},
		{"6.2 too short for padding and priority", ServerSide, frame(frameHeaders, flagEndHeaders|flagPadded|flagPriority, 1, priority), "", ErrFrameLength},
		{"6.2 padding leaves no room for priority", ServerSide, frame(frameHeaders, flagEndHeaders|flagPadded|flagPriority, 1, "\x01"+priority), "", ErrPadding},
		{"6.2 too much padding", ServerSide, frame(frameHeaders, flagEndHeaders|flagPadded, 1, "\x02a"), "", ErrPadding},
		{"6.2 stream 0", ServerSide, frame(frameHeaders, flagEndHeaders, 0, "a"), "", ErrStreamMissing},
		{"5.1.1 even stream", ServerSide, frame(frameHeaders, flagEndHeaders, 2, "a"), "", ErrStreamEven},
		{"RFC 7540 5.3.1 HEADERS on itself", ServerSide, frame(frameHeaders, flagPriority, 3, priority+"a") + frame(frameContinuation, flagEndHeaders, 3, "b") + frame(frameHeaders, flagEndHeaders, 5, "c"),
			"headers 3 length 6 \"a\" first block\nheaders 3 length 1 \"b\" first end (" + ErrSelfDependency.Error() + ")\nheaders 5 length 1 \"c\" first block end", nil},
		{"6.10 CONTINUATION", ServerSide, frame(frameHeaders, flagEndStream|flagPadded, 1, "\x02abc\x00\x00") + frame(frameContinuation, 0, 1, "") + frame(frameContinuation, flagEndHeaders, 1, "d"),
			"headers 1 length 6 padding 3 \"abc\" first block\nheaders 1 first\nheaders 1 length 1 \"d\" first end last", nil},
		{"6.10 without HEADERS", ServerSide, frame(frameContinuation, flagEndHeaders, 1, "d"), "", ErrContinuation},
		{"6.10 after END_HEADERS", ServerSide, frame(frameHeaders, flagEndHeaders, 1, "a") + frame(frameContinuation, flagEndHeaders, 1, "d"), "headers 1 length 1 \"a\" first block end", ErrContinuation},
		{"6.10 stream 0", ServerSide, frame(frameContinuation, flagEndHeaders, 0, "d"), "", ErrStreamMissing},
		{"6.10 of another stream", ServerSide, frame(frameHeaders, 0, 1, "a") + frame(frameContinuation, flagEndHeaders, 3, "d"), "headers 1 length 1 \"a\" first block", ErrBlockInterrupted},
		{"6.2 another frame within a block", ServerSide, frame(frameHeaders, 0, 1, "a") + frame(framePing, 0, 0, "abcdefgh"), "headers 1 length 1 \"a\" first block", ErrBlockInterrupted},
		{"6.2 another block within a block", ServerSide, frame(frameHeaders, 0, 1, "a") + frame(frameHeaders, flagEndHeaders, 3, "a"), "headers 1 length 1 \"a\" first block", ErrBlockInterrupted},
		{"5.5 unknown frame within a block", ServerSide, frame(frameHeaders, 0, 1, "a") + frame(0xff, 0, 1, ""), "headers 1 length 1 \"a\" first block", ErrBlockInterrupted},
	}, opened)
}

// A block costs a bounded number of frames.
func TestContinuationsAreBounded(t *testing.T) {
	for _, c := range []struct {
		name        string
		most        uint16
		full, empty int
		err         *Error
	}{
		{"16", 0, 16, 0, nil},
		{"17", 0, 17, 0, ErrContinuations},
		{"4 empty", 0, 1, 4, nil},
		{"5 empty", 0, 1, 5, ErrContinuations},
		{"40 of 40", 40, 40, 0, nil},
		{"41 of 40", 40, 41, 0, ErrContinuations},
	} {
		in := frame(frameHeaders, 0, 1, "a") + strings.Repeat(frame(frameContinuation, 0, 1, ""), c.empty) +
			strings.Repeat(frame(frameContinuation, 0, 1, "a"), c.full)
		in += in // the next block is counted anew, if END_HEADERS ends the first
		half := len(in) / 2
		last := half - FrameHeadSize - 1 + 4 // flags of the last frame
		in = in[:last] + "\x04" + in[last+1:]
		p := opened(ServerSide)
		p.MaxContinuations = c.most
		if _, err := parse(t, p, []byte(in), whole(in)); err != c.err {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
	}
}

func TestMaxFrameSize(t *testing.T) {
	in := frame(frameData, 0, 1, strings.Repeat("x", 20_000))
	for most, want := range map[uint32]*Error{0: ErrFrameTooLarge, 1: ErrFrameTooLarge, 19_999: ErrFrameTooLarge, 20_000: nil} {
		p := opened(ServerSide)
		p.MaxFrameSize = most
		if _, err := parse(t, p, []byte(in), whole(in)); err != want {
			t.Errorf("%d: %v", most, err)
		}
	}
}

func TestBetweenFrames(t *testing.T) {
	in := Preface + settings + frame(frameHeaders, flagPadded, 1, "\x01a\x00") + frame(frameContinuation, flagEndHeaders, 1, "b") + frame(framePing, 0, 0, "abcdefgh")
	ends := map[int]bool{33: true, 33 + 12 + 10: true, len(in): true}
	var p Parser
	for i := range in {
		if _, err := parse(t, &p, []byte(in[i:i+1]), every(1)); err != nil {
			t.Fatal(err)
		}
		if p.BetweenFrames() != ends[i+1] {
			t.Errorf("after %d bytes: %v", i+1, p.BetweenFrames())
		}
	}
}

func TestParserIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Parser{}); size > 80 {
		t.Errorf("a Parser has %d bytes", size)
	}
	if size := unsafe.Sizeof(Event{}); size > 80 {
		t.Errorf("an Event has %d bytes", size)
	}
}

func TestErrors(t *testing.T) {
	if ErrPriorityLength.Scope != StreamScope || ErrPreface.Scope != ConnectionScope {
		t.Error("scopes")
	}
	var err error = ErrPreface
	if !errors.Is(err, ErrPreface) || err.Error() != "sluice: http2: invalid connection preface" {
		t.Error(err)
	}
	for c, want := range map[Code]string{CodeNoError: "NO_ERROR", CodeHTTP11Required: "HTTP_1_1_REQUIRED", 14: "unknown code"} {
		if c.String() != want {
			t.Errorf("%d is %s", c, c)
		}
	}
}

// typicalGET is what a client sends for a typical GET; its block has 60 bytes.
var typicalGET = frame(frameHeaders, flagEndHeaders|flagEndStream, 1, strings.Repeat("x", 60)) + frame(frameWindowUpdate, 0, 0, "\x00\x01\x00\x00")

func readAll(p *Parser, in []byte) (events int, err *Error) {
	for {
		n, ev, err := p.Next(in)
		if err != nil || ev.Kind == EventNone {
			return events, err
		}
		events++
		in = in[n:]
	}
}

func TestParsingAllocatesNothing(t *testing.T) {
	in := []byte(typicalGET + settings + frame(framePing, 0, 0, "abcdefgh") + frame(frameData, flagPadded, 1, "\x02ab\x00\x00") + frame(framePriorityUpdate, 0, 0, "\x00\x00\x00\x05u=1, i"))
	p := opened(ServerSide)
	if n := testing.AllocsPerRun(100, func() {
		for i := range in {
			if _, err := readAll(p, in[i:i+1]); err != nil {
				t.Fatal(err)
			}
		}
		if events, err := readAll(p, in); events != 6 || err != nil {
			t.Fatal(events, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		*p = Parser{}
		if _, err := readAll(p, in); err != ErrPreface {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations with an error", n)
	}
}

// FuzzParser: events do not depend on the cuts, nothing panics, and no input makes the
// Parser wait without use of it.
func FuzzParser(f *testing.F) {
	for _, s := range []string{
		typicalGET, settings, frame(frameHeaders, flagPadded|flagPriority, 1, "\x01\x00\x00\x00\x03\x10abc\x00") + frame(frameContinuation, flagEndHeaders, 1, "b"),
		frame(frameGoAway, 0, 0, "\x00\x00\x00\x05\x00\x00\x00\x00bye") + frame(frameSettings, 0, 0, "\x00\x04\x00\x01\x00\x00\x00\x03\x00\x00\x00\x64"),
		frame(framePriorityUpdate, 0, 0, "\x00\x00\x00\x05u=1, i") + frame(0xff, 0, 1, "abc") + frame(framePriority, 0, 1, "12345"),
		frame(frameData, flagPadded, 1, "\x02ab\x00\x00") + frame(frameReset, 0, 1, "\x00\x00\x00\x08") + frame(framePing, flagAck, 0, "abcdefgh"),
	} {
		f.Add([]byte(s), uint64(1), false)
		f.Add([]byte(s), uint64(2), true)
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64, isClient bool) {
		side := ServerSide
		if isClient {
			side = ClientSide
		}
		want, wantErr := parse(t, opened(side), in, whole(string(in)))
		random := rand.New(rand.NewPCG(seed, 0))
		for _, cut := range []func() int{every(1), func() int { return 1 + random.IntN(20) }} {
			got, err := parse(t, opened(side), in, cut)
			if err != wantErr || strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Fatalf("in pieces: %q, %v\nwhole: %q, %v", got, err, want, wantErr)
			}
		}
		// The preface is read as any other bytes.
		opening := append([]byte(Preface), in...)
		a, errA := parse(t, &Parser{Side: side}, opening, whole(string(opening)))
		b, errB := parse(t, &Parser{Side: side}, opening, every(1))
		if errA != errB || strings.Join(a, "\n") != strings.Join(b, "\n") {
			t.Fatalf("from the beginning, in pieces: %q, %v\nwhole: %q, %v", b, errB, a, errA)
		}
	})
}

func BenchmarkParser(b *testing.B) {
	for name, in := range map[string]string{
		"GET":      typicalGET,
		"16 DATA":  strings.Repeat(frame(frameData, 0, 1, strings.Repeat("x", 16<<10)), 16),
		"32 GETs":  strings.Repeat(typicalGET, 32),
		"PING":     frame(framePing, 0, 0, "abcdefgh"),
		"SETTINGS": frame(frameSettings, 0, 0, strings.Repeat("\x00\x04\x00\x01\x00\x00", 6)),
	} {
		b.Run(name, func(b *testing.B) {
			in := []byte(in)
			p := opened(ServerSide)
			b.ReportAllocs()
			events := 0
			for b.Loop() {
				n, err := readAll(p, in)
				if err != nil {
					b.Fatal(err)
				}
				events += n
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
		})
	}
}
