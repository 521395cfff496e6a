package http2

import (
	"time"

	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// Config holds what all connections to a host share. It must not change. The zero value
// has the defaults.
type Config struct {
	// Limits bound the field list of a head or of trailers; zero: h1.DefaultLimits.
	Limits h1.Limits
	// Pairs are the fields that the requests repeat; nil: each connection has its own.
	Pairs *h2.Pairs
	// StreamWindow is how many bytes of a response body a peer may send beyond those
	// that were read; 0: 64 KiB. MaxStreamWindow is what it grows to at most; 0: 4 MiB: at
	// once to what Content-Length declares, if the body is not streamed, else in steps as it
	// is read. So responses that are not read hold MaxConnWindow and StreamWindow each.
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
	// StallTimeout is how long the net.Conn may take no byte of a write, before the
	// connection is dead; 0: 30 s.
	StallTimeout time.Duration
	// IsTLS tells that a write which timed out cannot be continued, as is so with
	// tls.Conn. Then no time-out but StallTimeout ends a write. It also tells that the
	// net.Conn may hold bytes that its socket does not have any more.
	IsTLS bool
}

const (
	assumedStreams = 100  // that the peer admits, before its first SETTINGS
	mostStreams    = 1000 // that we use, however many the peer admits
)

// withDefaults returns cfg with the defaults in place of zeros.
func (cfg Config) withDefaults() Config {
	orDefault(&cfg.Limits, h1.DefaultLimits)
	orDefault(&cfg.StreamWindow, 64<<10)
	orDefault(&cfg.MaxStreamWindow, 4<<20)
	orDefault(&cfg.ConnWindow, 4<<20)
	orDefault(&cfg.MaxConnWindow, 16<<20)
	orDefault(&cfg.PingAfter, 10*time.Second)
	orDefault(&cfg.PingTimeout, 5*time.Second)
	orDefault(&cfg.StallTimeout, 30*time.Second)
	if cfg.Pairs == nil {
		cfg.Pairs = &h2.Pairs{}
	}
	return cfg
}

func orDefault[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}

// settings returns what every peer is sent.
func (cfg *Config) settings() h2.Settings {
	s := h2.DefaultSettings()
	s.EnablePush = false
	s.InitialWindowSize = cfg.StreamWindow
	s.MaxHeaderListSize = uint32(cfg.Limits.MaxHead)
	return s
}

// leastContinuations is how many CONTINUATION frames a field block may have, however
// small the heads are that it may encode.
const leastContinuations = 16

// continuations returns how many CONTINUATION frames a field block may have: enough for
// twice the largest head in full frames.
func (cfg *Config) continuations() uint16 {
	frames := 2 * int64(cfg.Limits.MaxHead) / h2.MinMaxFrameSize
	return uint16(min(max(frames, leastContinuations), 1<<16-1))
}
