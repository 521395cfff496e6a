//go:build linux

package member

import (
	"errors"

	"github.com/sluicehttp/sluice/internal/ws"
)

// maxPayload is the largest message of WebSocket that the lab takes: buffers have 64 KiB.
const maxPayload = 32 << 10

var (
	errMask      = errors.New("a client's frame is not masked, or a server's is")
	errNotBinary = errors.New("the lab takes binary messages in one frame")
	errFrameSize = errors.New("a message is longer than 32 KiB")
)

// parseFrame returns the frame that in begins with, and its size in in; 0: it is
// not complete. isMasked says whether it has to be. payload is a part of in, in
// which it is unmasked, once the frame is complete.
func parseFrame(in []byte, isMasked bool) (op ws.Opcode, payload []byte, size int, err error) {
	h, at, err := ws.ParseHead(in)
	switch {
	case err != nil || at == 0:
		return 0, nil, 0, err
	case h.IsMasked != isMasked:
		return 0, nil, 0, errMask
	case h.Opcode < ws.OpBinary || !h.IsFinal || h.IsDeflated:
		return 0, nil, 0, errNotBinary
	case h.Length > maxPayload:
		return 0, nil, 0, errFrameSize
	}
	size = at + int(h.Length)
	if len(in) < size {
		return 0, nil, 0, nil
	}
	payload = in[at:size:size]
	ws.Mask(payload, h.Key)
	return h.Opcode, payload, size, nil
}
