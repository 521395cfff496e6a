package room

import (
	"encoding/binary"
	"errors"

	"github.com/sluicehttp/sluice/internal/server/upgrade"
	"github.com/sluicehttp/sluice/websocket"
)

// The first byte of what hubs publish. Processes of different versions may share a
// backplane during an upgrade.
const (
	versionPlain  = 1
	versionMarked = 2 // a mark and the room's name come before the rest
)

// maxHead is how much longer a message is than its key, its payload and the room's name.
const maxHead = 2 + 4 + 3*binary.MaxVarintLen64

var errMessage = errors.New("sluice: room: a message of the backplane is malformed")

// encode returns p as hubs publish it: version, kind, length of the key, key, payload. With
// a History the mark and the name of the room, with its length, follow the version.
func encode(p *websocket.Prepared, m mark, name string) []byte {
	key, data := p.Key(), p.Data()
	out := make([]byte, 0, maxHead+len(name)+len(key)+len(data))
	if m == (mark{}) {
		out = append(out, versionPlain)
	} else {
		out = upgrade.AppendText(appendMark(append(out, versionMarked), m), name)
	}
	out = upgrade.AppendText(append(out, byte(p.Kind())), key)
	return append(out, data...)
}

// decodePlain is the reverse of encode for versionPlain, without its version.
func decodePlain(data []byte) (*websocket.Prepared, error) {
	if len(data) == 0 {
		return nil, errMessage
	}
	kind := websocket.Kind(data[0])
	key, rest, ok := upgrade.CutText(data[1:])
	if !ok || kind != websocket.Text && kind != websocket.Binary {
		return nil, errMessage
	}
	return websocket.PrepareKeyed(key, kind, rest), nil
}

// decodeMarked is the reverse of encode for versionMarked, without its version.
func decodeMarked(data []byte) (k kept, err error) {
	m, size := cutMark(data)
	name, rest, ok := upgrade.CutText(data[size:])
	if size == 0 || !ok || m.number == 0 {
		return k, errMessage
	}
	p, err := decodePlain(rest)
	return kept{name, m, p}, err
}

// A receiver is the backplane.Receiver of a Hub.
type receiver struct{ hub *Hub }

// Received implements backplane.Receiver.
func (r receiver) Received(name string, data []byte) {
	h := r.hub
	switch {
	case h.recall != nil && h.recall.Received(data, func() bool { return h.history.follows(data) }):
	case len(data) > 0 && data[0] == versionMarked && h.history != nil:
		h.receive(name, data)
	case len(data) > 0 && data[0] == versionPlain:
		if h.find(name) == nil {
			return
		}
		p, err := decodePlain(data[1:])
		if err != nil {
			h.failed(name, err)
			return
		}
		h.send(name, p, nil)
	default:
		h.failed(name, errMessage)
	}
}

// receive carries out a message with a mark.
func (h *Hub) receive(name string, data []byte) {
	k, err := decodeMarked(data[1:])
	if err != nil {
		h.failed(name, err)
		return
	}
	order := h.history.orderOf(k.room)
	order.Lock()
	defer order.Unlock()
	if h.history.add(k) {
		h.send(k.room, k.prepared, nil)
	}
}

// Gap implements backplane.Receiver.
func (r receiver) Gap(name string) {
	if h := r.hub; h.recall != nil && !h.recall.Gap(name) {
		return
	}
	if f := r.hub.options.OnGap; f != nil {
		f(name)
	}
}
