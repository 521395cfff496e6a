package mesh

import (
	"encoding/binary"
	"errors"

	"github.com/sluicehttp/sluice/backplane"
)

// Two processes send each other frames over a stream:
//
//	0 size u32, of what follows   4 kind u8   5 topic's size u16   7 topic   … data
//
// Numbers are little-endian. A topic is the name of a plane, a NUL, and the name of a room.
const (
	frameHead = 7
	maxTopic  = maxPlane + 1 + backplane.MaxRoom
	maxFrame  = frameHead + maxTopic + backplane.MaxData
)

type frameKind uint8

const (
	frameHello   frameKind = 1 // the first one; data: a hello
	frameMessage frameKind = 2 // topic, data
	frameGap     frameKind = 3 // topic; none: messages of any may be lost
	frameBye     frameKind = 4 // the last one
)

// errFrame: the other process does not send frames.
var errFrame = errors.New("sluice: not a frame")

// A frame is one frame. Unknown kinds are ignored.
type frame struct {
	kind  frameKind
	topic []byte
	data  []byte
}

// appendFrame appends a frame to dst. The topic is plane, NUL and room, or nothing if plane
// is "".
func appendFrame(dst []byte, kind frameKind, plane, room string, data []byte) []byte {
	topic := 0
	if plane != "" {
		topic = len(plane) + 1 + len(room)
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(frameHead-4+topic+len(data)))
	dst = append(dst, byte(kind))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(topic))
	if plane != "" {
		dst = append(append(append(dst, plane...), 0), room...)
	}
	return append(dst, data...)
}

// parseFrame parses the frame that in begins with. f points into in. If in has only a part
// of it, f is zero and size is how many bytes are needed.
func parseFrame(in []byte) (f frame, size int, err error) {
	if len(in) < frameHead {
		return frame{}, frameHead, nil
	}
	length, topic := binary.LittleEndian.Uint32(in), int(binary.LittleEndian.Uint16(in[5:]))
	if length > maxFrame-4 || topic > maxTopic || int(length)+4 < frameHead+topic {
		return frame{}, 0, errFrame
	}
	if size = int(length) + 4; len(in) < size {
		return frame{}, size, nil
	}
	if in[4] == 0 {
		return frame{}, 0, errFrame
	}
	return frame{frameKind(in[4]), in[frameHead : frameHead+topic], in[frameHead+topic : size]}, size, nil
}

// A hello says who sends it.
type hello struct {
	slot, generation uint32
	interests        int32 // the number of its set of Interests; -1: it has none
}

const (
	helloMagic = 0x31505342 // also the version of the frames
	helloSize  = 16
)

// errHello: the other process does not begin with a hello of this version.
var errHello = errors.New("sluice: not a hello of this version")

func appendHello(dst []byte, h hello) []byte {
	for _, n := range [...]uint32{helloMagic, h.slot, h.generation, uint32(h.interests)} {
		dst = binary.LittleEndian.AppendUint32(dst, n)
	}
	return dst
}

// parseHello parses a hello, and ignores what later versions append to it.
func parseHello(in []byte) (h hello, err error) {
	if len(in) < helloSize || binary.LittleEndian.Uint32(in) != helloMagic {
		return hello{}, errHello
	}
	h.slot, h.generation = binary.LittleEndian.Uint32(in[4:]), binary.LittleEndian.Uint32(in[8:])
	h.interests = int32(binary.LittleEndian.Uint32(in[12:]))
	if h.interests < -1 {
		return hello{}, errHello
	}
	return h, nil
}
