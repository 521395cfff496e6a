// Package upgrade is what root and the packages of protocols that follow HTTP/1.1 on a
// connection have to know of each other. Package websocket is one of these.
package upgrade

import (
	"context"
	"net/netip"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
)

// Key is under which a sluice.RequestCtx has its Taker as a value, and the ServerControl of a
// sluice.Server its Hosts.
type Key struct{}

// A Taker gives the connection of a request to another protocol.
type Taker interface {
	TakeOver(t Takeover) error
	// OnHijackDropped has f called if the request ends and the handler of Hijack, which was
	// called before, does not get the connection; or the Open of TakeOver is not called.
	// The handler must not use the request, which ends before it.
	OnHijackDropped(f func())
	// OnPeerGone has f called once, on any goroutine, if the client disconnects before the
	// request ends; a further call replaces f, and nil removes it. f must not block. Unlike
	// the end of Done, it is not called at Shutdown.
	OnPeerGone(f func())
	// Watch is OnPeerGone. It returns what may send for the request's handler, nil: nothing,
	// and RemoteAddrPort. The holder is the engine's, and may be used after the request.
	Watch(gone func()) (holder engine.Holder, client netip.AddrPort)
	// RemoteAddrPort is RemoteAddr without memory for it. It is valid only if the client is on
	// TCP.
	RemoteAddrPort() netip.AddrPort
	// Kept returns the place of what package proxy keeps with the RequestCtx between requests.
	// It has HeldBytes, which counts as memory of the RequestCtx, and is not kept if that is much.
	Kept() *any
	// StopBody makes a waiting Read of the request's body stream return, and every further
	// one. The connection is closed after the response, if the body was not read to its end.
	StopBody()
	// IsBodyForeign reports whether another protocol writes the body of the response, or the handler
	// of Hijack all of it.
	IsBodyForeign() bool
	// SendInterim sends h, an interim response, to a client that knows them. Its errors are those of
	// RequestCtx.EarlyHints.
	SendInterim(h *message.ResponseHeader) error
	// RequestHead returns what is in a *sluice.RequestHeader, and ResponseHead what is in a
	// *sluice.ResponseHeader.
	RequestHead(h any) *message.RequestHeader
	ResponseHead(h any) *message.ResponseHeader
}

// TakerOf returns the Taker of ctx, which is a sluice.RequestCtx.
func TakerOf(ctx context.Context) Taker { return ctx.Value(Key{}).(Taker) }

// OnHijackDropped is that of the Taker of ctx, which is a sluice.RequestCtx.
func OnHijackDropped(ctx context.Context, f func()) { TakerOf(ctx).OnHijackDropped(f) }

// StopBody is that of the Taker of ctx, which is a sluice.RequestCtx.
func StopBody(ctx context.Context) { TakerOf(ctx).StopBody() }

// TakeOver gives the connection of ctx, which is a sluice.RequestCtx, to another protocol
// after the response, or after the beginning of its body, when the handler has returned. Its
// errors are those of package sluice.
func TakeOver(ctx context.Context, t Takeover) error { return TakerOf(ctx).TakeOver(t) }

// A Takeover is what TakeOver gets. One without a Family only asks whether another
// would be allowed.
type Takeover struct {
	Family Family
	// WritesBody: the response has a body, which the Protocol writes: in chunks, or for a
	// client of HTTP/1.0 up to the end of the connection. Until then the response is a head.
	// If the response must not have a body, it ends as others do and Open is not called.
	WritesBody bool
	// NeedsTarget: the Conn must have a Target. With WritesBody, the request's body must also
	// have been read, and the server must not be shutting down, when TakeOver is called.
	// Otherwise TakeOver returns errors.ErrUnsupported.
	NeedsTarget bool
	// Status, and a field with its value, are what the response must still have when the
	// handler has returned. Otherwise another one has taken its place, and Open is not
	// called. 0: any 2xx, or 101. No Name: any fields.
	Status      int
	Name, Value string
	// Open is called once, when the response is complete and before it is sent. It
	// returns the Protocol that has the connection next, and appends to out, which
	// contains the response, what that Protocol sends first. It is called like a Run: it
	// may block, and may use the Conn. If it returns nil, the connection is closed.
	//
	// With HTTP/2, the Protocol has the stream instead of the connection. The Conn is that
	// stream: it has no Target, and not the calls that only HTTP/1.1 needs. With WritesBody,
	// the Protocol is an http2.Producer: it has no input, and must not block after Open. The
	// Conn is a StreamConn.
	Open func(h Host, c engine.Conn, out []byte) (engine.Protocol, []byte)
}

// A StreamConn is the Conn of a Protocol that writes a body on a stream of HTTP/2. It has no
// Target; Prompter, the time-outs and the addresses are what the Protocol may use. The
// server counts the bytes.
type StreamConn interface {
	// Room returns, in Prompted, how many bytes the peer takes at once; 0 elsewhere. The
	// Protocol appends until it has so many, and returns engine.Run if there are more.
	Room() int
}

// A Family makes the Host of a Server: one for each engine that the Server has. It must
// be comparable. A websocket.Endpoint has one.
type Family interface {
	NewHost(s Server) Host
	// Name names the Family, and the version of what its Protocols pack, in other
	// processes; "": its connections do not move. It has at most MaxName bytes.
	Name() string
}

// A Host is what all connections of a Family have in common on one engine. The packages
// of protocols implement it.
type Host interface {
	// Wake implements engine.Waker for Protocols of this Host.
	Wake(c engine.Conn, m engine.Memo) engine.Protocol
	// Unpack returns the Protocol of a connection that was handed over with what its
	// Protocol has appended to AppendState. nil refuses the connection, which gets its
	// farewell. It must not retain state.
	Unpack(c engine.Conn, state []byte) engine.Protocol
}

// Closing tells how connections shall end.
type Closing uint8

const (
	// CloseNot: the server serves.
	CloseNot Closing = iota
	// CloseSoon: another process replaces this one. Connections end at their convenience.
	CloseSoon
	// CloseNow: the server shuts down.
	CloseNow
)

// A Server is what a Host may use of the server whose connections it has. Root implements
// it, with a Place. All methods may be called on any goroutine.
type Server interface {
	// Memo returns the Memo of a Protocol that sleeps: with id and opened, and with
	// served, of which MemoBits bits are kept.
	Memo(id, served uint64, opened int64) engine.Memo
	// Served returns the number that Memo got. isOwn reports whether m is of this Server.
	Served(m engine.Memo) (served uint64, isOwn bool)
	// Prompt is that of the engine.
	Prompt(t engine.Target)
	// ReadOn is that of the engine.
	ReadOn(t engine.Target)
	// Cast is that of the engine.
	Cast(targets []engine.Target, frame []byte, missed func(i int))
	// IsRegistered reports whether other servers with the same Families may take over
	// the connections.
	IsRegistered() bool
	// Closing reports whether connections shall end.
	Closing() Closing
	// Life is that of the engine. Until it has reached StageClosing, Closing returns CloseNot.
	Life() *engine.Life
	// Count counts bytes of a connection: read since the last call, and written.
	Count(read, written int)
	// Printf writes to the log.
	Printf(format string, args ...any)
}

// A Place is what a Server has of the engine of one Host: the methods from Memo to
// IsRegistered, and Life.
type Place struct {
	Engine     engine.Engine
	Registered bool
	// Number and Marks are in each Memo: the place of the Host in Hosts, and bits that tell
	// the Memos of Hosts from others. Shift is how many bits are below the number.
	Number, Marks uint64
	Shift         int
}

// Life implements Server.
func (p *Place) Life() *engine.Life { return p.Engine.Life() }

// Memo implements Server.
func (p *Place) Memo(id, served uint64, opened int64) engine.Memo {
	return engine.Memo{ID: id, Served: p.memo(served), Opened: opened}
}

func (p *Place) memo(served uint64) uint64 {
	return (p.Number<<MemoBits|served&(1<<MemoBits-1))<<p.Shift | p.Marks
}

// Served implements Server.
func (p *Place) Served(m engine.Memo) (served uint64, isOwn bool) {
	served = m.Served >> p.Shift & (1<<MemoBits - 1)
	return served, p.memo(served) == m.Served
}

// Prompt implements Server.
func (p *Place) Prompt(t engine.Target) { p.Engine.Prompt(t) }

// ReadOn implements Server.
func (p *Place) ReadOn(t engine.Target) { p.Engine.ReadOn(t) }

// Cast implements Server.
func (p *Place) Cast(targets []engine.Target, frame []byte, missed func(i int)) {
	p.Engine.Cast(targets, frame, missed)
}

// IsRegistered implements Server.
func (p *Place) IsRegistered() bool { return p.Registered }

const (
	// MemoBits is how many bits of Memo.Served a Protocol may use.
	MemoBits = 32
	// MaxHosts is how many Hosts a Server can have.
	MaxHosts = 1 << 16
)
