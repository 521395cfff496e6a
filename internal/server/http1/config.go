package http1

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
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
	// AsksUser: there is a callback for Request.HeaderReceived.
	AsksUser bool
	// TellsStates: the Host is told of states.
	TellsStates bool
	// LogsAll: the Host logs all errors.
	LogsAll bool
	// ShowsErrors: users see the errors that Request.Refuse gets.
	ShowsErrors bool
	// AllowsSilence: a time-out before the first byte is no failure of the connection.
	AllowsSilence bool
	// IsSingle: another server may have a Config at the same address later.
	IsSingle bool
	// Closing is set when connections are to end with their next response. Hijacked is
	// the number of connections that hijack handlers own. Both are needed.
	Closing  *atomic.Bool
	Hijacked *atomic.Int64
	Meter    server.Meter
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
	server.Host
	// TellState is called when a connection changes state, if Config.TellsStates is set.
	TellState(c net.Conn, s State)
	// Fail tells why a request was refused, or a connection has failed.
	Fail(err error)
	// Log logs an error of a connection, if such errors are logged.
	Log(c engine.Conn, err error)
	// RunHijacked calls a hijack handler, and closes c unless the program keeps it. It returns
	// false if the handler has panicked, after it has logged that: the caller then ends c.
	RunHijacked(c net.Conn, handler func(net.Conn)) (hasReturned bool)
	// OpenHTTP2 returns a Protocol of HTTP/2, of which begun is the first input, which came
	// at start, in Nanos; nil if the server does not speak it.
	OpenHTTP2(c engine.Conn, f *server.Facts, begun []byte, start int64) engine.Protocol
}
