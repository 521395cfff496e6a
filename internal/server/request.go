package server

import (
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
)

// Key is under which the ServerControl of a sluice.Server has its Host.
type Key struct{}

// A Host is the server that connections belong to. Root implements it.
type Host interface {
	// NewRequest returns a Request that x carries. kept is one that another Exchange of
	// this kind has released, for its memory; nil: there is none.
	NewRequest(x Exchange, kept Request) Request
}

// A Request is one request after another of an Exchange. Root implements it, and the
// protocol calls it, in this order:
//
//	Begin                          the first byte of a request has arrived
//	HeadComplete                   the head is in the RequestHeader
//	ExtendedConnect                it asks for a tunnel
//	HeaderReceived                 the user's callback, which may block
//	ExpectBody, ExpectContinue     they decide about the body
//	BodyReceived                   the body arrives, unless it is streamed
//	Serve, Respond                 or, for a request that is not served, Refuse, Respond
//	End                            the Request is ready for the next one
//
// What a request does not need is left out. An error refuses the request. After it, and at
// any other time before Serve, Refuse may be called.
type Request interface {
	// Headers returns where the head of a request belongs, and the head of the response.
	Headers() (*message.RequestHeader, *message.ResponseHeader)

	// Begin starts a request. It copies f. start is when the first byte arrived, in Nanos.
	Begin(f *Facts, start int64)
	// HeadComplete is called when the RequestHeader has a valid head. isGet: the method is known
	// to be GET.
	HeadComplete(isHTTP10, isGet bool) error
	// ExtendedConnect is called after HeadComplete for an extended CONNECT (RFC 8441), which
	// asks for a tunnel whatever the method is that the RequestHeader shows.
	ExtendedConnect()
	// HeaderReceived calls Server.HeaderReceived. It may block.
	HeaderReceived() error
	// ExpectBody prepares for a body of length bytes, -1 if the length is unknown.
	// isStreamed: Serve reads the body with Exchange.ReadBody.
	ExpectBody(length int64) (isStreamed bool, err error)
	// ExpectContinue reports whether a body that was announced with "Expect: 100-continue"
	// is wanted; otherwise the response is ready. isWaiting: the client waits for the
	// answer, which is sent now, or by MayWait or Respond if the body is streamed. It may
	// block. After ErrConnectionClosed, the client cannot be reached.
	ExpectContinue(isWaiting bool) (isWanted bool, err error)
	// BodyReceived gets the next part of a body that is not streamed. more is a number
	// of bytes that must follow.
	BodyReceived(p []byte, more uint64) error
	// BodyTimeout is how long the rest of such a body may take, from the start on.
	BodyTimeout() time.Duration

	// Serve calls the handler. It may block. The response is not sent yet. start is that of
	// Begin, or a later one for a request that was read together with the one before. If the
	// handler has given up its Request, fresh is the one that has the response; otherwise it
	// is nil.
	Serve(start int64) (fresh Request, o Outcome)
	// Refuse makes the response to a request that is not served, because of err. public is
	// the error that users get.
	Refuse(err, public error)
	// Respond sends the response, or the rest of it. It returns false if the response is
	// torn: the client must not take it for complete.
	Respond() bool

	// Decline undoes what the handler has asked for, after one of the Outcomes below: the
	// connection stays with HTTP. With a status, the response becomes an error, unless it has
	// begun.
	Decline(status int)
	// Hijacker returns the handler after OutcomeHijack and OutcomeSilent. After End, one of the
	// two is called: drop if the connection has ended.
	Hijacker() (handler func(net.Conn), drop func())
	// BeginBody sends the response up to its body, after OutcomeBody. The connection ends
	// with the body.
	BeginBody()
	// Open returns the protocol after OutcomeTakeover and OutcomeBody, and what it sends
	// first; nil to close the connection.
	Open(c engine.Conn, out []byte) (engine.Protocol, []byte)

	// MayWait is called before ReadBody waits for the client.
	MayWait() error
	// Unread tells what of a streamed body was not read, and why reading it has failed.
	Unread() (BodyState, error)
	// ReadLimit returns until when ReadBody may wait: start+timeout.
	ReadLimit() (start int64, timeout time.Duration)

	// EndReads ends the reads of goroutines that outlive Serve.
	EndReads()
	// Holds returns how many bytes of memory the Request keeps for its response, and until
	// End. With isOwn, the content is in them.
	Holds() (n int, isOwn bool)
	// IsSpent reports whether nothing of the Request is needed any more but a large content,
	// which is not in its memory. The Exchange may then forget it, without End: the content
	// may refer to it.
	IsSpent() bool
	// Rest gives the Request up before a callback has seen it, while its body or its response
	// has to wait. What Rested keeps is a quarter of its size.
	Rest() Rested

	// End makes the Request ready for another request of its Exchange. If other goroutines
	// may still use it, fresh is the one for that; otherwise it is nil.
	End() (fresh Request)
	// Shrink releases, after End, the memory that one large request needed.
	Shrink()
	// Release is the last call, after End: the Request forgets its server. hasWaited: it has
	// held its memory while it waited for input.
	Release(hasWaited bool)
}

// A Rested is what Request.Rest has kept. One of its methods is called, once.
type Rested interface {
	// Wake returns the Request, which x carries: it has the head and the body that it had.
	Wake(x Exchange) Request
	// Drop ends the request.
	Drop()
}

// An Outcome is what a handler has decided.
type Outcome uint8

const (
	OutcomeResponse Outcome = iota // Respond follows
	OutcomePanic                   // the response is an error, after which a connection of one request ends
	OutcomeAbort                   // no response may be sent, and what was sent must look incomplete
	OutcomeHijack                  // Hijacker gets the connection after the response
	OutcomeSilent                  // Hijacker gets the connection without a response
	OutcomeTakeover                // another protocol gets the connection after the response
	OutcomeBody                    // another protocol writes the body of the response
)

// IsTunnelStatus reports whether a status accepts an extended CONNECT, as handlers see it.
func IsTunnelStatus(status int) bool { return status == 101 || status/100 == 2 }

// A BodyState is what of a streamed body was not read.
type BodyState uint8

const (
	BodyRead    BodyState = iota // its verified end was reached
	BodyUnread                   // a part, or only its end
	BodyAwaited                  // all of it: the client waits for 100-continue
)
