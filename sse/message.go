package sse

import (
	"encoding/binary"

	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// messageVersion is the first byte of what Hubs publish to each other. Processes of
// different versions may do so during an upgrade.
const messageVersion = 1

// A message is an event on a Backplane.
type message struct {
	topic string
	mark  mark
	event Event
}

// appendMessage appends m: version, run, number, topic, name, data.
func appendMessage(dst []byte, m message) []byte {
	dst = append(dst, messageVersion)
	dst = binary.BigEndian.AppendUint32(dst, m.mark.run)
	dst = binary.AppendUvarint(dst, m.mark.number)
	dst = upgrade.AppendText(upgrade.AppendText(dst, m.topic), m.event.Name)
	return append(dst, m.event.Data...)
}

// parseMessage is the reverse of appendMessage. The data of the result is a part of in.
func parseMessage(in []byte) (m message, ok bool) {
	if len(in) < 5 || in[0] != messageVersion {
		return m, false
	}
	m.mark.run = binary.BigEndian.Uint32(in[1:])
	number, n := binary.Uvarint(in[5:])
	if n <= 0 || number == 0 {
		return m, false
	}
	m.mark.number = number
	if m.topic, in, ok = upgrade.CutText(in[5+n:]); !ok || len(m.topic) > MaxTopic {
		return m, false
	}
	if m.event.Name, in, ok = upgrade.CutText(in); !ok {
		return m, false
	}
	m.event.Data = in
	return m, m.event.check() == nil
}
