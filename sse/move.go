package sse

import (
	"encoding/binary"
	"errors"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// movePrefix begins the names of families. It has the version of appendMoved.
const movePrefix = "sse1:"

// Register lets the streams of h move to other processes, and lets s take over those of a
// Hub with the same Name, as in rolling restarts with package prefork. It must be called
// before s serves. The error says that Name is empty, or that another Hub of s has it.
//
// A stream moves when it has got all events; the other process sends the next ones, which
// it must get from elsewhere, such as a Backplane. TLS connections, streams of HTTP/2, and
// those of EnginePerConn that a listener has wrapped, do not move: they end within
// Options.RestartSpread, and the clients come back.
func (h *Hub) Register(s *sluice.Server) error {
	if h.options.Name == "" {
		return errors.New("sluice: sse: a Hub without a Name cannot be registered")
	}
	return upgrade.Register(s.Control(), h.family)
}

// moved is what a stream takes along.
type moved struct {
	form   form
	had    position
	topics []string
}

// appendMoved appends m: the form, the text of the position, and the topics, each with its
// length.
func appendMoved(dst []byte, m moved) []byte {
	dst = upgrade.AppendText(append(dst, byte(m.form)), string(appendPosition(nil, m.had)))
	dst = binary.AppendUvarint(dst, uint64(len(m.topics)))
	for _, name := range m.topics {
		dst = upgrade.AppendText(dst, name)
	}
	return dst
}

// parseMoved is the reverse of appendMoved.
func parseMoved(in []byte) (m moved, ok bool) {
	if len(in) < 1 || in[0] > byte(formRaw) {
		return m, false
	}
	m.form = form(in[0])
	text, in, ok := upgrade.CutText(in[1:])
	if !ok {
		return m, false
	}
	if m.had, ok = parsePosition(text); !ok {
		return m, false
	}
	count, n := binary.Uvarint(in)
	if n <= 0 || count > MaxTopics {
		return m, false
	}
	in = in[n:]
	for range count {
		var name string
		if name, in, ok = upgrade.CutText(in); !ok {
			return m, false
		}
		m.topics = append(m.topics, name)
	}
	return m, len(in) == 0 && areValid(m.topics)
}

// maxMoved is the largest state of a stream: it must fit into one message between processes.
const maxMoved = 56 << 10

// Pack implements engine.Packer.
func (x *session) Pack(dst []byte) (state []byte, ok bool) {
	h, s := x.hub(), x.stream
	h.mu.Lock()
	defer h.mu.Unlock()
	if x.stays || s.phase != phaseOpen || s.isCast || h.lagsLocked(s) {
		return dst, false
	}
	had := h.log.position()
	had = had.and(s.extra.had) // which another log has, and this one perhaps not yet
	packed := appendMoved(nil, moved{form: s.form, had: had, topics: s.topics()})
	if len(packed) > maxMoved {
		x.stays = true
		x.arm(clock.Nanos())
		return dst, false
	}
	s.phase = phaseMoved
	h.leaveLocked(s)
	end := s.form.appendEnd(s.form.append(nil, h.reconnectText()))
	return append(upgrade.AppendState(dst, h.family.Name(), string(end)), packed...), true
}

// Unpack implements upgrade.Host.
func (h *host) Unpack(conn engine.Conn, state []byte) engine.Protocol {
	m, ok := parseMoved(state)
	if !ok {
		h.server.Printf("a stream of another process is closed: its state is damaged")
		return nil
	}
	h.hub.mu.Lock()
	hasGap := h.hub.log.hasMissed(m.had)
	h.hub.mu.Unlock()
	if hasGap { // the client comes back, and gets a Snapshot
		return nil
	}
	x, _ := h.begin(conn, opening{topics: m.topics, form: m.form, had: m.had, isMoved: true, stays: h.server.Closing() != upgrade.CloseNot})
	h.hub.mu.Lock()
	defer h.hub.mu.Unlock()
	x.stream.promptLocked()
	return x
}
