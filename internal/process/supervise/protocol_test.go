package supervise

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"
)

// Workers and masters of different versions know each other's messages by number.
func TestMessageNumbers(t *testing.T) {
	got := []messageType{
		messageHello, messagePing, messageDrain, messageAdopt, messageRelease, messageReopen, messageQuit,
		messagePeer, messageInbox, messageInboxOff, messageMeet, messageStream,
		messageReady, messagePong, messageDrained, messageFatal, messageRecycle, messageAck, messageMeeting,
		messageParcel,
	}
	if want := []messageType{1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14, 64, 65, 66, 67, 68, 69, 70, 128}; !slices.Equal(got, want) {
		t.Errorf("the numbers are %d, want %d", got, want)
	}
	var carrying []messageType
	for kind := range messageType(255) {
		if kind.carriesDescriptors() {
			carrying = append(carrying, kind)
		}
	}
	if want := []messageType{4, 10, 11, 13, 14}; !slices.Equal(carrying, want) {
		t.Errorf("%d carry descriptors, want %d", carrying, want)
	}
	packet := appendMessage(nil, message{kind: 3, seq: 0x07060504, slot: 0x0908, flags: 0x0b0a, payload: []byte("ab")})
	if want := "\xfe\x5a\x01\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x02\x00\x00\x00ab"; string(packet) != want {
		t.Errorf("%q, want %q", packet, want)
	}
}

func TestMessages(t *testing.T) {
	good := appendMessage(nil, message{kind: messageDrain, seq: 7, slot: 3, flags: flagSuccessor, payload: []byte("1234")})
	if m, err := parseMessage(good); err != nil || m.kind != messageDrain || m.seq != 7 || m.slot != 3 || m.flags != 1 || string(m.payload) != "1234" {
		t.Fatalf("%+v, %v", m, err)
	}
	change := func(at int, to byte) []byte {
		b := bytes.Clone(good)
		b[at] = to
		return b
	}
	table := []struct {
		name string
		in   []byte
		want error
	}{
		{"nothing", nil, errShortMessage},
		{"half a head", good[:15], errShortMessage},
		{"magic", change(0, 0), errNotMessage},
		{"version", change(2, 9), errVersion},
		{"cut", good[:18], errLength},
		{"more", append(bytes.Clone(good), 0), errLength},
		{"long", change(15, 0xff), errLength},
	}
	for _, c := range table {
		if _, err := parseMessage(c.in); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, d := range []time.Duration{0, time.Millisecond, time.Hour} {
		if got, err := parseGrace(appendGrace(nil, d)); got != d || err != nil {
			t.Errorf("%v: %v, %v", d, got, err)
		}
	}
	if got, err := parseGrace([]byte{1, 2, 3}); got != 0 || err != errShortMessage {
		t.Errorf("%v, %v", got, err)
	}
	for d, want := range map[time.Duration]time.Duration{-time.Second: 0, 1 << 62: 1 << 31 * time.Millisecond} {
		if got, err := parseGrace(appendGrace(nil, d)); got != want || err != nil {
			t.Errorf("%v: %v, want %v, %v", d, got, want, err)
		}
	}
}

func TestLayoutIsChecked(t *testing.T) {
	good := layout{Slot: 1, Generation: 2, Listeners: 2, Control: 2, Lifeline: 3, Shared: 1, OrphanGraceMS: 5, Inboxes: []int{0, 1, 7}, Packets: &packetLayout{Files: 2, Index: 255, Secret: []byte{1}}}
	if l, err := parseLayout(appendLayout(nil, good)); err != nil || !reflect.DeepEqual(l, good) {
		t.Fatalf("%+v, %v", l, err)
	}
	most := layout{Generation: 1, Listeners: 1023, Control: 1023, Lifeline: 1024, Shared: 1024, Inboxes: []int{0, maxSlot}}
	if _, err := parseLayout(appendLayout(nil, most)); err != nil {
		t.Error(err)
	}
	for n, isRight := range map[int]bool{1024: true, 1025: false} {
		l := layout{Generation: 1, Lifeline: 1}
		for slot := range n {
			l.Inboxes = append(l.Inboxes, slot)
		}
		if _, err := parseLayout(appendLayout(nil, l)); (err == nil) != isRight {
			t.Errorf("%d inboxes: %v", n, err)
		}
	}
	for name, in := range map[string]string{
		"no JSON":         "slot",
		"one too many":    `{"generation":1,"lifeline":1,"shared":1025}`,
		"negative slot":   `{"slot":-1,"generation":1,"lifeline":1}`,
		"negative grace":  `{"generation":1,"lifeline":1,"orphanGraceMs":-1}`,
		"negative":        `{"generation":1,"lifeline":1,"shared":-1}`,
		"huge":            `{"generation":1,"listeners":1000000,"control":1000000,"lifeline":1000001}`,
		"control inside":  `{"generation":1,"listeners":2,"control":1,"lifeline":2}`,
		"lifeline":        `{"generation":1,"control":1,"lifeline":5}`,
		"peers":           `{"generation":1,"lifeline":1,"inboxes":[0,-1]}`,
		"a peer twice":    `{"generation":1,"lifeline":1,"inboxes":[0,1,1]}`,
		"huge peer":       `{"generation":1,"lifeline":1,"inboxes":[0,65536]}`,
		"others' inboxes": `{"slot":2,"generation":1,"lifeline":1,"inboxes":[0,1,3]}`,
		"packets":         `{"generation":1,"lifeline":1,"packets":{"files":-1}}`,
		"many packets":    `{"generation":1,"lifeline":1,"packets":{"files":65}}`,
		"packets' index":  `{"generation":1,"lifeline":1,"packets":{"index":256}}`,
		"no generation":   `{"control":0,"lifeline":1}`,
	} {
		if l, err := parseLayout([]byte(in)); err == nil {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

// FuzzMessage: the decoder accepts or refuses any input, and what it accepts is
// encoded to the same bytes.
func FuzzMessage(f *testing.F) {
	f.Add(appendMessage(nil, message{kind: messageReady, seq: 1}))
	f.Add(appendMessage(nil, message{kind: messageDrain, flags: 1, payload: appendGrace(nil, time.Second)}))
	f.Add(appendMessage(nil, message{kind: messageHello, payload: appendLayout(nil, layout{Generation: 1, Lifeline: 1, Inboxes: []int{0, 3}})}))
	f.Add(appendMessage(nil, message{kind: messageParcel, slot: 1, payload: []byte("GET / HT")}))
	f.Add(appendMessage(nil, message{kind: messageFatal, payload: []byte(`{"class":"bind","text":"in use"}`)}))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := parseMessage(in)
		if err != nil {
			return
		}
		if out := appendMessage(nil, m); !bytes.Equal(out, in) {
			t.Fatalf("%x became %x", in, out)
		}
		if l, err := parseLayout(m.payload); err == nil {
			if again, err := parseLayout(appendLayout(nil, l)); err != nil || !reflect.DeepEqual(again, l) {
				t.Fatalf("%+v became %+v, %v", l, again, err)
			}
		}
		parseGrace(m.payload)
		if e, ok := eventOf(m); ok && e.kind == evFatal && e.failure == nil {
			t.Fatal("FATAL without a failure")
		}
	})
}
