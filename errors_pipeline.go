package sluice

import (
	"errors"
	"io"
	"time"
)

const (
	// DefaultMaxPendingRequests is the default of
	// PipelineClient.MaxPendingRequests.
	DefaultMaxPendingRequests = 1024

	// DefaultLBClientTimeout is the default of LBClient.Timeout.
	DefaultLBClientTimeout = time.Second
)

// Errors of PipelineClient and LBClient.
var (
	// ErrPipelineOverflow is returned by PipelineClient for a request that was
	// not sent because the queue is full: a newer request took its place, or none
	// of the requests there could be displaced. Raise MaxPendingRequests or
	// MaxConns, or send fewer requests.
	ErrPipelineOverflow = errors.New("sluice: too many requests are pending; the pipeline is full")
	// ErrNoAvailableClients is returned by LBClient when it has no clients.
	ErrNoAvailableClients = errors.New("sluice: the LBClient has no clients")

	errUnsolicited    = errors.New("sluice: the server sent what nobody asked for")
	errPipelineIdle   = errors.New("sluice: the connection was idle for too long")
	errPipelineClosed = knownError{ErrConnectionClosed, io.EOF}
	errPlainHTTPS     = errors.New("sluice: a request with the scheme https must not be sent without TLS")
	errConnectionOver = errors.New("sluice: the connection ends with this response")
)
