package sluice

import (
	"log"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/h1"
)

const (
	defaultServerName = "sluice"
	handshakePatience = 30 * time.Second // without ReadTimeout
	defaultKeepAlive  = 15 * time.Second // between probes, as package net has it
)

// serverConfig is what a Server's fields come to, resolved once when serving
// begins and never changed: connections share it without locks.
type serverConfig struct {
	handler         RequestHandler
	errorHandler    func(*RequestCtx, error)
	headerReceived  func(*RequestHeader) RequestConfig
	continueHandler func(*RequestHeader) bool
	expectHandler   func(*RequestCtx) int
	connState       connStateFunc
	single          *single // of ServeConn; nil: Serve
	logger          Logger
	meter           *Meter // nil: nothing is counted
	name            []byte // nil: no Server field
	limits          h1.Limits

	maxBodySize        int
	maxBodyMemory      int64
	minBodyRate        int64
	concurrency        int64
	perIP              engine.AddressLimit
	maxRequestsPerConn uint64
	streamBufferSize   int

	readTimeout  time.Duration
	writeTimeout time.Duration
	idleTimeout  time.Duration
	maxConnLife  time.Duration
	refusalPause time.Duration
	keepAlive    bool
	getOnly      bool
	streamBody   bool
	keepHijacked bool
	// closesHijacked: while shutting down, nothing is hijacked.
	closesHijacked bool
	noDate         bool
	noContentType  bool
	keepNames      bool
	lazyTime       bool
	crashOnPanic   bool
	logsAllErrors  bool
}

// config resolves the defaults of s.
func (s *Server) config() *serverConfig {
	c := &serverConfig{}
	s.resolve(c, nil)
	return c
}

// resolve resolves the defaults of s into c, and the name into name's memory.
func (s *Server) resolve(c *serverConfig, name []byte) {
	*c = serverConfig{
		handler:            s.Handler,
		errorHandler:       s.ErrorHandler,
		headerReceived:     s.HeaderReceived,
		continueHandler:    s.ContinueHandler,
		expectHandler:      s.ExpectHandler,
		connState:          s.ConnState,
		logger:             s.Logger,
		meter:              s.Meter,
		limits:             h1.DefaultLimits,
		maxBodySize:        positiveOr(s.MaxRequestBodySize, DefaultMaxRequestBodySize),
		maxBodyMemory:      s.MaxBodyMemory,
		minBodyRate:        int64(s.MinBodyRate),
		concurrency:        int64(positiveOr(s.Concurrency, DefaultConcurrency)),
		perIP:              engine.AddressLimit{Conns: s.MaxConnsPerIP, PrefixIPv6: s.IPv6ClientPrefix},
		maxRequestsPerConn: uint64(max(s.MaxRequestsPerConn, 0)),
		streamBufferSize:   positiveOr(s.WriteBufferSize, 4096),
		readTimeout:        s.ReadTimeout,
		writeTimeout:       s.WriteTimeout,
		idleTimeout:        s.IdleTimeout,
		maxConnLife:        s.MaxKeepaliveDuration,
		refusalPause:       s.SleepWhenConcurrencyLimitsExceeded,
		keepAlive:          !s.DisableKeepalive,
		getOnly:            s.GetOnly,
		streamBody:         s.StreamRequestBody,
		keepHijacked:       s.KeepHijackedConns,
		closesHijacked:     s.CloseOnShutdown,
		noDate:             s.NoDefaultDate,
		noContentType:      s.NoDefaultContentType,
		keepNames:          s.DisableHeaderNamesNormalizing,
		lazyTime:           s.LazyRequestTime,
		crashOnPanic:       s.CrashOnPanic,
		logsAllErrors:      s.LogAllErrors,
	}
	if c.idleTimeout == 0 {
		c.idleTimeout = c.readTimeout
	}
	if c.logger == nil {
		c.logger = log.Default()
	}
	if n := s.ReadBufferSize; n > 0 {
		c.limits = bufferLimits(n)
	}
	if s.Name != "" || !s.NoDefaultServerHeader {
		c.name = h1.AppendFieldValue(name[:0], []byte(stringOr(s.Name, defaultServerName)))
	}
}

// engineOptions resolves what the engine needs to know.
func (s *Server) engineOptions() engine.Options {
	o := engine.Options{
		FlushSize:         s.WriteBufferSize,
		HandshakeTimeout:  s.ReadTimeout,
		MaxIdleWorkerTime: s.MaxIdleWorkerDuration,
		Loops:             max(s.Loops, 0),
		MaxWorkers:        max(s.MaxWorkers, 0),
		// A ConnState function may close the connection that it is told of.
		PlainOnly:       s.ConnState != nil,
		SparesDeadlines: true, // listeners may have set their own
		ReduceMemory:    s.ReduceMemoryUsage,
	}
	if o.HandshakeTimeout <= 0 {
		o.HandshakeTimeout = handshakePatience
	}
	if s.TCPKeepalive {
		o.KeepAlivePeriod = defaultKeepAlive
		if s.TCPKeepalivePeriod > 0 {
			o.KeepAlivePeriod = s.TCPKeepalivePeriod
		}
	}
	if s.ReadBufferSize > 0 {
		o.ReadBufferSize = min(s.ReadBufferSize, 64<<10)
	}
	return o
}

func positiveOr(n, fallback int) int {
	if n > 0 {
		return n
	}
	return fallback
}

func stringOr(s, fallback string) string {
	if s != "" {
		return s
	}
	return fallback
}
