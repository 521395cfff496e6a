package supervise

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The control socket carries messages, each with a head of fixed size and a payload.
// The socket keeps message boundaries (SOCK_SEQPACKET, elsewhere SOCK_DGRAM).
// Descriptors are passed beside the bytes. All numbers are little-endian:
//
//	0 magic u16   2 version u8   3 type u8    4 seq u32
//	8 slot u16   10 flags u16   12 len u32   16 payload
const (
	headSize       = 16
	headMagic      = 0x5afe
	headVersion    = 1
	maxPayload     = 60 << 10
	maxDescriptors = 64 // of one message; sockets of one slot
	maxSlot        = 1<<16 - 1
)

// messageType is the kind of a message. Unknown ones are ignored, so that
// masters and workers of different versions understand each other.
type messageType uint8

const (
	messageHello    messageType = 1   // M→W: layout; the first message, sent before the worker starts
	messagePing     messageType = 2   // M→W
	messageDrain    messageType = 3   // M→W: grace in milliseconds
	messageAdopt    messageType = 4   // M→W: slot, descriptors
	messageRelease  messageType = 5   // M→W: slot
	messageReopen   messageType = 6   // M→W
	messageQuit     messageType = 9   // M→W
	messagePeer     messageType = 10  // M→W: slot, one descriptor: the sending end of its inbox
	messageInbox    messageType = 11  // M→W: slot, one descriptor: the receiving end of its inbox, to be read meanwhile
	messageInboxOff messageType = 12  // M→W: slot: another worker reads its inbox again
	messageMeet     messageType = 13  // M→W: descriptors: streams to other workers
	messageStream   messageType = 14  // M→W: one descriptor: a stream to the master
	messageResume   messageType = 15  // M→W: another master has taken over: say again READY, RECYCLE and MEETING
	messageReady    messageType = 64  // W→M
	messagePong     messageType = 65  // W→M: seq of the ping
	messageDrained  messageType = 66  // W→M: DrainStats
	messageFatal    messageType = 67  // W→M: fatal
	messageRecycle  messageType = 68  // W→M: reason
	messageAck      messageType = 69  // W→M: seq of the message that is answered, which may be HELLO
	messageMeeting  messageType = 70  // W→M: asks for messageMeet
	messageParcel   messageType = 128 // W→W, in inboxes only: slot of the sender, payload, one descriptor
)

// flagSuccessor of messageDrain: another worker serves the slot's sockets.
const flagSuccessor = 1

// Flags of messageMeet.
const (
	flagAnswer = 1 // the last one of the answer to messageMeeting
	flagFailed = 2 // some streams could not be made
)

// flagMet of messageAck, as the answer to messageResume: the worker has got its streams.
const flagMet = 1

// What parseMessage returns.
var (
	errShortMessage = errors.New("sluice: control message is too short")
	errNotMessage   = errors.New("sluice: not a control message")
	errVersion      = errors.New("sluice: control message of another version")
	errLength       = errors.New("sluice: control message's length is wrong")
)

// A message is one message, without its descriptors.
type message struct {
	kind    messageType
	seq     uint32
	slot    uint16
	flags   uint16
	payload []byte

	// lacksDescriptors tells that the message has come without its descriptors, because this
	// process has too many.
	lacksDescriptors bool
}

// appendMessage appends m's bytes to dst. The payload is at most maxPayload
// long.
func appendMessage(dst []byte, m message) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, headMagic)
	dst = append(dst, headVersion, byte(m.kind))
	dst = binary.LittleEndian.AppendUint32(dst, m.seq)
	dst = binary.LittleEndian.AppendUint16(dst, m.slot)
	dst = binary.LittleEndian.AppendUint16(dst, m.flags)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(m.payload)))
	return append(dst, m.payload...)
}

// parseMessage parses the message that fills in. Its payload points into in.
func parseMessage(in []byte) (message, error) {
	if len(in) < headSize {
		return message{}, errShortMessage
	}
	if binary.LittleEndian.Uint16(in) != headMagic {
		return message{}, errNotMessage
	}
	if in[2] != headVersion {
		return message{}, fmt.Errorf("%w: %d", errVersion, in[2])
	}
	length := binary.LittleEndian.Uint32(in[12:])
	if length > maxPayload || int(length) != len(in)-headSize {
		return message{}, errLength
	}
	return message{
		kind:    messageType(in[3]),
		seq:     binary.LittleEndian.Uint32(in[4:]),
		slot:    binary.LittleEndian.Uint16(in[8:]),
		flags:   binary.LittleEndian.Uint16(in[10:]),
		payload: in[headSize:],
	}, nil
}

// carriesDescriptors reports whether messages of this kind may carry descriptors. Those
// of other messages are closed.
func (k messageType) carriesDescriptors() bool {
	return k == messageAdopt || k == messagePeer || k == messageInbox || k == messageMeet || k == messageStream
}

// layout is HELLO's payload: the order of the inherited files. Positions are relative
// to the control socket, so they hold if a Start function puts other files before
// them.
type layout struct {
	Slot          int  `json:"slot"`
	Generation    int  `json:"generation"`
	Listeners     int  `json:"listeners"` // their number; they come first
	Control       int  `json:"control"`   // index of the control socket
	Lifeline      int  `json:"lifeline"`  // index of the lifeline
	Shared        int  `json:"shared"`    // number of shared files; they follow the lifeline
	SharedSockets bool `json:"sharedSockets"`
	OrphanGraceMS int  `json:"orphanGraceMs"`
	// Inboxes are the slots that have one. After the shared files follow the
	// receiving end of the worker's own slot, and the sending end for each of these
	// slots, in this order. Empty: there are none.
	Inboxes []int `json:"inboxes,omitempty"`
	// Packets describes the sockets of Config.Packets, which are the last files. nil:
	// there are none.
	Packets *packetLayout `json:"packets,omitempty"`
	// Configuration is Config.Configuration.
	Configuration []byte `json:"configuration,omitempty"`
}

// inboxFiles counts the files of inboxes.
func (l *layout) inboxFiles() int {
	if len(l.Inboxes) == 0 {
		return 0
	}
	return 1 + len(l.Inboxes)
}

// packetLayout is the part of a layout for packets.
type packetLayout struct {
	Files  int    `json:"files"`
	Index  int    `json:"index"`
	Secret []byte `json:"secret"`
}

// appendLayout appends l's payload to dst.
func appendLayout(dst []byte, l layout) []byte {
	text, _ := json.Marshal(l) // numbers, booleans and bytes
	return append(dst, text...)
}

// parseLayout parses HELLO's payload and checks everything that could refer to
// descriptors that do not exist.
func parseLayout(in []byte) (layout, error) {
	var l layout
	if err := json.Unmarshal(in, &l); err != nil {
		return layout{}, fmt.Errorf("sluice: HELLO: %w", err)
	}
	const many = 1 << 10
	for _, n := range []int{l.Listeners, l.Control, l.Lifeline, l.Shared} {
		if n < 0 || n > many {
			return layout{}, fmt.Errorf("sluice: HELLO: index %d", n)
		}
	}
	if l.Control < l.Listeners || l.Lifeline != l.Control+1 || l.Slot < 0 || l.Generation < 1 || l.OrphanGraceMS < 0 {
		return layout{}, errors.New("sluice: HELLO: the layout is invalid")
	}
	hasOwn := len(l.Inboxes) == 0
	for i, slot := range l.Inboxes {
		if slot < 0 || slot > maxSlot || len(l.Inboxes) > many || i > 0 && slot <= l.Inboxes[i-1] {
			return layout{}, fmt.Errorf("sluice: HELLO: inbox of slot %d", slot)
		}
		hasOwn = hasOwn || slot == l.Slot
	}
	if p := l.Packets; p != nil && (p.Files < 0 || p.Files > maxDescriptors || p.Index < 0 || p.Index >= maxPackets) {
		return layout{}, fmt.Errorf("sluice: HELLO: %d sockets for packets with the index %d", p.Files, p.Index)
	}
	if !hasOwn {
		return layout{}, errors.New("sluice: HELLO: the slot itself has no inbox")
	}
	return l, nil
}

// fatal is FATAL's payload.
type fatal struct {
	Class string `json:"class"`
	Text  string `json:"text"`
}

// appendGrace appends a DRAIN's payload.
func appendGrace(dst []byte, grace time.Duration) []byte {
	ms := min(max(grace.Milliseconds(), 0), 1<<31)
	return binary.LittleEndian.AppendUint32(dst, uint32(ms))
}

// parseGrace parses a DRAIN's payload. It accepts the longer payloads of later
// versions.
func parseGrace(in []byte) (time.Duration, error) {
	if len(in) < 4 {
		return 0, errShortMessage
	}
	return time.Duration(binary.LittleEndian.Uint32(in)) * time.Millisecond, nil
}
