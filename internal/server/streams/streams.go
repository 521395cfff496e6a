// Package streams has what HTTP/2 and HTTP/3 share on a server: requests and responses that
// have a stream each.
package streams

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// Fields are what a field block or a field section is made of.
type Fields interface {
	// AppendFields appends the fields to a block or section that e has begun. It may be called
	// with a lock of the connection, and must not call the stream.
	AppendFields(dst []byte, e message.FieldEncoder) []byte
}

// TrailerFields implements Fields for the trailer fields of Header.
type TrailerFields struct{ Header *message.Header }

// AppendFields implements Fields.
func (t TrailerFields) AppendFields(dst []byte, e message.FieldEncoder) []byte {
	return t.Header.AppendTrailerFields(dst, e)
}

// InterimFields implements Fields for an interim response: Header, nil: 100 (Continue).
type InterimFields struct{ Header *message.ResponseHeader }

// AppendFields implements Fields.
func (i InterimFields) AppendFields(dst []byte, e message.FieldEncoder) []byte {
	if i.Header == nil {
		return e.AppendStatus(dst, 100)
	}
	return i.Header.AppendFields(dst, e, message.Interim())
}

// SendFile sends part as the rest of the content of x, by its SendData. It reads the file by
// means of room. See server.Exchange.SendFile.
func SendFile(x server.Exchange, part engine.File, room []byte) error {
	var err error
	for left := part.Size; left > 0 && err == nil; {
		n, readErr := part.Source.ReadAt(room[:min(left, int64(len(room)))], part.Offset)
		part.Offset += int64(n)
		left -= int64(n)
		switch {
		case !x.SendData(room[:n], false):
			err = server.ErrConnectionClosed
		case left > 0 && readErr == io.EOF:
			err = io.ErrUnexpectedEOF
		case left > 0:
			err = readErr
		}
	}
	if err = cmp.Or(err, part.Done.Close()); err == nil && !x.SendData(nil, true) {
		return server.ErrConnectionClosed
	}
	return err
}

// Refuse makes r the response to a request that does not reach the handler, because of err.
func Refuse(r server.Request, err error) {
	public := err
	var wire *h1.Error
	if errors.As(err, &wire) && (wire.Status == statusFieldsTooLarge || wire == h1.ErrLineTooLong) {
		public = message.SmallBuffer(err)
	}
	r.Refuse(err, public)
}

const statusFieldsTooLarge = 431

// ShowUpgrade makes the head of an extended CONNECT for a WebSocket the upgrade of
// HTTP/1.1 that it stands for (RFC 8441 section 5, RFC 9220). It reports whether the client has sent a
// key. It needs none, but undici sends one, and checks the answer.
func ShowUpgrade(h *message.RequestHeader) (isKeyed bool) {
	if !ascii.EqualFold(h.Connect(), "websocket") {
		return false
	}
	h.SetMethod([]byte("GET"))
	h.Put("Connection", []byte("Upgrade"), message.Sets)
	h.Put("Upgrade", []byte("websocket"), message.Sets)
	if len(h.AppendAny(nil, keyName)) > 0 {
		return true
	}
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // it never fails
	h.Put(keyName, base64.StdEncoding.AppendEncode(nil, nonce[:]), message.Sets)
	return false
}

// keyName is a field of the upgrade to a WebSocket (RFC 6455 section 4.1).
const keyName = "Sec-WebSocket-Key"

// A UserConn is what RequestCtx.Conn returns: the connection's addresses and TLS state. What
// concerns its bytes is not supported.
type UserConn struct {
	engine.AddressOnly
	mu     sync.Mutex
	stream Stream // nil: the request has ended
}

// A Stream is the exchange of a request, on a stream of its own.
type Stream interface {
	server.Exchange
	// Cancel resets the stream on behalf of the handler. It is called on any goroutine, as
	// InterruptWrite is.
	Cancel()
}

// NewUserConn returns a UserConn of the request of s. err is what it returns for what is not
// supported.
func NewUserConn(s Stream, err error) *UserConn {
	return &UserConn{AddressOnly: engine.AddressOnly{Conn: s.NetConn(), Err: err}, stream: s}
}

// End ends the use of the stream.
func (c *UserConn) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream = nil
}

// Close implements net.Conn: it resets the stream of the request.
func (c *UserConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream == nil {
		return net.ErrClosed
	}
	c.stream.Cancel()
	return nil
}

// ConnectionState returns the state of a TLS connection.
func (c *UserConn) ConnectionState() tls.ConnectionState { return TLSStateOf(c.Conn) }

// TLSStateOf returns the TLS state of c; the zero value without TLS.
func TLSStateOf(c net.Conn) (state tls.ConnectionState) {
	if stater, ok := c.(interface{ ConnectionState() tls.ConnectionState }); ok {
		state = stater.ConnectionState()
	}
	return state
}
