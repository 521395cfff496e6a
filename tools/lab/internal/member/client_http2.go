//go:build linux

package member

import (
	"errors"
	"fmt"

	"github.com/sluicehttp/sluice/internal/wire/h2"
	"github.com/sluicehttp/sluice/tcp"
)

// A streamer is a connection of HTTP/2 (RFC 9113) that has one stream at a time. Before
// the server has sent its SETTINGS, it is the connection's state; later it is the sender
// of its peer.
type streamer struct {
	*tcp.Sender
	// last is the stream of the last request. It needs no lock, because a connection
	// sends a request when the last one was answered.
	last uint32
}

// The frames that the client looks at (RFC 9113 section 6).
const (
	frameData     = 0
	frameHeaders  = 1
	frameReset    = 3
	frameSettings = 4
	framePing     = 6
	frameGoAway   = 7

	flagAck       = 0x1 // SETTINGS and PING
	flagEndStream = 0x1 // DATA and HEADERS

	// largestFrame is the payload that a server may send, as the client does not
	// announce another size.
	largestFrame = 16 << 10
	// windowGift leaves room for 2 GiB of responses on a connection.
	windowGift = 1<<31 - 1 - 65535
)

// The field blocks of requests (RFC 7541): GET / from http, and the authority "lab",
// which the first one adds to the table of the server.
var (
	firstBlock = []byte{0x82, 0x86, 0x84, 0x41, 3, 'l', 'a', 'b'}
	laterBlock = []byte{0x82, 0x86, 0x84, 0xbe}
)

// startHTTP2 sends the preface on a new connection.
func (c *client) startHTTP2(conn *tcp.Conn) error {
	conn.SetState(&streamer{Sender: conn.Sender()})
	ours, inForce := h2.DefaultSettings(), h2.DefaultSettings()
	ours.EnablePush = false
	out := append(conn.AvailableBuffer(), h2.Preface...)
	out = h2.AppendSettings(out, &ours, &inForce)
	_, err := conn.Write(h2.AppendWindowUpdate(out, 0, windowGift))
	return err
}

// appendRequest appends the next request.
func (s *streamer) appendRequest(dst []byte) []byte {
	block := laterBlock
	if s.last == 0 {
		block = firstBlock
		s.last = 1
	} else {
		s.last += 2
	}
	return h2.AppendHeaders(dst, s.last, block, true, largestFrame)
}

// TrySend implements sender. It sends a request, whatever message is.
func (s *streamer) TrySend([]byte) error {
	return s.Sender.TrySend(s.appendRequest(make([]byte, 0, 32)))
}

// handleHTTP2 takes the frames that are complete.
func (c *client) handleHTTP2(conn *tcp.Conn, in []byte) (used int, err error) {
	for err == nil {
		rest := in[used:]
		if len(rest) < h2.FrameHeadSize {
			break
		}
		length := int(rest[0])<<16 | int(rest[1])<<8 | int(rest[2])
		if length > largestFrame {
			return used, fmt.Errorf("the server sends a frame of %d bytes", length)
		}
		size := h2.FrameHeadSize + length
		if len(rest) < size {
			break
		}
		err = c.takeFrame(conn, rest[3], rest[4], rest[h2.FrameHeadSize:size])
		used += size
	}
	return used, err
}

// takeFrame takes one frame.
func (c *client) takeFrame(conn *tcp.Conn, kind, flags byte, payload []byte) error {
	switch kind {
	case frameHeaders:
		if err := checkStatus(payload); err != nil {
			return err
		}
		fallthrough
	case frameData:
		if flags&flagEndStream != 0 {
			return c.answered(conn)
		}
	case frameSettings:
		if flags&flagAck != 0 {
			return nil
		}
		if s, isNew := conn.State().(*streamer); isNew {
			c.joins(conn, s)
			<-c.upgrades
		}
		_, err := conn.Write(h2.AppendSettingsAck(conn.AvailableBuffer()))
		return err
	case framePing:
		if flags&flagAck == 0 && len(payload) == 8 {
			_, err := conn.Write(h2.AppendPing(conn.AvailableBuffer(), [8]byte(payload), true))
			return err
		}
	case frameReset, frameGoAway:
		return fmt.Errorf("the server ends a stream or the connection by a frame of type %d: %x", kind, payload)
	}
	return nil
}

var errNoStatus = errors.New("a response does not begin with :status 200")

// checkStatus checks that a field block begins with :status 200, which is the entry 8 of
// the static table, perhaps behind new sizes of the dynamic table (RFC 7541 section 6.3).
func checkStatus(block []byte) error {
	for len(block) > 0 && block[0]&0xe0 == 0x20 {
		isLong := block[0]&0x1f == 0x1f
		block = block[1:]
		for isLong && len(block) > 0 {
			isLong = block[0]&0x80 != 0
			block = block[1:]
		}
	}
	if len(block) == 0 || block[0] != 0x88 {
		return errNoStatus
	}
	return nil
}
