package sluice

import (
	"cmp"
	"log"
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/uring"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server/http1"
	"github.com/sluicehttp/sluice/internal/server/http2"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

const (
	defaultServerName = "sluice"
	handshakePatience = 30 * time.Second // the limit without ReadTimeout
	defaultKeepAlive  = 15 * time.Second // between probes, as in package net
)

// serverConfig holds the resolved fields of a Server. It is resolved once, when
// serving begins, and never changes: connections share it without locks.
type serverConfig struct {
	http1.Config    // of which HTTP/2 uses some
	handler         RequestHandler
	errorHandler    func(*RequestCtx, error)
	headerReceived  func(*RequestHeader) RequestConfig
	continueHandler func(*RequestHeader) bool
	expectHandler   func(*RequestCtx) int
	connState       func(net.Conn, ConnState)
	single          *single // set by ServeConn; nil: Serve
	logger          Logger
	meter           *Meter        // nil: nothing is counted
	name            []byte        // nil: no Server field
	http2           *http2.Config // nil: it is not spoken, or was not yet in a ServeConn

	maxBodySize      int
	maxBodyMemory    int64
	minBodyRate      int64
	concurrency      int64
	perIP            engine.AddressLimit
	proxy            *engine.ProxyRule // nil: no PROXY protocol
	streamBufferSize int

	refusalPause  time.Duration
	getOnly       bool
	streamBody    bool
	keepHijacked  bool
	noDate        bool
	noContentType bool
	keepNames     bool
	// preparesResponses: prepareResponse has something to do for all responses.
	preparesResponses bool
	lazyTime          bool
	crashOnPanic      bool
}

// config returns the resolved fields of s.
func (s *Server) config() *serverConfig {
	c := &serverConfig{}
	s.resolve(c, nil)
	if !s.HTTP2.Disable {
		c.http2 = newHTTP2Config(s, c)
	}
	return c
}

// resolve resolves the fields of s into c. name is that of an earlier resolve, and is
// used if it is the right one. Its bytes never change: a response knows by their address
// that its head begins like the last one.
func (s *Server) resolve(c *serverConfig, name []byte) {
	*c = serverConfig{
		Config: http1.Config{
			Limits:         h1.DefaultLimits,
			ReadTimeout:    s.ReadTimeout,
			WriteTimeout:   s.WriteTimeout,
			IdleTimeout:    s.IdleTimeout,
			MaxLife:        s.MaxKeepaliveDuration,
			MaxRequests:    uint64(max(s.MaxRequestsPerConn, 0)),
			KeepAlive:      !s.DisableKeepalive,
			ClosesHijacked: s.CloseOnShutdown,
			AsksUser:       s.HeaderReceived != nil,
			TellsStates:    s.ConnState != nil,
			LogsAll:        s.LogAllErrors,
			ShowsErrors:    s.ErrorHandler != nil,
			AllowsSilence:  s.ReduceMemoryUsage,
			Closing:        &s.gauges.isClosing,
			Hijacked:       &s.gauges.hijacked,
			Meter:          s.control.Meter.http1(),
		},
		handler:          s.Handler,
		errorHandler:     s.ErrorHandler,
		headerReceived:   s.HeaderReceived,
		continueHandler:  s.ContinueHandler,
		expectHandler:    s.ExpectHandler,
		connState:        s.ConnState,
		logger:           s.Logger,
		meter:            s.control.Meter,
		maxBodySize:      positiveOr(s.MaxRequestBodySize, DefaultMaxRequestBodySize),
		maxBodyMemory:    s.MaxBodyMemory,
		minBodyRate:      int64(s.MinBodyRate),
		concurrency:      int64(positiveOr(s.Concurrency, DefaultConcurrency)),
		perIP:            engine.AddressLimit{Conns: s.MaxConnsPerIP, PrefixIPv6: s.IPv6ClientPrefix},
		streamBufferSize: positiveOr(s.WriteBufferSize, 4096),
		refusalPause:     s.SleepWhenConcurrencyLimitsExceeded,
		getOnly:          s.GetOnly,
		streamBody:       s.StreamRequestBody,
		keepHijacked:     s.KeepHijackedConns,
		noDate:           s.NoDefaultDate,
		noContentType:    s.NoDefaultContentType,
		keepNames:        s.DisableHeaderNamesNormalizing,

		preparesResponses: s.NoDefaultContentType || s.DisableHeaderNamesNormalizing,
		lazyTime:          s.LazyRequestTime,
		crashOnPanic:      s.CrashOnPanic,
	}
	if s.ProxyProtocol != ProxyProtocolOff {
		c.proxy = s.proxyRule(c)
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = c.ReadTimeout
	}
	if c.logger == nil {
		c.logger = log.Default()
	}
	if n := s.ReadBufferSize; n > 0 {
		c.Limits = message.BufferLimits(n)
	}
	if s.Name != "" || !s.NoDefaultServerHeader {
		c.name = name
		if own := cmp.Or(s.Name, defaultServerName); string(name) != own {
			c.name = h1.AppendFieldValue(nil, []byte(own))
		}
	}
}

// engineOptions returns the options for the engine of s.
func (s *Server) engineOptions() engine.Options {
	o := engine.Options{
		FlushSize:         s.WriteBufferSize,
		HandshakeTimeout:  positiveOr(s.ReadTimeout, handshakePatience),
		MaxIdleWorkerTime: s.MaxIdleWorkerDuration,
		Loops:             max(s.Loops, 0),
		MaxWorkers:        max(s.MaxWorkers, 0),
		// A ConnState function may close the connection that it receives.
		NetConnIsKept:   s.ConnState != nil,
		SparesDeadlines: true, // listeners may have set deadlines of their own
		ReduceMemory:    s.ReduceMemoryUsage,
		IOUring:         s.wantsIOUring() && uring.Obstacle() == nil,
	}
	if s.TCPKeepalive {
		o.KeepAlivePeriod = positiveOr(s.TCPKeepalivePeriod, defaultKeepAlive)
	}
	if s.ReadBufferSize > 0 {
		o.ReadBufferSize = min(s.ReadBufferSize, 64<<10)
	}
	return o
}

func positiveOr[T int | time.Duration](n, fallback T) T {
	if n > 0 {
		return n
	}
	return fallback
}
