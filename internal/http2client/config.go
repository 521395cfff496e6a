package http2client

import (
	"time"

	"github.com/sluicehttp/sluice/internal/h1"
	"github.com/sluicehttp/sluice/internal/h2"
)

// Config holds what all connections to a host share. It must not change. The zero value
// has the defaults.
type Config struct {
	// Limits bound the field list of a head or of trailers; zero: h1.DefaultLimits.
	Limits h1.Limits
	// Pairs are the fields that the requests repeat; nil: each connection has its own.
	Pairs *h2.Pairs
	// StreamWindow is how many bytes of a response body a peer may send beyond those
	// that were read; 0: 1 MiB. MaxStreamWindow is what it grows to at most; 0: 4 MiB.
	StreamWindow, MaxStreamWindow uint32
	// ConnWindow and MaxConnWindow are the same for all responses together, except that
	// bytes count as read when they arrive; 0: 4 MiB and 16 MiB.
	ConnWindow, MaxConnWindow uint32
	// PingAfter is after how long without a byte from the peer a request takes a PING
	// with it; 0: 10 s; negative: never.
	PingAfter time.Duration
	// PingTimeout is how long the peer may then send nothing, before the connection is
	// dead; 0: 5 s.
	PingTimeout time.Duration
	// StallTimeout is how long the socket may take no byte of a write, before the
	// connection is dead; 0: 30 s.
	StallTimeout time.Duration
	// IsTLS tells that a write which timed out cannot be continued, as is so with
	// tls.Conn. Then no time-out but StallTimeout ends a write.
	IsTLS bool
}

const (
	assumedStreams = 100  // that the peer admits, before its first SETTINGS
	mostStreams    = 1000 // that we use, however many the peer admits
)
