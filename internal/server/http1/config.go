package http1

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// Config holds what all connections of a server share. It does not change, except for
// what its pointers lead to. A duration of 0 is no limit.
type Config struct {
	// Limits bound a head.
	Limits h1.Limits
	// ReadTimeout bounds the time in which a head arrives, WriteTimeout each blocked
	// write, and IdleTimeout the time between requests.
	ReadTimeout, WriteTimeout, IdleTimeout time.Duration
	// MaxLife is how long a connection may live, until a response; MaxRequests is how
	// many requests it may have, 0 any number.
	MaxLife     time.Duration
	MaxRequests uint64
	// KeepAlive: a connection may have more than one request.
	KeepAlive bool
	// ClosesHijacked: connections are not hijacked while Closing is set.
	ClosesHijacked bool
	// Consults: Request.Consult may block.
	Consults bool
	// TellsStates: the Host is told of states.
	TellsStates bool
	// LogsAll: the Host logs all errors.
	LogsAll bool
	// AllowsSilence: a time-out before the first byte is no failure of the connection.
	AllowsSilence bool
	// IsSingle: another server may have a Config at the same address later.
	IsSingle bool
	// Closing is set when connections are to end with their next response. Hijacked is
	// the number of connections that hijack handlers own. Both are needed.
	Closing  *atomic.Bool
	Hijacked *atomic.Int64
	Meter    Meter
}

// Facts are the facts about a connection that its requests report.
type Facts struct {
	ID     uint64
	Opened int64  // Nanos
	Served uint64 // requests begun
	IsTLS  bool
}

// A State is what a Host is told of a connection.
type State uint8

const (
	StateActive   State = iota // a request has begun
	StateIdle                  // the response is written
	StateHijacked              // another protocol or a hijack handler has the connection
	StateClosed                // the connection has ended
)

// A Host is the server that a connection belongs to.
type Host interface {
	// NewExchange returns an Exchange whose Request is set. The Conn uses it until it
	// calls Request.Release.
	NewExchange() *Exchange
	// TellState is called when a connection changes state, if Config.TellsStates is set.
	TellState(c net.Conn, s State)
	// Fail tells why a request was refused, or a connection has failed.
	Fail(err error)
	// Log logs an error of a connection, if such errors are logged.
	Log(c engine.Conn, err error)
	// RunHijacked calls a hijack handler.
	RunHijacked(c net.Conn, handler func(net.Conn))
	// OpenHTTP2 returns a Protocol of HTTP/2, of which begun is the first input, which came
	// at start, in Nanos; nil if the server does not speak it.
	OpenHTTP2(c engine.Conn, f *Facts, begun []byte, start int64) engine.Protocol
}

// A Request is what the server does with one request after another. Its methods are
// called in their order here, if at all, and MayWait, Unread, ReadLimit and BodyTimeout
// at any time after HeadReceived.
type Request interface {
	// HeadReceived is called when Exchange.RequestHeader has a valid head. This and each
	// other error refuses the request.
	HeadReceived(isHTTP10 bool) error
	// Consult runs the callback that looks at the head. It may block.
	Consult() error
	// ExpectBody prepares for a body of length bytes, -1 if the length is unknown.
	// isStreamed: Serve reads the body with Exchange.ReadBody.
	ExpectBody(length int64) (isStreamed bool, err error)
	// ExpectContinue tells whether a body that was announced with "Expect: 100-continue"
	// is wanted; otherwise the response is ready. isWaiting: the client waits for the
	// answer, which MayWait gives if the body is streamed. It may block.
	ExpectContinue(isWaiting bool) (isWanted bool, err error)
	// BodyReceived gets the next part of a body that is not streamed. more is a number
	// of bytes that must follow.
	BodyReceived(p []byte, more uint64) error
	// BodyTimeout is how long the rest of such a body may take, from Exchange.Start on.
	BodyTimeout() time.Duration

	// Serve calls the handler. It may block. The response is not sent yet.
	Serve() Outcome
	// Refuse makes the response to a request that is not served.
	Refuse(err error)
	// Respond sends the response, or the rest of it. It returns false if the response is
	// torn: the client must not take it for complete.
	Respond() bool
	// BeginTakeover sends the response, or its beginning, after OutcomeTakeover. opens:
	// Open follows. With ok == false, the response is torn.
	BeginTakeover() (opens, ok bool)
	// Open returns the protocol that has the connection then, and what it sends first;
	// nil to close the connection.
	Open(c engine.Conn, out []byte) (engine.Protocol, []byte)
	// Hijacker returns the handler of a hijacked connection.
	Hijacker() func(net.Conn)

	// Unread tells what of a streamed body was not read, and why reading it has failed.
	Unread() (BodyState, error)
	// MayWait is called before ReadBody waits for the client.
	MayWait() error
	// ReadLimit returns until when ReadBody may wait: start+timeout.
	ReadLimit() (start int64, timeout time.Duration)

	// End makes the Exchange ready for another request.
	End()
	// Shrink releases, after End, the memory that one large request needed.
	Shrink()
	// Release is the last call, after End: the Conn uses the Exchange no longer.
	// hasWaited: it has held its memory while it waited for input.
	Release(hasWaited bool)
}

// An Outcome is what a handler has decided.
type Outcome uint8

const (
	OutcomeResponse Outcome = iota // Respond follows
	OutcomePanic                   // the response is an error, after which the connection ends
	OutcomeAbort                   // no response may be sent, and what was sent must look incomplete
	OutcomeHijack                  // Hijacker gets the connection after the response
	OutcomeSilent                  // Hijacker gets the connection without a response
	OutcomeTakeover                // another protocol gets the connection
)

// A BodyState is what of a streamed body was not read.
type BodyState uint8

const (
	BodyRead    BodyState = iota // its verified end was reached
	BodyUnread                   // a part, or only its end
	BodyAwaited                  // all of it: the client waits for 100-continue
)
