package load

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// A WebSocket makes the connections of a run WebSockets (RFC 6455). Each connection begins
// with a handshake, for which Config.Request is a GET without the fields of WebSocket. The
// requests of the run are then the messages, and each message of the server is the
// response to one. They have no status: Counts.Status counts them as 0.
//
// All connections send the same bytes: the keys of the handshake and of the mask are made
// once for a run. Event loops answer pings; goroutines, which do not read between a response
// and the next request, do not.
type WebSocket struct {
	// Message is what is sent, and IsText whether it is text, which must be UTF-8, or
	// binary.
	Message []byte
	IsText  bool
}

var (
	errNoUpgrade  = errors.New("the server ends the connection in the handshake")
	errNotGet     = errors.New("the request of a handshake must be a GET without a body")
	errAccept     = errors.New("the server's Sec-WebSocket-Accept is wrong")
	errUnwanted   = errors.New("a message that was not asked for")
	errFrameClose = errors.New("the server closes the connection")
)

// A handshake is what all connections of a run over WebSocket begin with.
type handshake struct {
	request []byte
	accept  []byte // what the server must answer
}

// newHandshake makes the handshake of a run, and makes c.Request a message.
func newHandshake(c *Config) (*handshake, error) {
	head, isHead := bytes.CutSuffix(c.Request, []byte("\r\n\r\n"))
	if !isHead || !bytes.HasPrefix(head, []byte("GET ")) {
		return nil, errNotGet
	}
	var nonce [ws.KeySize]byte
	_, _ = rand.Read(nonce[:]) // it cannot fail
	key := ws.AppendKey(nil, nonce)
	h := &handshake{accept: ws.AppendAccept(nil, key)}
	h.request = fmt.Appendf(h.request, "%s\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s: %s\r\n%s: %s\r\n\r\n",
		head, ws.Token, ws.FieldVersion, ws.Version, ws.FieldKey, key)
	op := ws.OpBinary
	if c.WebSocket.IsText {
		op = ws.OpText
	}
	c.Request = ws.AppendMasked(nil, op, ws.Key(binary.LittleEndian.Uint32(nonce[:])), c.WebSocket.Message)
	return h, nil
}

// accepts reports whether the server's head answers the handshake.
func (h *handshake) accepts(fields *field.Table) bool {
	for i := range fields.Len() {
		if bytes.EqualFold(fields.Name(i), []byte(ws.FieldAccept)) {
			return bytes.Equal(bytes.TrimSpace(fields.Value(i)), h.accept)
		}
	}
	return false
}

// A socket finds messages on one connection over WebSocket.
type socket struct {
	reader ws.Reader
	pong   []byte // the answer to the last ping; empty: there is none to send
}

// message reads from in up to the end of a message.
func (s *socket) message(in []byte) (used int, isDone bool, err error) {
	for used < len(in) {
		n, p, err := s.reader.Next(in[used:])
		used += n
		switch {
		case err != nil:
			return used, false, err
		case p.Opcode == ws.OpClose:
			return used, false, closing(p.Payload)
		case p.Opcode == ws.OpPing:
			s.pong = ws.AppendMasked(s.pong[:0], ws.OpPong, 0, p.Payload)
		case !p.Opcode.IsControl() && p.IsLast:
			return used, true, nil
		}
	}
	return used, false, nil
}

// closing returns the error of a Close frame.
func closing(body []byte) error {
	code, reason, err := ws.ParseClose(body)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: code %d %q", errFrameClose, code, reason)
}

// kindOf returns the kind of an error of a framer.
func kindOf(err error) Kind {
	if errors.Is(err, errFrameClose) {
		return Read
	}
	return Invalid
}

// upgraded prepares for messages after the head of a response to the handshake.
func (f *framer) upgraded() error {
	if f.outcome.status != 101 {
		return fmt.Errorf("the server answers the handshake with status %d", f.outcome.status)
	}
	if !f.outcome.accepts {
		return errAccept
	}
	f.phase, f.outcome = inMessages, outcome{}
	f.socket.reader = ws.Reader{FromServer: true}
	return nil
}

// upgrade makes the handshake on a new connection.
func (c *stream) upgrade(conn net.Conn) error {
	if _, err := conn.Write(c.handshake.request); err != nil {
		return err
	}
	for {
		n, err := conn.Read(c.buf)
		switch {
		case n == 0 && errors.Is(err, io.EOF):
			return errNoUpgrade
		case n == 0:
			return err
		}
		used, isDone, err := c.framer.feed(c.buf[:n])
		switch {
		case err != nil:
			return err
		case isDone && used < n:
			return errUnwanted
		case isDone:
			return nil
		}
	}
}
