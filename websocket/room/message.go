package room

import (
	"encoding/binary"
	"errors"

	"github.com/sluicehttp/sluice/websocket"
)

// messageVersion is the first byte of what hubs publish. Processes of different versions
// may share a backplane during an upgrade.
const messageVersion = 1

var errMessage = errors.New("sluice: room: a message of the backplane is malformed")

// encode returns p as hubs publish it: version, kind, length of the key, key, payload.
func encode(p *websocket.Prepared) []byte {
	key, data := p.Key(), p.Data()
	out := make([]byte, 0, 2+binary.MaxVarintLen64+len(key)+len(data))
	out = append(out, messageVersion, byte(p.Kind()))
	out = binary.AppendUvarint(out, uint64(len(key)))
	out = append(out, key...)
	return append(out, data...)
}

// decode is the reverse of encode.
func decode(data []byte) (*websocket.Prepared, error) {
	if len(data) < 3 || data[0] != messageVersion {
		return nil, errMessage
	}
	kind := websocket.Kind(data[1])
	length, n := binary.Uvarint(data[2:])
	if n <= 0 || kind != websocket.Text && kind != websocket.Binary {
		return nil, errMessage
	}
	rest := data[2+n:]
	if length > uint64(len(rest)) {
		return nil, errMessage
	}
	return websocket.PrepareKeyed(string(rest[:length]), kind, rest[length:]), nil
}

// A receiver is the backplane.Receiver of a Hub.
type receiver struct{ hub *Hub }

// Received implements backplane.Receiver.
func (r receiver) Received(name string, data []byte) {
	room := r.hub.find(name)
	if room == nil {
		return
	}
	p, err := decode(data)
	if err != nil {
		r.hub.failed(name, err)
		return
	}
	room.Broadcast(p, nil)
}

// Gap implements backplane.Receiver.
func (r receiver) Gap(name string) {
	if f := r.hub.options.OnGap; f != nil {
		f(name)
	}
}
