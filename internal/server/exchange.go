// Package server is what the requests of a server and the protocols that carry them have
// to know of each other. Root's RequestCtx is a Request. Each protocol has an Exchange;
// neither knows the other's package.
package server

import (
	"errors"
	"net"
	"os"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
)

// An Exchange sends the response and reads the body of one request in the protocol of its
// connection. Each protocol of the server implements it; the Request calls it. It is all
// that a Request knows about the protocol.
//
// In the other direction, the protocol calls the Request; see there. The methods of an
// Exchange are called during Request.Serve and Respond, and SendInterim during
// ExpectContinue. While a handler runs, the Request calls them one after the other, except
// for ReadBody and the two methods whose comments say so. A result of type bool is false
// when the client cannot be reached any more.
type Exchange interface {
	// SendInterim sends an interim response at once: h, or 100 (Continue) if h is nil.
	SendInterim(h *message.ResponseHeader) bool
	// SendHead sends the head of the response, with the content that f describes, and p,
	// the first part of the content. With isLast, the response ends after p. It is called
	// once for each request. f stays valid until Request.End.
	SendHead(f *message.ResponseForm, p []byte, isLast bool) bool
	// SendData sends p as the next part of the content. With isLast, the response
	// ends after p, with the trailer fields of the response. p belongs to the caller, except
	// for the last part, which does not change until Request.End.
	SendData(p []byte, isLast bool) bool
	// SendFile sends part as the rest of the content. It owns part, and closes
	// part.Done, possibly after the handler's Run. After ErrConnectionClosed, the
	// client cannot be reached.
	SendFile(part engine.File) error
	// Flush sends what the methods above may have collected.
	Flush() bool

	// ReadBody waits for a part of the request's body. It returns io.EOF at the
	// verified end, possibly with the last bytes. Before it waits for the client,
	// it calls Request.MayWait.
	ReadBody(p []byte) (int, error)

	// Arm prepares for the next two methods. Every call that may wait for the
	// client comes after it.
	Arm()
	// InterruptRead makes a waiting ReadBody return, and every further one.
	// InterruptWrite makes a waiting Send or Flush return, and every further one:
	// the response is then torn. They are called on any goroutine, while another
	// one is in a method.
	InterruptRead()
	InterruptWrite()

	// OnPeerGone arranges that f is called, on any goroutine, if the client goes
	// away while the handler runs. nil: nothing is called any more.
	OnPeerGone(f func())
	// HasTarget reports whether the connection has an engine.Target, and is the client's alone.
	HasTarget() bool
	// SetReadDeadline bounds waits for the request's body: now+timeout, in Nanos; 0 means
	// for ever. SetWriteTimeout bounds each blocked write of this response.
	SetReadDeadline(now int64, timeout time.Duration)
	SetWriteTimeout(timeout time.Duration)

	LocalAddr() net.Addr
	RemoteAddr() net.Addr
	// NetConn returns the connection for its addresses and TLS state. It is valid
	// even after the connection has ended.
	NetConn() net.Conn
	// UserConn returns the connection for RequestCtx.Conn.
	UserConn() net.Conn
}

// ErrConnectionClosed is sluice.ErrConnectionClosed.
var ErrConnectionClosed = errors.New("sluice: the connection was closed by the peer")

// ErrTimeout says that a request did not arrive in time. It unwraps to
// os.ErrDeadlineExceeded, the error of the connection.
var ErrTimeout error = requestTimeout{}

// requestTimeout is the type of ErrTimeout, a net.Error. It is answered 408.
type requestTimeout struct{}

func (requestTimeout) Error() string   { return "sluice: request did not arrive in time" }
func (requestTimeout) Timeout() bool   { return true }
func (requestTimeout) Temporary() bool { return true }
func (requestTimeout) Unwrap() error   { return os.ErrDeadlineExceeded }

// Facts are the facts about a connection that its requests report.
type Facts struct {
	ID     uint64
	Opened int64  // Nanos
	Served uint64 // requests begun
	Stream uint64 // the number of the request's stream
	// Version is the major version of HTTP, 2 or 3; 0: 1, which has no streams.
	Version uint8
	IsTLS   bool
	IsEarly bool // the request may be a repeated one, see RequestCtx.IsEarly
}
