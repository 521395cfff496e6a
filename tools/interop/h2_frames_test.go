package interop_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h2"
	"golang.org/x/net/http2"
)

// ourFrames reads frames that a client sends, in pieces of at most size bytes, and
// returns a line for each frame, but one for a whole field block. in ends with a frame.
func ourFrames(in []byte, size int) (lines []string, err *h2.Error) {
	var p h2.Parser
	p.Resume()
	p.MaxContinuations = 1 << 15
	var l ourLines
	for len(in) > 0 {
		part := in[:min(size, len(in))]
		used, ev, err := p.Next(part)
		if err != nil {
			l.endDebug()
			return l.lines, err
		}
		in = in[used:]
		if ev.Kind != h2.EventNone {
			l.add(&ev)
		}
	}
	l.endDebug()
	return l.lines, nil
}

// completeFrames cuts off a frame without its end.
func completeFrames(in []byte) []byte {
	end := 0
	for rest := in; len(rest) >= h2.FrameHeadSize; rest = in[end:] {
		n := h2.FrameHeadSize + int(rest[0])<<16 + int(rest[1])<<8 + int(rest[2])
		if n > len(rest) {
			break
		}
		end += n
	}
	return in[:end]
}

// ourLines joins what comes in pieces.
type ourLines struct {
	lines   []string
	payload []byte
	left    int // of DATA
	goAway  string
}

func (l *ourLines) put(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
	l.payload = l.payload[:0]
}

func (l *ourLines) endDebug() {
	if l.goAway != "" {
		l.put("%s %q", l.goAway, l.payload)
		l.goAway = ""
	}
}

func (l *ourLines) add(ev *h2.Event) {
	if ev.Kind != h2.EventDebug {
		l.endDebug()
	}
	switch ev.Kind {
	case h2.EventHeaders:
		l.payload = append(l.payload, ev.Payload...)
		if ev.Has(h2.EndHeaders) {
			l.put("block %d %q last=%v error=%v", ev.Stream, l.payload, ev.Has(h2.EndStream), ev.Err != nil)
		}
	case h2.EventData:
		if ev.Has(h2.FrameStart) {
			l.left = int(ev.Length) - int(ev.Padding)
		}
		l.payload = append(l.payload, ev.Payload...)
		if l.left -= len(ev.Payload); l.left == 0 {
			l.put("data %d %q last=%v", ev.Stream, l.payload, ev.Has(h2.EndStream))
		}
	case h2.EventSetting:
		if ev.Length > 0 || !ev.Has(h2.FrameStart) {
			l.payload = fmt.Appendf(l.payload, " %d=%d", uint16(ev.Setting), ev.Value)
		}
		if ev.Has(h2.EndSettings) {
			l.put("settings%s", l.payload)
		}
	case h2.EventSettingsAck:
		l.put("settings ack")
	case h2.EventPing, h2.EventPingAck:
		l.put("ping %q ack=%v", ev.Ping[:], ev.Kind == h2.EventPingAck)
	case h2.EventWindowUpdate:
		l.put("window %d %d", ev.Stream, ev.Value)
	case h2.EventReset:
		l.put("reset %d %d", ev.Stream, uint32(ev.Code))
	case h2.EventGoAway:
		l.goAway = fmt.Sprintf("goaway %d %d", ev.Stream, uint32(ev.Code))
	case h2.EventDebug:
		l.payload = append(l.payload, ev.Payload...)
	case h2.EventPriorityUpdate:
		l.put("priority %d %q", ev.Stream, ev.Payload)
	case h2.EventIgnored:
		l.put("ignored %d", ev.Stream)
	case h2.EventStreamError:
		l.put("error %d %d", ev.Stream, uint32(ev.Err.Code))
	}
}

// theirFrames is ourFrames with the Framer of x/net, which needs whole frames. whole
// reports whether it has read all of in.
func theirFrames(in []byte) (lines []string, whole bool, err error) {
	r := bytes.NewReader(in)
	f := http2.NewFramer(io.Discard, r)
	f.SetMaxReadFrameSize(16 << 10)
	var l theirLines
	for {
		frame, err := f.ReadFrame()
		var onStream http2.StreamError
		switch {
		case errors.As(err, &onStream):
			l.put("error %d %d", onStream.StreamID, uint32(onStream.Code))
		case err == io.EOF:
			return l.lines, true, nil
		case err != nil:
			return l.lines, false, err
		default:
			l.add(frame)
		}
	}
}

type theirLines struct {
	lines   []string
	block   []byte
	isLast  bool
	depends bool // on itself
}

func (l *theirLines) put(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *theirLines) add(frame http2.Frame) {
	stream := frame.Header().StreamID
	switch f := frame.(type) {
	case *http2.HeadersFrame:
		l.block, l.isLast = append(l.block[:0], f.HeaderBlockFragment()...), f.StreamEnded()
		l.depends = f.HasPriority() && f.Priority.StreamDep == stream
		l.endBlock(stream, f.HeadersEnded())
	case *http2.ContinuationFrame:
		l.block = append(l.block, f.HeaderBlockFragment()...)
		l.endBlock(stream, f.HeadersEnded())
	case *http2.DataFrame:
		l.put("data %d %q last=%v", stream, f.Data(), f.StreamEnded())
	case *http2.SettingsFrame:
		l.addSettings(f)
	case *http2.PingFrame:
		l.put("ping %q ack=%v", f.Data[:], f.IsAck())
	case *http2.WindowUpdateFrame:
		l.put("window %d %d", stream, f.Increment)
	case *http2.RSTStreamFrame:
		l.put("reset %d %d", stream, uint32(f.ErrCode))
	case *http2.GoAwayFrame:
		l.put("goaway %d %d %q", f.LastStreamID, uint32(f.ErrCode), f.DebugData())
	case *http2.PriorityUpdateFrame:
		if len(f.Priority) > 16 {
			l.put("ignored 0")
		} else {
			l.put("priority %d %q", f.PrioritizedStreamID, f.Priority)
		}
	case *http2.PriorityFrame:
		if f.StreamDep == stream {
			l.put("error %d %d", stream, uint32(http2.ErrCodeProtocol))
			return
		}
		l.put("ignored %d", stream)
	default:
		l.put("ignored %d", stream)
	}
}

func (l *theirLines) endBlock(stream uint32, isEnd bool) {
	if isEnd {
		l.put("block %d %q last=%v error=%v", stream, l.block, l.isLast, l.depends)
	}
}

func (l *theirLines) addSettings(f *http2.SettingsFrame) {
	if f.IsAck() {
		l.put("settings ack")
		return
	}
	var values strings.Builder
	for i := range f.NumSettings() {
		fmt.Fprintf(&values, " %d=%d", uint16(f.Setting(i).ID), f.Setting(i).Val)
	}
	l.put("settings%s", values.String())
}

// What x/net's Framer writes is read with the same values.
func TestFramerFramesAreRead(t *testing.T) {
	var wire bytes.Buffer
	f := http2.NewFramer(&wire, nil)
	block := []byte(strings.Repeat("x", 300))
	for _, err := range []error{
		f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}, http2.Setting{ID: http2.SettingEnablePush, Val: 0}),
		f.WriteSettings(),
		f.WriteSettingsAck(),
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true, EndStream: true}),
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: block, PadLength: 7, Priority: http2.PriorityParam{StreamDep: 1, Weight: 15}}),
		f.WriteContinuation(3, false, []byte("abc")),
		f.WriteContinuation(3, true, nil),
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 5, EndHeaders: true, EndStream: true, Priority: http2.PriorityParam{StreamDep: 3, Exclusive: true}}),
		f.WriteData(3, false, []byte("hello")),
		f.WriteDataPadded(3, false, []byte("hello"), make([]byte, 255)),
		f.WriteDataPadded(3, false, nil, []byte{}),
		f.WriteData(3, true, nil),
		f.WritePriority(9, http2.PriorityParam{StreamDep: 3, Weight: 1}),
		f.WritePriorityUpdate(9, "u=1, i"),
		f.WritePriorityUpdate(9, "u=1, i, unknown=\"x\""),
		f.WriteRSTStream(5, http2.ErrCodeCancel),
		f.WritePing(false, [8]byte{1, 2, 3, 4, 5, 6, 7, 8}),
		f.WritePing(true, [8]byte{8, 7, 6, 5, 4, 3, 2, 1}),
		f.WriteWindowUpdate(0, 1<<31-1),
		f.WriteWindowUpdate(7, 1),
		f.WriteRawFrame(0xfa, 0xff, 77, []byte("extension")),
		f.WriteGoAway(7, http2.ErrCodeEnhanceYourCalm, []byte("too many")),
		f.WriteGoAway(1<<31-1, http2.ErrCodeNo, nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want, whole, err := theirFrames(wire.Bytes())
	if !whole || err != nil || len(want) != 21 {
		t.Fatalf("x/net reads %d lines: %v", len(want), err)
	}
	for size := 1; size <= wire.Len(); size++ {
		if got, err := ourFrames(wire.Bytes(), size); err != nil || !slices.Equal(got, want) {
			t.Fatalf("in pieces of %d:\n got %q, %v\nwant %q", size, got, err, want)
		}
	}
}

// appendedFrames has each frame that this package can append for a client.
func appendedFrames() []byte {
	own, initial := h2.DefaultSettings(), h2.DefaultSettings()
	own.InitialWindowSize, own.EnablePush, own.MaxFrameSize, own.EnableConnectProtocol = 1<<20, false, 1<<20, true
	wire := h2.AppendSettings(nil, &own, &initial)
	wire = h2.AppendSettingsAck(wire)
	wire = h2.AppendHeaders(wire, 1, []byte("abc"), true, 16<<10)
	wire = h2.AppendHeaders(wire, 3, bytes.Repeat([]byte("0123456789"), 10), false, 7)
	wire = append(h2.AppendDataHead(wire, 3, 5, false), "hello"...)
	wire = h2.AppendDataHead(wire, 3, 0, true)
	wire = h2.AppendReset(wire, 1, h2.CodeRefusedStream)
	wire = h2.AppendPing(wire, [8]byte{1, 2, 3}, false)
	wire = h2.AppendPing(wire, [8]byte{1, 2, 3}, true)
	wire = h2.AppendWindowUpdate(wire, 0, 1<<31-1)
	wire = h2.AppendWindowUpdate(wire, 3, 1)
	wire = h2.AppendPriorityUpdate(wire, 5, fieldlist.Priority{Urgency: 1, IsIncremental: true})
	return h2.AppendGoAway(wire, 3, h2.CodeEnhanceYourCalm, "bye")
}

// What is appended is read by x/net with the same values.
func TestFramerReadsOurFrames(t *testing.T) {
	got, whole, err := theirFrames(appendedFrames())
	want := []string{
		"settings 2=0 4=1048576 5=1048576 8=1", "settings ack",
		`block 1 "abc" last=true error=false`,
		`block 3 "` + strings.Repeat("0123456789", 10) + `" last=false error=false`,
		`data 3 "hello" last=false`, `data 3 "" last=true`, "reset 1 7",
		`ping "\x01\x02\x03\x00\x00\x00\x00\x00" ack=false`, `ping "\x01\x02\x03\x00\x00\x00\x00\x00" ack=true`,
		"window 0 2147483647", "window 3 1", `priority 5 "u=1, i"`, `goaway 3 11 "bye"`,
	}
	if !whole || err != nil || !slices.Equal(got, want) {
		t.Errorf("x/net reads\n%q, %v\nwant\n%q", got, err, want)
	}
}

// FuzzFramesAgainstFramer: whatever we accept, x/net reads in the same way. To refuse
// more is no harm.
func FuzzFramesAgainstFramer(f *testing.F) {
	f.Add(appendedFrames(), uint8(1))
	f.Add([]byte("\x00\x00\x04\x08\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x05\x02\x00\x00\x00\x00\x01\x00\x00\x00\x01\x10"), uint8(5))
	f.Add([]byte("\x00\x00\x0a\x01\x2c\x00\x00\x00\x01\x02\x00\x00\x00\x01\x10abc\x00"), uint8(2))
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		in = completeFrames(in)
		ours, err := ourFrames(in, int(size)+1)
		theirs, _, theirErr := theirFrames(in)
		if len(theirs) > len(ours) && err != nil {
			theirs = theirs[:len(ours)]
		}
		// An error of a stream may end the connection as well.
		if n := len(theirs); theirErr != nil && n < len(ours) && strings.HasPrefix(ours[n], "error ") {
			ours = ours[:n]
		}
		if !slices.Equal(ours, theirs) {
			t.Fatalf("sluice reads\n%q, %v\nx/net\n%q, %v", ours, err, theirs, theirErr)
		}
	})
}
