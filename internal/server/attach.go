package server

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// AttachKey is the key under which the ServerControl of a sluice.Server has its Attacher.
type AttachKey struct{}

// An Attacher is a Server to which a protocol outside of the root module can be attached,
// with connections that no engine has: HTTP/3. Root implements it.
type Attacher interface {
	// Attach makes p a protocol of the Server until Detach. It returns
	// sluice.ErrServerClosed after Shutdown, until the Server serves again.
	Attach(p Attached) (Attachment, error)
}

// An Attached is a protocol as root calls it. Its methods are called on any goroutine.
type Attached interface {
	// CloseOnNextResponse tells the clients to use another connection after their open
	// requests. It does not wait for them.
	CloseOnNextResponse()
	// Shutdown ends all connections after their requests, and returns nil. When ctx ends, it
	// cuts those that are left, and returns ctx's error. It is called at most once.
	Shutdown(ctx context.Context) error
	// Stats returns the gauges of the protocol.
	Stats() AttachedStats
	// Handshakes returns how many handshakes are in progress. Those that are complete are
	// counted until Admit has returned.
	Handshakes() int
}

// AttachedStats are the gauges of an Attached; see sluice.HTTP3Stats.
type AttachedStats struct {
	Connections, Idle, Streams             int
	Resets, Calmed, Retries, Refused, Lost uint64
}

// An AttachedConfig has what an Attached does by the fields of the Server. It does not change.
type AttachedConfig struct {
	Limits                                           h1.Limits // of a head
	ReadTimeout, WriteTimeout, IdleTimeout           time.Duration
	MaxRequests                                      uint64 // that a connection may have; 0: any number
	MaxBodyMemory                                    int64
	AsksUser, StreamsBodies, LogsAll, ClosesHijacked bool // see http2.Config
	Meter                                            Meter
	TLS                                              *tls.Config // Server.TLSConfig; it belongs to the Server
}

// An Attachment is a Server as an Attached uses it. Its methods may be called on any goroutine.
type Attachment interface {
	Host
	Config() *AttachedConfig
	// Detach ends the use of the Server. All connections have been released. It calls Stats.
	Detach()

	// Admit counts a connection, whose handshake is complete, against the limits, and tells
	// ConnState of it. An error refuses it: it was logged, and Release is not called.
	Admit(c net.Conn) (Facts, error)
	// SetActive tells ConnState that a connection has requests, or none any more.
	SetActive(c net.Conn, isActive bool)
	// Transferred counts bytes of a connection for the Meter.
	Transferred(read, written int)
	// Release ends what Admit has begun. err is why the connection has ended; nil: in order. A
	// Violation is logged with Server.LogAllErrors only.
	Release(c net.Conn, err error)
	// Workers returns the goroutines that run the Tasks of a connection. Connections with the
	// same key share them, so that Tasks of one connection run one after the other, unless
	// they wait.
	Workers(key uint64) engine.Workers

	// Stage tells how far the Server's life is.
	Stage() Stage
	// IsClosing reports whether a connection is to end after its present requests.
	IsClosing(f *Facts) bool
	// Log logs an error of a connection, if such errors are logged.
	Log(c net.Conn, err error)
	// RunHijacked calls a hijack handler, and closes c unless the program keeps it. It returns
	// false if the handler has panicked, after it has logged that.
	RunHijacked(c net.Conn, handler func(net.Conn)) (hasReturned bool)
	// ServeProtocol serves the protocol that open returns on c, a stream that has left HTTP,
	// as EnginePerConn serves a connection. It returns when c is closed. Limits do not count c;
	// the bytes that WebSockets read and write are counted already.
	ServeProtocol(c net.Conn, open func(c engine.Conn, out []byte) (engine.Protocol, []byte)) error

	// Announce makes responses of HTTP/1.1 and HTTP/2 over TLS have this Alt-Svc field (RFC
	// 7838 section 3), unless the handler sets one; nil: none.
	Announce(altSvc []byte)
}

// A Violation is the error of a connection whose client breaks the rules of its protocol.
type Violation interface {
	error
	IsViolation()
}

// A Stage is how far the life of a server is.
type Stage uint8

const (
	StageServing  Stage = iota // connections end for reasons of their own
	StageEnding                // another server takes its place
	StageShutDown              // the same, and tunnels end when their connection has no other streams
)
