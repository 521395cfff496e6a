package h3

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// A wanted is what a server may do.
type wanted struct {
	status []int     // the answer's status; nil: none
	stream []h3.Code // or the stream is reset with one of these
	conn   []h3.Code // or the connection is closed with one of these
}

func (w wanted) String() string {
	var all []string
	for _, status := range w.status {
		all = append(all, fmt.Sprint(status))
	}
	for _, code := range w.stream {
		all = append(all, "the stream's "+code.String())
	}
	for _, code := range w.conn {
		all = append(all, "the connection's "+code.String())
	}
	return strings.Join(all, " or ")
}

func answered(status ...int) wanted { return wanted{status: status} }
func reset(code ...h3.Code) wanted  { return wanted{stream: code} }
func ended(code ...h3.Code) wanted  { return wanted{conn: code} }
func (w wanted) or(o wanted) wanted {
	return wanted{append(w.status, o.status...), append(w.stream, o.stream...), append(w.conn, o.conn...)}
}
func (w wanted) endsConnection() bool { return len(w.conn) > 0 }

// ok is the answer to what a server must ignore or accept.
var ok = answered(200)

// malformed is the end of a malformed request (RFC 9114 section 4.1.2): the server resets its
// stream, perhaps after a status of the client's error.
var malformed = reset(h3.MessageError).or(answered(400))

// A rule is a row of the table of rules.
type rule struct {
	section string // of the RFC
	name    string
	isBare  bool // no control stream is opened before
	want    wanted
	// do returns the stream that is watched. nil: the connection, and whether it still answers.
	do func(w *wire) *quic.Stream
}

// on returns what sends pieces on a stream of a request, and ends it.
func on(pieces ...[]byte) func(w *wire) *quic.Stream {
	return func(w *wire) *quic.Stream { return w.ask(pieces...) }
}

// keep is on, and does not end the stream.
func keep(pieces ...[]byte) func(w *wire) *quic.Stream {
	return func(w *wire) *quic.Stream { return w.open(pieces...) }
}

// onControl returns what sends pieces on the control stream after SETTINGS.
func onControl(pieces ...[]byte) func(w *wire) *quic.Stream {
	return func(w *wire) *quic.Stream {
		w.uni(controlStream, frame(h3.FrameSettings), join(pieces...))
		return nil
	}
}

// onUni returns what sends pieces on a unidirectional stream.
func onUni(kind uint64, pieces ...[]byte) func(w *wire) *quic.Stream {
	return func(w *wire) *quic.Stream {
		w.uni(kind, pieces...)
		return nil
	}
}

// TestRules: each rule of the RFCs that a client can break or use.
func TestRules(t *testing.T) {
	addr := startTarget(t)
	names := make(map[string]bool)
	for _, r := range slices.Concat(frameRules(), messageRules(), controlRules(), qpackRules(), tunnelRules(), priorityRules()) {
		name := r.section + " " + r.name
		if names[name] {
			t.Errorf("%s: two rules", name)
		}
		names[name] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obeys(t, addr, r)
		})
	}
	if len(names) < 100 {
		t.Errorf("%d rules", len(names))
	}
}

// TestRulesOfKeptBodies: the same for requests whose handlers run after their end.
func TestRulesOfKeptBodies(t *testing.T) {
	if *reference {
		t.Skip("only ours keeps bodies")
	}
	addr := newTarget(t, func(g *target) { g.s.StreamRequestBody = false }).addr
	for _, r := range messageRules() {
		t.Run(r.section+" "+r.name, func(t *testing.T) {
			t.Parallel()
			obeys(t, addr, r)
		})
	}
}

// obeys checks that a server obeys a rule.
func obeys(t *testing.T, addr string, r rule) {
	var w *wire
	if r.isBare {
		w = dialBare(t, addr)
	} else {
		w = dial(t, addr)
	}
	s := r.do(w)
	if r.want.endsConnection() && s == nil {
		if code, err := w.closed(); err != nil || !slices.Contains(r.want.conn, code) {
			t.Errorf("the connection ends with %v, %v, want %v", code, err, r.want)
		}
		return
	}
	if s != nil {
		a := read(s)
		code, isReset := a.reset()
		closed, isClosed := closedBy(a.err)
		switch {
		case isClosed && slices.Contains(r.want.conn, closed):
			return
		case isClosed:
			t.Errorf("the connection ends with %v, want %v", closed, r.want)
			return
		case isReset && !slices.Contains(r.want.stream, code):
			t.Errorf("reset with %v, want %v", code, r.want)
		case !isReset && a.err != nil:
			t.Errorf("%v, want %v", a.err, r.want)
		case !isReset && !slices.Contains(r.want.status, a.status):
			t.Errorf("status %d, want %v", a.status, r.want)
		}
	}
	if a := read(w.ask(request("GET", "/hello"))); a.status != 200 || string(a.body) != hello || a.err != nil {
		t.Errorf("another request: status %d, %q, %v", a.status, a.body, a.err)
	}
}

// closedBy returns the code with which the server has closed the connection.
func closedBy(err error) (h3.Code, bool) {
	var e *quic.ApplicationError
	if asError(err, &e) && e.Remote {
		return h3.Code(e.ErrorCode), true
	}
	return 0, false
}

// frameRules are about the frames of requests.
func frameRules() []rule {
	get := request("GET", "/hello")
	unexpected := ended(h3.FrameUnexpected)
	grease := frame(0x21+0x1f*3, []byte("nothing"))
	rules := []rule{
		{"9114 4.1", "a request", false, ok, on(get)},
		{"9114 4.1", "content in many frames", false, ok, on(request("POST", "/echo"), data("a"), data(""), data(strings.Repeat("b", 5000)))},
		{"9114 4.1", "trailer fields", false, ok, on(request("POST", "/echo"), data("a"), headers("x-sum", "1"))},
		{"9114 4.1", "trailer fields without content", false, ok, on(request("POST", "/echo"), headers("x-sum", "1"))},
		{"9114 4.1", "DATA first", false, unexpected, on(data("a"), get)},
		{"9114 4.1", "HEADERS after the trailer fields", false, unexpected, keep(request("POST", "/echo"), headers("x-a", "1"), headers("x-b", "1"))},
		{"9114 4.1", "DATA after the trailer fields", false, unexpected, keep(request("POST", "/echo"), headers("x-a", "1"), data("a"))},
		{"9114 4.1", "nothing", false, reset(h3.RequestIncomplete), on()},
		{"9114 4.1", "only an unknown frame", false, reset(h3.RequestIncomplete), on(grease)},
		{"9114 4.1", "unknown frames between the others", false, ok, on(grease, request("POST", "/echo"), grease, data("a"), grease, headers("x-a", "1"), grease)},
		{"9114 4.1", "an answer before the request's end", false, ok, keep(request("POST", "/early"), data("a"))},
		{"9114 4.1", "the client resets a request", false, ok, func(w *wire) *quic.Stream {
			w.open(request("POST", "/echo"), data("a")).CancelWrite(quic.StreamErrorCode(h3.RequestCancelled))
			return w.ask(get)
		}},
		{"9114 4.1.1", "the client stops an answer", false, ok, func(w *wire) *quic.Stream {
			w.ask(request("GET", "/large")).CancelRead(quic.StreamErrorCode(h3.RequestCancelled))
			return w.ask(get)
		}},
		{"9114 7.1", "a frame that the stream's end cuts", false, ended(h3.FrameError), on(get[:len(get)-1])},
		{"9114 7.1", "DATA that the stream's end cuts", false, ended(h3.FrameError), on(request("POST", "/echo"), data("abc")[:4])},
		{"9114 7.1", "a header of a frame that the stream's end cuts", false, ended(h3.FrameError), on(request("POST", "/echo"), []byte{0x40})},
		{"9114 7.1", "an unknown frame that the stream's end cuts", false, ended(h3.FrameError), on(request("POST", "/echo"), grease[:len(grease)-1])},
		{"9114 7.1", "lengths that are longer than needed", false, ok, on([]byte{0x40, 0x01, 0x80, 0, 0, byte(len(get) - 3)}, get[3:])},
		{"9114 7.2.5", "PUSH_PROMISE", false, unexpected, keep(request("POST", "/echo"), frame(h3.FramePushPromise, varint(0), section(":method", "GET")))},
		{"9114 7.2.5", "PUSH_PROMISE first", false, unexpected, keep(frame(h3.FramePushPromise, varint(0)))},
		{"9114 7.2.3", "CANCEL_PUSH on a request", false, unexpected, keep(frame(h3.FrameCancelPush, varint(0)))},
		{"9114 7.2.4", "SETTINGS on a request", false, unexpected, keep(frame(h3.FrameSettings))},
		{"9114 7.2.4", "SETTINGS after a request", false, unexpected, keep(request("POST", "/echo"), frame(h3.FrameSettings))},
		{"9114 7.2.6", "GOAWAY on a request", false, unexpected, keep(frame(h3.FrameGoAway, varint(0)))},
		{"9114 7.2.7", "MAX_PUSH_ID on a request", false, unexpected, keep(frame(h3.FrameMaxPushID, varint(0)))},
	}
	for _, kind := range []h3.FrameType{0x2, 0x6, 0x8, 0x9} {
		rules = append(rules, rule{"9114 7.2.8", fmt.Sprintf("HTTP/2's frame %d on a request", kind), false, unexpected, keep(frame(kind, []byte("abcd")))})
	}
	return rules
}

// controlRules are about unidirectional streams and their frames.
// long: a table
func controlRules() []rule {
	settings, unexpected := frame(h3.FrameSettings), ended(h3.FrameUnexpected)
	creation, critical := ended(h3.StreamCreationError), ended(h3.ClosedCritical)
	setting := func(pairs ...uint64) []byte {
		var b []byte
		for _, n := range pairs {
			b = append(b, varint(n)...)
		}
		return frame(h3.FrameSettings, b)
	}
	ends := func(kind uint64, pieces ...[]byte) func(w *wire) *quic.Stream {
		return func(w *wire) *quic.Stream {
			_ = w.uni(kind, pieces...).Close()
			return nil
		}
	}
	resets := func(kind uint64, pieces ...[]byte) func(w *wire) *quic.Stream {
		return func(w *wire) *quic.Stream {
			w.ofServer(controlStream)
			s := w.uni(kind, pieces...)
			read(w.ask(request("GET", "/hello"))) // the type has arrived
			s.CancelWrite(quic.StreamErrorCode(h3.NoError))
			return nil
		}
	}
	rules := []rule{
		{"9114 3.2", "requests before SETTINGS", true, ok, on(request("GET", "/hello"))},
		{"9114 6.2", "a stream of an unknown type", false, ok, onUni(0x21+0x1f*5, []byte("nothing"))},
		{"9114 6.2", "an unknown type in eight bytes", false, ok, onUni(1<<40, []byte("nothing"))},
		{"9114 6.2", "a stream that ends before its type", false, ok, func(w *wire) *quic.Stream {
			s, err := w.conn.OpenUniStream()
			if err != nil {
				w.t.Fatal(err)
			}
			_, _ = s.Write([]byte{0x40})
			_ = s.Close()
			return nil
		}},
		{"9114 6.2", "an unknown stream that ends", false, ok, ends(0x21, []byte("nothing"))},
		{"9114 6.2.1", "two control streams", false, creation, onUni(controlStream, settings)},
		{"9114 6.2.1", "another frame than SETTINGS first", true, ended(h3.MissingSettings), onUni(controlStream, frame(h3.FrameGoAway, varint(0)))},
		{"9114 6.2.1", "an unknown frame first", true, ended(h3.MissingSettings), onUni(controlStream, frame(0x21))},
		{"9114 6.2.1", "the control stream ends", true, critical, ends(controlStream, settings)},
		{"9114 6.2.1", "the control stream ends before SETTINGS", true, critical.or(ended(h3.MissingSettings)), ends(controlStream)},
		{"9114 6.2.1", "the control stream is reset", true, critical, resets(controlStream, settings)},
		{"9114 6.2.1", "the server's control stream is stopped", false, critical, func(w *wire) *quic.Stream {
			w.ofServer(controlStream).CancelRead(quic.StreamErrorCode(h3.NoError))
			return nil
		}},
		{"9114 6.2.2", "a push stream of a client", false, creation, onUni(pushStream, varint(0))},
		{"9204 4.2", "two encoder streams", false, creation, func(w *wire) *quic.Stream {
			w.uni(encoderStream)
			w.uni(encoderStream)
			return nil
		}},
		{"9204 4.2", "two decoder streams", false, creation, func(w *wire) *quic.Stream {
			w.uni(decoderStream)
			w.uni(decoderStream)
			return nil
		}},
		{"9204 4.2", "the encoder stream ends", false, critical, ends(encoderStream)},
		{"9204 4.2", "the decoder stream ends", false, critical, ends(decoderStream)},
		{"9204 4.2", "the encoder stream is reset", false, critical, resets(encoderStream)},
		{"9204 4.2", "the decoder stream is reset", false, critical, resets(decoderStream)},
		{"9114 7.2.1", "DATA on the control stream", true, unexpected, onControl(data("a"))},
		{"9114 7.2.2", "HEADERS on the control stream", true, unexpected, onControl(request("GET", "/hello"))},
		{"9114 7.2.5", "PUSH_PROMISE on the control stream", true, unexpected, onControl(frame(h3.FramePushPromise, varint(0)))},
		{"9114 7.2.3", "CANCEL_PUSH of no push", true, ended(h3.IDError), onControl(frame(h3.FrameCancelPush, varint(3)))},
		{"9114 7.2.3", "CANCEL_PUSH without a number", true, ended(h3.FrameError), onControl(frame(h3.FrameCancelPush))},
		{"9114 7.2.4", "a second SETTINGS", true, unexpected, onControl(settings)},
		{"9114 7.2.4", "a setting twice", true, ended(h3.SettingsError), onUni(controlStream, setting(6, 100, 6, 100))},
		{"9114 7.2.4", "settings that have no meaning", true, ok, onUni(controlStream, setting(0x21, 1, 0x1f*9+0x21, 7, 1<<50, 1))},
		{"9114 7.1", "a setting that is cut", true, ended(h3.FrameError), onUni(controlStream, frame(h3.FrameSettings, []byte{6}))},
		{"9114 7.1", "a setting's value that is cut", true, ended(h3.FrameError), onUni(controlStream, frame(h3.FrameSettings, []byte{6, 0x40}))},
		{"9114 5.2", "GOAWAY", true, ok, onControl(frame(h3.FrameGoAway, varint(8)), frame(h3.FrameGoAway, varint(0)))},
		{"9114 5.2", "GOAWAY that rises", true, ended(h3.IDError), onControl(frame(h3.FrameGoAway, varint(0)), frame(h3.FrameGoAway, varint(4)))},
		{"9114 7.1", "GOAWAY without a number", true, ended(h3.FrameError), onControl(frame(h3.FrameGoAway))},
		{"9114 7.1", "GOAWAY that is too long", true, ended(h3.FrameError), onControl(frame(h3.FrameGoAway, varint(0), varint(0)))},
		{"9114 7.2.7", "MAX_PUSH_ID", true, ok, onControl(frame(h3.FrameMaxPushID, varint(4)), frame(h3.FrameMaxPushID, varint(8)))},
		{"9114 7.2.7", "MAX_PUSH_ID that falls", true, ended(h3.IDError), onControl(frame(h3.FrameMaxPushID, varint(4)), frame(h3.FrameMaxPushID, varint(3)))},
		{"9114 7.1", "MAX_PUSH_ID without a number", true, ended(h3.FrameError), onControl(frame(h3.FrameMaxPushID))},
		{"9114 7.1", "MAX_PUSH_ID that is too long", true, ended(h3.FrameError), onControl(frame(h3.FrameMaxPushID, varint(4), varint(4)))},
		{"9114 7.2.8", "unknown frames on the control stream", true, ok, onControl(frame(0x21), frame(0x1f*7+0x21, make([]byte, 300)))},
	}
	for _, kind := range []h3.FrameType{0x2, 0x6, 0x8, 0x9} {
		rules = append(rules, rule{"9114 7.2.8", fmt.Sprintf("HTTP/2's frame %d on the control stream", kind), true, unexpected, onControl(frame(kind, []byte("abcd")))})
	}
	for _, id := range []uint64{0x2, 0x3, 0x4, 0x5} {
		rules = append(rules, rule{"9114 7.2.4.1", fmt.Sprintf("HTTP/2's setting %d", id), true, ended(h3.SettingsError), onUni(controlStream, setting(id, 1))})
	}
	return rules
}

// priorityRules are those of RFC 9218.
func priorityRules() []rule {
	update := func(payload ...[]byte) []byte { return frame(h3.FramePriorityUpdate, payload...) }
	return []rule{
		{"9218 7.2", "PRIORITY_UPDATE", true, ok, onControl(update(varint(0), []byte("u=1, i")), update(varint(4)))},
		{"9218 7.2", "PRIORITY_UPDATE on a request", false, ended(h3.FrameUnexpected), keep(update(varint(0), []byte("u=1")))},
		{"9218 7.2", "PRIORITY_UPDATE of a stream that is no request", true, ended(h3.IDError), onControl(update(varint(2), []byte("u=1")))},
		{"9218 7.2", "PRIORITY_UPDATE of a stream beyond the limit", true, ended(h3.IDError), onControl(update(varint(1<<40), []byte("u=1")))},
		{"9218 7.2", "PRIORITY_UPDATE of a push", true, ended(h3.IDError), onControl(frame(h3.FramePriorityPush, varint(0), []byte("u=1")))},
		{"9218 7.2", "PRIORITY_UPDATE without a number", true, ended(h3.FrameError), onControl(update())},
		{"9218 7", "PRIORITY_UPDATE with a wrong value", true, ok, onControl(update(varint(0), []byte("u=?!;,,")))},
		{"9218 5", "the field priority", false, ok, on(request("GET", "/hello", "priority", "u=7, i"))},
		{"9218 5", "a wrong field priority", false, ok, on(request("GET", "/hello", "priority", "u=99; = ,"))},
	}
}
