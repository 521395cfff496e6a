package tcp

import (
	"log"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine"
)

const (
	defaultMaxBuffer        = 64 << 10
	defaultMaxPending       = 64 << 10
	defaultHandshakeTimeout = 10 * time.Second
)

// config holds a Server's settings with their defaults applied. It is made when
// serving begins and never changed, so connections share it without locks.
type config struct {
	handler      Handler
	onOpen       func(*Conn) error
	onClose      func(*Conn, error)
	logger       sluice.Logger
	idleTimeout  time.Duration
	readTimeout  time.Duration
	writeTimeout time.Duration
	maxConns     int64
	perIP        engine.AddressLimit
	maxBuffer    int
	maxPending   int
}

// config applies the defaults of s.
func (s *Server) config() *config {
	c := &config{
		handler:      s.Handler,
		onOpen:       s.OnOpen,
		onClose:      s.OnClose,
		logger:       s.Logger,
		idleTimeout:  max(s.IdleTimeout, 0),
		readTimeout:  max(s.ReadTimeout, 0),
		writeTimeout: max(s.WriteTimeout, 0),
		maxConns:     int64(s.MaxConns),
		perIP:        engine.AddressLimit{Conns: s.MaxConnsPerIP, PrefixIPv6: s.IPv6ClientPrefix},
		maxBuffer:    positiveOr(s.MaxBuffer, defaultMaxBuffer),
		maxPending:   positiveOr(s.MaxPending, defaultMaxPending),
	}
	if c.logger == nil {
		c.logger = log.Default()
	}
	return c
}

// engineOptions returns the options of the engine.
func (s *Server) engineOptions() engine.Options {
	o := engine.Options{
		ReadBufferSize:   s.ReadBufferSize,
		HandshakeTimeout: s.HandshakeTimeout,
		KeepAlivePeriod:  s.KeepAlivePeriod,
		MaxWorkers:       s.MaxWorkers,
		Loops:            s.Loops,
	}
	if o.HandshakeTimeout == 0 {
		o.HandshakeTimeout = defaultHandshakeTimeout
	}
	o.HandshakeTimeout = max(o.HandshakeTimeout, 0)
	return o
}

func positiveOr(n, fallback int) int {
	if n > 0 {
		return n
	}
	return fallback
}
